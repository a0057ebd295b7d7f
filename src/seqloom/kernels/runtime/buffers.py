"""Reuse of scratch memory: the page faults of new memory cost more than most work that is done in it."""

import ctypes
import mmap
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

import torch
from torch import Tensor

HUGE_PAGE_MIN = 4 << 20
"""Bytes from which huge pages are requested."""

MAX_FREE = 16
"""Buffers that are kept for the next call."""

_lock = threading.Lock()
_free: list[tuple[int, Tensor]] = []  # with their sizes


class Loan:
    """Buffers that are borrowed until the end of a with block."""

    def __init__(self) -> None:
        self._buffers: list[Tensor] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            _free.extend((buffer.numel(), buffer) for buffer in self._buffers)
            del _free[:-MAX_FREE]

    def borrow(self, size: int, like: Tensor) -> Tensor:
        """An uninitialised vector of at least ``size`` elements."""
        dtype, largest, place = like.dtype, 2 * size + 4096, -1
        with _lock:
            for index, (free_size, free) in enumerate(_free):
                if size <= free_size <= largest and free.dtype is dtype:
                    largest, place = free_size, index
            buffer = _free.pop(place)[1] if place >= 0 else None
        if buffer is None:
            buffer = allocate(like, size)
        self._buffers.append(buffer)
        return buffer


@contextmanager
def borrow(size: int, like: Tensor) -> Iterator[Tensor]:
    """An uninitialised vector of at least ``size`` elements, for the duration of a with block."""
    with Loan() as loan:
        yield loan.borrow(size, like)


def allocate(like: Tensor, *shape: int, order: tuple[int, ...] | None = None) -> Tensor:
    """A new, uninitialised tensor, in huge pages if it is large and the system has them.

    ``order`` are its dimensions as they follow each other in memory, the largest stride first.
    """
    if torch.is_inference_mode_enabled():
        with torch.inference_mode(mode=False):  # a buffer made while predicting is used again in training
            return allocate(like, *shape, order=order)
    tensor = torch.empty_permuted(shape, order or tuple(range(len(shape))), dtype=like.dtype)
    size = tensor.numel() * tensor.element_size()
    madvise = _madvise()
    if size >= HUGE_PAGE_MIN and madvise is not None:
        start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        length = (tensor.data_ptr() + size - start) // mmap.PAGESIZE * mmap.PAGESIZE
        madvise(start, length, mmap.MADV_HUGEPAGE)  # advice: an error does not matter
    return tensor


@cache
def _madvise() -> Any:
    if sys.platform != "linux":
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function
