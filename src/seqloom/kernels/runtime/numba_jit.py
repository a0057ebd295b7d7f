"""Decorators for loops with many branches (CTC, prefix trees, n-grams) that numba compiles.

Compiled functions release the GIL, so that threads run them in parallel, and are cached on disk.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from seqloom.kernels.llvm import jit_cache

MAX_VERSIONS = 8
"""Versions of the kernels whose compiled code stays in the cache."""


def version_folder() -> Path:
    """The cache folder of this version of the kernels.

    It is keyed by the source of all kernels: numba itself notices a changed function, but not a changed callee.
    """
    folder = jit_cache.cache_folder().parent / "numba" / jit_cache.source_digest().hex()[:16]
    with suppress(OSError):  # without a writable cache, loops are compiled again in each process
        if not folder.exists():
            folder.mkdir(parents=True)
            versions = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)
            for old in versions[:-MAX_VERSIONS]:
                shutil.rmtree(old, ignore_errors=True)
    return folder


os.environ.setdefault("NUMBA_CACHE_DIR", str(version_folder()))  # read when numba is imported

import numba  # noqa: E402


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function for the argument types of its first call."""
    dispatcher: Callable[..., Any] = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    return dispatcher


def jit_fastmath(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop that only adds and multiplies: sums may be reordered, and so vectorised."""
    flags = {"reassoc", "contract", "nsz"}
    dispatcher: Callable[..., Any] = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=flags)(function)
    return dispatcher


def jit_inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Inline a function into its compiled callers: a call would count references to every array it is passed."""
    dispatcher: Callable[..., Any] = numba.njit(nogil=True, error_model="numpy", inline="always")(function)
    return dispatcher
