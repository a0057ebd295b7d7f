"""CTC by its definition: every path over the frames, and what it spells."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, product
from typing import Any

import numpy as np
import numpy.typing as npt

from seqloom.decoding.frames.lexicon import Lexicon

Symbols = tuple[int, ...]


def collapse(path: Sequence[int], blank: int) -> Symbols:
    return tuple(symbol for symbol, _ in groupby(path) if symbol != blank)


def paths(frames: npt.NDArray[Any], blank: int = 0) -> dict[Symbols, list[float]]:  # (T, V)
    """The log-probabilities of all paths, by the sequence of symbols that they spell."""
    found: dict[Symbols, list[float]] = defaultdict(list)
    rows = frames.tolist()
    for path in product(range(frames.shape[1]), repeat=len(frames)):
        total = math.fsum([row[symbol] for row, symbol in zip(rows, path, strict=True)])
        if total > -math.inf:
            found[collapse(path, blank)].append(total)
    return dict(found)


def spelt(frames: npt.NDArray[Any], blank: int = 0) -> dict[Symbols, float]:  # (T, V)
    """The log-probability of every sequence of symbols: the sum over all of its paths."""
    return {symbols: float(np.logaddexp.reduce(values)) for symbols, values in paths(frames, blank).items()}


def spellings(words: Symbols, spelling: Sequence[tuple[int, Symbols]], separator: int | None) -> Iterator[Symbols]:
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


def worded(
    frames: npt.NDArray[Any],
    spelling: Sequence[tuple[int, Symbols]],
    *,
    separator: int | None,
    blank: int = 0,
) -> dict[Symbols, float]:
    """The log-probability of every sequence of words: the sum over all ways to spell it."""
    every, count = spelt(frames, blank), 1 + max(number for number, _ in spelling)
    found = {}
    for length in range(len(frames) + 1):
        for words in product(range(count), repeat=length):
            ways = [every[way] for way in spellings(words, spelling, separator) if way in every]
            if ways:
                found[words] = float(np.logaddexp.reduce(ways))
    return found


def lexicon(spelling: Sequence[tuple[int, Symbols]], separator: int | None) -> Lexicon:
    made = Lexicon([(f"word {number}", way) for number, way in spelling], separator=separator)
    assert made.words == [f"word {number}" for number in range(len(made))]
    return made


Score = Callable[[Symbols], float]
