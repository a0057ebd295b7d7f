"""A language model as an ONNX graph, which scores texts and generates them token by token."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seqloom.data.text.vocabulary import END
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.models import language_model
from seqloom.tasks.language_model.settings import TextLine

if TYPE_CHECKING:
    from seqloom.tasks.language_model.causal import Causal


def onnx_model(objective: "Causal", model: Any) -> OnnxModel:
    """The decoder."""
    graph, ports = language_model(model)

    def feed(examples: Sequence[TextLine]) -> dict[str, Any]:
        values, mask = objective.collate(examples).inputs
        return {"tokens": values.numpy(), "lengths": mask.sum(dim=1).numpy(), **ports.start(len(values))}

    def expected(examples: Sequence[TextLine]) -> dict[str, Any]:
        values, mask = objective.collate(examples).inputs
        logits, _ = model(values, mask=mask)
        return {"log_probabilities": logits.detach().log_softmax(dim=-1).numpy()}

    description = {
        "task": objective.task.name,
        "input": {"kind": "text", "tokenizer": objective.tokenizer.model_dump(mode="json")},
        "output": {
            "kind": "next_token",
            "end": objective.tokenizer.vocabulary.index(END),
            "states": ports.description(),
        },
    }
    return OnnxModel(graph, description, feed, expected)
