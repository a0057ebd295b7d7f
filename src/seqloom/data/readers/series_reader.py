"""The series of a forecast: which rows and columns of its files are read, and what has to be known about them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.data.feature_statistics import is_constant
from seqloom.data.readers import tables, text_files
from seqloom.data.readers.date_formats import DateOrder
from seqloom.data.readers.decimal_marks import DecimalMark
from seqloom.data.readers.memory import IN_MEMORY
from seqloom.data.readers.missing_values import MissingValueError
from seqloom.data.readers.row_ranges import split_range
from seqloom.data.readers.series import (
    Numbers,
    Series,
    TableGroup,
    column_positions,
    one_series,
    sequences,
    table,
)
from seqloom.data.readers.series_groups import table_groups
from seqloom.data.readers.text_files import WARNING, DataError, Source
from seqloom.data.readers.time_axis import TimeZone

SEASONS = 3  # in the training data, from which on the length of a season is taken from the time axis
SHOWN_SERIES = 5  # names in a note, and series with a warning each
SHOWN_COLUMNS = 8
FEW_FORECASTS = 5  # forecasts on the development data, below which scores say little


@dataclass(frozen=True, kw_only=True)
class SeriesReader:
    """Reads series from files or Python values; a file for development may continue the one for training."""

    columns: tuple[str, ...]  # empty: all
    target: tuple[str, ...]  # empty: all
    group_column: str  # names the series of each row; empty: a table is one series
    future_covariates: tuple[str, ...]  # columns whose values at the steps to forecast are known
    static_covariates: tuple[str, ...]  # columns that do not change within a series
    date: tuple[str, ...] | None  # columns of the time axis; None: as the table shows
    date_order: DateOrder  # empty: as the dates show
    time_zone: TimeZone  # empty: as the times show
    decimal: DecimalMark  # empty: as the numbers show
    separator: str
    encoding: str
    fill_missing: bool
    history: int  # rows before a forecast
    horizon: int
    needs_history: bool  # each forecast needs the whole history
    train: str
    dev: str
    dev_fraction: float
    is_fitted: bool  # the columns and the history can no longer be changed
    last_window_only: bool  # read only the rows at the end of each series that a forecast needs

    def read(self, source: Source) -> Iterator[Series]:
        """Yield the series of a file, or of Python values."""
        if self._is_many(source):
            values = source if isinstance(source, Path) else one_series(source)
            every = sequences(
                values,
                columns=self.columns,
                fill=self.fill_missing,
                is_fitted=self.is_fitted,
                last_rows=self._last_rows,
            )
            yield from map(self._marked, every)
        elif self.group_column:
            yield from self._groups(source)
        else:
            yield self._table(source)

    def _groups(self, source: Source) -> Iterator[Series]:
        """The series of a table in long form."""
        first: Series | None = None
        gaps: list[MissingValueError] = []  # of all series, so that one error names all of them
        for group in table_groups(source, self.group_column, separator=self.separator, encoding=self.encoding):
            try:
                series = self._table(group)
            except MissingValueError as error:
                gaps.append(error)
                continue
            first = first or series
            if series.names != first.names:
                raise DataError(
                    series.location,
                    f"series {series.name!r} has the columns {', '.join(series.names)}, but series {first.name!r} has "
                    f"{', '.join(first.names)}: set task.columns",
                )
            yield series
        if gaps:
            others = f" The same in {len(gaps) - 1:,} more series" if len(gaps) > 1 else ""
            raise MissingValueError(gaps[0].location, f"{gaps[0].message}{others and '.'}{others}", gaps[0].remedy)

    def inspect(self, source: Source) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The settings that the training data show, and notes about them and the development data."""
        if self._is_many(source):
            return {}, ()
        every = list(self._groups(source)) if self.group_column else [self._table(source)]
        series = every[0]
        axis, notes = series.axis, []
        if self.group_column:
            shown = ", ".join(each.name for each in every[:SHOWN_SERIES]) + (", …" if len(every) > SHOWN_SERIES else "")
            notes.append(f"{len(every):,} series by column {self.group_column!r}: {shown}")
        settings: dict[str, Any] = {"date": ""}
        if axis is not None:
            settings["date"] = axis.names if len(axis.names) > 1 else axis.names[0]
            notes.append(axis.describe())
            if axis.unreadable:
                notes.append(
                    f"{WARNING}column {axis.names[0]!r} looks like dates, but {axis.unreadable[:40]!r} cannot be read: "
                    "forecasts have no dates; write dates as 2010-03 or 2010-03-31"
                )
            settings |= {"date_order": axis.order} if axis.order else {}
            settings |= {"time_zone": "utc" if axis.is_utc else "local"} if axis.offsets else {}
            season = axis.step.season if axis.step is not None else 0
            if season and series.stop - series.start >= SEASONS * season:
                settings["season"] = season
        settings["decimal"] = series.decimal
        if series.number_note:
            notes.append(series.number_note)
        if series.names != tuple(str(number + 1) for number in range(len(series.names))):
            settings["columns"] = series.names  # those of the development file may have another order
        if series.left_out:
            notes.append(f"columns that number the rows or hold dates are ignored: {', '.join(series.left_out)}")
        notes += self._irregular_notes(every)
        known = {*self.future_covariates, *self.static_covariates}
        forecast = [name for name in series.names if name not in known]
        if len(forecast) > 1 and not self.target:
            shown = ", ".join(forecast[:SHOWN_COLUMNS]) + (", …" if len(forecast) > SHOWN_COLUMNS else "")
            notes.append(
                f"all {len(forecast):,} columns are forecast, and the scores are means over them: {shown}; task.target "
                "names those to forecast, and the others are still read"
            )
        joined = np.concatenate([each.values[each.start : each.stop] for each in every])
        if constant := constant_columns(joined, series.names):
            notes.append(f"columns that never change do not count in the scores: {', '.join(constant)}")
        return settings, (*notes, *self._dev_notes(series))

    def with_history(self, series: Series, source: Source) -> Series:
        """The series; if it is too short for a forecast, with the end of the training file before it.

        DataError if it is not the development file, or does not continue the training file.
        """
        if not series.lines or not self._is_short(series):
            return series
        named = not self.group_column and "" not in (self.train, self.dev) and IN_MEMORY not in (self.train, self.dev)
        files = {name: text_files.resolve(name) for name in (self.train, self.dev)} if named else {}
        if files and source == files[self.dev] != files[self.train]:
            train = self._table(files[self.train])
            at_end = train.stop == len(train.values) and not series.start
            if at_end and series.axis is not None and train.axis is not None and series.axis.continues(train.axis):
                longer = series.after(train, self.history)
                if not self._is_short(longer):
                    return longer
        most = series.stop - self.horizon - 1
        shorter = f"set task.history to at most {most}, or " if most >= 1 and not self.is_fitted else ""
        raise DataError(
            series.location,
            f"{text_files.pluralize(series.stop, 'row')}, expected at least task.history + task.horizon "
            f"({self.history} + {self.horizon}): {shorter}put all rows into one file and select a range of it, such as "
            "series.csv[0.8:1], whose history may lie before it",
        )

    def _dev_notes(self, train: Series) -> list[str]:
        """What has to be known about the development data: where their history is, and that they are few."""
        if (not self.dev and not self.dev_fraction) or self.dev == IN_MEMORY:
            return []
        notes = []
        if self.dev:
            path = text_files.resolve(self.dev)
            if self._is_many(path):
                return []
            every = list(self._groups(path)) if self.group_column else [self._table(path)]
            notes = self._irregular_notes(every, file=f"dev file {self.dev}: ")
            axis = every[0].axis
            if axis is not None and train.axis is not None and train.axis.step is not None:
                difference = axis.step_difference([train.axis.step])
                notes += [f"{WARNING}dev file {self.dev}: {difference}"] if difference else []
        if self.group_column or not self.needs_history:
            return notes
        if self.dev:
            (series,) = every
            if problem := _earlier(train, series):
                notes.append(f"{WARNING}dev file {self.dev}: {problem}")
            rows = text_files.pluralize(series.stop - series.start, "row")
            if self._is_short(series):
                series = self.with_history(series, path)
                notes.append(
                    f"dev file {self.dev}: {rows}, fewer than task.history + task.horizon ({self.history} + "
                    f"{self.horizon}); it continues the training file, whose end is its history"
                )
            count = series.stop - self.horizon - max(series.start, self.history) + 1
        else:
            total = train.stop - self.horizon - max(train.start, self.history) + 1
            count = round(total * self.dev_fraction)
        if 0 < count < FEW_FORECASTS:
            forecasts = text_files.pluralize(count, "forecast")
            notes.append(
                f"the development data allow only {forecasts}, so that scores and the best checkpoint are uncertain"
            )
        return notes

    def _irregular_notes(self, every: Sequence[Series], *, file: str = "") -> list[str]:
        """What is irregular about the time stamps of the rows that are read of the first such series; how many more."""
        problems = [
            f"{f'series {series.name}: ' if series.name else ''}{problem}"
            for series in every
            if (problem := series.irregular_between(max(series.start - max(self.history, 1), 0), series.stop))
        ]
        notes = [f"{WARNING}{file}{problem}" for problem in problems[:SHOWN_SERIES]]
        if len(problems) > SHOWN_SERIES:
            notes.append(f"{WARNING}{file}irregular time stamps in {len(problems) - SHOWN_SERIES:,} more series")
        return notes

    def _is_short(self, series: Series) -> bool:
        """Whether a series is too short for a forecast with the whole history."""
        return self.needs_history and series.stop < self.history + self.horizon

    def _is_many(self, source: Source) -> bool:
        """Whether a source holds many series: an .npz or .ts file, or arrays."""
        if isinstance(source, Path):
            return split_range(source)[0].name.removesuffix(".gz").endswith((".npz", ".ts"))
        return not tables.is_table(source) and not all(isinstance(line, str) for line in one_series(source))

    def _table(self, source: Source | TableGroup) -> Series:
        series = table(
            source,
            columns=self.columns,
            target=self.target,
            future_covariates=self.future_covariates,
            static_covariates=self.static_covariates,
            date=self.date,
            separator=self.separator,
            encoding=self.encoding,
            fill=self.fill_missing,
            date_order=self.date_order,
            time_zone=self.time_zone,
            decimal=self.decimal,
            is_fitted=self.is_fitted,
            last_rows=self._last_rows,
            rows_ahead=self.horizon,
        )
        positions = column_positions(series.names)
        for name in self.static_covariates:
            values = series.observed[:, positions[name]]
            if (values != values[0]).any():
                row = int((values != values[0]).argmax())
                raise DataError(
                    series.at(row),
                    f"column {name} (task.static_covariates): expected {values[0]:g} as in the first row of its "
                    f"series, found {values[row]:g}",
                )
        if series.axis is not None and (irregular := series.axis.irregularities()).is_unordered:
            first = irregular.backwards[0]
            source = f"{'the index' if series.axis.is_index else 'column'} {' and '.join(map(repr, series.axis.names))}"
            problem = f"time runs backwards in {source}" if irregular.is_descending else f"{source} is not in order"
            raise DataError(series.at(first), f"{problem}; sort the rows by time, the oldest first")
        return self._marked(series)

    @property
    def _last_rows(self) -> int:
        """The rows at the end that are read: the history, and one before it for the changes; 0: all."""
        return self.history + 1 if self.last_window_only and self.history else 0

    def _marked(self, series: Series) -> Series:
        """The same series, its targets marked among the columns with missing values."""
        known = {*self.future_covariates, *self.static_covariates}
        targets = self.target or [name for name in series.names if name not in known]
        missing = tuple(column._replace(is_target=column.name in targets) for column in series.missing)
        return replace(series, missing=missing) if missing else series


def constant_columns(values: Numbers, names: Sequence[str]) -> list[str]:  # (T, D)
    """The columns that never change, if others do."""
    constant = is_constant(values.mean(axis=0), values.std(axis=0))
    return [] if constant.all() else [name for name, is_still in zip(names, constant, strict=True) if is_still]


def _earlier(train: Series, dev: Series) -> str:
    """What is wrong with development data that do not follow the training data; empty if they do."""
    if train.axis is None or dev.axis is None or train.axis.stamps is None or dev.axis.stamps is None:
        same = np.array_equal(train.values[train.start : train.stop], dev.values[dev.start : dev.stop])
        return "it has the same rows as the training data, so that its scores say nothing about new data" * same
    if train.axis.stamps.dtype.kind != dev.axis.stamps.dtype.kind:
        return ""
    trained, held_out = train.axis.stamps[train.start : train.stop], dev.axis.stamps[dev.start : dev.stop]
    last, (first, end) = trained.max(), (held_out.min(), held_out.max())
    if first > last:
        return ""
    dates = dev.axis.write(np.array([first, end]))
    if end < trained.min():
        return f"its time ({dates[0]} to {dates[1]}) lies before that of the training data, whose future it should be"
    return (
        f"its time ({dates[0]} to {dates[1]}) overlaps that of the training data, so that its scores say little about "
        "the future"
    )
