"""Batches in an order that depends only on the seed and the epoch, so that training can resume anywhere."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqloom.data.batch import SMALL, Batch, split_by_padding
from seqloom.state import apply

BUCKET_BATCHES = 50
"""Batches whose examples are sorted by length together: enough for little padding, few enough to stay random."""

CONCATENATION_CHUNK = 1000
"""Examples that are collated at a time to be concatenated."""


@dataclass(frozen=True)
class BatchLoader:
    """The batches of any epoch.

    Examples are read into a shuffle buffer, which is shuffled, sorted into buckets of similar length and cut into
    batches. With ``bptt_steps``, the examples of a buffer are concatenated instead, laid out as ``batch_size`` tracks
    and cut every ``bptt_steps`` steps, so that each batch continues the previous one. Data that fit into one buffer
    stay in memory.

    A batch is what one update sees. It is split into ``parts``, of which this process gets ``local_parts``.
    """

    examples: Callable[[], Iterator[Any]]  # reads the data from the start
    collate: Callable[[Sequence[Any]], Batch]
    batch_size: int = 32  # examples, or tracks
    batch_tokens: int = 0  # elements with padding; 0: use batch_size
    bptt_steps: int = 0  # steps of a chunk of the tracks; 0: do not concatenate examples
    seed: int = 1
    shuffle: bool = True
    shuffle_buffer: int = 1_000_000  # examples in memory at a time
    workers: int = 0  # threads that prepare batches in advance
    parts: int = 1
    local_parts: range = range(1)
    augment: Callable[[Any, np.random.Generator], Any] | None = None  # changes an example at random, each time
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def epoch(self, number: int, skip: int = 0) -> Iterator[list[Batch]]:
        """The local parts of each batch of an epoch after the first ``skip`` batches; empty parts are dropped."""
        jobs = self._chunks(skip) if self.bptt_steps else self._buckets(number, skip)
        return _prefetch(jobs, self.workers)

    def count(self, number: int) -> int | None:
        """The number of batches of an epoch; None if the data do not fit into the buffer."""
        if not self._fits_buffer():
            return None
        buffer = self._cache["buffer"]
        if self.bptt_steps:
            return -(-self._tracks(buffer)[1] // self.bptt_steps)
        if not self.batch_tokens and self._longest(buffer) * self.batch_size <= SMALL:
            return -(-len(buffer) // self.batch_size)
        if ("count", number) not in self._cache:
            self._cache["count", number] = len(self._plan(buffer, number, 0))
        count: int = self._cache["count", number]
        return count

    def _fits_buffer(self) -> bool:
        """Whether all data fit into one buffer; if so, they are kept."""
        if "buffer" not in self._cache and "large" not in self._cache:
            next(self._buffers(), None)
        return "buffer" in self._cache

    def _buffers(self) -> Iterator[list[Any]]:
        if "buffer" in self._cache:
            yield self._cache["buffer"]
            return
        iterator = self.examples()
        first = list(islice(iterator, self.shuffle_buffer))
        following = list(islice(iterator, self.shuffle_buffer))
        self._cache["large" if following else "buffer"] = True if following else first
        yield first
        while following:
            yield following
            following = list(islice(iterator, self.shuffle_buffer))

    def _buckets(self, number: int, skip: int) -> Iterator[Callable[[], list[Batch]]]:
        for index, buffer in enumerate(self._buffers()):
            plan = self._plan(buffer, number, index)
            for rows in plan[skip:]:
                yield partial(self._read_rows, buffer, rows, (number, index))
            skip = max(skip - len(plan), 0)

    def _read_rows(self, buffer: Sequence[Any], rows: Sequence[int], place: tuple[int, int]) -> list[Batch]:
        """The parts of a batch. Changes of an example depend on nothing but the seed, the epoch and its row."""
        augment = self.augment
        if augment is None:
            return self._collate([buffer[row] for row in rows])
        return self._collate([augment(buffer[row], np.random.default_rng([self.seed, *place, row])) for row in rows])

    def _collate(self, examples: Sequence[Any]) -> list[Batch]:
        return [self.collate(chosen) for part in self.local_parts if (chosen := examples[part :: self.parts])]

    def _chunk(self, tracks: Any, steps: slice, lengths: Tensor) -> list[Batch]:
        rows = [slice(part, None, self.parts) for part in self.local_parts if part < self.batch_size]
        return [_slice_time(tracks, steps, rows=part, lengths=lengths) for part in rows]

    def _plan(self, buffer: Sequence[Any], number: int, index: int) -> list[list[int]]:
        """The rows of each batch."""
        if not self.shuffle:
            return self._cut(buffer, list(range(len(buffer))))
        random = np.random.default_rng([self.seed, number, index])
        order = random.permutation(len(buffer)).tolist()
        bucket = BUCKET_BATCHES * (self.batch_size if not self.batch_tokens else max(self.batch_tokens // 16, 1))
        batches = []
        for start in range(0, len(order), bucket):
            batches += self._cut(buffer, sorted(order[start : start + bucket], key=lambda row: len(buffer[row])))
        return [batches[row] for row in random.permutation(len(batches))]

    def _cut(self, buffer: Sequence[Any], order: list[int]) -> list[list[int]]:
        if not self.batch_tokens:
            if max((len(buffer[row]) for row in order), default=0) * self.batch_size <= SMALL:
                return [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
            rows = (_Row(row, len(buffer[row])) for row in order)
            return [[row.number for row in group] for group in split_by_padding(rows, self.batch_size)]
        batches: list[list[int]] = []
        longest = 0
        for row in order:
            longest = max(longest, len(buffer[row]), 1)
            if not batches or longest * (len(batches[-1]) + 1) > self.batch_tokens:
                batches.append([])
                longest = max(len(buffer[row]), 1)
            batches[-1].append(row)
        return batches

    def _longest(self, buffer: Sequence[Any]) -> int:
        if "longest" not in self._cache:
            self._cache["longest"] = max(map(len, buffer), default=0)
        longest: int = self._cache["longest"]
        return longest

    def _chunks(self, skip: int) -> Iterator[Callable[[], list[Batch]]]:
        for buffer in self._buffers():
            tracks, width, lengths = self._tracks(buffer)
            starts = range(0, width, self.bptt_steps)
            for start in starts[skip:]:
                yield partial(self._chunk, tracks, slice(start, start + self.bptt_steps), lengths)
            skip = max(skip - len(starts), 0)

    def _tracks(self, buffer: Sequence[Any]) -> tuple[Any, int, Tensor]:
        """The concatenated examples as tensors (batch_size, T, ...), T, and the lengths (batch_size,)."""
        if "tracks" in self._cache:
            cached: tuple[Any, int, Tensor] = self._cache["tracks"]
            return cached
        chunks = []
        for group in split_by_padding(buffer, CONCATENATION_CHUNK):
            batch = self.collate(group)
            mask = batch.inputs.mask
            apply(partial(_check_steps, mask=mask), (batch.inputs, batch.target))
            chunks.append(apply(lambda tensor, mask=mask: tensor[mask], (batch.inputs, batch.target)))
        joined = apply(lambda *tensors: torch.cat(tensors), *chunks)
        total = len(joined[0].mask)
        width = -(-total // self.batch_size)

        def to_tracks(tensor: Tensor) -> Tensor:  # (total, ...) → (batch_size, width, ...), padded with zeros
            padded = tensor.new_zeros(self.batch_size * width, *tensor.shape[1:])
            padded[:total] = tensor
            return padded.view(self.batch_size, width, *tensor.shape[1:])

        lengths = (total - width * torch.arange(self.batch_size)).clamp(0, width)
        tracks = apply(to_tracks, joined), width, lengths
        if "buffer" in self._cache:
            self._cache["tracks"] = tracks
        return tracks


class _Row(NamedTuple):
    """The number of an example in the buffer, with the length of the example."""

    number: int
    length: int

    def __len__(self) -> int:
        return self.length


def _check_steps(tensor: Tensor, *, mask: Tensor) -> Tensor:
    if tensor.shape[:2] != mask.shape:
        raise ValueError("train.bptt_steps needs a task with a target for each step, since it concatenates sequences")
    return tensor


def _slice_time(tracks: Any, steps: slice, *, rows: slice, lengths: Tensor) -> Batch:
    inputs, target = apply(lambda tensor: tensor[rows, steps], tracks)
    items = int((lengths[rows].clamp(max=steps.stop) - steps.start).clamp(min=0).sum())
    return Batch(inputs, target, items, continues=steps.start > 0)


def _prefetch(jobs: Iterator[Callable[[], list[Batch]]], workers: int) -> Iterator[list[Batch]]:
    """The results of the jobs in order, computed in advance by threads."""
    if not workers:
        for job in jobs:
            yield job()
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="seqloom-loading") as executor:
        pending: deque[Future[list[Batch]]] = deque()
        try:
            while True:
                pending.extend(executor.submit(job) for job in islice(jobs, 2 * workers - len(pending)))
                if not pending:
                    return
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
