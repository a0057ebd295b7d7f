"""How the rows of a batch are split between threads."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from torch import Tensor

Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Partition:
    """A batch in parts, one for each thread or team of threads; the rows of a part are sorted, longest first.

    A slot is a position in the concatenation of all parts. At step t only the first ``active[part, t]`` rows of a part
    are computed, so padding costs nothing.
    """

    steps: int
    batch: int
    parts: int
    members: int  # threads that work on one part together
    direction: int  # 1: forwards, -1: backwards in time
    padded: bool  # whether any row is shorter than ``steps``
    order: Integers  # (B,) row of the batch in each slot
    first_time: Integers  # (B,) time of each slot's first step
    lengths: Integers  # (B,) steps of each slot
    part_starts: Integers  # (parts,) first slot of each part
    active: Integers  # (parts, steps + 1) rows that are active at each step; 0 after the last
    active_before: Integers  # (parts, steps + 1) sum of ``active`` over the steps before
    max_rows: int  # rows of the largest part

    @classmethod
    def create(
        cls, steps: int, batch: int, lengths: Tensor | None, *, reverse: bool, parts: int, members: int = 1
    ) -> "Partition":
        """Distribute rows round-robin in order of length, so that all parts have about the same work."""
        if lengths is None:
            return _create_even(steps, batch, reverse=reverse, parts=parts, members=members)
        return cls.compute(steps, batch, lengths, reverse=reverse, parts=parts, members=members)

    @classmethod
    def compute(
        cls, steps: int, batch: int, lengths: Tensor | None, *, reverse: bool, parts: int, members: int
    ) -> "Partition":
        """The same without the cache that ``create`` uses for rows of equal length."""
        counts = [len(range(part, batch, parts)) for part in range(parts)]
        part_starts = np.cumsum([0, *counts[:-1]], dtype=np.int64)
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
            for part, (slot, count) in enumerate(zip(part_starts, counts, strict=True)):
                shortest_first = sizes[slot : slot + count][::-1]
                active[part] = count - np.searchsorted(shortest_first, np.arange(steps + 1), side="right")
        active_before = np.zeros_like(active)
        np.cumsum(active[:, :-1], axis=1, out=active_before[:, 1:])
        return cls(
            steps=steps,
            batch=batch,
            parts=parts,
            members=members,
            direction=-1 if reverse else 1,
            padded=lengths is not None and bool((sizes < steps).any()),
            order=order,
            first_time=sizes - 1 if reverse else np.zeros_like(sizes),
            lengths=sizes,
            part_starts=part_starts,
            active=active,
            active_before=active_before,
            max_rows=max(counts, default=0),
        )

    @property
    def empty(self) -> bool:
        """Whether there is no step or no row."""
        return not self.steps or not self.batch

    def steps_per_chunk(self, rows: int) -> int:
        """The number of steps that have about ``rows`` rows together."""
        return max(1, min(self.steps, rows // max(1, self.max_rows)))

    @cached_property
    def arguments(self) -> dict[str, int]:
        """The arguments of a kernel that describe the partition: numbers, and addresses of arrays."""
        arrays = ("order", "first_time", "lengths", "part_starts", "active", "active_before")
        numbers = ("batch", "direction", "steps", "max_rows")
        return {name: getattr(self, name) for name in numbers} | {
            name: getattr(self, name).ctypes.data for name in arrays
        }


@lru_cache(maxsize=256)
def _create_even(steps: int, batch: int, *, reverse: bool, parts: int, members: int) -> Partition:
    """Partitions of rows of equal length are cached."""
    return Partition.compute(steps, batch, None, reverse=reverse, parts=parts, members=members)
