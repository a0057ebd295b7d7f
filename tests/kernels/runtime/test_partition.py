import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.kernels.runtime.partition import Partition


@given(data=st.data(), steps=st.integers(0, 7), parts=st.integers(1, 4), reverse=st.booleans())
def test_each_row_is_in_one_part_and_active_for_its_length(
    data: st.DataObject, steps: int, parts: int, reverse: bool
) -> None:
    lengths = data.draw(st.lists(st.integers(0, steps), min_size=parts, max_size=9))
    partition = Partition.create(steps, len(lengths), torch.tensor(lengths), reverse=reverse, parts=parts)
    assert sorted(partition.order.tolist()) == list(range(len(lengths)))
    assert partition.lengths.tolist() == [lengths[row] for row in partition.order]
    assert partition.first_time.tolist() == [lengths[row] - 1 if reverse else 0 for row in partition.order]
    assert partition.padded == any(length < steps for length in lengths)
    ends = [*partition.part_starts[1:].tolist(), len(lengths)]
    sizes = []
    for part, (begin, end) in enumerate(zip(partition.part_starts.tolist(), ends, strict=True)):
        own = [lengths[row] for row in partition.order[begin:end]]
        sizes.append(len(own))
        assert own == sorted(own, reverse=True)
        active = [sum(length > step for length in own) for step in range(steps + 1)]
        assert partition.active[part].tolist() == active
        assert partition.active_before[part].tolist() == [sum(active[:step]) for step in range(steps + 1)]
    assert partition.max_rows == max(sizes)
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_without_lengths_all_rows_are_full(parts: int, reverse: bool) -> None:
    actual = Partition.create(4, 5, None, reverse=reverse, parts=parts)
    expected = Partition.create(4, 5, torch.full((5,), 4), reverse=reverse, parts=parts)
    for name in ("lengths", "part_starts", "active", "active_before", "first_time"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name))
    assert not actual.padded
    assert not expected.padded


def test_parts_have_about_the_same_work() -> None:
    lengths = torch.tensor([9, 1, 8, 2, 7, 3])
    partition = Partition.create(9, 6, lengths, reverse=False, parts=2)
    assert [partition.active_before[part, -1] for part in range(2)] == [9 + 7 + 2, 8 + 3 + 1]


@pytest.mark.parametrize(
    ("steps", "batch", "parts", "rows", "expected"),
    [(100, 32, 1, 128, 4), (100, 32, 2, 128, 8), (3, 32, 1, 128, 3), (100, 1, 1, 128, 100), (100, 300, 1, 128, 1)],
)
def test_the_number_of_steps_in_a_chunk(steps: int, batch: int, parts: int, rows: int, expected: int) -> None:
    assert Partition.create(steps, batch, None, reverse=False, parts=parts).steps_per_chunk(rows) == expected


def test_chunks_of_empty_batches_and_sequences() -> None:
    assert Partition.create(0, 3, None, reverse=False, parts=1).steps_per_chunk(128) == 1
    assert Partition.create(5, 0, None, reverse=False, parts=1).steps_per_chunk(128) == 5
