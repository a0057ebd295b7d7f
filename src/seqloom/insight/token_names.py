"""Tokens as a person reads them: those of an input text and those of a hypothesis."""

from typing import Any

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END, UNKNOWN


def show_whitespace(token: str) -> str:
    """Replace spaces, tabs and line feeds by visible signs."""
    return token.replace(" ", "␣").replace("\t", "⇥").replace("\n", "⏎")


def display_token(encoding: Tokenizer, token: str) -> str:
    """A token as it appears in the text; subword vocabularies store spaces and bytes as other characters."""
    return token if token == END else encoding.readable(token)


def text_tokens(encoding: Tokenizer, text: str, notes: list[str]) -> list[str]:
    """The tokens of a text; unknown ones are added to the notes."""
    indices, tokens = encoding.encode(text), encoding.tokens(text)
    unknown_index = encoding.vocabulary.index(UNKNOWN)
    if unknown := [token for token, index in zip(tokens, indices, strict=True) if index == unknown_index]:
        listed = ", ".join(repr(token) for token in dict.fromkeys(unknown))
        notes.append(f"not in the vocabulary, read as {UNKNOWN}: {listed}")
    return [display_token(encoding, token) for token in tokens]


def output_tokens(
    encoding: Tokenizer,
    candidate: Any,  # with symbols and log_probabilities; one more log-probability if the end was generated
) -> tuple[list[str], list[int]]:
    """The token generated at each step, and the index that the decoder read before it (the end symbol comes first)."""
    vocabulary = encoding.vocabulary
    indices = vocabulary.encode(candidate.tokens)
    tokens = [display_token(encoding, token) for token in candidate.tokens]
    ended = len(candidate.log_probabilities) > len(candidate.tokens)
    decoder_inputs = [vocabulary.index(END), *indices]
    return ([*tokens, END], decoder_inputs) if ended else (tokens, decoder_inputs[: len(tokens)])
