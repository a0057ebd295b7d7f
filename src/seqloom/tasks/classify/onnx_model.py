"""Classifiers as ONNX graphs."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.labelled import LabelledSequence
from seqloom.models.pretrained.combined import CombinedEmbedding
from seqloom.onnx import models
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.graph import ExportError
from seqloom.onnx.inputs import token_input
from seqloom.onnx.search import ModelInput, feed_tokens
from seqloom.onnx.signals import signal_input
from seqloom.tasks.task import require_fitted

if TYPE_CHECKING:
    from seqloom.tasks.classify.classify import Classify


def onnx_model(task: "Classify", model: Any) -> OnnxModel:
    """A classifier of texts, vectors, sound, images or videos."""
    learned = task.fitted
    entry = _input(task, model)
    scale = learned.scale
    output: dict[str, Any] = {"kind": "classes", "labels": learned.labels.names, "label_type": task.label_type}
    if scale is not None:
        output = {"kind": "numbers", "names": scale.names, "deviations": scale.deviations}
    targets = None if scale is None else (scale.means, scale.deviations)
    name = "probabilities" if scale is None else "numbers"

    def expected(examples: Sequence[LabelledSequence]) -> dict[str, NDArray[Any]]:
        outputs = model(*task.collate(examples).inputs).detach().double()
        if scale is None:
            return {name: outputs.softmax(dim=1).numpy()}
        return {name: outputs.numpy() * np.array(scale.deviations) + np.array(scale.means)}

    units = {} if scale is None else {name: np.array(scale.deviations)}
    graph = models.classifier(model, entry.embed, scale=targets)
    return OnnxModel(
        graph, {"task": task.name, "input": entry.description, "output": output}, entry.feed, expected, units=units
    )


def _input(task: "Classify", model: Any) -> ModelInput:
    """How inputs enter the graph."""
    learned = task.fitted
    if learned.text is not None:
        embed = model.encoder.embed
        if isinstance(embed, CombinedEmbedding):
            raise ExportError("a model with pretrained vectors (task.pretrained) cannot be exported to ONNX yet")
        tokenizer = learned.text.model_dump(mode="json")
        kind, rows = ("text_pair", "texts") if task.reads_pairs else ("text", "batch")
        return ModelInput(
            partial(token_input, embed=embed, rows=rows),
            {"kind": kind, "tokenizer": tokenizer},
            partial(feed_tokens, task.collate),
        )
    signal = signal_input(require_fitted(learned.signal), model.encoder, image_size=task.image_size, resize=task.resize)

    def feed(examples: Sequence[LabelledSequence]) -> dict[str, NDArray[Any]]:
        return signal.feed([np.asarray(task.signal_values(example)) for example in examples])

    return ModelInput(signal.embed, signal.description, feed)
