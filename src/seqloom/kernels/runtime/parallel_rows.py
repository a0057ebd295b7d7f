"""Rows of a batch in parallel, by loops that release the GIL."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

from seqloom.kernels.runtime import threads

Result = TypeVar("Result")


def map_rows(work: Callable[[int], Result], lengths: Sequence[int]) -> list[Result]:
    """``work(row)`` for each row, in order, on as many threads as torch may use, this one included.

    The longest row is started first, so that no thread is left with it in the end.
    """
    results: dict[int, Result] = {}
    rows = len(lengths)
    numbers = iter(sorted(range(rows), key=lambda row: -lengths[row]))

    def run() -> None:
        for row in numbers:  # shared by all threads: each row goes to one of them
            results[row] = work(row)

    count = min(threads.count(), rows)
    others = [_pool(os.getpid(), count - 1).submit(run) for _ in range(count - 1)]
    try:
        run()
    finally:
        wait(others)
    for other in others:
        other.result()
    return [results[row] for row in range(rows)]


@cache
def _pool(_process: int, count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="seqloom")
