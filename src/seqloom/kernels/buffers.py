"""Memory that is used again: a fresh page of memory costs more than the work that is done on it."""

import ctypes
import mmap
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

LARGE = 4 << 20
"""Bytes from which on memory is worth asking for in large pages."""

KEPT = 16
"""How many buffers are kept for the next call."""

_lock = threading.Lock()
_free: list[Tensor] = []


@contextmanager
def borrow(size: int, like: Tensor) -> Iterator[Tensor]:
    """A vector of at least ``size`` elements with unknown content, for the time of a call."""
    with _lock:
        fitting = [
            buffer for buffer in _free if buffer.dtype == like.dtype and size <= buffer.numel() <= 2 * size + 4096
        ]
        buffer = min(fitting, key=Tensor.numel) if fitting else None
        if buffer is not None:
            _remove(buffer)
    if buffer is None:
        buffer = fresh(like, size)
    try:
        yield buffer
    finally:
        with _lock:
            _free.append(buffer)
            del _free[:-KEPT]


def _remove(buffer: Tensor) -> None:
    _free[:] = [other for other in _free if other is not buffer]


def fresh(like: Tensor, *shape: int) -> Tensor:
    """New memory with unknown content, in large pages where the system has them and it is worth it."""
    tensor = torch.empty(shape, dtype=like.dtype)
    size = tensor.numel() * tensor.element_size()
    advise = _advise()
    if size >= LARGE and advise is not None:
        start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        length = (tensor.data_ptr() + size - start) // mmap.PAGESIZE * mmap.PAGESIZE
        advise(start, length, mmap.MADV_HUGEPAGE)  # only advice: an error changes nothing
    return tensor


@cache
def _advise() -> Any:
    if sys.platform != "linux":
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function
