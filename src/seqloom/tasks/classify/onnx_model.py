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
from seqloom.tasks.classify.settings import Learned
from seqloom.tasks.task import require_fitted

if TYPE_CHECKING:
    from seqloom.tasks.classify.classify import Classify


def onnx_model(task: "Classify", model: Any) -> OnnxModel:
    """A classifier of texts or vectors."""
    learned = task.fitted
    embed, description = _input(learned, model)
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

    return OnnxModel(
        models.classifier(model, embed, scale=targets),
        {"task": task.name, "input": description, "output": output},
        partial(_feed, task),
        expected,
    )


def _input(learned: Learned, model: Any) -> tuple[models.Embed, dict[str, Any]]:
    """How inputs enter the graph, and their description for the runtime."""
    if learned.text is not None:
        embed = model.encoder.embed
        if isinstance(embed, CombinedEmbedding):
            raise ExportError("a model with pretrained vectors (task.pretrained) cannot be exported to ONNX yet")
        return partial(models.token_input, embed=embed), {
            "kind": "text",
            "tokenizer": learned.text.model_dump(mode="json"),
        }
    signal = require_fitted(learned.signal)
    if signal.kind != "vectors":
        raise ExportError(
            f"a classifier of {signal.kind} inputs cannot be exported to ONNX yet; those of texts and vectors can"
        )
    scale = (signal.mean, signal.deviation) if signal.mean else None
    description = {"kind": "vectors", "size": signal.size, "channels": signal.channel_names}
    return partial(models.vector_input, size=signal.size, scale=scale), description


def _feed(task: "Classify", examples: Sequence[LabelledSequence]) -> dict[str, NDArray[Any]]:
    learned = task.fitted
    if learned.text is not None:
        values, mask = task.collate(examples).inputs
        return {"tokens": values.numpy(), "lengths": mask.sum(dim=1).numpy()}
    return models.padded_vectors([np.asarray(task.signal_values(example), dtype=np.float64) for example in examples])
