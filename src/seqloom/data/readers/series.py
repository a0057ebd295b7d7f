"""Time series: tables of numbers, ranges of their rows, and windows as views without copies."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers import decimal_marks, tables, text_files, vectors
from seqloom.data.readers.date_formats import DateOrder, count_leading_dates, parse_dates
from seqloom.data.readers.decimal_marks import DecimalMark, NumberMarks
from seqloom.data.readers.missing_values import (
    MissingColumn,
    MissingValueError,
    fill_advice,
    missing_columns,
    without_gaps,
)
from seqloom.data.readers.panels import refuse_dates, refuse_names, refuse_numbered_series
from seqloom.data.readers.row_ranges import Range, split_range
from seqloom.data.readers.table_values import MISSING, is_missing, is_numeric, with_hyphen_minus
from seqloom.data.readers.tables import Record
from seqloom.data.readers.text_files import TABLE, DataError, Location, Source
from seqloom.data.readers.time_axis import TimeAxis, TimeZone, find_time_axis

Numbers = NDArray[np.float64]


class TableGroup(NamedTuple):
    """The rows of one series of a table that has several of them below each other."""

    name: str
    names: list[str]  # of the columns
    records: list[Record]
    range: Range
    separator: str


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A time series and the range of rows to forecast; earlier rows serve as history."""

    location: Location  # location of the first row
    values: Numbers  # (T, D)
    names: tuple[str, ...]  # names of the columns
    start: int  # first row to forecast
    stop: int  # end of the rows to forecast
    lines: Sequence[int] = ()  # line of each row; empty if the file has no lines
    axis: TimeAxis | None = None  # time stamp of each row; None: there are none
    left_out: tuple[str, ...] = ()  # further columns that are not read, since they number the rows or hold dates
    number_note: str = ""  # about decimal commas and thousands separators; empty: there are none
    decimal: DecimalMark = ""  # decimal mark of its columns; empty: they are not text
    name: str = ""  # of one of several series in a table; empty: there is only one
    ahead: int = 0  # rows at the end in which only future covariates are known; the other values are NaN
    filled: NDArray[np.bool_] | None = None  # (T, D), missing values of a table that repeat the previous one
    missing: tuple[MissingColumn, ...] = ()  # columns with such values in the rows to forecast

    def missing_between(self, start: int, stop: int) -> tuple[MissingColumn, ...]:
        """The columns with values that were missing in some rows."""
        if self.filled is None:
            return self.missing
        return missing_columns(self.filled[start:stop], self.names, lambda row: self.at(start + row))

    def irregular_between(self, start: int, stop: int) -> str:
        """What is irregular about the time stamps of some rows; empty if nothing is, or if there are none."""
        if self.axis is None or self.axis.stamps is None:
            return ""
        axis = replace(self.axis, stamps=self.axis.stamps[start:stop])
        return axis.irregularities().describe(lambda row: self.at(start + row))

    @property
    def observed(self) -> Numbers:
        """The rows of which all values are known."""
        return self.values[: len(self.values) - self.ahead]

    def times(self, start: int, stop: int) -> tuple[str, ...]:
        """The time stamps of some rows as text; empty if there are none."""
        axis = self.axis
        if axis is None or axis.stamps is None or axis.is_ambiguous:
            return ()
        return tuple(axis.write(axis.stamps[start:stop]))

    def at(self, row: int) -> Location:
        return self.location._replace(line=self.lines[row]) if row < len(self.lines) else self.location

    def after(self, earlier: "Series", rows: int) -> "Series":
        """The same series with the last rows of an earlier one as its history."""
        rows = min(rows, earlier.stop)
        before = earlier.values[earlier.stop - rows : earlier.stop]
        lines = [*[earlier.at(row).line for row in range(earlier.stop - rows, earlier.stop)], *self.lines]
        values = np.concatenate([before, self.values])
        axis = self.axis
        if (
            axis is not None
            and axis.stamps is not None
            and earlier.axis is not None
            and earlier.axis.stamps is not None
        ):
            stamps = earlier.axis.stamps[earlier.stop - rows : earlier.stop]
            axis = replace(axis, stamps=np.concatenate([stamps, axis.stamps]))
        filled = None
        if self.filled is not None or earlier.filled is not None:
            none = (np.zeros(each.values.shape, bool) for each in (earlier, self))
            first, second = (
                mask if each.filled is None else each.filled for mask, each in zip(none, (earlier, self), strict=True)
            )
            filled = np.concatenate([first[earlier.stop - rows : earlier.stop], second])
        return replace(
            self,
            values=values,
            start=self.start + rows,
            stop=self.stop + rows,
            lines=lines,
            axis=axis,
            filled=filled,
        )


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

    def time_stamps(self, rows: int) -> list[str]:
        """The time stamps of the rows after the history, as text; empty if they are not known."""
        axis = self.series.axis
        stamps = None if axis is None else axis.following(self.stop - 1, rows, within=len(self))
        return [] if axis is None or stamps is None else axis.write(stamps)

    @property
    def identity(self) -> str:
        """The name of its series; empty if there is only one."""
        return self.series.name

    @property
    def has_ambiguous_dates(self) -> bool:
        """Whether there are no time stamps because day and month may be exchanged."""
        return self.series.axis is not None and self.series.axis.is_ambiguous

    def origins(self, *, every_step: bool = False) -> NDArray[np.int64]:
        """The rows after which values are forecast: the last of the history, or all of them."""
        return np.arange(self.start if every_step else self.stop - 1, self.stop)

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
    source: Any,  # a file, lines of text, or a table in memory
    *,
    separator: str = "",  # of a text file; empty: as its first lines show
    encoding: str = "utf-8",
    columns: Sequence[str] = (),  # names, or numbers from 1 without a header; empty: all but the time axis
    target: Sequence[str] = (),  # columns that are forecast, so that they are not the time axis
    future_covariates: Sequence[str] = (),  # columns that may have more rows than the others
    static_covariates: Sequence[str] = (),  # columns that may end with either
    date: Sequence[str] | None = None,  # columns of the time axis; None: search; empty: there is none
    fill: bool = False,  # repeat the previous value where one is missing
    date_order: DateOrder = "",  # of day and month, where the dates leave it open
    time_zone: TimeZone = "",  # of times with an offset from UTC
    decimal: DecimalMark = "",  # decimal mark, where the numbers leave it open
    is_fitted: bool = False,  # the settings can no longer be changed
    last_rows: int = 0,  # rows at the end of the range that are read, the others are ignored; 0: all
    rows_ahead: int = 0,  # rows after them of which future covariates are read
) -> Series:
    """A table of numbers, one row per time step; a first record without numbers is a header."""
    path, range_ = split_range(source) if isinstance(source, Path) else (source, Range("input", "", ""))
    group = source if isinstance(source, TableGroup) else None
    range_ = range_ if group is None else group.range
    index = index_name(path)
    index, date = (index, (index,)) if index and date in (None, (index,)) else ("", date)
    opened = with_index(path, index) if index else path
    names, records, separator = open_table(opened, range_.text, separator, encoding=encoding)
    if len(columns) == 1 and names[int(bool(index)) :] == ["1"]:  # a series without a name
        names[-1] = columns[0]
    once = isinstance(opened, Path) and opened == text_files.STANDARD_INPUT
    reopen = None if once else lambda: open_table(opened, range_.text, separator, encoding=encoding)[1]
    first_records, records, marks = _with_points(names, records, reopen, range_.text, decimal, separator)
    location = first_records[0][0]
    _check_columns(location, names, (*columns, *target, *future_covariates, *static_covariates, *(date or ())))
    head = [[fields[column] for _, fields in first_records] for column in range(len(names))]
    taken = (*columns, *target, *future_covariates, *static_covariates)
    axis, others = (
        (None, [])
        if date == ()
        else find_time_axis(names, head, chosen=date or (), taken=taken, order=date_order, zone=time_zone)
    )
    # Columns that may be the time axis are kept as text until all rows have been read.
    kept: dict[int, list[Any]] = {column: [] for column in (*(axis.columns if axis else ()), *others)}
    if date is None and 0 not in kept and names[0] not in taken and _is_word(head[0][0]):
        kept[0] = []
    numbers = {column: name for column, name in enumerate(names) if column not in kept and not columns}
    positions = column_positions(names)
    numbers |= {positions[name]: name for name in columns}
    if words := [column for column in numbers if all(map(_is_name, head[column]))]:
        others_names = [names[each] for each in numbers if is_numeric(head[each])]
        roles = {
            "target": target,
            "future_covariates": future_covariates,
            "static_covariates": static_covariates,
            "columns": columns,
        }
        chosen = next((f"task.{key}" for key, chosen in roles.items() if names[words[0]] in chosen), "")
        if parse_dates(head[words[0]]):
            refuse_dates(location, names[words[0]], head[words[0]], others_names, key=chosen)
        refuse_names(location, names[words[0]], head[words[0]], others_names)
    known = (*future_covariates, *static_covariates) if future_covariates else ()
    rows, lines, ahead = _read_rows(chain(first_records, records), numbers, kept, known=known)
    if kept:
        whole = [kept.get(column, []) for column in range(len(names))]
        free = [name for column, name in enumerate(names) if column not in kept]
        axis, others = find_time_axis(
            names, whole, chosen=date or (), taken=(*free, *taken), order=date_order, zone=time_zone
        )
        if axis is None or not axis.has_dates:
            _refuse_row_without_date(names, kept, location, lines)
        axis = _checked_axis(axis, location, index=index, is_fitted=is_fitted)
    if not numbers and not kept.keys() - {*(axis.columns if axis else ()), *others}:
        others = [column for column in others if not is_numeric(kept[column])]  # the only ones to forecast
    used = {*(axis.columns if axis else ()), *others}
    left_out = [names[column] for column in others]
    for column in sorted(kept.keys() - used) if not columns and len(names) > 1 else ():
        if len(set(map(str, kept[column]))) == 1 and _is_word(kept[column][0]):
            left_out.append(names[column])
            continue
        if all(map(_is_word, kept[column])) and len(set(map(str, kept[column]))) < len(kept[column]):
            refuse_names(location, names[column], kept[column], list(numbers.values()))
        numbers[column] = names[column]
        rows = _with_column(rows, kept[column], names[column], location._replace(line=0), lines)
    if not numbers and axis is not None and axis.stamps is not None and not axis.has_dates and not date:
        numbers, rows, axis, left_out = {axis.columns[0]: axis.names[0]}, axis.stamps[:, None].tolist(), None, []
    if not numbers:
        raise DataError(location, "no column of numbers")
    order = np.argsort(list(numbers)) if not columns else np.arange(len(numbers))
    selected = np.array(list(numbers.values()), object)[order].tolist()
    start, stop = range_.rows(len(rows) - ahead, noun="rows")
    values = np.array(rows, np.float64)[:, order]
    required = np.isin(selected, future_covariates)
    values, filled = without_gaps(
        values,
        selected,
        lambda row: location._replace(line=lines[row]),
        ahead=ahead,
        required=required,
        held=np.isin(selected, static_covariates),
        fill=fill,
        is_read=_are_read(len(values), stop, last_rows, rows_ahead, required) if last_rows else None,
        is_fitted=is_fitted,
    )
    if axis is not None and axis.stamps is not None and not columns:
        refuse_numbered_series(location, axis.stamps, dict(zip(selected, values.T, strict=True)), taken)
    series = Series(
        location,
        values,
        tuple(selected),
        start,
        stop,
        lines,
        axis,
        tuple(left_out),
        number_note=marks.describe(names, numbers),
        decimal=marks.decimal(numbers),
        name="" if group is None else group.name,
        ahead=ahead,
        filled=filled,
    )
    return series if filled is None else replace(series, missing=series.missing_between(start, stop))


def _are_read(count: int, stop: int, last_rows: int, rows_ahead: int, required: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which values are read: all of the last rows before ``stop``, and those of required columns after them."""
    rows = np.arange(count)[:, None]
    return ((rows >= stop - last_rows) & (rows < stop)) | ((rows >= stop) & (rows < stop + rows_ahead) & required)


def _read_rows(
    records: Iterator[Record],
    numbers: dict[int, str],  # columns to read, with their names
    kept: dict[int, list[Any]],  # columns whose texts are added here
    *,
    known: Sequence[str],  # columns that may have more rows than the others
) -> tuple[list[list[float]], list[int], int]:
    """The rows, missing values as NaN, their lines, and how many rows at the end have values of known columns only."""
    rows: list[list[float]] = []
    lines: list[int] = []
    others = [column for column, name in numbers.items() if name not in known]
    ahead = 0
    for location, fields in records:
        is_ahead = bool(known and others) and all(_is_missing(fields[column]) for column in others)
        ahead = ahead + 1 if is_ahead else 0
        rows.append([_number_or_nan(location, fields[column], name) for column, name in numbers.items()])
        lines.append(location.line)
        for column, texts in kept.items():
            texts.append(fields[column])
    return rows, lines, ahead


def _number_or_nan(location: Location, field: Any, name: str) -> float:
    """The number in a field; NaN if it is missing."""
    value = _number(field)
    if value is None and not _is_missing(field):
        raise DataError(location, f"column {name}: expected a number, found {str(field)[:40]!r}")
    return math.nan if value is None else value


def index_name(source: Any) -> str:
    """The name of the index of a data frame, if it holds times; else empty."""
    index = getattr(source, "index", None)
    if not tables.is_table(source) or index is None or not hasattr(index, "tolist") or getattr(index, "nlevels", 1) > 1:
        return ""
    names = {str(name) for name in source.columns}
    name = next(name for name in (str(index.name or "index"), "index", "time index") if name not in names)
    if type(index).__name__ in ("DatetimeIndex", "PeriodIndex"):
        return name
    if type(index).__name__ == "RangeIndex" or not len(index):
        return ""
    axis, _ = find_time_axis([str(index.name or "")], [index.tolist()])
    return name if axis is not None and (axis.has_dates or (index.name and axis.stamps is not None)) else ""


def with_index(frame: Any, name: str) -> Any:
    """A data frame with its index as the first column."""
    index = frame.index.to_timestamp() if hasattr(frame.index, "to_timestamp") else frame.index
    frame = frame.copy(deep=False)
    frame.index = range(len(frame))
    frame.insert(0, name, index)
    return frame


def _refuse_row_without_date(
    names: Sequence[str], columns: Mapping[int, Sequence[Any]], location: Location, lines: Sequence[int]
) -> None:
    """DataError for a column that holds dates and then something else, such as the total in the last row."""
    for column, values in columns.items():
        count = count_leading_dates(values)
        if 0 < count < len(values):
            raise DataError(
                location._replace(line=lines[count]),
                f"column {names[column]!r}: expected a date as in the {count:,} rows before, found "
                f"{str(values[count])[:40]!r}; remove or correct the row, or read the numbers only: set "
                "task.columns and task.date=''",
            )


def _checked_axis(axis: TimeAxis | None, location: Location, *, index: str, is_fitted: bool) -> TimeAxis | None:
    """The same axis; if day and month may be exchanged, a DataError, or no stamps where that cannot be set any more."""
    if axis is None:
        return None
    if axis.is_ambiguous and is_fitted:
        return replace(axis, stamps=None, step=None)
    if axis.is_ambiguous:
        raise DataError(
            location,
            f"column {' and '.join(map(repr, axis.names))}: the dates can be read with the day or the month first; "
            'set task.date_order to "day_first" or "month_first"',
        )
    return replace(axis, is_index=True) if axis.names == (index,) else axis


def _with_points(
    names: Sequence[str],
    records: Iterator[Record],
    reopen: Callable[[], Iterator[Record]] | None,  # reads the records once more; None: that is not possible
    file: str,
    decimal: DecimalMark,
    separator: str,
) -> tuple[list[Record], Iterator[Record], NumberMarks]:
    """The first records and the others, with decimal points only, and the decimal marks that they have had."""
    head = list(islice(records, tables.HEAD))
    if not head:
        raise DataError(Location(file, 1), "no rows after the header")
    return decimal_marks.plain_records(names, head, records, reopen, decimal=decimal, separator=separator)


def open_table(
    source: Any, file: str, separator: str, *, encoding: str = "utf-8"
) -> tuple[list[str], Iterator[Record], str]:
    """The names of the columns (numbers from 1 without a header), the records, and what separates the columns."""
    if isinstance(source, TableGroup):
        return list(source.names), iter(source.records), source.separator
    if isinstance(source, Path) or tables.is_table(source):
        opened = tables.read_table(source, separator=separator, encoding=encoding, header=False)
        names, records, separator = list(opened.names), opened.records, opened.separator
    else:
        lines = list(text_files.lines(source))
        separator = separator or tables.sniff_separator([line for _, line in lines[: tables.SNIFFED_LINES]])
        names, records = [], tables.split_columns(iter(lines), separator)
    if names:
        return names, _checked_widths(records, len(names)), separator
    location, first = next(records, (Location(file, 1), []))
    if not first:
        raise DataError(location, "expected a table of numbers, found an empty file")
    if any(_number(field) is not None or decimal_marks.writes_number(field) for field in first) or all(
        map(_is_missing, first)
    ):
        rows = _checked_widths(chain([(location, first)], records), len(first))
        return [str(number + 1) for number in range(len(first))], rows, separator
    names = [str(name).strip() for name in first]
    if len(set(names)) < len(names):
        raise DataError(location, "duplicate column names")
    first_row = next(records, None)
    if first_row is None:
        raise DataError(location, "no rows after the header")
    return names, _checked_widths(chain([first_row], records), len(names)), separator


def _checked_widths(records: Iterable[Record], width: int) -> Iterator[Record]:
    for location, fields in records:
        if len(fields) != width:
            raise DataError(location, f"expected {width} fields as in the first record, found {len(fields)}")
        yield location, fields


def column_positions(names: Sequence[str]) -> dict[str, int]:
    """The first position of each name."""
    return {name: index for index, name in reversed(list(enumerate(names)))}


def _check_columns(location: Location, names: Sequence[str], chosen: Sequence[str]) -> None:
    known = set(names)
    for name in chosen:
        if name not in known:
            similar = get_close_matches(name, names, n=1)
            hint = f": did you mean {similar[0]}? The" if similar else "; the"
            header = TABLE if location.file == TABLE else location._replace(line=1)
            raise DataError(header, f"no column {name!r}{hint} file has {', '.join(names)}")


def _is_name(field: Any) -> bool:
    return _is_word(field) and str(field).strip().lower() not in ("inf", "-inf", "+inf", "infinity", "-infinity")


def _is_word(field: Any) -> bool:
    return _number(field) is None and not _is_missing(field)


def _with_column(
    rows: list[list[float]], values: Sequence[Any], name: str, location: Location, lines: Sequence[int]
) -> list[list[float]]:
    """The rows with one more column of numbers."""
    return [
        [*row, _number_or_nan(location._replace(line=line), value, name)]
        for row, line, value in zip(rows, lines, values, strict=True)
    ]


def sequences(
    source: Source, *, columns: Sequence[str] = (), fill: bool = False, is_fitted: bool = False, last_rows: int = 0
) -> Iterator[Series]:
    """Many series: those of an .npz or .ts file (a range selects whole series), or arrays (T,) or (T, D).

    Missing values in rows before the last ones are ignored; 0: all rows are read.
    """
    for location, array, missing in _arrays(source, fill=fill, is_fitted=is_fitted, last_rows=last_rows):
        try:
            values = np.asarray(array, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(location, f"expected an array of numbers, found {type(array).__name__}") from None
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or not values.size:
            raise DataError(location, f"expected numbers (time, columns), found shape {values.shape}")
        first = max(len(values) - last_rows, 0) if last_rows else 0
        if not np.isfinite(values[first:]).all():
            step = first + int((~np.isfinite(values[first:])).any(axis=1).argmax())
            raise DataError(location, f"step {step}: a value is missing or infinite")
        if not np.isfinite(values).all():  # in rows that are not read
            known = np.where(np.isfinite(values), values, np.nan)
            values = vectors.fill_missing(location, known, "hold").astype(np.float64)
        names = tuple(str(number + 1) for number in range(values.shape[1]))
        if columns and len(columns) != len(names) and not set(columns) <= set(names):
            raise DataError(location, f"expected {len(columns)} columns ({', '.join(columns)}), found {len(names)}")
        if columns and len(columns) != len(names):
            positions = column_positions(names)
            values = values[:, [positions[name] for name in columns]]
        yield Series(location, values, tuple(columns) or names, 0, len(values), missing=missing)


def one_series(source: Any) -> Any:
    """A list with the only series that a list of numbers or an array (T,) or (T, D) is; other values unchanged."""
    if isinstance(source, np.ndarray):
        return [source] if source.ndim <= 2 else list(source)
    return [np.array(source)] if len(source) and all(isinstance(value, int | float) for value in source) else source


def _arrays(
    source: Source, *, fill: bool, is_fitted: bool, last_rows: int
) -> Iterator[tuple[Location, Any, tuple[MissingColumn, ...]]]:
    if not isinstance(source, Path):
        for number, array in enumerate(source, start=1):
            yield Location("input", number), array, ()
        return
    path, range_ = split_range(source)
    missing: vectors.Filling = "hold" if fill else "keep" if last_rows else "error"
    read = vectors.npz if path.suffix == ".npz" else vectors.ts
    try:
        items = list(read(path, missing=missing))
        start, stop = range_.rows(len(items), noun="series")
        for item in items[start:stop]:
            if missing == "keep":
                is_read = np.arange(len(item.values))[:, None] >= len(item.values) - last_rows
                vectors.fill_missing(item.location, np.where(is_read, item.values, 0), "error")
            yield item.location, item.values, item.missing
    except MissingValueError as error:
        message = error.message.replace(vectors.HOLD_ADVICE, fill_advice(is_fitted=is_fitted))
        raise MissingValueError(error.location, message, {"fill_missing": True}) from None


def _number(field: Any) -> float | None:
    """The finite number in a field, or None."""
    try:
        value = float(with_hyphen_minus(field) if isinstance(field, str) else field)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _is_missing(field: Any) -> bool:
    return is_missing(field) or (isinstance(field, str) and field.strip().lower() in MISSING)
