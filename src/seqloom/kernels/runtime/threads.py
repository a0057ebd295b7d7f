"""Run compiled functions on several threads.

LLVM kernels run on the threads of torch's own OpenMP library where it has one, so that the two never compete for a
core. Compiled loops that release the GIL run on Python threads (``map_rows``).
"""

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch

from seqloom.kernels.llvm import jit_cache

Result = TypeVar("Result")
Function = Callable[[int, int, int, int], None]
"""(address of the argument table, part, member of the part's team, members)."""

# run_parts: each thread takes parts until none is left, so that any number of threads works.
# run_jobs: the same for parts of several functions, each with its own table.
# run_team: all threads of the parallel region form one team.
# barrier: the counter only grows and needs no reset; a thread that waits for long yields to other processes.
_MODULE = """
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
declare i32 @sched_yield()

define void @run_parts(ptr %job) {
entry:
  %function = load ptr, ptr %job
  %table_at = getelementptr i64, ptr %job, i64 1
  %table = load i64, ptr %table_at
  %parts_at = getelementptr i64, ptr %job, i64 2
  %parts = load i64, ptr %parts_at
  %next_at = getelementptr i64, ptr %job, i64 3
  br label %more
more:
  %part = atomicrmw add ptr %next_at, i64 1 seq_cst
  %left = icmp slt i64 %part, %parts
  br i1 %left, label %work, label %done
work:
  call void %function(i64 %table, i64 %part, i64 0, i64 1)
  br label %more
done:
  ret void
}

define void @run_jobs(ptr %list) {
entry:
  %count_at = getelementptr i64, ptr %list, i64 1
  %count = load i64, ptr %count_at
  br label %more
more:
  %index = atomicrmw add ptr %list, i64 1 seq_cst
  %left = icmp slt i64 %index, %count
  br i1 %left, label %work, label %done
work:
  %triple = mul i64 %index, 3
  %offset = add i64 %triple, 2
  %job = getelementptr i64, ptr %list, i64 %offset
  %function = load ptr, ptr %job
  %table_at = getelementptr i64, ptr %job, i64 1
  %table = load i64, ptr %table_at
  %part_at = getelementptr i64, ptr %job, i64 2
  %part = load i64, ptr %part_at
  call void %function(i64 %table, i64 %part, i64 0, i64 1)
  br label %more
done:
  ret void
}

define void @run_team(ptr %job) {
entry:
  %function = load ptr, ptr %job
  %table_at = getelementptr i64, ptr %job, i64 1
  %table = load i64, ptr %table_at
  %number = call i32 @omp_get_thread_num()
  %count = call i32 @omp_get_num_threads()
  %member = zext i32 %number to i64
  %members = zext i32 %count to i64
  call void %function(i64 %table, i64 0, i64 %member, i64 %members)
  ret void
}

define void @barrier(i64 %address, i64 %members) {
entry:
  %counter = inttoptr i64 %address to ptr
  %ticket = atomicrmw add ptr %counter, i64 1 seq_cst
  %round = udiv i64 %ticket, %members
  %next = add i64 %round, 1
  %target = mul i64 %next, %members
  br label %check
check:
  %turn = phi i64 [ 0, %entry ], [ %following, %again ]
  %now = load atomic i64, ptr %counter acquire, align 8
  %open = icmp uge i64 %now, %target
  br i1 %open, label %done, label %wait
wait:
  %following = add i64 %turn, 1
  %long = icmp ugt i64 %following, 20000
  br i1 %long, label %yield, label %again
yield:
  %ignored = call i32 @sched_yield()
  br label %again
again:
  br label %check
done:
  ret void
}
"""


def count() -> int:
    """Threads that torch may use; one in a forked process, where OpenMP's threads do not exist."""
    return torch.get_num_threads() if os.getpid() == _main_process else 1


_main_process = os.getpid()


def can_team() -> bool:
    """Whether threads are guaranteed to run at the same time, as barriers require."""
    return count() > 1 and _openmp() is not None


def run(address: int, table: int, parts: int) -> None:
    """Call the kernel at ``address`` for every part, in parallel; returns when all are done."""
    launch = _openmp()
    if parts == 1:
        function(address)(table, 0, 0, 1)
    elif launch is None:
        list(_pool(os.getpid(), os.cpu_count()).map(lambda part: function(address)(table, part, 0, 1), range(parts)))
    else:
        job = (ctypes.c_int64 * 4)(address, table, parts, 0)
        launch(functions().run_parts, ctypes.addressof(job), parts, 0)


def run_jobs(jobs: Sequence[tuple[int, int, int]], workers: int) -> None:  # each: address, table, part
    """Call different kernels in parallel, or one after another with one worker; returns when all are done."""
    launch = _openmp()
    if workers == 1:
        for address, table, part in jobs:
            function(address)(table, part, 0, 1)
    elif launch is None:
        list(_pool(os.getpid(), os.cpu_count()).map(lambda job: function(job[0])(job[1], job[2], 0, 1), jobs))
    else:
        values = [value for job in jobs for value in job]
        listed = (ctypes.c_int64 * (2 + len(values)))(0, len(jobs), *values)
        launch(functions().run_jobs, ctypes.addressof(listed), workers, 0)


def run_team(address: int, table: int, members: int) -> None:
    """Call the kernel on a team of threads that split its work."""
    launch = _openmp()
    if launch is None:
        raise RuntimeError("a team of threads needs torch's OpenMP library")
    job = (ctypes.c_int64 * 2)(address, table)
    launch(functions().run_team, ctypes.addressof(job), members, 0)


@cache
def function(address: int) -> Function:
    """The kernel at an address."""
    return jit_cache.c_function(address, *[ctypes.c_int64] * 4)


class ThreadFunctions(NamedTuple):
    """Addresses of the compiled functions."""

    run_parts: int
    run_jobs: int
    run_team: int
    barrier: int


@cache
def functions() -> ThreadFunctions:
    symbols = {name: _address(name) for name in ("omp_get_thread_num", "omp_get_num_threads", "sched_yield")}
    return ThreadFunctions(*jit_cache.load("threads", lambda: _MODULE, ThreadFunctions._fields, **symbols))


def _address(name: str) -> int:
    """Address of a function of torch's OpenMP library or of the C library; 0 if there is none."""
    for library in (_library(), None if sys.platform == "win32" else ctypes.CDLL(None)):
        if library is not None and hasattr(library, name):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    return 0


@cache
def _library() -> ctypes.CDLL | None:
    """The GNU OpenMP library that torch ships."""
    for path in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*")):
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    return None


@cache
def _openmp() -> Callable[[int, int, int, int], None] | None:
    """GOMP_parallel(function, argument, threads, flags), which starts a parallel region."""
    library = _library()
    if library is None or not hasattr(library, "GOMP_parallel"):
        return None
    entry = library.GOMP_parallel
    entry.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    entry.restype = None
    function: Callable[[int, int, int, int], None] = entry
    return function


def _use_one_thread() -> None:
    """In a forked child, torch's OpenMP library waits for threads that do not exist there."""
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_use_one_thread)


def map_rows(work: Callable[[int], Result], lengths: Sequence[int]) -> list[Result]:
    """``work(row)`` for each row, in order, on as many threads as torch may use, this one included.

    The longest row is started first, so that the threads finish at about the same time.
    """
    results: dict[int, Result] = {}
    rows = len(lengths)
    numbers = iter(sorted(range(rows), key=lambda row: -lengths[row]))

    def run() -> None:
        for row in numbers:  # one iterator for all threads: each row goes to one of them
            results[row] = work(row)

    workers = min(count(), rows)
    others = [_pool(os.getpid(), workers - 1).submit(run) for _ in range(workers - 1)]
    try:
        run()
    finally:
        wait(others)
    for other in others:
        other.result()
    return [results[row] for row in range(rows)]


@cache
def _pool(_process: int, count: int | None) -> ThreadPoolExecutor:
    """A pool of each process: threads do not survive a fork."""
    return ThreadPoolExecutor(count, thread_name_prefix="seqloom")
