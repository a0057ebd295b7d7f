"""Missing values of tables: how many each column has, how many of them follow each other, and where the first is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.text_files import DataError, Location

SHOWN = 8  # columns in a message
FILLED = " missing and repeat"
"""What every sentence about filled values contains."""


class MissingColumn(NamedTuple):
    """The missing values of one column."""

    name: str
    total: int
    longest: int  # most of them in a row
    first: Location
    is_target: bool = False

    def describe(self, file: str) -> str:
        """Its name and counts in words; ``file`` is named already."""
        stretch = f"at most {self.longest:,} in a row, " if self.longest > 1 else ""
        first = f"line {self.first.line}" if self.first.file == file else str(self.first)
        return f"{self.name} {self.total:,} ({stretch}first {first})"


class MissingValueError(DataError):
    """Values are missing; ``remedy`` are the settings of the task with which they are filled."""

    def __init__(self, location: Location | str, message: str, remedy: Mapping[str, Any]) -> None:
        super().__init__(location, message)
        self.remedy = dict(remedy)


def missing_columns(
    mask: NDArray[np.bool_],  # (T, D), True: missing
    names: Sequence[str],
    at: Callable[[int], Location],  # the location of a row
) -> tuple[MissingColumn, ...]:
    """The columns that have missing values, in the order of the table."""
    return tuple(
        MissingColumn(name, int(column.sum()), _longest_stretch(column), at(int(column.argmax())))
        for name, column in zip(names, mask.T, strict=True)
        if column.any()
    )


def _longest_stretch(column: NDArray[np.bool_]) -> int:  # (T,)
    edges = np.flatnonzero(np.diff(column, prepend=False, append=False))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def merge(columns: Iterable[MissingColumn]) -> tuple[MissingColumn, ...]:
    """One entry for each name, of columns of several tables or sequences."""
    merged: dict[str, MissingColumn] = {}
    for column in columns:
        known = merged.get(column.name, column._replace(total=0))
        merged[column.name] = known._replace(
            total=known.total + column.total, longest=max(known.longest, column.longest)
        )
    return tuple(merged.values())


def describe(columns: Sequence[MissingColumn], file: str = "") -> str:
    """The columns with their counts, in words; ``file`` is named already."""
    more = f", and {len(columns) - SHOWN:,} more columns" if len(columns) > SHOWN else ""
    return ", ".join(column.describe(file) for column in columns[:SHOWN]) + more


def describe_filled(columns: Sequence[MissingColumn]) -> str:
    """What was filled, in words; targets among them are named."""
    total = sum(column.total for column in columns)
    values = f"1 value was{FILLED}s" if total == 1 else f"{total:,} values were{FILLED}"
    targets = [column.name for column in columns if column.is_target]
    learned = f"; {', '.join(targets[:SHOWN])}: the model learns and is scored on values that nobody has measured"
    return f"{values} the previous one: {describe(columns)}{learned if targets else ''}"


def hold(values: NDArray[np.float64], mask: NDArray[np.bool_]) -> NDArray[np.float64]:  # both (T, D)
    """The values, those of the mask replaced by the last one before them; the first row must have none."""
    rows = np.where(mask, 0, np.arange(len(values))[:, None])
    held: NDArray[np.float64] = np.take_along_axis(values, np.maximum.accumulate(rows, axis=0), axis=0)
    return held


def fill_advice(*, is_fitted: bool) -> str:
    """What to do about missing values; a trained model has to be trained again."""
    again = "train again with " if is_fitted else ""
    return f"{again}task.fill_missing=true{', which' if is_fitted else ''} repeats the previous one"


def without_gaps(
    values: NDArray[np.float64],  # (T, D), NaN: missing
    names: Sequence[str],
    at: Callable[[int], Location],
    *,
    ahead: int,  # rows at the end in which only some columns have values
    required: NDArray[np.bool_],  # (D,), columns that have values there, too
    held: NDArray[np.bool_],  # (D,), columns whose last value is valid there, too
    fill: bool,  # repeat the previous value
    is_read: NDArray[np.bool_] | None = None,  # (T, D), values that are read, of which none may be missing; None: all
    is_fitted: bool = False,  # the model is trained, so that no setting changes any more
) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
    """The values without gaps, and which of them were missing (None: none); DataError if they cannot be filled."""
    missing = np.isnan(values)
    is_ahead = (np.arange(len(values)) >= len(values) - ahead)[:, None]
    gaps = missing & (~is_ahead | required)
    needed = gaps if is_read is None else gaps & is_read
    filled = hold(values, gaps | (missing & is_ahead & held))
    unknown = needed & np.isnan(filled)  # without a value before them
    if unknown.any() or (needed.any() and not fill):
        columns = missing_columns(needed, names, at)
        row, place = (int(index) for index in np.argwhere(needed if not fill else unknown)[0])
        problem = f"column {names[place]}: missing value"
        total = sum(column.total for column in columns)
        everywhere = f". In all, {total:,} values are missing: {describe(columns, at(row).file)}" if total > 1 else ""
        if not fill:
            remedy = f"; {fill_advice(is_fitted=is_fitted)}"
            raise MissingValueError(at(row), f"{problem}{remedy}{everywhere}", {"fill_missing": True})
        raise DataError(at(row), f"{problem} without a previous one to repeat{everywhere}")
    if (leading := np.isnan(filled) & gaps).any():  # in rows that are not read: the next value
        filled = np.where(leading, hold(values[::-1], gaps[::-1])[::-1], filled)
    return filled, gaps if gaps.any() else None
