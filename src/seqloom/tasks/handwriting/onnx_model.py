"""Handwriting models as ONNX graphs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.data.readers.recordings import Recording
from seqloom.models.handwriting import AT_END, PAST_END, POINT
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.handwriting import handwriting

if TYPE_CHECKING:
    from seqloom.tasks.handwriting.handwriting import Handwriting


def onnx_model(task: "Handwriting", model: Any, *, room: float) -> OnnxModel:
    """The layers and the distribution of the next movement, which the runtime draws from."""
    learned = task.fitted
    graph, ports = handwriting(model, learned.scale)

    def feed(examples: Sequence[Recording]) -> dict[str, Any]:
        inputs = task.collate(examples).inputs
        points = np.full(inputs.points.values.shape, np.nan)  # in the units of the data
        for row, example in enumerate(examples):
            points[row, : len(example.values) + 1] = np.concatenate([np.zeros((1, POINT)), example.values])
        arrays = {"points": points, "lengths": inputs.points.lengths.numpy(), **ports.start(len(points))}
        if learned.characters:
            arrays |= {"characters": inputs.text.values.numpy(), "text_lengths": inputs.text.lengths.numpy()}
        return arrays

    def expected(examples: Sequence[Recording]) -> dict[str, Any]:
        return {name: values.numpy() for name, values in model(task.collate(examples).inputs)._asdict().items()}

    output = {
        "kind": "strokes",
        "states": ports.description(),
        "scale": learned.scale,
        "longest": room * learned.longest,
        "at_end": AT_END,
        "past_end": PAST_END,
    }
    entry = {"kind": "strokes", "characters": list(learned.characters), "end_of_text": learned.end_of_text}
    return OnnxModel(graph, {"task": task.name, "input": entry, "output": output}, feed, expected)
