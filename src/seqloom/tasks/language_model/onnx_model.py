"""Language models as ONNX graphs: those that score and generate texts, and those that predict hidden tokens."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from seqloom.data.text.vocabulary import END, MASK
from seqloom.models.pretrained.contextual import CharacterEmbedding
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.models import bidirectional_language_model, language_model, masked_language_model
from seqloom.onnx.pretrained import describe_vocabulary, text_array
from seqloom.tasks.language_model.export_answers import expected
from seqloom.tasks.language_model.settings import TextLine

if TYPE_CHECKING:
    from seqloom.models.pretrained.bilm import BiLM, BiLMEncoder
    from seqloom.models.pretrained.masked_lm import MaskedLM, MaskedLMEncoder
    from seqloom.tasks.language_model.causal import Bidirectional, Causal
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


def bidirectional_onnx_model(objective: "Bidirectional", model: "BiLM") -> OnnxModel:
    """Both directions, with the log-probabilities of all tokens at each place."""

    def expected(examples: Sequence[TextLine]) -> dict[str, Any]:
        text = objective.collate(examples).inputs
        tables = [
            model.output(bridge(values)).detach().log_softmax(dim=-1).masked_fill(~text.mask.unsqueeze(2), 0).numpy()
            for bridge, values in zip(model.bridges, model.encoder(text), strict=True)
        ]
        return dict(zip(("log_probabilities", "backward_log_probabilities"), tables, strict=True))

    description = {
        "task": objective.task.name,
        "input": {"kind": "text", **describe_vocabulary(objective.task.fitted)},
        "output": {"kind": "both_directions", "end": objective.tokenizer.vocabulary.index(END)},
    }
    return OnnxModel(bidirectional_language_model(model), description, _text_feed(objective, model.encoder), expected)


def masked_onnx_model(objective: "Masked", model: "MaskedLM", *, nbest: int) -> OnnxModel:
    """The encoder, with the log-probabilities of all tokens at each place."""

    def expected(examples: Sequence[TextLine]) -> dict[str, Any]:
        text = objective.collate(examples).inputs
        logits = model.output(model.transform(model.encoder(text)))
        table = logits.detach().log_softmax(dim=-1).masked_fill(~text.mask.unsqueeze(2), 0)
        return {"log_probabilities": table.numpy()}

    vocabulary = objective.tokenizer.vocabulary
    description = {
        "task": objective.task.name,
        "input": {"kind": "text", **describe_vocabulary(objective.task.fitted)},
        "output": {"kind": "masked", "end": vocabulary.index(END), "mask": vocabulary.index(MASK), "nbest": nbest},
    }
    return OnnxModel(masked_language_model(model), description, _text_feed(objective, model.encoder), expected)


def _text_feed(
    objective: "Bidirectional | Masked", encoder: "BiLMEncoder | MaskedLMEncoder"
) -> Callable[[Sequence[TextLine]], dict[str, Any]]:
    """Texts as ids of words, or as the characters of words."""
    embed = encoder.embed
    name = "characters" if isinstance(embed, CharacterEmbedding) else "tokens"

    def feed(examples: Sequence[TextLine]) -> dict[str, Any]:
        text = objective.collate(examples).inputs
        return {name: text_array(embed, text), "lengths": text.mask.sum(dim=1).numpy()}

    return feed
