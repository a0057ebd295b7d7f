"""Numbers over time: tables of them, ranges of their rows, and windows that are cut without copying."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers import vectors
from seqloom.data.readers.text_files import DataError, Location, Source, delimited

MISSING = {"", "na", "nan", "n/a", "null", "none", "?"}
"""How files write that there is no number, in lower case."""

Numbers = NDArray[np.float64]


class Range(NamedTuple):
    """Rows of a file as it is written behind its name: ``x.csv[0.6:0.8]``, ``x.csv[:8640]``, ``x.csv[-100:]``."""

    text: str
    start: str
    stop: str

    def rows(self, length: int, *, what: str) -> tuple[int, int]:
        """The first row, and the one behind the last, of so many; a number with a point is a share of them."""
        shares = "." in self.start + self.stop
        start, stop = (
            default if not text else self._row(text, length, shares=shares and text.lstrip("-") in ("0", "1"))
            for text, default in ((self.start, 0), (self.stop, length))
        )
        if not 0 <= start < stop <= length:
            raise DataError(self.text, f"holds rows {start} to {stop}; a part of the {length} {what} is wanted")
        return start, stop

    def _row(self, text: str, length: int, *, shares: bool) -> int:
        if shares or "." in text:
            return math.floor(Fraction(text) * length)
        return int(text) + (length if text.startswith("-") else 0)


def split_range(path: Path) -> tuple[Path, Range]:
    """The file and the range behind its name; all of it where there is none."""
    match = re.fullmatch(r"(.+)\[([^\[\]]*)\]", path.name)
    if not match:
        return path, Range(str(path), "", "")
    bounds = match[2].split(":")
    number = r"-?\d+|\d*\.\d+|\d+\.|"
    if len(bounds) != 2 or not all(re.fullmatch(number, bound.strip()) for bound in bounds):
        raise DataError(
            str(path), f"found the range [{match[2]}]; two rows or shares are wanted, such as [0:8640] or [0.6:0.8]"
        )
    return path.with_name(match[1]), Range(str(path), bounds[0].strip(), bounds[1].strip())


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Numbers over time, and which of its rows are to be forecast; those before may be read."""

    location: Location  # of the first row
    values: Numbers  # (T, D)
    names: tuple[str, ...]  # of the columns
    start: int  # the first row to be forecast
    stop: int  # the row behind the last one
    lines: Sequence[int] = ()  # of the rows, where each has its own

    def at(self, row: int) -> Location:
        return self.location._replace(line=self.lines[row]) if row < len(self.lines) else self.location


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """What a model reads, and where the rows that it should forecast stand; all of it as views of the series."""

    series: Series
    begin: int  # the first row that is read
    end: int  # the row behind the last one
    known: bool  # whether the rows to be forecast exist

    def __len__(self) -> int:
        return self.end - self.begin

    @property
    def location(self) -> Location:
        return self.series.at(self.end - 1)

    @property
    def read(self) -> Numbers:  # (length, D)
        return self.series.values[self.begin : self.end]

    def after(self, rows: int, *, each: bool = False) -> Numbers:
        """The rows behind the last one read, (1, rows, D); ``each``: behind each one, (length, rows, D)."""
        begin = self.begin + 1 if each else self.end
        future = self.series.values[begin : self.end + rows]
        return np.lib.stride_tricks.sliding_window_view(future, rows, axis=0).swapaxes(1, 2)

    def season(self, rows: int, length: int, *, each: bool = False) -> Numbers:
        """The seasonal forecast, as ``after``: what was there whole seasons before, or else the last value."""
        ends = np.arange(self.begin + 1 if each else self.end, self.end + 1)[:, None]  # behind what is read
        back = np.arange(rows)[None] % length - length
        found: Numbers = self.series.values[np.where(ends + back < 0, ends - 1, ends + back)]
        return found


def windows(series: Series, history: int, *, horizon: int) -> Iterator[Window]:
    """A window for each run of ``horizon`` rows of the range, with the ``history`` rows before it, or what there is."""
    last = series.stop - horizon
    first = max(series.start, min(history, last))
    if not 1 <= first <= last:
        raise _too_short(series, horizon)
    for end in range(first, last + 1):
        yield Window(series, max(end - history, 0), end, known=True)


def pieces(series: Series, history: int, *, horizon: int) -> Iterator[Window]:
    """The range as windows of ``history`` rows (0: as one) that follow each other; behind each row are ``horizon``."""
    first, last = max(series.start - 1, 0), series.stop - horizon
    if first >= last:
        raise _too_short(series, horizon)
    for begin in range(first, last, history or last - first):
        yield Window(series, begin, min(begin + history if history else last, last), known=True)


def ending(series: Series, history: int) -> Window:
    """The window that ends where the range does; what comes then is not known."""
    return Window(series, max(series.stop - history, 0) if history else 0, series.stop, known=False)


def changes(parts: Sequence[Numbers], steps: int) -> Numbers:  # each (T, D) → (N, D)
    """The changes over so many steps within each part."""
    return np.concatenate([part[steps:] - part[:-steps] for part in parts])


def _too_short(series: Series, horizon: int) -> DataError:
    return DataError(
        series.location,
        f"rows {series.start} to {series.stop} are too few: wanted {horizon} to forecast and one before them to read",
    )


def table(
    source: Source,
    *,
    separator: str = ",",
    columns: Sequence[str] = (),  # names, or without a header numbers from 1; none: all
    date: str = "",  # the column that is no value; none: the first where it is not a number
    fill: bool = False,  # put the value before in place of a missing one
) -> Series:
    """A CSV file of numbers, one row for each step; a first record without any number is a header."""
    path, range_ = split_range(source) if isinstance(source, Path) else (source, Range("input", "", ""))
    records = delimited(path, separator=separator, header=False)
    location, first = next(records, (Location(range_.text, 1), []))
    if not first:
        raise DataError(location, "the file is empty; a CSV file of numbers is wanted")
    header = all(_number(field) is None for field in first) and not all(map(_is_missing, first))
    names = [name.strip() for name in first] if header else [str(number + 1) for number in range(len(first))]
    if len(set(names)) < len(names):
        raise DataError(location, "the names of the columns are not distinct")
    if header:
        location, first = next(records, (location, []))
    if not first:
        raise DataError(location, "there are no rows behind the names of the columns")
    kept = _choose(location, names, first, columns=columns, date=date)
    rows = [_row(location, first, [], kept=kept, fill=fill)]
    numbers = [location.line]
    for there, fields in records:
        rows.append(_row(there, fields, rows[-1], kept=kept, fill=fill))
        numbers.append(there.line)
    start, stop = range_.rows(len(rows), what="rows")
    return Series(location, np.array(rows), tuple(names[column] for column in kept), start, stop, numbers)


def sequences(source: Source, *, columns: Sequence[str] = (), fill: bool = False) -> Iterator[Series]:
    """Many series: those of an .npz or .ts file (a range counts whole series), or arrays (T,) or (T, D)."""
    for location, given in _arrays(source, fill=fill):
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(location, f"found {type(given).__name__}; an array of numbers is wanted") from None
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or not values.size:
            raise DataError(location, f"found numbers of shape {values.shape}; wanted (time, columns)")
        if not np.isfinite(values).all():
            step = int((~np.isfinite(values)).any(axis=1).argmax())
            raise DataError(location, f"step {step} holds a number that is missing or infinite")
        names = tuple(str(number + 1) for number in range(values.shape[1]))
        if columns and len(columns) != len(names) and not set(columns) <= set(names):
            raise DataError(location, f"found {len(names)} columns; {len(columns)} are wanted: {', '.join(columns)}")
        if columns and len(columns) != len(names):
            values = values[:, [names.index(name) for name in columns]]
        yield Series(location, values, tuple(columns) or names, 0, len(values))


def _arrays(source: Source, *, fill: bool) -> Iterator[tuple[Location, Any]]:
    if not isinstance(source, Path):
        for number, given in enumerate(source, start=1):
            yield Location("input", number), given
        return
    path, range_ = split_range(source)
    missing: vectors.Missing = "hold" if fill else "error"
    found = list((vectors.npz if path.suffix == ".npz" else vectors.ts)(path, missing=missing))
    start, stop = range_.rows(len(found), what="series")
    for sequence in found[start:stop]:
        yield sequence.location, sequence.values


def _choose(
    location: Location, names: Sequence[str], first: Sequence[str], *, columns: Sequence[str], date: str
) -> dict[int, str]:
    """The columns that are read, and their names."""
    for name in (*columns, *([date] if date else [])):
        if name not in names:
            near = "".join(f"did you mean {found}? " for found in get_close_matches(name, names, n=1))
            raise DataError(location, f"there is no column {name!r}: {near}The file has {', '.join(names)}")
    if columns:
        return {names.index(name): name for name in columns}
    skip = names.index(date) if date else -1
    if not date and _number(first[0]) is None and not _is_missing(first[0]):
        skip = 0
    kept = {column: name for column, name in enumerate(names) if column != skip}
    if not kept:
        raise DataError(location, "found no column of numbers")
    return kept


def _row(
    location: Location, fields: Sequence[str], before: Sequence[float], *, kept: dict[int, str], fill: bool
) -> list[float]:
    row = []
    for index, (column, name) in enumerate(kept.items()):
        value = _number(fields[column])
        if value is None and not _is_missing(fields[column]):
            raise DataError(location, f"column {name}: found {fields[column][:40]!r}; a number is wanted")
        if value is None and not fill:
            raise DataError(location, f"column {name}: a number is missing; fill = true takes the one before")
        if value is None and not before:
            raise DataError(location, f"column {name}: a number is missing, and there is none before to fill it with")
        row.append(before[index] if value is None else value)
    return row


def _number(field: str) -> float | None:
    """The number that a field holds; infinities are none."""
    try:
        value = float(field)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _is_missing(field: str) -> bool:
    return field.strip().lower() in MISSING
