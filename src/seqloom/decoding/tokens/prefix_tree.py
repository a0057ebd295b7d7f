"""A prefix tree of the allowed outputs, in flat arrays."""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


class PrefixTree:
    """The allowed token sequences, each followed by the end token; node 0 is the root.

    Nodes are numbered level by level: the children of a node are adjacent, and edge e leads to node e + 1.
    """

    def __init__(self, sequences: Iterable[Sequence[int]], *, end: int) -> None:
        rows = list(sequences)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        flat = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
        if not rows:
            raise ValueError("a prefix tree needs at least one sequence")
        offsets = np.cumsum(lengths) - lengths
        invalid = np.flatnonzero((flat < 0) | (flat == end))
        if len(invalid):
            row = np.searchsorted(offsets, invalid[0], side="right") - 1
            raise ValueError(
                f"sequence {row} contains {flat[invalid[0]]}, expected token ids of at least 0 "
                f"without the end token {end}"
            )
        self.end = end
        self.largest = max(end, int(flat.max(initial=0)))  # token id
        tokens, parents = _edges(flat, offsets, lengths, end=end)
        self._tokens = tokens  # of edges
        self._first = np.searchsorted(parents, np.arange(len(parents) + 2))  # the first edge of each node

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self._tokens) + 1

    def children(self, nodes: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:  # (R,) → (R, W), (R, W)
        """The tokens that may follow each node, in ascending order, and a mask of the columns that hold one."""
        first = self._first[nodes][:, None]
        counts = self._first[nodes + 1][:, None] - first
        columns = np.arange(max(int(counts.max(initial=1)), 1))
        mask = columns < counts
        return np.where(mask, self._tokens[np.where(mask, first + columns, 0)], 0), mask

    def child(self, nodes: Integers, columns: Integers) -> Integers:  # (R,), (R,) → (R,)
        """The child of each node at a column of ``children``."""
        nodes = self._first[nodes] + columns + 1
        return nodes.clip(max=len(self._tokens))  # an empty slot of a beam has no child


def _edges(flat: Integers, offsets: Integers, lengths: Integers, *, end: int) -> tuple[Integers, Integers]:
    """The token and the parent of every edge, level by level."""
    rows, nodes = np.arange(len(lengths)), np.zeros(len(lengths), np.int64)
    width = max(end, int(flat.max(initial=0))) + 1
    tokens, parents = [], []
    next_node, depth = 1, 0
    while len(rows):
        inside = depth < lengths[rows]
        token = np.full(len(rows), end)
        token[inside] = flat[offsets[rows[inside]] + depth]
        edges, inverse = np.unique(nodes * width + token, return_inverse=True)
        tokens.append(edges % width)
        parents.append(edges // width)
        rows, nodes = rows[inside], next_node + inverse[inside]
        next_node, depth = next_node + len(edges), depth + 1
    return np.concatenate(tokens), np.concatenate(parents)
