"""Time series: tables of numbers, ranges of their rows, and windows as views without copies."""

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

from seqloom.data.readers import tables, vectors
from seqloom.data.readers.text_files import DataError, Location, Source, delimited

MISSING = {"", "na", "nan", "n/a", "null", "none", "?"}
"""How files write a missing value, in lowercase."""

Numbers = NDArray[np.float64]


class Range(NamedTuple):
    """A range of rows after a file name: ``x.csv[0.6:0.8]``, ``x.csv[:8640]``, ``x.csv[-100:]``."""

    text: str
    start: str
    stop: str

    def rows(self, length: int, *, noun: str) -> tuple[int, int]:
        """First row and end of the range among ``length`` rows; a number with a decimal point is a fraction of them."""
        fractions = "." in self.start + self.stop
        start, stop = (
            default if not text else self._row(text, length, fraction=fractions and text.lstrip("-") in ("0", "1"))
            for text, default in ((self.start, 0), (self.stop, length))
        )
        if not 0 <= start < stop <= length:
            raise DataError(self.text, f"expected a non-empty range of the {length} {noun}, found {start} to {stop}")
        return start, stop

    def _row(self, text: str, length: int, *, fraction: bool) -> int:
        if fraction or "." in text:
            return math.floor(Fraction(text) * length)
        return int(text) + (length if text.startswith("-") else 0)


def split_range(path: Path) -> tuple[Path, Range]:
    """A file name and the range after it; all rows if there is none."""
    match = re.fullmatch(r"(.+)\[([^\[\]]*)\]", path.name)
    if not match:
        return path, Range(str(path), "", "")
    bounds = match[2].split(":")
    number = r"-?\d+|\d*\.\d+|\d+\.|"
    if len(bounds) != 2 or not all(re.fullmatch(number, bound.strip()) for bound in bounds):
        raise DataError(
            str(path), f"expected a range of rows or fractions such as [0:8640] or [0.6:0.8], found [{match[2]}]"
        )
    return path.with_name(match[1]), Range(str(path), bounds[0].strip(), bounds[1].strip())


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A time series and the range of rows to forecast; earlier rows serve as history."""

    location: Location  # location of the first row
    values: Numbers  # (T, D)
    names: tuple[str, ...]  # names of the columns
    start: int  # first row to forecast
    stop: int  # end of the rows to forecast
    lines: Sequence[int] = ()  # line of each row; empty if the file has no lines

    def at(self, row: int) -> Location:
        return self.location._replace(line=self.lines[row]) if row < len(self.lines) else self.location


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The rows that a model reads and those that it forecasts, as views of the series."""

    series: Series
    start: int  # first row of the history
    stop: int  # end of the history
    known: bool  # whether the rows to forecast exist

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def location(self) -> Location:
        return self.series.at(self.stop - 1)

    @property
    def history(self) -> Numbers:  # (length, D)
        return self.series.values[self.start : self.stop]

    def future(self, rows: int, *, every_step: bool = False) -> Numbers:
        """The rows after the history, (1, rows, D); ``every_step``: after each of its rows, (length, rows, D)."""
        start = self.start + 1 if every_step else self.stop
        future = self.series.values[start : self.stop + rows]
        return np.lib.stride_tricks.sliding_window_view(future, rows, axis=0).swapaxes(1, 2)

    def seasonal_forecast(self, rows: int, length: int, *, every_step: bool = False) -> Numbers:
        """The seasonal naive forecast, shaped as ``future``: the last season repeated, or else the last value."""
        ends = np.arange(self.start + 1 if every_step else self.stop, self.stop + 1)[:, None]
        back = np.arange(rows)[None] % length - length
        forecast: Numbers = self.series.values[np.where(ends + back < 0, ends - 1, ends + back)]
        return forecast


def windows(series: Series, history: int, *, horizon: int) -> Iterator[Window]:
    """A window for each run of ``horizon`` rows in the range, with up to ``history`` rows before it."""
    last = series.stop - horizon
    first = max(series.start, min(history, last))
    if not 1 <= first <= last:
        raise _too_short(series, horizon)
    for stop in range(first, last + 1):
        yield Window(series, max(stop - history, 0), stop, known=True)


def consecutive_windows(series: Series, history: int, *, horizon: int) -> Iterator[Window]:
    """The range cut into windows of ``history`` rows (0: a single one), each row followed by ``horizon`` more."""
    first, last = max(series.start - 1, 0), series.stop - horizon
    if first >= last:
        raise _too_short(series, horizon)
    for start in range(first, last, history or last - first):
        yield Window(series, start, min(start + history if history else last, last), known=True)


def last_window(series: Series, history: int) -> Window:
    """The window at the end of the range, whose future is unknown."""
    return Window(series, max(series.stop - history, 0) if history else 0, series.stop, known=False)


def differences(parts: Sequence[Numbers], steps: int) -> Numbers:  # each (T, D) → (N, D)
    """The differences over ``steps`` steps within each part."""
    return np.concatenate([part[steps:] - part[:-steps] for part in parts])


def _too_short(series: Series, horizon: int) -> DataError:
    return DataError(
        series.location,
        f"expected at least {horizon} rows to forecast and one before them, found rows {series.start} to {series.stop}",
    )


def table(
    source: Source,
    *,
    separator: str = ",",
    columns: Sequence[str] = (),  # names, or numbers from 1 without a header; empty: all
    date: str = "",  # column to skip; empty: the first one if it is not a number
    fill: bool = False,  # replace a missing value by the previous one
) -> Series:
    """A CSV file of numbers, one row per time step; a first record without numbers is a header."""
    path, range_ = split_range(source) if isinstance(source, Path) else (source, Range("input", "", ""))
    named = not isinstance(source, Path) and tables.is_table(source)
    records = _named_records(source) if named else delimited(path, separator=separator, header=False)
    location, first = next(records, (Location(range_.text, 1), []))
    if not first:
        raise DataError(location, "expected a CSV file of numbers, found an empty file")
    header = named or (all(_number(field) is None for field in first) and not all(map(_is_missing, first)))
    names = [name.strip() for name in first] if header else [str(number + 1) for number in range(len(first))]
    if len(set(names)) < len(names):
        raise DataError(location, "duplicate column names")
    if header:
        location, first = next(records, (location, []))
    if not first:
        raise DataError(location, "no rows after the header")
    selected = _select_columns(location, names, first, columns=columns, date=date)
    rows = [_row(location, first, [], columns=selected, fill=fill)]
    lines = [location.line]
    for row_location, fields in records:
        rows.append(_row(row_location, fields, rows[-1], columns=selected, fill=fill))
        lines.append(row_location.line)
    start, stop = range_.rows(len(rows), noun="rows")
    return Series(location, np.array(rows), tuple(selected.values()), start, stop, lines)


def sequences(source: Source, *, columns: Sequence[str] = (), fill: bool = False) -> Iterator[Series]:
    """Many series: those of an .npz or .ts file (a range selects whole series), or arrays (T,) or (T, D)."""
    for location, array in _arrays(source, fill=fill):
        try:
            values = np.asarray(array, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(location, f"expected an array of numbers, found {type(array).__name__}") from None
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or not values.size:
            raise DataError(location, f"expected numbers (time, columns), found shape {values.shape}")
        if not np.isfinite(values).all():
            step = int((~np.isfinite(values)).any(axis=1).argmax())
            raise DataError(location, f"step {step}: a value is missing or infinite")
        names = tuple(str(number + 1) for number in range(values.shape[1]))
        if columns and len(columns) != len(names) and not set(columns) <= set(names):
            raise DataError(location, f"expected {len(columns)} columns ({', '.join(columns)}), found {len(names)}")
        if columns and len(columns) != len(names):
            values = values[:, [names.index(name) for name in columns]]
        yield Series(location, values, tuple(columns) or names, 0, len(values))


def one_series(source: Any) -> Any:
    """A list with the only series that a list of numbers or an array (T,) or (T, D) is; other values unchanged."""
    if isinstance(source, np.ndarray):
        return [source] if source.ndim <= 2 else list(source)
    return [np.array(source)] if len(source) and all(isinstance(value, int | float) for value in source) else source


def _named_records(source: Any) -> Iterator[tuple[Location, list[str]]]:
    """The names of the columns of a table in memory, then its rows as texts."""
    content = tables.read_table(source)
    yield Location("input", 0), list(content.names)
    for location, values in content.records:
        yield location, ["" if tables.is_missing(value) else str(value) for value in values]


def _arrays(source: Source, *, fill: bool) -> Iterator[tuple[Location, Any]]:
    if not isinstance(source, Path):
        for number, array in enumerate(source, start=1):
            yield Location("input", number), array
        return
    path, range_ = split_range(source)
    missing: vectors.Missing = "hold" if fill else "error"
    read = vectors.npz if path.suffix == ".npz" else vectors.ts
    items = list(read(path, missing=missing))
    start, stop = range_.rows(len(items), noun="series")
    for item in items[start:stop]:
        yield item.location, item.values


def _select_columns(
    location: Location, names: Sequence[str], first: Sequence[str], *, columns: Sequence[str], date: str
) -> dict[int, str]:
    """The names of the selected columns by index."""
    for name in (*columns, *([date] if date else [])):
        if name not in names:
            similar = "".join(f"did you mean {other}? " for other in get_close_matches(name, names, n=1))
            raise DataError(location, f"no column {name!r}: {similar}The file has {', '.join(names)}")
    if columns:
        return {names.index(name): name for name in columns}
    skipped = names.index(date) if date else -1
    if not date and _number(first[0]) is None and not _is_missing(first[0]):
        skipped = 0
    selected = {column: name for column, name in enumerate(names) if column != skipped}
    if not selected:
        raise DataError(location, "no column of numbers")
    return selected


def _row(
    location: Location, fields: Sequence[str], previous: Sequence[float], *, columns: dict[int, str], fill: bool
) -> list[float]:
    row = []
    for index, (column, name) in enumerate(columns.items()):
        value = _number(fields[column])
        if value is None and not _is_missing(fields[column]):
            raise DataError(location, f"column {name}: expected a number, found {fields[column][:40]!r}")
        if value is None and not fill:
            raise DataError(location, f"column {name}: missing value; fill_missing = true repeats the previous one")
        if value is None and not previous:
            raise DataError(location, f"column {name}: missing value without a previous one to repeat")
        row.append(previous[index] if value is None else value)
    return row


def _number(field: str) -> float | None:
    """The finite number in a field, or None."""
    try:
        value = float(field)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _is_missing(field: str) -> bool:
    return field.strip().lower() in MISSING
