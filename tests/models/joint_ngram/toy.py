"""Small pairs of tokens, and sources with an unknown token or none."""

from collections.abc import Sequence

import numpy as np

from seqloom.data.batch import Padded, pad

END = 2
Pair = tuple[list[int], list[int]]
PAIRS: list[Pair] = [
    ([3, 4], [3, 4]),
    ([3, 3, 4], [3, 3, 4]),
    ([4, 5], [4, 5, 5]),
    ([5, 4], [5, 6, 4]),
    ([5], [6]),
    ([4, 4], [4]),
    ([3, 5, 3], [3, 5, 5, 3]),
    ([3], []),
]
SOURCES = [[3], [4, 5], [5, 3, 4], [3, 7, 4], []]


def padded(texts: Sequence[Sequence[int]]) -> Padded:
    """Texts with their end."""
    return pad([np.array([*text, END]) for text in texts])
