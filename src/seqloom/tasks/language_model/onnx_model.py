"""Language models as ONNX graphs: one that scores and generates texts, and one that predicts hidden tokens."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from seqloom.data.text.vocabulary import END, MASK
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.models import language_model, masked_language_model
from seqloom.tasks.language_model.export_answers import expected
from seqloom.tasks.language_model.settings import TextLine

if TYPE_CHECKING:
    from seqloom.models.pretrained.masked_lm import MaskedLM
    from seqloom.tasks.language_model.causal import Causal
    from seqloom.tasks.language_model.masked import Masked


def onnx_model(objective: "Causal", model: Any) -> OnnxModel:
    """The decoder."""
    graph, ports = language_model(model)

    def feed(examples: Sequence[TextLine]) -> dict[str, Any]:
        values, mask = objective.collate(examples).inputs
        return {"tokens": values.numpy(), "lengths": mask.sum(dim=1).numpy(), **ports.start(len(values))}

    description = {
        "task": objective.task.name,
        "input": {"kind": "text", "tokenizer": objective.tokenizer.model_dump(mode="json")},
        "output": {
            "kind": "next_token",
            "end": objective.tokenizer.vocabulary.index(END),
            "states": ports.description(),
        },
    }
    return OnnxModel(graph, description, feed, partial(expected, objective, model))


def masked_onnx_model(objective: "Masked", model: "MaskedLM", *, nbest: int) -> OnnxModel:
    """The encoder, with the log-probabilities of all tokens at each place."""

    def feed(examples: Sequence[TextLine]) -> dict[str, Any]:
        text = objective.collate(examples).inputs
        return {"tokens": text.words.numpy(), "lengths": text.mask.sum(dim=1).numpy()}

    def expected(examples: Sequence[TextLine]) -> dict[str, Any]:
        text = objective.collate(examples).inputs
        logits = model.output(model.transform(model.encoder(text)))
        table = logits.detach().log_softmax(dim=-1).masked_fill(~text.mask.unsqueeze(2), 0)
        return {"log_probabilities": table.numpy()}

    vocabulary = objective.tokenizer.vocabulary
    description = {
        "task": objective.task.name,
        "input": {"kind": "text", "tokenizer": objective.tokenizer.model_dump(mode="json")},
        "output": {"kind": "masked", "end": vocabulary.index(END), "mask": vocabulary.index(MASK), "nbest": nbest},
    }
    return OnnxModel(masked_language_model(model), description, feed, expected)
