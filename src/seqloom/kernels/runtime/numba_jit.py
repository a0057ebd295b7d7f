"""Decorators for loops with many branches (CTC, prefix trees, n-grams) that numba compiles.

Compiled functions release the GIL, so that threads run them in parallel, and are cached on disk. With
``NUMBA_BOUNDSCHECK=1`` every index is checked, which is slow: for tests.
"""

import hashlib
import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

import numba
from numba import types
from numba.core import cgutils, serialize
from numba.core.caching import CompileResultCacheImpl
from numba.extending import intrinsic

from seqloom.cache import CacheFolder
from seqloom.kernels.llvm import jit_cache

Value = TypeVar("Value")

_folder = CacheFolder("numba")


class VerifiedCache:
    """Stands in for numba's own cache, which unpickles any file in its folder and fails if it cannot write there.

    There is one entry for each function and signature, and no index, so that processes do not disturb each other.
    """

    cache_path = ""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.converter = CompileResultCacheImpl.__new__(CompileResultCacheImpl)  # its __init__ looks for a folder

    def load_overload(self, signature: object, target_context: Any) -> Any:
        """The compiled code for a signature; None if it is not cached."""
        target_context.refresh()
        content = _folder.read(self._entry(signature, target_context.codegen()))
        return content and self.converter.rebuild(target_context, serialize.loads(content))

    def save_overload(self, signature: object, compiled: Any) -> None:
        if self.converter.check_cachable(compiled):
            _folder.write(self._entry(signature, compiled.codegen), serialize.dumps(self.converter.reduce(compiled)))

    def _entry(self, signature: object, codegen: Any) -> str:
        """The name of an entry: a digest of everything that the compiled code depends on."""
        facts = (
            *(self.function.__module__, self.function.__qualname__, self.function.__code__.co_code),
            jit_cache.source_digest(),  # functions that it calls
            *(sys.version, numba.__version__, getattr(numba.config, "BOUNDSCHECK", None)),
            *(signature, codegen.magic_tuple()),
        )
        return f"{hashlib.sha256(repr(facts).encode()).hexdigest()[:32]}.nbc"


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function for the argument types of its first call."""
    return _cached(numba.njit(nogil=True, error_model="numpy")(function))


def jit_fastmath(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop that only adds and multiplies: sums may be reordered, and so vectorised."""
    return _cached(numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})(function))


def jit_inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Inline a function into its compiled callers: a call would count references to every array it is passed."""
    dispatcher: Callable[..., Any] = numba.njit(nogil=True, error_model="numpy", inline="always")(function)
    return dispatcher


def _cached(dispatcher: Any) -> Callable[..., Any]:
    dispatcher._cache = VerifiedCache(dispatcher.py_func)  # noqa: SLF001  numba has no public way
    cached: Callable[..., Any] = dispatcher
    return cached


class Borrow(Protocol):
    """A function whose result has the type of its argument."""

    def __call__(self, value: Value, /) -> Value: ...


@intrinsic
def _borrow(_context: Any, value: Any) -> Any:
    """The same array, or tuple of arrays, without its owner: compiled code does not count references to it.

    An atomic operation for each use of an array takes longer than most loops of a beam search. The caller of the
    compiled function keeps the arrays alive, and they must not be returned.
    """

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, value, arguments[0])

    return value(value), generate


borrow = cast(Borrow, _borrow)


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()  # noqa: SLF001  numba's own way
    if isinstance(kind, types.BaseTuple):
        for index, part in enumerate(cast(Any, kind).types):
            inner = _without_owner(context, builder, part, builder.extract_value(value, index))
            value = builder.insert_value(value, inner, index)
    return value
