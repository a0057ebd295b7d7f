"""Tokens as a person reads them: those of an input text and those of a hypothesis."""

from bisect import bisect_right
from typing import Any

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END, UNKNOWN
from seqloom.data.text.words import split_words


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


def word_groups(encoding: Tokenizer, text: str) -> list[tuple[str, list[int]]]:
    """The words of a text with the indices of their tokens; none if tokens are words, or if there is only one word.

    Blanks belong to the word after them. Words that share a token are one.
    """
    text = text.lower() if encoding.lowercase else text
    spans: list[tuple[int, int]] = []  # of the words
    for word in split_words(text):
        start = text.index(word, spans[-1][1] if spans else 0)
        spans.append((start, start + len(word)))
    if encoding.unit == "words" or len(spans) < 2:
        return []
    ends = [end for _, end in spans]
    groups: list[tuple[int, int, list[int]]] = []  # first and last word, tokens
    for index, (start, end) in enumerate(encoding.spans(text)):
        first, last = (min(bisect_right(ends, place), len(ends) - 1) for place in (start, max(start, end - 1)))
        if groups and first <= groups[-1][1]:
            previous, _, tokens = groups[-1]
            groups[-1] = previous, last, [*tokens, index]
        else:
            groups.append((first, last, [index]))
    return [(text[spans[first][0] : spans[last][1]], tokens) for first, last, tokens in groups]


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
