"""What became of every candidate of a search, and why: enough to draw it as a tree."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Fates = npt.NDArray[np.uint8]


class Fate(IntEnum):
    """Why a candidate went no further, or that it did."""

    IMPOSSIBLE = 0  # its probability is zero: no candidate, and not recorded
    NEVER = 1  # a symbol that is never chosen
    TREE = 2  # not allowed by the prefix tree
    SHORT = 3  # an end before the smallest length
    REPEATED = 4  # an n-gram for the second time
    PER_NODE = 5  # its parent has enough children that are more probable
    BEAM = 6  # enough others are more probable
    GROUP = 7  # probable enough, but other groups have chosen the symbol
    THRESHOLD = 8  # too far below the best
    UNDRAWN = 9  # another symbol was drawn
    EXTENDED = 10  # lived on: it is the parent of others
    HOPELESS = 11  # was alive when the search stopped, since it could not have won
    WORSE = 12  # complete, and not among the best
    DUPLICATE = 13  # complete, and found by another group before
    CUT = 14  # reached its greatest length without an end, and is not needed or not allowed
    BEST = 15  # an answer


class Node(NamedTuple):
    """A candidate: its parent extended by a symbol."""

    number: int
    parent: int  # the number of a node; -1: this is the root of a row
    row: int  # of the batch
    symbol: int  # -1 of the root
    length: int  # symbols so far
    log_probability: float  # of the symbol
    score: float  # the sum of log-probabilities; of complete ones with penalties
    fate: Fate


@dataclass
class SearchRecord:
    """Filled by the search that it is given to."""

    children: int = 0  # at most so many of each node are kept, the most probable and all that lived on; 0: all
    _parts: list[tuple[npt.NDArray[np.generic], ...]] = field(default_factory=list, repr=False)
    _fates: dict[int, Fate] = field(default_factory=dict, repr=False)  # what was decided later
    _scores: dict[int, float] = field(default_factory=dict, repr=False)
    _next: int = 0

    def begin(self, rows: Integers) -> Integers:  # (R,) → (R,)
        """Forget all, and note a root for each row of the batch; the numbers of the roots."""
        self._parts, self._fates, self._scores, self._next = [], {}, {}, 0
        return self._note(np.full_like(rows, -1), rows, np.full_like(rows, -1), 0, np.zeros((2, len(rows))), None)

    def add(
        self,
        parents: Integers,  # (R,), numbers of nodes
        rows: Integers,  # (R,), of the batch
        length: int,
        *,
        totals: Numbers,  # (R,), log-probabilities of the parents; those of -inf are no nodes
        values: Numbers,  # (R, V)
        fates: Fates,  # (R, V)
    ) -> Integers:  # (R, V), the number of each candidate, -1 of those that are not noted
        """Note the candidates of one step."""
        noted = (fates != Fate.IMPOSSIBLE) & (totals > -np.inf)[:, None]
        if 0 < self.children < values.shape[1]:
            border = -np.partition(-values, self.children - 1, axis=1)[:, self.children - 1, None]
            noted &= (values >= border) | (fates >= Fate.EXTENDED)
        which, symbols = np.nonzero(noted)
        scores = np.stack([values[noted], totals[which] + values[noted]])
        numbers = np.full(values.shape, -1)
        numbers[noted] = self._note(parents[which], rows[which], symbols, length, scores, fates[noted])
        return numbers

    def _note(
        self, parents: Integers, rows: Integers, symbols: Integers, length: int, scores: Numbers, fates: Fates | None
    ) -> Integers:
        numbers = np.arange(self._next, self._next + len(rows))
        self._next += len(rows)
        fates = np.full(len(rows), Fate.EXTENDED, np.uint8) if fates is None else fates
        self._parts.append((numbers, parents, rows, symbols, np.full_like(rows, length), *scores, fates))
        return numbers

    def decide(self, number: int, fate: Fate, score: float | None = None) -> None:
        """What became of a node in the end."""
        self._fates[int(number)] = fate
        if score is not None:
            self._scores[int(number)] = score

    def nodes(self, row: int) -> list[Node]:
        """All candidates of a row of the batch, parents before their children."""
        found = []
        for part in self._parts:
            own = part[2] == row
            for number, *place, score, fate in zip(*(array[own].tolist() for array in part), strict=True):
                decided = self._scores.get(number, score), self._fates.get(number, Fate(fate))
                found.append(Node._make((number, *place, *decided)))
        return found
