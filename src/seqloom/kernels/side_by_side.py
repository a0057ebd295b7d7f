"""Rows of a batch, worked on side by side by loops that hold no lock of the interpreter."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

from seqloom.kernels import threads

Found = TypeVar("Found")


def each(work: Callable[[int], Found], lengths: Sequence[int]) -> list[Found]:
    """What ``work`` finds for each row, in their order; by as many threads as torch may use, this one among them.

    The longest row is begun first, so that no thread is left with it in the end.
    """
    found: dict[int, Found] = {}
    rows = len(lengths)
    numbers = iter(sorted(range(rows), key=lambda row: -lengths[row]))

    def run() -> None:
        for row in numbers:  # each goes to one thread only
            found[row] = work(row)

    count = min(threads.count(), rows)
    others = [_pool(os.getpid(), count - 1).submit(run) for _ in range(count - 1)]
    try:
        run()
    finally:
        wait(others)
    for other in others:
        other.result()
    return [found[row] for row in range(rows)]


@cache
def _pool(_process: int, count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="seqloom")
