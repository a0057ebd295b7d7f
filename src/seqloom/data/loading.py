"""Batches in an order that is a pure function of the seed and the epoch, so that a run can go on anywhere."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqloom.data.batch import Batch
from seqloom.state import apply

SORTED_TOGETHER = 50
"""Batches whose examples are sorted by length together: enough to fill them evenly, few enough to stay random."""

JOINED_TOGETHER = 1000
"""Examples that are collated at once to be joined."""


@dataclass(frozen=True)
class BatchLoader:
    """The batches of any epoch.

    Examples are read in pools; a pool is shuffled, sorted into buckets of similar length and cut into batches. With
    ``steps``, the examples of a pool are joined into one long sequence instead, which is laid out as ``rows`` tracks
    and cut every ``steps`` steps: each batch continues the one before. Data that fit into one pool stay in memory.

    A batch is what one update sees. It comes in ``parts``, of which this process gets those in ``own``.
    """

    examples: Callable[[], Iterator[Any]]  # reads the data from the beginning
    collate: Callable[[Sequence[Any]], Batch]
    rows: int = 32  # examples in a batch, or tracks
    tokens: int = 0  # elements in a batch with its padding; 0: as many as `rows` examples have
    steps: int = 0  # length of the pieces of a track; 0: each example stands alone
    seed: int = 1
    shuffle: bool = True
    pool: int = 1_000_000  # examples in memory at once
    workers: int = 0  # threads that prepare batches ahead
    parts: int = 1
    own: range = range(1)
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def epoch(self, number: int, skip: int = 0) -> Iterator[list[Batch]]:
        """The own parts of each batch of an epoch, but for the first ``skip`` batches; empty parts are left out."""
        prepared = self._pieces(skip) if self.steps else self._buckets(number, skip)
        return _ahead(prepared, self.workers)

    def count(self, number: int) -> int | None:
        """How many batches an epoch has, where that is known without reading files again."""
        if not self._whole():
            return None
        pool = self._kept["pool"]
        if self.steps:
            return -(-self._track(pool)[1] // self.steps)
        if not self.tokens:
            return -(-len(pool) // self.rows)
        if ("count", number) not in self._kept:
            self._kept["count", number] = len(self._plan(pool, number, 0))
        counted: int = self._kept["count", number]
        return counted

    def _whole(self) -> bool:
        """Read the data if they fit into one pool."""
        if "pool" not in self._kept and "large" not in self._kept:
            next(self._pools(), None)
        return "pool" in self._kept

    def _pools(self) -> Iterator[list[Any]]:
        if "pool" in self._kept:
            yield self._kept["pool"]
            return
        iterator = self.examples()
        first = list(islice(iterator, self.pool))
        following = list(islice(iterator, self.pool))
        self._kept["large" if following else "pool"] = True if following else first
        yield first
        while following:
            yield following
            following = list(islice(iterator, self.pool))

    def _buckets(self, number: int, skip: int) -> Iterator[Callable[[], list[Batch]]]:
        for index, pool in enumerate(self._pools()):
            plan = self._plan(pool, number, index)
            for rows in plan[skip:]:
                yield partial(self._collate, [pool[row] for row in rows])
            skip = max(skip - len(plan), 0)

    def _collate(self, examples: Sequence[Any]) -> list[Batch]:
        return [self.collate(part) for own in self.own if (part := examples[own :: self.parts])]

    def _piece(self, tracks: Any, steps: slice, lengths: Tensor) -> list[Batch]:
        rows = [slice(own, None, self.parts) for own in self.own if own < self.rows]
        return [_cut_time(tracks, steps, rows=part, lengths=lengths) for part in rows]

    def _plan(self, pool: Sequence[Any], number: int, index: int) -> list[list[int]]:
        """The rows of each batch."""
        if not self.shuffle:
            return self._cut(pool, list(range(len(pool))))
        random = np.random.default_rng([self.seed, number, index])
        order = random.permutation(len(pool)).tolist()
        together = SORTED_TOGETHER * (self.rows if not self.tokens else max(self.tokens // 16, 1))
        batches = []
        for start in range(0, len(order), together):
            batches += self._cut(pool, sorted(order[start : start + together], key=lambda row: len(pool[row])))
        return [batches[row] for row in random.permutation(len(batches))]

    def _cut(self, pool: Sequence[Any], order: list[int]) -> list[list[int]]:
        if not self.tokens:
            return [order[start : start + self.rows] for start in range(0, len(order), self.rows)]
        batches: list[list[int]] = []
        longest = 0
        for row in order:
            longest = max(longest, len(pool[row]), 1)
            if not batches or longest * (len(batches[-1]) + 1) > self.tokens:
                batches.append([])
                longest = max(len(pool[row]), 1)
            batches[-1].append(row)
        return batches

    def _pieces(self, skip: int) -> Iterator[Callable[[], list[Batch]]]:
        for pool in self._pools():
            tracks, width, lengths = self._track(pool)
            starts = range(0, width, self.steps)
            for start in starts[skip:]:
                yield partial(self._piece, tracks, slice(start, start + self.steps), lengths)
            skip = max(skip - len(starts), 0)

    def _track(self, pool: Sequence[Any]) -> tuple[Any, int, Tensor]:
        """The examples one behind the other as tensors (rows, T, ...), T, and the lengths (rows,)."""
        if "tracks" in self._kept:
            kept: tuple[Any, int, Tensor] = self._kept["tracks"]
            return kept
        pieces = []
        for start in range(0, len(pool), JOINED_TOGETHER):
            batch = self.collate(pool[start : start + JOINED_TOGETHER])
            real = batch.inputs.mask
            apply(partial(_check_steps, mask=real), (batch.inputs, batch.target))
            pieces.append(apply(lambda tensor, real=real: tensor[real], (batch.inputs, batch.target)))
        joined = apply(lambda *tensors: torch.cat(tensors), *pieces)
        total = len(joined[0].mask)
        width = -(-total // self.rows)

        def lay_out(tensor: Tensor) -> Tensor:  # (total, ...) → (rows, width, ...), zero behind the end
            laid = tensor.new_zeros(self.rows * width, *tensor.shape[1:])
            laid[:total] = tensor
            return laid.view(self.rows, width, *tensor.shape[1:])

        lengths = (total - width * torch.arange(self.rows)).clamp(0, width)
        found = apply(lay_out, joined), width, lengths
        if "pool" in self._kept:
            self._kept["tracks"] = found
        return found


def _check_steps(tensor: Tensor, *, mask: Tensor) -> Tensor:
    if tensor.shape[:2] != mask.shape:
        raise ValueError(
            "train.bptt_steps is set, and the task has no answer for each step: sequences cannot be joined"
        )
    return tensor


def _cut_time(tracks: Any, steps: slice, *, rows: slice, lengths: Tensor) -> Batch:
    inputs, target = apply(lambda tensor: tensor[rows, steps], tracks)
    items = int((lengths[rows].clamp(max=steps.stop) - steps.start).clamp(min=0).sum())
    return Batch(inputs, target, items, continues=steps.start > 0)


def _ahead(prepared: Iterator[Callable[[], list[Batch]]], workers: int) -> Iterator[list[Batch]]:
    """The batches in their order, prepared ahead by threads."""
    if not workers:
        for prepare in prepared:
            yield prepare()
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="seqloom-loading") as executor:
        waiting: deque[Future[list[Batch]]] = deque()
        try:
            while True:
                waiting.extend(executor.submit(prepare) for prepare in islice(prepared, 2 * workers - len(waiting)))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
