"""Labelled sequences, texts or vectors: text lines, tables, folders, .ts and .npz files."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from seqloom.data.readers import column_names, long_tables, tables, text_files, vectors
from seqloom.data.readers.columns import Chosen, Columns, LabelColumn, Role, find_columns
from seqloom.data.readers.labelled_formats import (
    DETECTION_LINES,
    FILE,
    LABEL,
    TEXT,
    Format,
    detect,
    list_folder,
)
from seqloom.data.readers.long_tables import Layout
from seqloom.data.readers.numeric_targets import Numbers, Target, TargetType, as_target, to_number
from seqloom.data.readers.table_values import as_text, is_missing, is_numeric
from seqloom.data.readers.tables import Table
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location, Source
from seqloom.data.readers.vectors import Missing, Values, VectorSequence

LabelType = Literal["text", "integer", "boolean"]
IDENTIFIERS = ("", "id", "index", "uuid", "unnamed:_0")
"""Names of columns that number the rows."""


class Row(NamedTuple):
    """A sequence as it is read."""

    location: Location
    content: str | Values
    label: Target | None
    channel_names: tuple[str, ...] = ()
    identity: str = ""


Rows = Iterator[Row]


@dataclass(frozen=True, slots=True)
class LabelledSequence:
    """A labelled sequence."""

    location: Location
    content: str | Values  # a text, or vectors (T, D)
    label: str | None  # None: unknown, or numbers
    length: int  # approximate number of elements, for bucketing
    target: Numbers | None = None  # (K,), numbers to predict
    channel_names: tuple[str, ...] = ()  # of the vectors; empty: unknown
    identity: str = ""  # name of the sequence in its table; empty: it has none

    def __len__(self) -> int:
        return self.length


class NumberColumns(NamedTuple):
    """The columns of rows of numbers: one sequence per row."""

    label: int | tuple[int, ...] | None  # index; several: numbers; None: there are no labels
    names: Sequence[str] = ()  # of all columns; empty: no header
    skipped: tuple[int, ...] = ()  # columns that number the rows

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
            return f"one row per sequence: targets from columns {columns}, the other columns are its values"
        places = {-1: "the last column", 0: "the first column"}
        where = f"column {label!r}" if isinstance(label, str) else places.get(label, f"column {label}")
        ignored = f"; ignored: {', '.join(self.names[index] or 'row numbers' for index in self.skipped)}"
        values = "the other columns are its values"
        return f"one row per sequence: label from {where}, {values}{ignored if self.skipped else ''}"


@dataclass(frozen=True)
class LabelledReader:
    """Reads labelled examples from files; tasks/classify.py documents the options."""

    format: Format = "auto"
    separator: str = ""
    label_column: LabelColumn = ""
    text_column: int | str = ""
    group_column: int | str = ""
    time_column: int | str = ""
    label_separator: str = ""
    target_type: TargetType = "auto"
    channels: int = 1
    missing: Missing = "error"
    encoding: str = "utf-8"  # encoding of text files
    measure: Callable[[str], int] = len  # length of a text
    known: Container[str] | None = None  # labels of the trained model; None: before training, where labels are required
    numeric: bool = False  # standard input holds vectors, not text
    channel_names: tuple[str, ...] = ()  # of the trained model; empty: unknown

    def read(self, source: Source) -> Iterator[LabelledSequence]:
        for location, content, label, names, identity in self._rows(source):
            length = self.measure(content) if isinstance(content, str) else len(content)
            example = LabelledSequence(location, content, None, length, channel_names=names, identity=identity)
            if label is None or (isinstance(label, str) and not label):
                yield example
            elif isinstance(label, str) and self.target_type != "number":
                yield replace(example, label=self._first_label(label))
            elif self.target_type == "class":
                raise DataError(location, 'expected a class, found numbers; task.target_type is "class"')
            else:
                yield replace(example, target=to_number(location, label))

    def detect(self, source: Source) -> Format:
        """The configured format, or else the one that the name and the first lines of a file show."""
        if self.format == "auto":
            named = isinstance(self.text_column, str) and self.text_column
            if named and isinstance(source, Path) and tables.suffix(source) in tables.SUFFIXES:
                return "columns"
            kind = detect(source, self.separator, numeric=self.numeric, encoding=self.encoding)
            return "long" if kind in ("numbers", "columns") and self._has_channels(source) else kind
        return self.format

    def _has_channels(self, source: Source) -> bool:
        """Whether columns have the names of channels, so that rows are time steps."""
        if not self.channel_names or (isinstance(source, Path) and source == STANDARD_INPUT):
            return False
        table = tables.read_table(source, separator=self.separator, encoding=self.encoding)
        return not set(self.channel_names).isdisjoint(table.names)

    def inspect(self, source: Source) -> tuple[dict[str, int | str], str]:
        """The columns that a source shows, as configuration, and a sentence about them; both may be empty."""
        if not isinstance(source, Path) and not tables.is_table(source):
            return {}, ""
        if isinstance(source, Path) and source == STANDARD_INPUT:
            return {}, ""
        kind = self.detect(source)
        if kind == "long":
            layout = self._layout(source)
            return layout.columns.settings(), f"one row per time step: {layout.describe()}"
        if kind == "numbers":
            return self._inspect_numbers(source)
        if kind == "lines":
            return {}, "label from the first word of each line, text from the rest"
        if kind == "folder" and isinstance(source, Path) and source.is_dir():
            return {}, self._describe_folder(source)
        if kind not in ("columns", "jsonl"):
            return {}, ""
        listed = isinstance(source, Path) and self._is_list(source)
        table, columns = self._find(source, FILE if listed else TEXT)
        note = columns.describe()
        if table.separator not in ("", ",", "\t") and not self.separator:
            note += f"; columns separated by {table.separator!r}"
        return columns.settings(), note

    def label_type(self, source: Source) -> LabelType:
        """The type of the labels in memory, by the first ones; those of files are texts."""
        if isinstance(source, Path):
            return "text"
        if tables.is_table(source):
            table, columns = self._find(source)
            labels = [columns.value(location, fields, LABEL.key) for location, fields in table.head]
        else:
            labels = [_pair(value)[1] for value in islice(source, tables.HEAD)]
        values = [label for label in labels if not is_missing(label)]
        if values and all(isinstance(value, bool | np.bool_) for value in values):
            return "boolean"
        whole = all(
            isinstance(value, int | np.integer | float | np.floating) and value == int(value) for value in values
        )
        return "integer" if values and whole else "text"

    def _rows(self, source: Source) -> Rows:
        if not isinstance(source, Path) and not tables.is_table(source):
            return _python_values(source)
        kind = self.detect(source)
        if kind == "long":
            return self._long(source)
        if kind in ("columns", "jsonl"):
            return self._columns(source)
        if not isinstance(source, Path):
            return _labelled_vectors(self._wide(source))
        if kind == "ts":
            return _labelled_vectors(vectors.ts(source, missing=self.missing))
        if kind == "npz":
            return _labelled_vectors(vectors.npz(source, missing=self.missing))
        if kind == "numbers":
            return _labelled_vectors(self._numbers(source))
        return self._folder(source) if kind == "folder" else self._lines(source)

    # Tables.

    @property
    def _chosen(self) -> Chosen:
        keys = ("text_column", "label_column", "group_column", "time_column")
        return {key: getattr(self, key) for key in keys}

    def _find(self, source: Source, text: Role = TEXT) -> tuple[Table, Columns]:
        label = LABEL if self.known is None else Role(LABEL.key, LABEL.noun, LABEL.names, LABEL.holds, optional=True)
        roles = (text, label)
        return find_columns(source, roles, self._chosen, separator=self.separator, encoding=self.encoding)

    def _columns(self, source: Source) -> Rows:
        if isinstance(source, Path) and self._is_list(source):
            yield from self._listed(source, named=True)
            return
        table, columns = self._find(source)
        text, label = columns.name(TEXT.key), columns.name(LABEL.key)
        for location, fields in table.records:
            if len(fields) == 1 and not table.names:
                yield Row(location, as_text(location, fields[0], name=text), None)
                continue
            content = as_text(location, columns.value(location, fields, TEXT.key), name=text)
            yield Row(location, content, as_target(location, columns.value(location, fields, LABEL.key), name=label))

    def _layout(self, source: Source) -> Layout:
        return long_tables.find_layout(source, self._chosen, separator=self.separator, encoding=self.encoding)

    def _long(self, source: Source) -> Rows:
        layout, numbers = self._layout(source), self.target_type == "number"
        unnamed = {long_tables.GROUP.key, long_tables.TIME.key}.isdisjoint(layout.columns.indices)
        # A recording without times, for a model of one file per recording.
        whole = unnamed and bool(self.channel_names) and self.group_column == ""
        for sequence in long_tables.read_sequences(layout, missing=self.missing, whole=whole, numbers=numbers):
            yield _row(sequence, long_tables.one_label(sequence))

    def _number_columns(self, source: Path, separator: str) -> NumberColumns:
        """The columns of rows of numbers, as the first two rows show."""
        first = [line.split(separator) for _, line in islice(text_files.lines(source, encoding=self.encoding), 2)]
        if not first:
            return NumberColumns(-1)
        names = [field.strip().strip('"') for field in first[0]]
        usual = [index for index, name in enumerate(names) if column_names.normalize(name) in LABEL.names]
        repeated = len(first) > 1 and any(
            first[0][index] == first[1][index] for index in usual if index < len(first[1])
        )
        header = not any(map(vectors.is_number, names[1:-1])) or (len(usual) == 1 and not repeated)
        names = names if header else []
        skipped = tuple(index for index, name in enumerate(names) if column_names.normalize(name) in IDENTIFIERS)
        column = self.label_column
        if isinstance(column, tuple):
            return NumberColumns(self._several(source, column, names), names, skipped)
        if isinstance(column, int):
            return NumberColumns(column, names, skipped)
        if column and column in names:
            return NumberColumns(names.index(column), names, skipped)
        if column and self.known is not None:
            return NumberColumns(None, names, skipped)
        if column:
            problem = f"the header has {', '.join(names)[:200]}" if names else "the first row is not a header"
            raise DataError(str(source), f"label_column: no column {column!r}; {problem}")
        if header and len(usual) == 1:
            return NumberColumns(usual[0], names, skipped)
        start, end = (vectors.is_number(first[-1][index]) for index in (0, -1))
        return NumberColumns(0 if end and not start else -1, names, skipped)

    def _several(self, source: Path, columns: Sequence[int | str], names: Sequence[str]) -> tuple[int, ...] | None:
        """The indices of several label columns; None: a file to predict, which does not have them."""
        missing = [name for name in columns if isinstance(name, str) and name not in names]
        if missing and self.known is not None:
            return None
        if missing:
            problem = f"the header has {', '.join(names)[:200]}" if names else "the first row is not a header"
            raise DataError(str(source), f"label_column: no column {missing[0]!r}; {problem}")
        return tuple(names.index(name) if isinstance(name, str) else name for name in columns)

    def _number_separator(self, source: Path) -> str:
        if self.separator or source == STANDARD_INPUT:
            return self.separator or ","
        first = [line for _, line in islice(text_files.lines(source, encoding=self.encoding), DETECTION_LINES)]
        return tables.sniff_separator(first)

    def _inspect_numbers(self, source: Source) -> tuple[dict[str, int | str], str]:
        if not isinstance(source, Path) or tables.is_binary(source):
            return {}, ""
        columns = self._number_columns(source, self._number_separator(source))
        return {} if isinstance(columns.label, tuple) else {LABEL.key: columns.setting}, columns.describe()

    def _numbers(self, source: Path) -> Iterator[VectorSequence]:
        options: dict[str, Any] = {"channels": self.channels, "missing": self.missing}
        if source == STANDARD_INPUT:
            return vectors.csv(source, label=None, header=False, separator=self.separator or ",", **options)
        if tables.is_binary(source):
            return self._wide(source)
        separator = self._number_separator(source)
        columns = self._number_columns(source, separator)
        header = bool(columns.names) or None
        return vectors.csv(
            source, label=columns.label, skip=columns.skipped, header=header, separator=separator, **options
        )

    def _wide(self, source: Source) -> Iterator[VectorSequence]:
        """Rows of numbers of a data frame, a Parquet or an Excel file."""
        roles = (Role(LABEL.key, LABEL.noun, LABEL.names, LABEL.holds, optional=True),)
        table, columns = find_columns(source, roles, self._chosen, encoding=self.encoding)
        index = columns.indices.get(LABEL.key)
        if index is None and table.head:
            others = [column for column in range(table.width) if not is_numeric(table.column(column))]
            index = others[0] if others else None
        skipped = [column for column, name in enumerate(table.names) if column_names.normalize(name) in IDENTIFIERS]
        for location, fields in table.records:
            values = [str(value) for column, value in enumerate(fields) if column != index and column not in skipped]
            label = None if index is None else as_target(location, fields[index], name=columns.name(LABEL.key))
            numbers = vectors.parse_numbers(location, values)
            if not len(numbers) or len(numbers) % self.channels:
                raise DataError(
                    location, f"expected a positive multiple of {self.channels} values, found {len(numbers)}"
                )
            filled = vectors.fill_missing(location, numbers.reshape(-1, self.channels), self.missing)
            yield vectors.labelled(VectorSequence(location, filled), label)

    # Text lines and folders.

    def _lines(self, source: Path) -> Rows:
        if not self._has_labels(source):
            yield from self._texts(source)
            return
        for location, label, text in text_files.labelled(source, encoding=self.encoding):
            if location.line == 1 and _is_header_line(label, text):
                continue
            yield Row(location, text, label)

    def _has_labels(self, source: Path) -> bool:
        """Whether lines start with a label: always before training, later if most start with a known one.

        Standard input, which cannot be read twice, has no labels.
        """
        if self.known is None or source == STANDARD_INPUT:
            return self.known is None
        first = islice(text_files.lines(source, encoding=self.encoding), DETECTION_LINES)
        words = [line.split(maxsplit=1)[0] for _, line in first if line.strip()]
        if any(word.startswith("__label__") for word in words):
            return True
        return 2 * sum(self._first_label(word) in self.known for word in words) > len(words)

    def _folder(self, source: Path) -> Rows:
        """Files named after labels, folders named after labels, or recordings with a table of labels."""
        if not source.is_dir():
            yield from self._texts(source)
            return
        content = list_folder(source)
        if content.folders:
            for folder in content.folders:
                for file in sorted(file for file in folder.rglob("*") if file.is_file()):
                    yield from self._file(file, folder.name)
        elif content.texts:
            for file in content.texts:
                for location, text, *_ in self._texts(file):
                    yield Row(location, text, Path(file.name.removesuffix(".gz")).stem)
        elif content.labels:
            yield from self._listed(content.labels[0])
        else:
            for file in content.recordings:
                yield from self._file(file, None)

    def _describe_folder(self, source: Path) -> str:
        content = list_folder(source)
        if content.texts:
            return f"label from the {_names_of(len(content.texts), 'file')}"
        if content.folders:
            files = [file for folder in content.folders for file in sorted(folder.rglob("*")) if file.is_file()]
            recordings = [file for file in files if tables.suffix(file) in tables.SUFFIXES]
            label = f"label from the {_names_of(len(content.folders), 'folder')}"
        else:
            recordings = content.recordings
            label = f"label from {content.labels[0].name}" if content.labels else "label from a column of each file"
        if not recordings:
            return label
        layout = self._layout(recordings[0])
        in_file = not content.folders and not content.labels and long_tables.LABEL.key in layout.columns.indices
        columns = layout.describe((long_tables.TIME, long_tables.LABEL) if in_file else (long_tables.TIME,))
        parts = [f"{text_files.pluralize(len(recordings), 'recording')}, one per file", *[label][in_file:], columns]
        return "; ".join(parts)

    def _file(self, file: Path, label: Target | None) -> Rows:
        """The text or the recording that a file holds."""
        if tables.suffix(file) == ".txt":
            lines = [line.strip() for _, line in text_files.lines(file, encoding=self.encoding)]
            yield Row(Location(str(file), 1), " ".join(filter(None, lines)), label)
        elif tables.suffix(file) in tables.SUFFIXES:
            chosen = self._chosen if label is None else {**self._chosen, "label_column": ""}
            sequence = long_tables.recording(
                file,
                chosen,
                separator=self.separator,
                encoding=self.encoding,
                missing=self.missing,
                numbers=self.target_type == "number",
            )
            yield _row(sequence, long_tables.one_label(sequence) if label is None else label)
        elif not file.name.startswith((".", "README", "LICENSE")):
            raise DataError(str(file), f"expected a .txt file or a table ({', '.join(tables.SUFFIXES)})")

    def _is_list(self, source: Path) -> bool:
        """Whether a table names files of recordings instead of holding texts."""
        if source == STANDARD_INPUT:
            return False
        table = tables.read_table(source, separator=self.separator, encoding=self.encoding)
        for index, name in enumerate(table.names):
            values = [str(value) for value in table.column(index)[:1]]
            if column_names.normalize(name) in FILE.names and values:
                path = source.parent / values[0]
                return path.suffix.lower() in tables.SUFFIXES and path.is_file()
        return False

    def _listed(self, source: Path, *, named: bool = False) -> Rows:
        """The recordings that a table names, with their labels; ``named``: their ids are these names."""
        table, columns = self._find(source, FILE)
        for location, fields in table.records:
            name = as_text(location, columns.value(location, fields, FILE.key), name=columns.name(FILE.key))
            label = as_target(location, columns.value(location, fields, LABEL.key), name=columns.name(LABEL.key))
            path = source.parent / name
            matches = [path, *(Path(f"{path}{suffix}") for suffix in tables.SUFFIXES)]
            file = next((match for match in matches if match.is_file()), None)
            if file is None:
                raise DataError(location, f"no file {name!r} in {source.parent}")
            for row in self._file(file, label):
                yield row._replace(identity=name) if named else row

    def _texts(self, source: Path) -> Rows:
        """Each line as a text without a label; empty ones only of standard input, where each line has an answer."""
        for location, line in text_files.lines(source, encoding=self.encoding):
            if line.strip() or source == STANDARD_INPUT:
                yield Row(location, line.strip(), None)

    def _first_label(self, label: str) -> str:
        return label.split(self.label_separator, maxsplit=1)[0] if self.label_separator else label


def _is_header_line(label: str, text: str) -> bool:
    """Whether a line is ``label text`` itself, or the like."""
    return label.casefold() in LABEL.names and text.casefold() in TEXT.names


def _names_of(count: int, noun: str) -> str:
    return f"{'name' if count == 1 else 'names'} of {text_files.pluralize(count, noun)}"


def _row(sequence: VectorSequence, label: Target | None) -> Row:
    return Row(sequence.location, sequence.values, label, sequence.channel_names, sequence.identity)


def _labelled_vectors(sequences: Iterable[VectorSequence]) -> Rows:
    for sequence in sequences:
        per_element = sequence.target is not None and sequence.target.ndim > 1
        if per_element or (sequence.labels is not None and sequence.label is None):
            raise DataError(sequence.location, "expected one label for the sequence, found one for each element")
        yield _row(sequence, sequence.label if sequence.target is None else sequence.target)


def _python_values(values: Sequence[Any]) -> Rows:
    """Python values: strings or arrays (T, D) or (T,), or pairs (value, label)."""
    if isinstance(values, str):
        raise DataError("input", "expected a list of strings, found a single string")
    for number, value in enumerate(values, start=1):
        location = Location("input", number)
        content, label = _pair(value)
        label = as_target(location, label, name="label")
        if isinstance(content, str):
            text_files.check_text(location, content)
            yield Row(location, content.strip(), label)
            continue
        if is_missing(content):
            raise DataError(location, f"expected a string or numbers (T, D), found a missing value ({content})")
        try:
            array = np.asarray(content, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(location, f"expected a string or numbers (T, D), found {type(content).__name__}") from None
        array = array[:, np.newaxis] if array.ndim == 1 else array
        if array.ndim != 2:
            shape = f"shape {array.shape}" if array.ndim else f"the single number {content}"
            raise DataError(location, f"expected numbers (T, D), found {shape}")
        yield Row(location, vectors.fill_missing(location, array, "error"), label)


def _pair(value: Any) -> tuple[Any, Any]:
    """The content and the label of a pair; a list is one only if it starts with a text."""
    paired = isinstance(value, tuple) or (isinstance(value, list) and value and isinstance(value[0], str))
    content, label = value if paired and len(value) == 2 else (value, None)
    return content, label
