"""Language models as compiled functions."""

from functools import partial
from typing import TYPE_CHECKING, Any

from seqloom.data.text.vocabulary import END
from seqloom.export_check import feed_tokens
from seqloom.standalone.interface import Port, StandaloneModel
from seqloom.standalone.language_model import language_model, state_size
from seqloom.standalone.texts import token_notes, token_texts
from seqloom.tasks.language_model.export_answers import expected

if TYPE_CHECKING:
    from seqloom.tasks.language_model.causal import Causal


def standalone_model(objective: "Causal", model: Any) -> StandaloneModel:
    """A decoder that reads any number of tokens and continues from its state."""
    tokenizer = objective.tokenizer
    tokens, size = len(tokenizer.vocabulary), state_size(model)
    end = tokenizer.vocabulary.index(END)
    return StandaloneModel(
        (
            Port("tokens", "int32_t", ("length",), "the number of each token of the text", limit=tokens),
            Port("state", "float", (size,), "the state after the text before, or a null pointer", is_optional=True),
        ),
        (
            Port("log_probabilities", "float", ("length", tokens), "of each token of the vocabulary after each token"),
            Port("next_state", "float", (size,), "the state after the last token; it may be the same memory as state"),
        ),
        partial(language_model, decoder=model),
        partial(feed_tokens, objective.collate),
        partial(expected, objective, model),
        texts=(token_texts(tokenizer),),
        notes=(
            *token_notes(tokenizer),
            f"A text starts and ends with the token {end}. To generate, pass one token at a time, and its state on.",
        ),
    )
