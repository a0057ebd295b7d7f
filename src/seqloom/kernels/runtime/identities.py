"""Compiled comparison of Python objects: whether entries, attributes and sizes are still the same objects.

It calls CPython's public functions with the GIL held, and takes a third of the time of a loop in Python.
"""

import ctypes
from array import array
from collections.abc import Callable, Iterable, Iterator, Sized
from functools import cache, partial
from operator import attrgetter, itemgetter
from typing import Any, cast

from seqloom.kernels.llvm import jit_cache

_FUNCTIONS = (
    "PyDict_GetItemWithError",
    "PyDict_Next",
    "PyErr_Clear",
    "PyList_GetItem",
    "PyObject_GetAttr",
    "PyObject_GetItem",
    "PyObject_Size",
    "Py_DecRef",
)
"""All of the stable ABI."""

ENTRY, FIELD, ATTRIBUTE, SIZE, ELEMENT, SLOT, PRESENT = range(7)
"""Kinds of comparisons: an entry of a dictionary or of another mapping, an attribute, the size, an element of a list,
an entry of a dictionary by its position, and that an entry is not None."""

_MODULE = """
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare void @PyErr_Clear()
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_GetItem(ptr, ptr)
declare i64 @PyObject_Size(ptr)
declare void @Py_DecRef(ptr)

define i64 @same(ptr %table, i64 %count, i64 %none) {
entry:
  %position = alloca i64
  %found_key = alloca ptr
  %found_value = alloca ptr
  br label %next
next:
  %index = phi i64 [ 0, %entry ], [ %following, %equal ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %compare, label %done
compare:
  %following = add i64 %index, 1
  %offset = mul i64 %index, 5
  %at = getelementptr i64, ptr %table, i64 %offset
  %kind = load i64, ptr %at
  %object_at = getelementptr i64, ptr %at, i64 1
  %object = load ptr, ptr %object_at
  %key_at = getelementptr i64, ptr %at, i64 2
  %key = load ptr, ptr %key_at
  %number = load i64, ptr %key_at
  %expected_at = getelementptr i64, ptr %at, i64 3
  %expected = load i64, ptr %expected_at
  switch i64 %kind, label %failed [
    i64 0, label %dictionary
    i64 1, label %mapping
    i64 2, label %attribute
    i64 3, label %size
    i64 4, label %element
    i64 5, label %slot
    i64 6, label %present
  ]
dictionary:
  %borrowed = call ptr @PyDict_GetItemWithError(ptr %object, ptr %key)
  %entry_value = ptrtoint ptr %borrowed to i64
  %entry_same = icmp eq i64 %entry_value, %expected
  br i1 %entry_same, label %equal, label %failed
mapping:
  %item = call ptr @PyObject_GetItem(ptr %object, ptr %key)
  br label %owned
attribute:
  %field = call ptr @PyObject_GetAttr(ptr %object, ptr %key)
  br label %owned
owned:
  %value = phi ptr [ %item, %mapping ], [ %field, %attribute ]
  %missing = icmp eq ptr %value, null
  br i1 %missing, label %failed, label %release
release:
  call void @Py_DecRef(ptr %value)
  %address = ptrtoint ptr %value to i64
  %owned_same = icmp eq i64 %address, %expected
  br i1 %owned_same, label %equal, label %failed
size:
  %length = call i64 @PyObject_Size(ptr %object)
  %size_same = icmp eq i64 %length, %expected
  br i1 %size_same, label %equal, label %failed
element:
  %listed = call ptr @PyList_GetItem(ptr %object, i64 %number)
  %listed_value = ptrtoint ptr %listed to i64
  %element_same = icmp eq i64 %listed_value, %expected
  br i1 %element_same, label %equal, label %failed
slot:
  store i64 %number, ptr %position
  %any = call i32 @PyDict_Next(ptr %object, ptr %position, ptr %found_key, ptr %found_value)
  %exists = icmp ne i32 %any, 0
  br i1 %exists, label %slot_entry, label %failed
slot_entry:
  %slot_key = load i64, ptr %found_key
  %slot_value = load i64, ptr %found_value
  %expected_key_at = getelementptr i64, ptr %at, i64 4
  %expected_key = load i64, ptr %expected_key_at
  %key_same = icmp eq i64 %slot_key, %expected_key
  %value_same = icmp eq i64 %slot_value, %expected
  %both_same = and i1 %key_same, %value_same
  br i1 %both_same, label %equal, label %failed
present:
  %some = call ptr @PyDict_GetItemWithError(ptr %object, ptr %key)
  %some_value = ptrtoint ptr %some to i64
  %absent = icmp eq i64 %some_value, 0
  %is_none = icmp eq i64 %some_value, %none
  %nothing = or i1 %absent, %is_none
  br i1 %nothing, label %failed, label %equal
equal:
  br label %next
failed:
  call void @PyErr_Clear()
  ret i64 0
done:
  ret i64 1
}
"""

Comparison = tuple[int, Any, Any, Any, Any]
"""Kind, object, key or position, expected value, expected key."""


_ABSENT = object()  # stands for the value of a key that a dictionary does not have


class Identities:
    """Objects to be compared with what they are later."""

    def __init__(self, comparisons: Iterable[Comparison]) -> None:
        self._alive = tuple(comparisons)  # as are the objects whose addresses are in the table
        words: list[int] = []
        for kind, container, key, expected, expected_key in self._alive:
            position = key if kind in (ELEMENT, SLOT) else id(key)
            value = expected if kind == SIZE else 0 if expected is _ABSENT else id(expected)
            words += (kind, id(container), position, value, id(expected_key))
        self._table = array("q", words)
        self._arguments = self._table.buffer_info()[0], len(self._alive), id(None)
        self._function = _function()

    def same(self) -> bool:
        """Whether all objects are the same as before."""
        return bool(self._function(*self._arguments))


def compare_values(get: Callable[[Any], Iterable[object]], target: Any) -> list[Comparison] | None:
    """``get(target)`` element by element, for some functions of the standard library; None for others."""
    if isinstance(get, attrgetter | itemgetter):
        keys = cast("tuple[str, ...]", get.__reduce__()[1])
        kind = ATTRIBUTE if isinstance(get, attrgetter) else ENTRY if type(target) is dict else FIELD
        return [(kind, target, key, value, None) for key, value in zip(keys, get(target), strict=True)]
    if isinstance(get, partial):  # map(table.get, keys)
        table = get.args[0].__self__
        return [(ENTRY, table, key, table.get(key, _ABSENT), None) for key in target]
    if type(target) is list:
        return [(ELEMENT, target, index, value, None) for index, value in enumerate(target)]
    if type(target) is dict:
        return list(_slots(target))
    return [] if target == () else None


def compare_size(container: Sized) -> Comparison:
    """The size of a container."""
    return SIZE, container, None, len(container), None


def compare_none(table: dict[str, Any], key: str) -> Comparison:
    """Whether the value of a key is None."""
    return ENTRY if table[key] is None else PRESENT, table, key, None, None


def _slots(table: dict[Any, Any]) -> Iterator[Comparison]:
    """The entries of a dictionary, each with the position in memory from which PyDict_Next finds it."""
    position, ignored = ctypes.c_ssize_t(0), ctypes.c_void_p()
    for key, value in table.items():
        yield SLOT, table, position.value, value, key
        _next_entry()(table, ctypes.byref(position), ctypes.byref(ignored), ctypes.byref(ignored))


@cache
def _next_entry() -> Callable[..., int]:
    function = ctypes.pythonapi.PyDict_Next
    function.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return function


@cache
def _function() -> Callable[[int, int, int], int]:
    api = ctypes.pythonapi
    symbols = {name: ctypes.cast(getattr(api, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS}
    (address,) = jit_cache.load("identities", lambda: _MODULE, ("same",), **symbols)
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)
