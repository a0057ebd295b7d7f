"""Trees of hypotheses in arrays: dropping nodes that no live hypothesis descends from, and growing."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from seqloom.kernels.frame_beam.lexicon_state import HistoryTree
from seqloom.kernels.frame_beam.prefix_beam import LAG_NODE, NODES, PrefixTree
from seqloom.kernels.frame_beam.primitives import fill_child_table, mark_ancestors

MIN_NODES = 8192  # of a new tree

Tree = TypeVar("Tree", PrefixTree, HistoryTree)


def room(size: int) -> int:
    """Nodes of a new tree for a beam size."""
    return max(MIN_NODES, 1 << (4 * size).bit_length())


def compact(tree: Tree, labels: str, *, live: npt.NDArray[np.int32], counters: npt.NDArray[np.int64]) -> Tree:
    """Keep only the live nodes and their ancestors, in twice the room if they are many.

    ``labels`` names the field with the label of each node; ``live`` and the nodes in ``counters`` are renumbered.
    """
    kept = np.flatnonzero(mark_ancestors(tree.parents, live))
    moved = np.cumsum(np.isin(np.arange(len(tree.parents)), kept), dtype=np.int32) - 1
    factor = 2 if 2 * len(kept) + 4 * len(live) > len(tree.parents) else 1
    arrays = {}
    for name in set(tree._fields) - {"child_table"}:
        old = getattr(tree, name)
        arrays[name] = np.empty(factor * len(old), old.dtype)
        arrays[name][: len(kept)] = old[kept]
    arrays["parents"][1 : len(kept)] = moved[arrays["parents"][1 : len(kept)]]
    table = np.empty(factor * len(tree.child_table), np.int32)
    fill_child_table(table, arrays["parents"], arrays[labels], len(kept))
    live[:] = moved[live]
    counters[NODES], counters[LAG_NODE:] = len(kept), moved[counters[LAG_NODE:]]
    return tree._replace(child_table=table, **arrays)
