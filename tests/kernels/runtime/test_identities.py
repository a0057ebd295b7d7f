"""The compiled comparison of objects against changes of every kind, each of which must be noticed."""

import functools
import gc
import sys
from collections.abc import Callable
from operator import attrgetter, itemgetter
from types import SimpleNamespace
from typing import Any

import pytest

from seqloom.kernels.runtime.identities import (
    Comparison,
    Identities,
    compare_attribute,
    compare_entry,
    compare_equal,
    compare_none,
    compare_number,
    compare_result,
    compare_size,
    compare_values,
)


class Holder:
    """A class with an attribute, and objects with a slot."""

    __slots__ = ("value",)
    shared = "shared"

    def __init__(self) -> None:
        self.value = [1]


class Counter:
    """Functions without arguments, and an attribute that is a new object each time."""

    def __init__(self) -> None:
        self.kept: object = object()
        self.value = 1 << 40

    def get(self) -> object:
        return self.kept

    def number(self) -> int:
        return self.value

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.value, 3)


def comparisons(target: Any) -> list[Comparison]:
    """Everything that can be compared in the things below."""
    found = [
        compare_values(itemgetter("a", "b"), target.table),
        compare_values(itemgetter("shared", "shared"), vars(Holder)),
        compare_values(attrgetter("value", "__class__"), target.slotted),
        compare_values(tuple, target.elements),
        compare_values(dict.values, target.ordered),
        compare_values(functools.partial(map, target.table.get), ("absent",)),
        compare_values(tuple, ()),
        [compare_size(target.table), compare_size(target.unique)],
        [compare_none(target.tensors, "weight"), compare_none(target.tensors, "bias")],
        [compare_result(target.counter.get), compare_number(target.counter.number)],
        [compare_attribute(target.counter, "kept"), compare_equal(target.counter, "shape")],
        [compare_entry(target.optional, "there"), compare_entry(target.optional, "missing")],
    ]
    return [comparison for group in found for comparison in group or ()]


def things() -> SimpleNamespace:
    ordered = {"first": object(), "removed": object(), "second": object()}
    del ordered["removed"]  # leaves a gap in the memory of the dictionary
    return SimpleNamespace(
        table={"a": [1], "b": None, "c": 3.5},
        slotted=Holder(),
        elements=["x", [2], None],
        ordered=ordered,
        unique={1, 2},
        tensors={"weight": object(), "bias": None},
        counter=Counter(),
        optional={"there": 1},
    )


def reorder(target: Any) -> None:
    target.ordered["first"] = target.ordered.pop("first")


def set_shared(_: Any) -> None:
    Holder.shared = "other"


def delete_slot(target: Any) -> None:
    del target.slotted.value


CHANGES: dict[str, Callable[[Any], object]] = {
    "an entry": lambda target: target.table.update(a=[1]),
    "an entry that was None": lambda target: target.table.update(b=0),
    "an entry that is deleted": lambda target: target.table.pop("a"),
    "a new entry": lambda target: target.table.update(d=1),
    "an entry that was absent, in the place of another": lambda target: (
        target.table.pop("c"),
        target.table.update(absent=None),
    ),
    "a class attribute": set_shared,
    "a slot": lambda target: setattr(target.slotted, "value", [1]),
    "a slot that is deleted": delete_slot,
    "an element": lambda target: target.elements.__setitem__(1, [2]),
    "the order of elements": lambda target: target.elements.reverse(),
    "fewer elements": lambda target: target.elements.pop(),
    "a value of an ordered dictionary": lambda target: target.ordered.update(second=1),
    "the order of a dictionary": reorder,
    "the size of a set": lambda target: target.unique.add(3),
    "a tensor that becomes None": lambda target: target.tensors.update(weight=None),
    "a tensor that was None": lambda target: target.tensors.update(bias=1),
    "a result and an attribute": lambda target: setattr(target.counter, "kept", object()),
    "a number": lambda target: setattr(target.counter, "value", (1 << 40) + 1),
    "a number that is no longer one": lambda target: setattr(target.counter, "value", "many"),
    "an attribute that is deleted": lambda target: delattr(target.counter, "kept"),
    "an optional entry": lambda target: target.optional.update(there=2),
    "an optional entry that was missing": lambda target: target.optional.update(missing=None),
    "a tensor that is gone": lambda target: target.tensors.pop("weight"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_noticed(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Holder, "shared", Holder.shared)  # restored after the test
    target = things()
    identities = Identities(comparisons(target))
    assert identities.same()
    CHANGES[change](target)
    assert not identities.same()


def test_other_changes_do_not_matter() -> None:
    target = things()
    identities = Identities(comparisons(target))
    target.table["c"] = 4.5
    target.tensors["weight"] = object()
    target.table["a"].append(2)
    assert identities.same()


def test_what_has_no_compiled_form() -> None:
    assert compare_values(tuple, {1, 2}) is None
    assert compare_values(tuple, functools.partial(print)) is None


def test_references_are_neither_lost_nor_kept() -> None:
    target = things()

    def counts() -> list[int]:
        counter = target.counter
        objects = target.slotted.value, Holder.shared, target.table["a"], counter.kept, counter.value
        return list(map(sys.getrefcount, objects))

    gc.collect()  # garbage of earlier tests may refer to shared objects
    before = counts()
    identities = Identities(comparisons(target))
    for _ in range(1000):
        assert identities.same()
    del identities
    gc.collect()
    assert counts() == before
