"""Rows of numbers, one sequence per row: CSV files, data frames, Parquet and Excel files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.data.readers import column_names, tables, text_files, vectors
from seqloom.data.readers.columns import LabelColumn, Role, find_columns
from seqloom.data.readers.decimal_marks import DecimalMark, NumberFormat, rows_format, writes_number
from seqloom.data.readers.labelled_formats import DETECTION_LINES, LABEL
from seqloom.data.readers.numeric_targets import as_target
from seqloom.data.readers.table_values import is_numeric
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Source
from seqloom.data.readers.vectors import Missing, VectorSequence

IDENTIFIERS = ("", "id", "index", "uuid", "unnamed:_0")
"""Names of columns that number the rows."""
OTHERS = "the other columns are its values"


class NumberColumns(NamedTuple):
    """The columns of rows of numbers: one sequence per row."""

    label: int | tuple[int, ...] | None  # index; several: numbers; None: there are no labels
    names: Sequence[str] = ()  # of all columns; empty: no header
    skipped: tuple[int, ...] = ()  # columns that number the rows, or that hold no numbers

    @property
    def setting(self) -> int | str:
        """The configuration of the label column."""
        if not isinstance(self.label, int):
            return ""
        inside = -len(self.names) <= self.label < len(self.names)
        return self.names[self.label] or self.label if inside else self.label

    def describe(self) -> str:
        label = self.setting
        if isinstance(self.label, tuple):
            columns = ", ".join(repr(self.names[index]) if self.names else str(index) for index in self.label)
            return f"one row per sequence: targets from columns {columns}, {OTHERS}"
        places = {-1: "the last column", 0: "the first column"}
        where = f"column {label!r}" if isinstance(label, str) else places.get(label, f"column {label}")
        ignored = f"; ignored: {', '.join(self.names[index] or 'row numbers' for index in self.skipped)}"
        taken = (*self.skipped, self.label % len(self.names)) if self.names and isinstance(self.label, int) else ()
        read = [name for index, name in enumerate(self.names) if index not in taken]
        values = f"its values from {len(read)} columns, {read[0]!r} to {read[-1]!r}" if len(read) > 1 else OTHERS
        return f"one row per sequence: label from {where}, {values}{ignored if self.skipped else ''}"


@dataclass(frozen=True)
class NumberRows:
    """Reads sequences from rows of numbers; tasks/classify documents the options."""

    separator: str = ""
    label_column: LabelColumn = ""
    channels: int = 1
    missing: Missing = "error"
    encoding: str = "utf-8"
    trained: bool = False  # there is a model: labels are optional
    decimal: DecimalMark = ""  # of numbers that are text; empty: as they show

    def read(self, source: Source) -> Iterator[VectorSequence]:
        return self._read_file(source) if isinstance(source, Path) else self._wide(source)

    def _columns(self, source: Path, separator: str) -> NumberColumns:
        """The columns of rows of numbers, as the first rows show."""
        lines = islice(text_files.lines(source, encoding=self.encoding), DETECTION_LINES)
        rows = [line.split(separator) for _, line in lines]
        first = rows[:2]
        if not first:
            return NumberColumns(-1)
        names = [field.strip().strip('"') for field in first[0]]
        usual = [index for index, name in enumerate(names) if column_names.normalize(name) in LABEL.names]
        repeated = len(first) > 1 and any(
            first[0][index] == first[1][index] for index in usual if index < len(first[1])
        )
        header = not any(map(_is_number, names[1:-1])) or (len(usual) == 1 and not repeated)
        names = names if header else []
        column = self.label_column
        labels = [column] if isinstance(column, str | int) and column != "" else usual if len(usual) == 1 else []
        texts = _text_columns(rows[1:], len(names))
        if len(texts) > 1 and not labels and not isinstance(column, tuple):
            raise _unclear_label(str(source), [names[index] for index in texts])
        skipped = tuple(
            index
            for index, name in enumerate(names)
            if (column_names.normalize(name) in IDENTIFIERS or index in texts)
            and not {index, index - len(names), name} & set(labels)
        )
        if isinstance(column, tuple):
            return NumberColumns(self._several(source, column, names), names, skipped)
        if isinstance(column, int):
            return NumberColumns(column, names, skipped)
        if column and column in names:
            return NumberColumns(names.index(column), names, skipped)
        if column and self.trained:
            return NumberColumns(None, names, skipped)
        if column:
            problem = f"the header has {', '.join(names)[:200]}" if names else "the first row is not a header"
            raise DataError(str(source), f"label_column: no column {column!r}; {problem}")
        if header and len(usual) == 1:
            return NumberColumns(usual[0], names, skipped)
        start, end = (_is_number(first[-1][index]) for index in (0, -1))
        return NumberColumns(0 if end and not start else -1, names, skipped)

    def _several(self, source: Path, columns: Sequence[int | str], names: Sequence[str]) -> tuple[int, ...] | None:
        """The indices of several label columns; None: a file to predict, which does not have them."""
        missing = [name for name in columns if isinstance(name, str) and name not in names]
        if missing and self.trained:
            return None
        if missing:
            problem = f"the header has {', '.join(names)[:200]}" if names else "the first row is not a header"
            raise DataError(str(source), f"label_column: no column {missing[0]!r}; {problem}")
        return tuple(names.index(name) if isinstance(name, str) else name for name in columns)

    def _separator(self, source: Path) -> str:
        if self.separator or source == STANDARD_INPUT:
            return self.separator or ","
        first = [line for _, line in islice(text_files.lines(source, encoding=self.encoding), DETECTION_LINES)]
        return tables.sniff_separator(first)

    def inspect(self, source: Source) -> tuple[dict[str, int | str], str]:
        if not isinstance(source, Path) or tables.is_binary(source):
            columns = self._table_columns(source)[1]
            return ({LABEL.key: columns.setting}, columns.describe()) if isinstance(columns.label, int) else ({}, "")
        columns = self._columns(source, self._separator(source))
        settings = {} if isinstance(columns.label, tuple) else {LABEL.key: columns.setting}
        numbers = self._number_format(source, self._separator(source))
        if numbers.note:
            settings["decimal"] = numbers.decimal
        return settings, "; ".join(filter(None, (columns.describe(), numbers.note)))

    def _number_format(self, source: Path, separator: str) -> NumberFormat:
        """How the numbers of a text file are written, as its first rows show."""
        if separator == ",":
            return NumberFormat(self.decimal)
        first = islice(text_files.lines(source, encoding=self.encoding), DETECTION_LINES)
        rows = ((location, line.split(separator)) for location, line in first)
        return rows_format(rows, decimal=self.decimal)

    def _read_file(self, source: Path) -> Iterator[VectorSequence]:
        options: dict[str, Any] = {"channels": self.channels, "missing": self.missing}
        if source == STANDARD_INPUT:
            return vectors.csv(source, label=None, header=False, separator=self.separator or ",", **options)
        if tables.is_binary(source):
            return self._wide(source)
        separator = self._separator(source)
        columns = self._columns(source, separator)
        header = bool(columns.names) or None
        return vectors.csv(
            source,
            label=columns.label,
            skip=columns.skipped,
            header=header,
            separator=separator,
            decimal=self._number_format(source, separator).decimal,
            **options,
        )

    def _table_columns(self, source: Source) -> tuple[tables.Table, NumberColumns]:
        """A data frame, a Parquet or an Excel file, and its columns."""
        roles = (Role(LABEL.key, LABEL.noun, LABEL.names, LABEL.holds, optional=True),)
        table, columns = find_columns(source, roles, {LABEL.key: self.label_column}, encoding=self.encoding)
        label = columns.indices.get(LABEL.key)
        texts = [column for column in range(table.width) if not is_numeric(table.column(column))] if table.head else []
        if label is None and not (self.trained and self.label_column != ""):
            if len(texts) > 1 and not self.trained:
                raise _unclear_label(str(table.location), [table.names[index] for index in texts])
            label = texts[0] if texts else None
        skipped = tuple(
            column
            for column, name in enumerate(table.names)
            if (column_names.normalize(name) in IDENTIFIERS or column in texts) and column != label
        )
        return table, NumberColumns(label, table.names, skipped)

    def _wide(self, source: Source) -> Iterator[VectorSequence]:
        """Rows of numbers of a data frame, a Parquet or an Excel file."""
        table, (index, names, skipped) = self._table_columns(source)
        name = names[index] if names and isinstance(index, int) else LABEL.noun
        for location, fields in table.records:
            values = [str(value) for column, value in enumerate(fields) if column != index and column not in skipped]
            label = None if not isinstance(index, int) else as_target(location, fields[index], name=name)
            numbers = vectors.parse_numbers(location, values)
            if not len(numbers) or len(numbers) % self.channels:
                raise DataError(
                    location, f"expected a positive multiple of {self.channels} values, found {len(numbers)}"
                )
            sequence = vectors.filled_sequence(location, numbers.reshape(-1, self.channels), self.missing)
            yield vectors.labelled(sequence, label)


def _is_number(field: str) -> bool:
    """Whether a field is a number, with any decimal mark."""
    return vectors.is_number(field) or writes_number(field)


def _unclear_label(place: str, names: Sequence[str]) -> DataError:
    columns = ", ".join(map(repr, names))
    return DataError(place, f"cannot tell which column holds the label: set task.label_column to one of {columns}")


def _text_columns(rows: Sequence[Sequence[str]], width: int) -> tuple[int, ...]:
    """The columns that hold texts only, such as remarks."""
    whole = [row for row in rows if len(row) == width]
    return tuple(index for index in range(width) if whole and not any(_is_number(row[index]) for row in whole))
