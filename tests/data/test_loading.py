"""Batches contain every example once, in an order that depends on seed and epoch only, and resume anywhere."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.batch import Batch, pad
from seqloom.data.loading import BatchLoader

FORMS = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 7),
        "batch_tokens": st.sampled_from([0, 6, 11, 40]),
        "seed": st.integers(0, 3),
        "shuffle": st.booleans(),
        "shuffle_buffer": st.sampled_from([1, 3, 8, 1000]),
        "workers": st.sampled_from([0, 0, 0, 2]),
    }
)


class Example(NamedTuple):
    number: int
    length: int

    def __len__(self) -> int:
        return self.length


def make(lengths: Sequence[int]) -> list[Example]:
    return [Example(number, length) for number, length in enumerate(lengths)]


def collate(examples: Sequence[Example]) -> Batch:
    """Inputs are 100 × the example's number + the step; the target is the negative."""
    assert examples
    rows = [[100 * example.number + step for step in range(example.length)] for example in examples]
    inputs = pad(rows, dtype=np.int64)
    return Batch(inputs, -inputs.values, sum(map(len, rows)), examples=tuple(examples))


def batches(lengths: Sequence[int], **form: Any) -> BatchLoader:
    examples = make(lengths)
    return BatchLoader(lambda: iter(examples), collate, **form)


def numbers(loaded: BatchLoader, epoch: int, skip: int = 0) -> list[list[list[int]]]:
    """The examples of each part of each batch."""
    return [[[example.number for example in part.examples] for part in parts] for parts in loaded.epoch(epoch, skip)]


LENGTHS = st.lists(st.integers(0, 9), max_size=40)


@given(lengths=LENGTHS, form=FORMS, epoch=st.integers(0, 2))
def test_every_example_occurs_once(lengths: list[int], form: dict[str, Any], epoch: int) -> None:
    loaded = batches(lengths, **form)
    actual = numbers(loaded, epoch)
    assert sorted(number for parts in actual for part in parts for number in part) == list(range(len(lengths)))
    if form["shuffle_buffer"] >= max(len(lengths), 1):
        assert loaded.count(epoch) == len(actual)
    elif len(lengths) > form["shuffle_buffer"]:
        assert loaded.count(epoch) is None
    for parts in actual:
        for part in parts:
            longest = max([lengths[number] for number in part] + [1])
            assert len(part) == 1 or not form["batch_tokens"] or longest * len(part) <= form["batch_tokens"]
            assert form["batch_tokens"] or len(part) <= form["batch_size"]


@given(lengths=LENGTHS, form=FORMS, epoch=st.integers(0, 2))
def test_order_depends_only_on_seed_and_epoch(lengths: list[int], form: dict[str, Any], epoch: int) -> None:
    first = batches(lengths, **form)
    for earlier in range(epoch):
        numbers(first, earlier)
    actual = numbers(first, epoch)
    np.random.seed(0)  # noqa: NPY002  the global random state has no effect
    fresh = batches(lengths, **{**form, "workers": 2 - form["workers"]})
    assert numbers(fresh, epoch) == actual
    if not form["shuffle"]:
        assert [number for parts in actual for part in parts for number in part] == list(range(len(lengths)))


@given(lengths=LENGTHS, form=FORMS, epoch=st.integers(0, 2))
def test_epoch_resumes_at_any_batch(lengths: list[int], form: dict[str, Any], epoch: int) -> None:
    whole = numbers(batches(lengths, **form), epoch)
    for skip in range(len(whole) + 2):
        assert numbers(batches(lengths, **form), epoch, skip) == whole[skip:]


@given(lengths=LENGTHS, form=FORMS, parts=st.integers(1, 5), ranks=st.integers(1, 3))
def test_parts_and_ranks_partition_a_batch(lengths: list[int], form: dict[str, Any], parts: int, ranks: int) -> None:
    whole = numbers(batches(lengths, **form), 1)
    by_rank = [
        numbers(batches(lengths, **form, parts=parts * ranks, local_parts=range(rank * parts, (rank + 1) * parts)), 1)
        for rank in range(ranks)
    ]
    assert all(len(local) == len(whole) for local in by_rank)  # a rank without a row has a batch of no parts
    for batch, own in zip(whole, zip(*by_rank, strict=True), strict=True):
        actual = [part for local in own for part in local]
        assert len(actual) == min(parts * ranks, len(batch[0]))
        assert sorted(number for part in actual for number in part) == sorted(batch[0])
        assert max(map(len, actual)) - min(map(len, actual)) <= 1
        for index, part in enumerate(actual):
            assert part == batch[0][index :: parts * ranks]


def test_epochs_and_seeds_differ() -> None:
    lengths = [1] * 30
    loaded = batches(lengths, batch_size=4)
    orders = [numbers(loaded, 0), numbers(loaded, 1), numbers(batches(lengths, batch_size=4, seed=2), 0)]
    assert len({str(order) for order in orders}) == 3


def test_batches_have_similar_lengths() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, size=4000).tolist()
    padded = real = 0
    for parts in batches(lengths, batch_size=32).epoch(0):
        padded += parts[0].inputs.mask.numel()
        real += parts[0].items
    assert padded < 1.05 * real  # in a random order it would be twice as much


def test_data_are_read_once_if_they_fit_the_buffer() -> None:
    reads = []

    def read() -> Iterator[Example]:
        reads.append(1)
        return iter(make([1] * 10))

    for buffer, expected in ((10, 1), (9, 3)):
        reads.clear()
        loaded = BatchLoader(read, collate, batch_size=4, shuffle_buffer=buffer)
        for epoch in range(3):
            list(loaded.epoch(epoch))
        assert len(reads) == expected


def test_only_one_buffer_is_held_in_memory() -> None:
    taken = 0

    def read() -> Iterator[Example]:
        nonlocal taken
        for example in make([1] * 100):
            taken += 1
            yield example

    next(BatchLoader(read, collate, batch_size=5, shuffle_buffer=10).epoch(0))
    assert taken <= 20  # one buffer, and the next to know that it is not the last


def test_worker_errors_reach_the_caller() -> None:
    def fail(examples: Sequence[Example]) -> Batch:
        raise KeyError(examples[0].number)

    for workers in (0, 2):
        with pytest.raises(KeyError):
            list(BatchLoader(lambda: iter(make([1, 1])), fail, workers=workers).epoch(0))


# Tracks: all examples as one long sequence


def stream(lengths: Sequence[int]) -> list[int]:
    return [100 * number + step for number, length in enumerate(lengths) for step in range(length)]


TRACKS = st.fixed_dictionaries({"batch_size": st.integers(1, 5), "bptt_steps": st.integers(1, 7)})
SOME = st.lists(st.integers(0, 9), min_size=1, max_size=30).filter(lambda lengths: sum(lengths) > 0)


@given(lengths=SOME, form=TRACKS, parts=st.integers(1, 3), workers=st.sampled_from([0, 2]))
def test_tracks_concatenate_to_the_whole_text(
    lengths: list[int], form: dict[str, Any], parts: int, workers: int
) -> None:
    loaded = batches(lengths, **form, parts=parts, local_parts=range(parts), workers=workers)
    rows: list[list[int]] = [[] for _ in range(form["batch_size"])]
    items = 0
    for index, actual in enumerate(loaded.epoch(3)):
        for number, part in enumerate(actual):
            assert part.continues is (index > 0)
            assert part.inputs.mask.shape[1] <= form["bptt_steps"]
            assert part.items == int(part.inputs.mask.sum())
            assert torch.equal(part.target, -part.inputs.values)
            items += part.items
            for row, (values, mask) in enumerate(zip(*part.inputs, strict=True)):
                rows[row * parts + number] += values[mask].tolist()
    assert [value for row in rows for value in row] == stream(lengths)
    assert items == sum(lengths)
    assert len({len(row) for row in rows if row}) <= 2  # all alike but for the last one that has something
    assert loaded.count(0) == -(-len(rows[0]) // form["bptt_steps"])


@given(lengths=SOME, form=TRACKS, buffer=st.sampled_from([1, 4, 1000]))
def test_tracks_resume_at_any_chunk(lengths: list[int], form: dict[str, Any], buffer: int) -> None:
    def seen(skip: int) -> list[Any]:
        actual = batches(lengths, **form, shuffle_buffer=buffer).epoch(0, skip)
        return [(part.inputs.values.tolist(), part.items, part.continues) for (part,) in actual]

    whole = seen(0)
    for skip in range(len(whole) + 1):
        assert seen(skip) == whole[skip:]


@given(lengths=st.lists(st.integers(1, 9), min_size=5, max_size=30), form=TRACKS)
def test_streamed_tracks_cover_all_data(lengths: list[int], form: dict[str, Any]) -> None:
    loaded = batches(lengths, **form, shuffle_buffer=4)
    actual: list[int] = []
    starts = 0
    for (part,) in loaded.epoch(0):
        starts += not part.continues
        actual += part.inputs.values[part.inputs.mask].tolist()
    assert sorted(actual) == sorted(stream(lengths))
    assert starts == -(-len(lengths) // 4)  # each buffer starts new sequences
    assert loaded.count(0) is None


def test_batches_with_one_long_example_are_counted_and_small() -> None:
    loader = batches([2] * 30 + [700_000] + [2] * 30, batch_size=16)
    made = numbers(loader, 0)
    assert loader.count(0) == len(made)
    assert sorted(number for parts in made for part in parts for number in part) == list(range(61))
    assert next(len(part) for parts in made for part in parts if 30 in part) <= 3


@given(lengths=LENGTHS, form=FORMS, epoch=st.integers(0, 2), parts=st.integers(1, 4), skip=st.integers(0, 5))
def test_random_variants_depend_on_the_example_the_epoch_and_the_seed_only(
    lengths: list[int], form: dict[str, Any], epoch: int, parts: int, skip: int
) -> None:
    def variants(epoch: int, skip: int = 0, **options: Any) -> list[list[Example]]:
        def augment(example: Example, random: np.random.Generator) -> Example:
            return Example(int(random.integers(1 << 50)), example.length)

        loaded = batches(lengths, **form, **options, augment=augment)
        return [sorted(example for part in local for example in part.examples) for local in loaded.epoch(epoch, skip)]

    whole = variants(epoch)
    assert [len(batch) for batch in whole] == [
        sum(map(len, batch)) for batch in numbers(batches(lengths, **form), epoch)
    ]
    assert whole[skip:] == variants(epoch, skip) == variants(epoch, skip, parts=parts, local_parts=range(parts))
    drawn = {example.number for batch in whole for example in batch}
    assert len(drawn) == len(lengths)
    assert drawn.isdisjoint(example.number for batch in variants(epoch + 1) for example in batch)
