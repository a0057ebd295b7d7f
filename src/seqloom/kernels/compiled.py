"""Loops with many branches (CTC, tries, n-grams), written in Python and compiled by numba.

They hold no lock of the interpreter, so that threads of ours run them side by side; compiled code is cached on disk.
"""

import os
from collections.abc import Callable
from typing import Any

from seqloom.kernels import machine

os.environ.setdefault("NUMBA_CACHE_DIR", str(machine.cache_folder().parent / "numba"))  # read when numba is imported

import numba


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, for the types of arguments that it is first called with."""
    made: Callable[..., Any] = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    return made


def compiled_sums(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for loops that only add and multiply: sums in any order, several terms at once."""
    rules = {"reassoc", "contract", "nsz"}
    made: Callable[..., Any] = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=rules)(function)
    return made
