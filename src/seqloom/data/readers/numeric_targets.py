"""Targets that are numbers: read from labels and columns, and told apart from classes."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.data.readers.columns import LabelColumn
from seqloom.data.readers.table_values import as_label, as_number, is_missing
from seqloom.data.readers.text_files import DataError, Location, pluralize

TargetType = Literal["auto", "class", "number"]
Numbers = NDArray[np.float64]
Target = str | Numbers
"""The name of a class, or numbers (K,)."""

MIN_LABELS = 20  # fewer do not show whether whole numbers recur
AS_CLASSES = 'task.target_type = "class" takes the labels as classes'
AS_NUMBERS = 'task.target_type = "number" predicts numbers instead'


class AnyNumber:
    """Contains every text that is a number."""

    def __contains__(self, value: object) -> bool:
        number = as_number(value)
        return number is not None and math.isfinite(number)


ANY_NUMBER = AnyNumber()


def as_target(location: Location, value: object, *, name: str) -> Target | None:
    """A label, or the numbers of a list; None: missing."""
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
        return as_numbers(location, list(value), name=name)
    return as_label(location, value, name=name)


def as_numbers(location: Location, values: Sequence[Any], *, name: str = "target") -> Numbers | None:
    """Finite numbers (K,); None: all of them are missing."""
    if values and all(is_missing(value) or value == "?" for value in values):
        return None
    numbers = np.empty(len(values))
    for index, value in enumerate(values):
        number = None if isinstance(value, bool) else as_number(value)
        if number is None:
            raise DataError(location, f"{name!r}: expected a number, found {str(value)[:40]!r}; {AS_CLASSES}")
        if not math.isfinite(number):
            shown = "a missing value" if is_missing(value) or value == "?" else str(value)
            raise DataError(location, f"{name!r}: expected a finite number as the target, found {shown}")
        numbers[index] = number
    if not len(numbers):
        raise DataError(location, f"{name!r}: expected numbers as the target, found an empty list")
    return numbers


def to_number(location: Location, target: Target) -> Numbers:  # (K,)
    """A target of a task that predicts numbers."""
    if not isinstance(target, str):
        return target
    numbers = as_numbers(location, [target])
    if numbers is None:
        raise DataError(location, "the target is missing")
    return numbers


def finite(location: Location, values: ArrayLike) -> Numbers:
    """Numbers of a file or an array as targets; DataError if one of them is missing or infinite."""
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        place = np.argwhere(~np.isfinite(numbers))[0].tolist()
        where = f"element {place[0] + 1}: " if numbers.ndim > 1 else ""
        raise DataError(location, f"{where}expected a finite number as the target, found {numbers[tuple(place)]}")
    return numbers


def label_columns(column: LabelColumn | None) -> tuple[int | str, ...]:
    """The configured columns; empty: none is."""
    if column is None or column == "":
        return ()
    return column if isinstance(column, tuple) else (column,)


def target_names(column: LabelColumn | None, count: int) -> tuple[str, ...]:
    """The names of targets: those of their columns, where known."""
    columns = label_columns(column)
    if len(columns) == count and all(isinstance(name, str) for name in columns):
        return tuple(map(str, columns))
    return ("target",) if count == 1 else tuple(f"target {number + 1}" for number in range(count))


def detect(labels: Iterable[Target | None]) -> tuple[Literal["class", "number"], str]:
    """Whether labels are classes or numbers, and a sentence where that is not evident.

    Labels are numbers if some of them have a fraction, or if they are whole numbers most of which occur only once,
    unless they only count the rows.
    """
    counts: Counter[str] = Counter()
    for label in labels:
        if label is None:
            continue
        if not isinstance(label, str):
            return "number", ""
        number = as_number(label)
        if number is None:
            return "class", ""
        if math.isfinite(number):
            counts[label] += 1
    if not counts:
        return "class", ""
    in_order = list(map(float, counts))
    values = sorted(in_order)
    span = f"{next(name for name in counts if float(name) == values[0])} to " + next(
        name for name in counts if float(name) == values[-1]
    )
    if not all(map(float.is_integer, values)):
        return "number", f"targets are numbers, {span}; {AS_CLASSES}"
    single = sum(times == 1 for times in counts.values())
    counts_rows = single == counts.total() and in_order in (values, values[::-1])  # an identifier
    if counts.total() >= MIN_LABELS and 2 * single > counts.total() and not counts_rows:
        return "number", f"targets are numbers, {span}, most of which occur once; {AS_CLASSES}"
    if len(counts) <= 2 or counts_rows:
        return "class", ""
    return "class", f"labels are {pluralize(len(counts), 'whole number')}, {span}, taken as classes; {AS_NUMBERS}"
