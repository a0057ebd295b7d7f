"""Loops with many branches (CTC, tries, n-grams), written in Python and compiled by numba.

They hold no lock of the interpreter, so that threads of ours run them side by side; compiled code is cached on disk.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from seqloom.kernels import machine

KEPT = 8
"""Versions of the kernels whose compiled code stays in the cache."""


def folder() -> Path:
    """Where this version's code is kept: numba notices a change of a function, and none of what that calls."""
    found = machine.cache_folder().parent / "numba" / machine.generator().hex()[:16]
    with suppress(OSError):  # a cache that cannot be written costs time only
        if not found.exists():
            found.mkdir(parents=True)
            versions = sorted(found.parent.iterdir(), key=lambda path: path.stat().st_mtime)
            for old in versions[:-KEPT]:
                shutil.rmtree(old, ignore_errors=True)
    return found


os.environ.setdefault("NUMBA_CACHE_DIR", str(folder()))  # read when numba is imported

import numba  # noqa: E402


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, for the types of arguments that it is first called with."""
    made: Callable[..., Any] = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    return made


def compiled_sums(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for loops that only add and multiply: sums in any order, several terms at once."""
    rules = {"reassoc", "contract", "nsz"}
    made: Callable[..., Any] = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=rules)(function)
    return made


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of another such function: what they share is not counted again at every call."""
    made: Callable[..., Any] = numba.njit(nogil=True, error_model="numpy", inline="always")(function)
    return made
