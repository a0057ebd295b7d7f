"""Rows of a batch, worked on side by side by loops that hold no lock of the interpreter."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from seqloom.kernels import threads

Found = TypeVar("Found")


def each(work: Callable[[int], Found], rows: int) -> list[Found]:
    """What ``work`` finds for each row, in their order; by as many threads as torch may use."""
    count = min(threads.count(), rows)
    if count <= 1:
        return [work(row) for row in range(rows)]
    return list(_pool(os.getpid(), count).map(work, range(rows)))


@cache
def _pool(_process: int, count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="seqloom")
