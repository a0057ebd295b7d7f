"""Brute force over every path and every spelling of words."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.kernels.ctc.naive import Tokens, sequence_log_probs


def spellings(words: Tokens, spelling: Sequence[tuple[int, Tokens]], separator: int | None) -> Iterator[Tokens]:
    """All ways to write words, with separators between them, and one or none at the end."""
    ways = [[way for number, way in spelling if number == word] for word in words]
    for chosen in product(*ways):
        if separator is None:
            yield sum(chosen, ())
        else:
            written = sum(((*way, separator) for way in chosen), ())
            yield written
            if words:
                yield written[:-1]


def word_log_probs(
    frames: npt.NDArray[Any],
    spelling: Sequence[tuple[int, Tokens]],
    *,
    separator: int | None,
    blank: int = 0,
) -> dict[Tokens, float]:
    """The log-probability of every sequence of words: the sum over all ways to spell it."""
    paths, count = sequence_log_probs(frames, blank), 1 + max(number for number, _ in spelling)
    log_probs = {}
    for length in range(len(frames) + 1):
        for words in product(range(count), repeat=length):
            ways = [paths[way] for way in spellings(words, spelling, separator) if way in paths]
            if ways:
                log_probs[words] = float(np.logaddexp.reduce(ways))
    return log_probs


def lexicon(spelling: Sequence[tuple[int, Tokens]], separator: int | None) -> Lexicon:
    built = Lexicon([(f"word {number}", way) for number, way in spelling], separator=separator)
    assert built.words == [f"word {number}" for number in range(len(built))]
    return built
