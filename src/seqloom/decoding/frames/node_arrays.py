"""Trees of nodes in arrays: forgetting what no live hypothesis comes from, and growing."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from seqloom.kernels import prefix_beam as kernel
from seqloom.kernels.lexicon_state import Words
from seqloom.kernels.prefix_beam import Prefixes
from seqloom.kernels.pruning import ancestors, fill

NODES = 8192  # of a tree, at first

Beam = TypeVar("Beam", Prefixes, Words)


def room(size: int) -> int:
    """Nodes of a new tree for a beam of a size."""
    return max(NODES, 1 << (4 * size).bit_length())


def compact(beam: Beam, live: npt.NDArray[np.int32], *, label: str, others: tuple[str, ...]) -> Beam:
    """Keep only the nodes that the live ones come from, in twice the room if they are many; ``live`` is renumbered."""
    kept = np.flatnonzero(ancestors(beam.parents, live))
    moved = np.cumsum(np.isin(np.arange(len(beam.parents)), kept), dtype=np.int32) - 1
    more = 2 if 2 * len(kept) + 4 * len(live) > len(beam.parents) else 1
    arrays = {}
    for name in ("parents", label, *others):
        old = getattr(beam, name)
        arrays[name] = np.empty(more * len(old), old.dtype)
        arrays[name][: len(kept)] = old[kept]
    arrays["parents"][1 : len(kept)] = moved[arrays["parents"][1 : len(kept)]]
    table = np.empty(more * len(beam.table), np.int32)
    fill(table, arrays["parents"], arrays[label], len(kept))
    live[:] = moved[live]
    beam.counts[kernel.NODES], beam.counts[kernel.DECIDED :] = len(kept), moved[beam.counts[kernel.DECIDED :]]
    return beam._replace(table=table, **arrays)
