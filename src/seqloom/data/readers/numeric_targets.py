"""Targets that are numbers: read from labels and columns, and told apart from classes."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.data.readers.columns import LabelColumn, label_columns
from seqloom.data.readers.decimal_marks import DecimalMark, find_marks, has_mark, to_point, unit_of, writes_number
from seqloom.data.readers.table_values import PlainNumber, as_label, as_number, is_missing, with_hyphen_minus
from seqloom.data.readers.text_files import DataError, Location, pluralize

TargetType = Literal["auto", "class", "number"]
Numbers = NDArray[np.float64]
Target = str | Numbers
"""The name of a class, or numbers (K,)."""

MIN_LABELS = 20  # fewer do not show whether whole numbers recur
MAX_MISTAKES = 5, 0.1  # labels that are no numbers among those that are: as many, or their share
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


def as_numbers(
    location: Location, values: Sequence[Any], *, name: str = "target", decimal: DecimalMark = ""
) -> Numbers | None:
    """Finite numbers (K,); None: all of them are missing."""
    if values and all(is_missing(value) or value == "?" for value in values):
        return None
    numbers = np.empty(len(values))
    for index, value in enumerate(values):
        plain = _plain(value, decimal) if isinstance(value, str) else value
        number = None if isinstance(value, bool) or plain is None else as_number(plain)
        missing = is_missing(value) or value == "?"
        if number is None and not missing:
            raise DataError(location, f"{name!r}: {_no_number(str(value), decimal)}")
        if number is None or not math.isfinite(number):
            shown = "a missing value" if missing else str(value)
            raise DataError(location, f"{name!r}: expected a finite number as the target, found {shown}")
        numbers[index] = number
    if not len(numbers):
        raise DataError(location, f"{name!r}: expected numbers as the target, found an empty list")
    return numbers


def _plain(label: str, decimal: DecimalMark) -> str | None:
    """A label with a decimal point, if it is a number; None: it is one with another decimal mark."""
    if isinstance(label, PlainNumber) or not decimal or not writes_number(label):
        return with_hyphen_minus(label)
    return to_point(label, decimal) if has_mark(label, decimal) else None


def _no_number(value: str, decimal: DecimalMark) -> str:
    """What is wrong with a label that should be a number, and what to do."""
    if writes_number(value):
        mark = "comma" if decimal == "," else "point"
        return (
            f"{value.strip()[:40]!r} is no number with a decimal {mark}"
            + (", as others of the column are" if decimal else "")
            + '; task.decimal = "," reads decimal commas, "." thousands separators'
        )
    unit = unit_of(value)
    return f"expected a number, found {value[:40]!r}; {f'remove {unit} from the numbers' if unit else AS_CLASSES}"


def to_number(
    location: Location, target: Target, *, name: str = "target", decimal: DecimalMark = ""
) -> Numbers:  # (K,)
    """A target of a task that predicts numbers."""
    if not isinstance(target, str):
        return target
    numbers = as_numbers(location, [target], name=name, decimal=decimal)
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


def column_name(column: LabelColumn | None, default: str = "target") -> str:
    """What a message calls the configured column: by its name, if it has one."""
    return column if isinstance(column, str) and column else default


def target_names(column: LabelColumn | None, count: int) -> tuple[str, ...]:
    """The names of targets: those of their columns, where known."""
    columns = label_columns(column)
    if len(columns) == count and all(isinstance(name, str) for name in columns):
        return tuple(map(str, columns))
    return ("target",) if count == 1 else tuple(f"target {number + 1}" for number in range(count))


class TargetFormat(NamedTuple):
    """What labels are, and how their numbers are written."""

    kind: Literal["class", "number"]
    decimal: DecimalMark = ""  # of numbers that are text
    note: str = ""  # where that is not evident


def detect_targets(
    labels: Iterable[tuple[Location, Target | None]],
    *,
    name: str = "label",  # of their column
    target_type: TargetType = "auto",
    decimal: DecimalMark = "",  # decimal mark, where the labels leave it open
) -> TargetFormat:
    """Whether labels are classes or numbers, and whether they have decimal commas.

    Labels are numbers if some of them have a fraction, or if they are whole numbers most of which occur only once,
    unless they only count the rows. DataError if they do not show whether a comma is that of decimals or of thousands,
    or if a few of many numbers are none.
    """
    known: list[str] = []
    mistakes: list[tuple[Location, str]] = []
    first: Location | None = None
    labels = iter(labels)
    for location, label in labels:
        if label is None:
            continue
        if not isinstance(label, str):
            rest = (other for _, other in labels if isinstance(other, np.ndarray))
            note = "" if target_type == "number" else _describe_numbers([label, *rest])
            return TargetFormat("number", decimal, note)
        if as_number(label) is not None or writes_number(label):
            first = first or location
            known.append(label)
            continue
        mistakes.append((location, label))
        if target_type != "auto" or _are_many(mistakes, known):
            break
    few_numbers = len(known) < MIN_LABELS or len(mistakes) > MAX_MISTAKES[1] * len(known)
    if target_type == "number" and (mistakes or first is None):
        return TargetFormat("number", decimal)
    if first is None or (mistakes and few_numbers):
        return TargetFormat("class", decimal, _describe_units(mistakes))
    texts = [label for label in known if writes_number(label) and not isinstance(label, PlainNumber)]
    try:
        marks = find_marks(first, [name], [texts], preferred=decimal)
    except DataError as error:
        raise DataError(error.location, f"{error.message}; {AS_CLASSES}") from None
    mark: DecimalMark = marks.decimal({0}) if texts else decimal
    written = marks.describe([name], {0})
    if target_type == "number":
        return TargetFormat("number", mark, written)
    plain = (number for label in known if (number := _plain(label, mark)) is not None)
    kind, note = _detect_plain(Counter(number for number in plain if as_number(number) is not None))
    if kind == "class":
        return TargetFormat("class", "", note)
    if mistakes:
        location, label = mistakes[0]
        counted = f"{len(known):,} of {len(known) + len(mistakes):,} labels are numbers"
        raise DataError(location, f"{name!r}: {_no_number(label, decimal)} ({counted})")
    return TargetFormat("number", mark, "; ".join(filter(None, (written, note))))


def _describe_units(labels: Sequence[tuple[Location, str]]) -> str:
    """A sentence about labels that are amounts, such as prices; empty if they are not."""
    units = [unit_of(label) for _, label in labels]
    if not units or not all(units):
        return ""
    return f"labels such as {labels[0][1]!r} are taken as classes; to predict numbers, remove {units[0]} from them"


def _are_many(mistakes: Sequence[object], numbers: Sequence[object]) -> bool:
    most, share = MAX_MISTAKES
    return len(mistakes) > max(most, share * len(numbers))


def _describe_numbers(targets: Sequence[Numbers]) -> str:  # each (K,), or (T, K)
    """One sentence about targets that cannot be classes."""
    known = [target for target in targets if target.size]
    counts = {target.shape[-1] for target in known}
    if len(counts) != 1:  # different ones are reported when the targets are fitted
        return ""
    (count,) = counts
    low, high = min(target.min() for target in known), max(target.max() for target in known)
    return f"targets are {f'{count} numbers each' if count > 1 else 'numbers'}, {low:.6g} to {high:.6g}"


def _detect_plain(labels: Counter[str]) -> tuple[Literal["class", "number"], str]:
    """Whether numbers with decimal points are classes or targets, and a sentence where that is not evident."""
    counts = Counter({label: times for label, times in labels.items() if math.isfinite(float(label))})
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
