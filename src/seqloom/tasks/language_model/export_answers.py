"""The answers of a language model as arrays, with which its exports are compared."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seqloom.tasks.language_model.settings import TextLine

if TYPE_CHECKING:
    from seqloom.tasks.language_model.causal import Causal


def expected(objective: "Causal", model: Any, examples: Sequence[TextLine]) -> dict[str, Any]:
    """The log-probabilities of all tokens after each one."""
    values, mask = objective.collate(examples).inputs
    logits, _ = model(values, mask=mask)
    return {"log_probabilities": logits.detach().log_softmax(dim=-1).numpy()}
