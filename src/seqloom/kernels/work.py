"""The rows of a batch dealt out to threads."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from torch import Tensor

Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Work:
    """Each part's rows, longest first."""

    steps: int
    batch: int
    parts: int
    members: int  # threads that share a part
    direction: int
    padded: bool
    order: Integers  # (B,) row of each slot
    first: Integers  # (B,) time of a slot's first step
    lengths: Integers  # (B,) of each slot
    slots: Integers  # (parts,) where each part's slots begin
    active: Integers  # (parts, steps + 1) rows that still run
    before: Integers  # (parts, steps + 1) rows that were run before
    rows: int  # the most that a part has

    @classmethod
    def share(
        cls, steps: int, batch: int, lengths: Tensor | None, *, reverse: bool, parts: int, members: int = 1
    ) -> "Work":
        """Deal rows round-robin in order of length, so that all parts have about the same to do."""
        if lengths is None:
            return _even(steps, batch, reverse=reverse, parts=parts, members=members)
        return cls.deal(steps, batch, lengths, reverse=reverse, parts=parts, members=members)

    @classmethod
    def deal(cls, steps: int, batch: int, lengths: Tensor | None, *, reverse: bool, parts: int, members: int) -> "Work":
        """Deal rows without looking whether that was done before."""
        counts = [len(range(part, batch, parts)) for part in range(parts)]
        slots = np.cumsum([0, *counts[:-1]], dtype=np.int64)
        active = np.zeros((parts, steps + 1), dtype=np.int64)
        if lengths is None:
            order = np.arange(batch, dtype=np.int64)
            sizes = np.full(batch, steps, dtype=np.int64)
            active[:, :steps] = np.array(counts)[:, None]
        else:
            given = lengths.numpy().astype(np.int64)
            ranked = np.argsort(-given, kind="stable").astype(np.int64)
            order = np.concatenate([ranked[part::parts] for part in range(parts)])
            sizes = given[order]
            for part, (slot, count) in enumerate(zip(slots, counts, strict=True)):
                shortest_first = sizes[slot : slot + count][::-1]
                active[part] = count - np.searchsorted(shortest_first, np.arange(steps + 1), side="right")
        before = np.zeros_like(active)
        np.cumsum(active[:, :-1], axis=1, out=before[:, 1:])
        return cls(
            steps=steps,
            batch=batch,
            parts=parts,
            members=members,
            direction=-1 if reverse else 1,
            padded=lengths is not None and bool((sizes < steps).any()),
            order=order,
            first=sizes - 1 if reverse else np.zeros_like(sizes),
            lengths=sizes,
            slots=slots,
            active=active,
            before=before,
            rows=max(counts, default=0),
        )

    @property
    def empty(self) -> bool:
        """Whether there is no step or no row."""
        return not self.steps or not self.batch

    def chunk(self, rows: int) -> int:
        """Steps that together have about so many rows."""
        return max(1, min(self.steps, rows // max(1, self.rows)))

    @cached_property
    def arguments(self) -> dict[str, int]:
        """What every kernel is told about the work."""
        arrays = ("order", "first", "lengths", "slots", "active", "before")
        numbers = ("batch", "direction", "steps", "rows")
        return {name: getattr(self, name) for name in numbers} | {
            name: getattr(self, name).ctypes.data for name in arrays
        }


@lru_cache(maxsize=256)
def _even(steps: int, batch: int, *, reverse: bool, parts: int, members: int) -> Work:
    """Rows of one length are dealt in the same way every time."""
    return Work.deal(steps, batch, None, reverse=reverse, parts=parts, members=members)
