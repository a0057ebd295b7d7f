"""Classifiers as ONNX graphs."""

from functools import partial
from typing import TYPE_CHECKING, Any

from seqloom.onnx import models
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.inputs import token_input
from seqloom.onnx.pretrained import describe_pretrained
from seqloom.onnx.search import ModelInput, feed_text
from seqloom.onnx.signals import signal_input
from seqloom.tasks.classify.export_answers import expected, signal_values, units
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
    graph = models.classifier(model, entry.embed, scale=targets)
    description = {"task": task.name, "input": entry.description, "output": output}
    return OnnxModel(graph, description, entry.feed, partial(expected, task, model), units=units(task))


def _input(task: "Classify", model: Any) -> ModelInput:
    """How inputs enter the graph."""
    learned = task.fitted
    if learned.text is not None:
        embed = model.encoder.embed
        tokenizer = learned.text.model_dump(mode="json")
        kind, rows = ("text_pair", "texts") if task.reads_pairs else ("text", "batch")
        return ModelInput(
            partial(token_input, embed=embed, rows=rows),
            {"kind": kind, "tokenizer": tokenizer, **describe_pretrained(learned.vectors)},
            partial(feed_text, task.collate, embed=embed),
        )
    signal = signal_input(require_fitted(learned.signal), model.encoder, image_size=task.image_size, resize=task.resize)
    return ModelInput(signal.embed, signal.description, lambda examples: signal.feed(signal_values(task, examples)))
