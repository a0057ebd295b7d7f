"""BPE-dropout: a text split into other subwords each time it is read (Provilkov et al. 2020)."""

import json
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from seqloom.data.text.tokenizers import Tokenizer

BLOCK = 64
"""Random numbers that are drawn at a time."""


class BPEDropout:
    """Splits texts as a tokenizer of byte-level BPE does, but leaves out each merge with a probability.

    While a word is merged, each pair of neighbours that could be merged is skipped with the probability ``dropout``,
    anew after each merge. The word is done when nothing is left to merge.
    """

    def __init__(self, tokenizer: Tokenizer, dropout: float) -> None:
        self.tokenizer = tokenizer
        self.dropout = dropout
        merges = json.loads(tokenizer.library.to_str())["model"]["merges"]
        self._ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
        self._ids = tokenizer.vocabulary.ids

    def encode(self, text: str, random: np.random.Generator) -> list[int]:
        """The ids of the subwords of a text."""
        text = text.lower() if self.tokenizer.lowercase else text
        numbers = _uniform(random)
        words = self.tokenizer.library.pre_tokenizer.pre_tokenize_str(text)
        return [self._ids[piece] for word, _ in words for piece in self._split(word, numbers)]

    def _split(self, word: str, numbers: Iterator[float]) -> list[str]:
        ranks, dropout, pieces = self._ranks, self.dropout, list(word)
        while True:
            candidates = [
                (rank, place)
                for place, pair in enumerate(pairwise(pieces))
                if (rank := ranks.get(pair)) is not None and next(numbers) >= dropout
            ]
            if not candidates:
                return pieces
            _, place = min(candidates)
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]


def _uniform(random: np.random.Generator) -> Iterator[float]:
    while True:
        yield from random.random(BLOCK).tolist()
