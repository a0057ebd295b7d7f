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
    "PyLong_AsLongLong",
    "PyObject_CallNoArgs",
    "PyObject_GetAttr",
    "PyObject_GetItem",
    "PyObject_RichCompareBool",
    "PyObject_Size",
    "Py_DecRef",
)
"""All of the stable ABI."""

ENTRY, FIELD, ATTRIBUTE, SIZE, ELEMENT, SLOT, PRESENT, CALL, NUMBER, EQUAL = range(10)
"""Kinds of comparisons: an entry of a dictionary or of another mapping, an attribute, the size, an element of a list,
an entry of a dictionary by its position, that an entry is not None, the result of a call, the integer that a call
returns, and an attribute that is equal."""

_MODULE = """
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare void @PyErr_Clear()
declare ptr @PyList_GetItem(ptr, i64)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_GetItem(ptr, ptr)
declare i64 @PyObject_Size(ptr)
declare void @Py_DecRef(ptr)

define i64 @same(ptr %header) {
entry:
  %count = load i64, ptr %header
  %none_at = getelementptr i64, ptr %header, i64 1
  %none = load i64, ptr %none_at
  %table = getelementptr i64, ptr %header, i64 2
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
    i64 7, label %call
    i64 8, label %integer
    i64 9, label %equality
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
call:
  %returned = call ptr @PyObject_CallNoArgs(ptr %object)
  br label %owned
owned:
  %value = phi ptr [ %item, %mapping ], [ %field, %attribute ], [ %returned, %call ]
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
integer:
  %result = call ptr @PyObject_CallNoArgs(ptr %object)
  %no_result = icmp eq ptr %result, null
  br i1 %no_result, label %failed, label %convert
convert:
  %converted = call i64 @PyLong_AsLongLong(ptr %result)
  call void @Py_DecRef(ptr %result)
  %number_same = icmp eq i64 %converted, %expected
  br i1 %number_same, label %equal, label %failed
equality:
  %property = call ptr @PyObject_GetAttr(ptr %object, ptr %key)
  %no_property = icmp eq ptr %property, null
  br i1 %no_property, label %failed, label %equate
equate:
  %wanted = inttoptr i64 %expected to ptr
  %is_equal = call i32 @PyObject_RichCompareBool(ptr %property, ptr %wanted, i32 2)
  call void @Py_DecRef(ptr %property)
  %equality_holds = icmp eq i32 %is_equal, 1
  br i1 %equality_holds, label %equal, label %failed
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
        # Some are found in more than one way.
        different = {(each[0], id(each[1]), _position(each[0], each[2])): each for each in comparisons}
        self.comparisons = tuple(different.values())  # keeps the objects alive whose addresses are in the table
        words = [len(self.comparisons), id(None)]
        for kind, container, key, expected, expected_key in self.comparisons:
            value = expected if kind in (SIZE, NUMBER) else 0 if expected is _ABSENT else id(expected)
            words += (kind, id(container), _position(kind, key), value, id(expected_key))
        self._table = array("q", words)
        self.same: Callable[[], int] = partial(_function(), self._table.buffer_info()[0])
        """1 if all objects are the same as before, else 0."""


def _position(kind: int, key: object) -> int:
    return key if isinstance(key, int) and kind in (ELEMENT, SLOT) else id(key)


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


def compare_empty(container: Sized) -> Comparison:
    """That a container is empty, whatever it is now."""
    return SIZE, container, None, 0, None


def compare_none(table: dict[str, Any], key: str) -> Comparison:
    """Whether the value of a key is None."""
    return ENTRY if table[key] is None else PRESENT, table, key, None, None


def compare_result(function: Callable[[], object]) -> Comparison:
    """What a function returns."""
    return CALL, function, None, function(), None


def compare_number(function: Callable[[], int]) -> Comparison:
    """The integer that a function returns. It must not be negative: -1 stands for an error."""
    number = function()
    if number < 0:
        raise ValueError(f"expected a number of at least 0, got {number}")
    return NUMBER, function, None, number, None


def compare_attribute(target: object, name: str) -> Comparison:
    """An attribute that is the same object."""
    return ATTRIBUTE, target, name, getattr(target, name), None


def compare_equal(target: object, name: str) -> Comparison:
    """An attribute that is equal, such as a shape, which is another object each time."""
    return EQUAL, target, name, getattr(target, name), None


def compare_entry(table: dict[str, Any], key: str) -> Comparison:
    """An entry of a dictionary, or that there is none."""
    return ENTRY, table, key, table.get(key, _ABSENT), None


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
def _function() -> Callable[[int], int]:
    api = ctypes.pythonapi
    symbols = {name: ctypes.cast(getattr(api, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS}
    (address,) = jit_cache.load("identities", lambda: _MODULE, ("same",), **symbols)
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)
