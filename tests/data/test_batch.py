"""Padded batches preserve their sequences."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from seqloom.data.batch import Batch, Padded, pad, split_by_padding


@given(rows=st.lists(st.lists(st.integers(-9, 9), max_size=6), min_size=1, max_size=6), fill=st.sampled_from([0, -1]))
def test_mask_recovers_the_sequences(rows: list[list[int]], fill: int) -> None:
    actual = pad(rows, fill=fill, dtype=np.int64)
    assert [values[mask].tolist() for values, mask in zip(actual.values, actual.mask, strict=True)] == rows
    assert actual.values.shape == (len(rows), max(1, *map(len, rows)) if len(rows) > 1 else max(1, len(rows[0])))
    assert (actual.values[~actual.mask] == fill).all()
    assert actual.lengths.tolist() == [len(row) for row in rows]
    assert all(mask.tolist() == sorted(mask.tolist(), reverse=True) for mask in actual.mask)  # padded on the right


def test_vectors_keep_width_and_dtype_with_an_empty_first_row() -> None:
    rows = [np.zeros((0, 3), dtype=np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)]
    actual = pad(rows)
    assert actual.values.dtype == torch.float32
    assert actual.values.tolist() == [[[0, 0, 0], [0, 0, 0]], [[0, 1, 2], [3, 4, 5]]]
    assert actual.mask.tolist() == [[False, False], [True, True]]


def test_pad_without_sequences() -> None:
    actual = pad([])
    assert actual.values.shape == actual.mask.shape == (0, 1)


class Inputs(NamedTuple):
    words: Tensor
    inner: Padded


def test_to_moves_all_tensors() -> None:
    inputs = Inputs(torch.ones(2, 3), Padded(torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.bool)))
    batch = Batch(inputs, torch.ones(2), 2, continues=True, state=(torch.zeros(2, 4),), examples=("a", "b"))
    moved = batch.to("meta")
    assert moved.inputs.words.device.type == moved.inputs.inner.mask.device.type == "meta"
    assert moved.target.device.type == moved.state[0].device.type == "meta"
    assert (moved.items, moved.continues, moved.examples) == (2, True, ("a", "b"))
    bare = Batch(inputs, None, 0).to("cpu")
    assert bare.target is bare.state is None
    assert torch.equal(bare.inputs.words, inputs.words)


def test_one_long_sequence_does_not_make_its_batch_long() -> None:
    lengths = [20] * 40 + [400_000] + [20] * 40
    groups = list(split_by_padding([range(length) for length in lengths], 64))
    assert [len(row) for group in groups for row in group] == lengths  # in order
    assert max(len(group) * max(map(len, group)) for group in groups) <= 3 * 400_000
    assert [len(group) for group in split_by_padding([range(20)] * 100, 64)] == [64, 36]


def test_a_full_group_does_not_wait_for_the_next_example() -> None:
    taken: list[int] = []

    def examples() -> Iterator[range]:
        for number in range(3):
            taken.append(number)
            yield range(1)

    groups = split_by_padding(examples(), 1)
    next(groups)
    assert taken == [0]
