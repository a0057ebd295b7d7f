"""Running a compiled function on several threads at once.

The threads are those of torch's own OpenMP library where it has one, so that the two never compete for a core.
"""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import torch

from seqloom.kernels import machine

Function = Callable[[int, int], None]
"""(address of the arguments, number of the part)."""

# Takes parts of the work until none is left, however many threads there really are.
_ENTER = """
define void @enter(ptr %job) {
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
  call void %function(i64 %table, i64 %part)
  br label %more
done:
  ret void
}
"""


def count() -> int:
    """How many threads torch may use; one in a forked process, where OpenMP's threads do not exist."""
    return torch.get_num_threads() if os.getpid() == _home else 1


_home = os.getpid()


def run(address: int, table: int, parts: int) -> None:
    """Call the function at ``address`` for every part; returns when all are done."""
    if parts == 1:
        _call(address)(table, 0)
        return
    launch = _openmp()
    if launch is None:
        list(_pool(os.getpid()).map(_call(address), [table] * parts, range(parts)))
        return
    job = (ctypes.c_int64 * 4)(address, table, parts, 0)
    launch(_enter(), ctypes.addressof(job), parts, 0)


@cache
def _call(address: int) -> Function:
    return ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(address)


@cache
def _enter() -> int:
    return machine.load("enter", lambda: _ENTER, ("enter",))[0]


@cache
def _openmp() -> Callable[[int, int, int, int], None] | None:
    """GNU OpenMP's entry for a parallel region."""
    for path in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*")):
        try:
            entry = ctypes.CDLL(str(path)).GOMP_parallel
        except (OSError, AttributeError):
            continue
        entry.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        entry.restype = None
        found: Callable[[int, int, int, int], None] = entry
        return found
    return None


@cache
def _pool(_process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="seqloom")
