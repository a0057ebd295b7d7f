"""A prefix tree of the outputs that are allowed, in flat arrays."""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


class PrefixTree:
    """Allowed sequences of symbols, each with the end symbol behind it; node 0 is the root.

    Nodes are numbered level by level: the children of a node stand side by side, and edge e leads to node e + 1.
    """

    def __init__(self, sequences: Iterable[Sequence[int]], *, end: int) -> None:
        given = list(sequences)
        lengths = np.fromiter(map(len, given), np.int64, len(given))
        flat = np.fromiter(chain.from_iterable(given), np.int64, int(lengths.sum()))
        if not given:
            raise ValueError("a prefix tree needs at least one sequence")
        offsets = np.cumsum(lengths) - lengths
        wrong = np.flatnonzero((flat < 0) | (flat == end))
        if len(wrong):
            which = np.searchsorted(offsets, wrong[0], side="right") - 1
            raise ValueError(
                f"sequence {which} holds {flat[wrong[0]]}, wanted symbols from 0 on without the end symbol {end}"
            )
        self.end = end
        self.largest = max(end, int(flat.max(initial=0)))  # symbol
        symbols, parents = _levels(flat, offsets, lengths, end=end)
        self._symbols = symbols  # of edges
        self._first = np.searchsorted(parents, np.arange(len(parents) + 2))  # the first edge of each node

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self._symbols) + 1

    def children(self, nodes: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:  # (R,) → (R, W), (R, W)
        """The symbols that may follow each node, in ascending order, and which of the places are filled."""
        first = self._first[nodes][:, None]
        counts = self._first[nodes + 1][:, None] - first
        places = np.arange(max(int(counts.max(initial=1)), 1))
        filled = places < counts
        return np.where(filled, self._symbols[np.where(filled, first + places, 0)], 0), filled

    def follow(self, nodes: Integers, places: Integers) -> Integers:  # (R,), (R,) → (R,)
        """The child of each node at a place of ``children``."""
        found: Integers = self._first[nodes] + places + 1
        return found.clip(max=len(self._symbols))  # an empty slot of a beam has no child


def _levels(flat: Integers, offsets: Integers, lengths: Integers, *, end: int) -> tuple[Integers, Integers]:
    """The symbol and the parent of every edge, level by level."""
    rows, nodes = np.arange(len(lengths)), np.zeros(len(lengths), np.int64)
    width = max(end, int(flat.max(initial=0))) + 1
    symbols, parents = [], []
    following, depth = 1, 0  # the number of the next node
    while len(rows):
        inside = depth < lengths[rows]
        symbol = np.full(len(rows), end)
        symbol[inside] = flat[offsets[rows[inside]] + depth]
        edges, which = np.unique(nodes * width + symbol, return_inverse=True)
        symbols.append(edges % width)
        parents.append(edges // width)
        rows, nodes = rows[inside], following + which[inside]
        following, depth = following + len(edges), depth + 1
    return np.concatenate(symbols), np.concatenate(parents)
