"""Rows in their order, by one thread or several."""

import threading

import pytest
import torch

from seqloom.kernels.runtime.parallel_rows import map_rows


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_order(threads: int, rows: int) -> None:
    torch.set_num_threads(threads)
    assert map_rows(lambda row: row * row, [row % 3 for row in range(rows)]) == [row * row for row in range(rows)]


def test_the_longest_row_is_begun_first() -> None:
    begun: list[int] = []
    map_rows(begun.append, [3, 9, 0, 9, 5])
    assert begun == [1, 3, 4, 0, 2]


def test_one_row_or_thread_starts_none() -> None:
    names = [*map_rows(lambda _: threading.current_thread(), [1] * 5)]
    torch.set_num_threads(2)
    names += map_rows(lambda _: threading.current_thread(), [1])
    assert set(names) == {threading.main_thread()}


def test_several_threads_work_side_by_side() -> None:
    torch.set_num_threads(2)
    meeting = threading.Barrier(2, timeout=60)
    assert sorted(map_rows(lambda _: meeting.wait(), [1, 1])) == [0, 1]  # nobody gets here alone


def test_errors_are_passed_on() -> None:
    torch.set_num_threads(2)
    with pytest.raises(ZeroDivisionError):
        map_rows(lambda row: 1 // (row - 3), [1] * 5)
