"""Sequences with a label per element: words from CoNLL, CoNLL-U, parallel files, tables or plain lines, and vectors."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from seqloom.data.readers import column_names, long_tables, tables
from seqloom.data.readers.columns import Chosen, LabelColumn, label_columns, require_labels
from seqloom.data.readers.conll import Block, conll, conllu
from seqloom.data.readers.conll_columns import (
    CONLLU,
    Column,
    are_sentences,
    describe_columns,
    describe_conllu,
    describe_missing_labels,
    find_column,
    is_conllu,
    without_header,
)
from seqloom.data.readers.decimal_marks import DecimalMark, NumberFormat, rows_format
from seqloom.data.readers.media_lists import is_media
from seqloom.data.readers.numeric_targets import (
    TargetFormat,
    TargetType,
    column_name,
    detect_targets,
    finite,
    to_number,
)
from seqloom.data.readers.parallel_labels import describe_parallel_files
from seqloom.data.readers.row_ranges import Range, without_range
from seqloom.data.readers.sentence_tables import LABEL, find_sentences, group_column, read_sentences, sentence_column
from seqloom.data.readers.sentences import Sentence, TaggedSequence, array_of, with_labels
from seqloom.data.readers.spans import to_bio
from seqloom.data.readers.table_values import as_label
from seqloom.data.readers.tagged_frames import read_frames
from seqloom.data.readers.tagged_media import TaggedMedia, lists_media
from seqloom.data.readers.text_files import (
    STANDARD_INPUT,
    DataError,
    Location,
    Source,
    lines,
    parallel,
    pluralize,
)
from seqloom.data.readers.vectors import Missing, VectorSequence, describe_npz

HEAD = 1000  # examples whose labels show whether they are classes or numbers
DETECTION_LINES = 500  # lines in which an empty one shows that empty lines separate sequences
Format = Literal["auto", "conll", "conllu", "lines", "table", "long", "vectors", "media"]


@dataclass(frozen=True)
class TaggedReader:
    """Reads sentences or vectors from files; tasks/tag.py documents the options."""

    format: Format = "auto"
    encoding: str = "utf-8"
    words: Column | None = None
    labels: LabelColumn | None = None
    features: tuple[Column, ...] = ()
    target_type: TargetType = "auto"
    group: Column | None = None
    time: Column | None = None
    decimal: DecimalMark = ""  # of numbers that are text; empty: as they show
    separator: str = ""  # of columns; empty: as the first lines show
    parallel: tuple[str, str] | None = None  # parts of the file names of words and labels
    frames: int = 0  # features of the vectors that the model reads; 0: not trained yet, or words
    channel_names: tuple[str, ...] = ()  # of these features; empty: unknown
    convert_iob1: bool = False
    missing: Missing = "error"
    media: TaggedMedia | None = None  # None: for a model of words, which reads no recordings

    def read(self, source: Source) -> Iterator[TaggedSequence]:
        """The sequences of a source; a range after the name of a file, ``x.csv[0:0.8]``, selects rows of each."""
        file, rows = without_range(source)
        for whole in self._read(file):
            sequence = whole if rows is None else _select_rows(whole, rows)
            if self.convert_iob1 and sequence.labels is not None:
                sequence = replace(sequence, labels=to_bio(sequence.labels))
            if self.target_type == "number":
                yield to_numbers(sequence, name=column_name(self.labels), decimal=self.decimal)
            else:
                yield self._classes(sequence)

    def target_format(self, source: Source) -> TargetFormat:
        """What the labels of a source are, and how their numbers are written, as the first ones show."""
        examples = replace(self, target_type="auto").read(source)
        labels = (
            (example.location, target)
            for example in islice(examples, HEAD)
            for target in (example.labels or () if example.target is None else [example.target])
        )
        return detect_targets(
            labels, name=column_name(self.labels, LABEL.noun), target_type=self.target_type, decimal=self.decimal
        )

    def _classes(self, sequence: TaggedSequence) -> TaggedSequence:
        if self.target_type == "class" and sequence.target is not None:
            raise DataError(
                sequence.location, 'expected a class for each element, found numbers; task.target_type is "class"'
            )
        return sequence

    def _read(self, source: Source) -> Iterator[TaggedSequence]:
        if not isinstance(source, Path) and not tables.is_table(source):
            return read_items(source)
        kind = self.detect(source)
        if kind == "table":
            return read_sentences(source, self._chosen, self._tables, missing=self.missing)
        if kind == "long":
            return self._long(source)
        assert isinstance(source, Path)  # noqa: S101  anything else is a table
        if kind == "media":
            return (self.media or TaggedMedia()).read(source, self._chosen)
        if self.parallel is not None and self.format == "auto" and source != STANDARD_INPUT:
            return read_parallel(source, self.parallel, encoding=self.encoding)
        if kind == "vectors":
            separator, numbers = self._frame_rows(source)
            return read_frames(
                source,
                labels=self.labels,
                features=self.frames,
                names=self.channel_names,
                numbers=self.target_type == "number",
                separator=separator,
                decimal=numbers.decimal,
                missing=self.missing,
            )
        if kind == "lines":
            return read_lines(source, encoding=self.encoding)
        if kind == "conllu":
            return read_conllu(
                source, words=self.words, labels=self.labels, features=self.features, encoding=self.encoding
            )
        return read_conll(
            source,
            words=self.words,
            labels=self.labels,
            features=self.features,
            separator=self._separator(source),
            encoding=self.encoding,
        )

    def _separator(self, source: Path) -> str | None:
        """The separator of columns in CoNLL; None: tabs, or else spaces."""
        is_csv = tables.suffix(source) == ".csv"
        if self.separator:
            return self.separator
        return tables.sniff_separator(_first_lines(source, self.encoding)) if is_csv else None

    def _frame_rows(self, source: Path) -> tuple[str, NumberFormat]:
        """The separator of rows of vectors, and how their numbers are written."""
        if source == STANDARD_INPUT or tables.suffix(source) in (".npz", ".ts"):
            return self.separator or ",", NumberFormat(self.decimal)
        first = _first_lines(source, self.encoding)
        separator = self.separator or tables.sniff_separator(first)
        if separator == ",":
            return separator, NumberFormat(self.decimal)
        rows = ((Location(str(source), number), line.split(separator)) for number, line in enumerate(first, start=1))
        return separator, rows_format(rows, decimal=self.decimal)

    def for_inputs(self, source: Source, is_label: Callable[[str], bool]) -> tuple[Self, str]:
        """The reader of a file to predict, which may hold plain sentences, and a note about what it takes."""
        if not isinstance(source, Path) or source == STANDARD_INPUT or source.is_dir() or isinstance(self.words, int):
            return self, ""
        if without_range(source)[1] is not None:  # a range is one of vectors
            return self, ""
        if self.features:  # which plain sentences do not have
            return self, ""
        if (self.parallel is not None and self.format == "auto") or self.detect(source) != "conll":
            return self, ""
        first = _first_lines(source, self.encoding)
        if self.format == "auto" and tables.suffix(source) != ".conll" and are_sentences(first, is_label):
            return replace(self, format="lines"), "each line is read as a sentence; --format conll reads columns"
        return self, describe_missing_labels(first, is_label) if self.labels is None else ""

    def inspect(self, source: Source) -> tuple[dict[str, int | str], str]:
        """The columns that training data show, as configuration, and a sentence about them; both may be empty.

        DataError if no column of a table holds the labels.
        """
        source, _ = without_range(source)
        kind = self.detect(source)
        if kind == "table":
            table, columns = find_sentences(source, self._chosen, self._tables)
            require_labels(table, columns, self._chosen)
            return columns.settings(), columns.describe()
        if kind == "long":
            files = _recordings(source) if isinstance(source, Path) and source.is_dir() else []
            layout = long_tables.find_layout(files[0] if files else source, self._chosen, **self._tables)
            require_labels(layout.table, layout.columns, self._chosen)
            if files:
                return {}, f"{pluralize(len(files), 'recording')}, one per file: {layout.describe()}"
            return layout.columns.settings(), f"one row per time step: {layout.describe()}"
        if not isinstance(source, Path) or self.parallel is not None:
            return {}, ""
        if kind == "vectors":
            if tables.suffix(source) == ".npz":
                return {}, describe_npz(source)
            numbers = self._frame_rows(source)[1]
            return ({"decimal": numbers.decimal}, numbers.note) if numbers.note else ({}, "")
        if kind == "media" and self.media is not None:
            return {}, self.media.describe(source, self._chosen)
        if kind == "conllu":
            return {}, describe_conllu(self.words, self.labels, self.features)
        if kind == "conll":
            return {}, describe_columns(
                source,
                words=self.words,
                labels=self.labels,
                features=self.features,
                separator=self._separator(source),
                encoding=self.encoding,
                check=self.format == "auto",
            )
        return {}, ""

    def single_sequence_advice(self, source: Source) -> str:
        """What to do if all rows of a file are one sequence, of which no part is held out."""
        file, _ = without_range(source)
        kind = self.detect(file)
        advice = []
        if kind in ("conll", "conllu"):
            return "put an empty line after each sentence"
        if isinstance(file, Path) and kind in ("long", "vectors"):
            advice = [f"hold out its last rows with task.train={file}[0:0.9] task.dev={file}[0.9:1]"]
        if kind == "long" and not (isinstance(file, Path) and file.is_dir()):
            layout = long_tables.find_layout(file, self._chosen, **self._tables)
            if long_tables.GROUP.key not in layout.columns.indices:
                names = layout.group_candidates()
                column = f"to {' or '.join(names)}" if names else "to the column that names the sequence of each row"
                advice.insert(0 if names else 1, f"set task.group_column {column}")
        return ", or ".join(advice)

    def rates(self, source: Source) -> Iterator[int]:
        """The sampling rates of listed recordings; none if the source lists none."""
        source, _ = without_range(source)
        if self.media is None or not isinstance(source, Path) or self.detect(source) != "media":
            return iter(())
        return self.media.rates(source, self._chosen)

    def listed_files(self, source: Path) -> list[Path]:
        """The recordings and videos that a list names."""
        if self.media is None or source == STANDARD_INPUT or without_range(source)[1] is not None:
            return []
        if self.detect(source) != "media":
            return []
        return self.media.listed_files(source, self._chosen)

    def detect(self, source: Source) -> Format:
        """The configured format, or else the one that the name and the first rows of the source show."""
        if self.format != "auto":
            return self.format
        if isinstance(source, Path):
            named = detect(source, frames=bool(self.frames))
            if self.media is not None and source != STANDARD_INPUT and is_media(source):
                return "media"
            if source.is_dir():
                return "long"
            if source == STANDARD_INPUT or self.parallel is not None:
                return named
            if named in ("conllu", "lines") or tables.suffix(source) in (".npz", ".ts"):
                return named
            if self.media is not None and not tables.is_binary(source):
                first = _first_lines(source, self.encoding)
                if lists_media(source, first, encoding=self.encoding):
                    return "media"
            if table := self._table_format(source):
                return table
            return "conllu" if named == "conll" and is_conllu(_first_lines(source, self.encoding)) else named
        return (self._table_format(source) or "table") if tables.is_table(source) else "lines"

    def _table_format(self, source: Source) -> Format | None:
        return _table_format(source, self._chosen, separator=self.separator, encoding=self.encoding)

    @property
    def _chosen(self) -> Chosen:
        return {
            "word_column": self.words,
            "label_column": self.labels,
            "group_column": self.group,
            "time_column": self.time,
        }

    @property
    def _tables(self) -> dict[str, Any]:
        """How tables are read."""
        return {"separator": self.separator, "encoding": self.encoding, "decimal": self.decimal}

    def _long(self, source: Source) -> Iterator[VectorSequence]:
        if isinstance(source, Path) and source.is_dir():
            for file in _recordings(source):
                yield long_tables.recording(
                    file,
                    self._chosen,
                    missing=self.missing,
                    numbers=self.target_type == "number",
                    **self._tables,
                )
            return
        layout = long_tables.find_layout(source, self._chosen, **self._tables)
        yield from long_tables.read_sequences(
            layout, missing=self.missing, numbers=self.target_type == "number", decimal=self.decimal
        )


def _select_rows(sequence: TaggedSequence, rows: Range) -> TaggedSequence:
    """Some rows of a sequence."""
    if isinstance(sequence, Sentence):
        raise DataError(rows.text, "a range of rows is for vectors; found sentences: put them into files of their own")
    start, stop = rows.rows(len(sequence), noun="rows")
    return replace(
        sequence,
        location=sequence.location._replace(line=sequence.location.line + start),
        values=sequence.values[start:stop],
        labels=None if sequence.labels is None else sequence.labels[start:stop],
        target=None if sequence.target is None else sequence.target[start:stop],
    )


def _recordings(folder: Path) -> list[Path]:
    """The tables in a folder, each of them one sequence."""
    files = sorted(file for file in folder.iterdir() if tables.suffix(file) in tables.SUFFIXES)
    if not files:
        raise DataError(
            str(folder), f"no table in the folder ({', '.join(tables.SUFFIXES)}){describe_parallel_files(folder)}"
        )
    return files


def detect(path: Path, *, frames: bool) -> Format:
    """The format of a file by its name; ``frames``: read vectors if the name does not show it."""
    suffix = tables.suffix(path)
    names: dict[str, Format] = {".conllu": "conllu", ".csv": "vectors", ".npz": "vectors", ".ts": "vectors"}
    return names.get(suffix, "vectors" if frames else "lines" if path == STANDARD_INPUT else "conll")


def _table_format(source: Source, chosen: Chosen, *, separator: str, encoding: str) -> Format | None:
    """``table`` for words or lists of words in named columns, ``long`` for vectors of several sequences."""
    if isinstance(source, Path) and not tables.is_binary(source):
        first = _first_lines(source, encoding)
        separators = (separator,) if separator else tables.SEPARATORS
        separated = any(each in (first[0] if first else "") for each in separators)
        if not first or not (separated or first[0].startswith(("{", "["))) or not first[0][:1].strip():
            return None
    else:
        first = []
    if first and not first[0].startswith(("{", "[")):
        names = [column_names.normalize(name) for name in _cells(first[0], separator)]
        configured = [str(name) for column in chosen.values() for name in label_columns(column)]
        usual = {*column_names.WORD, *column_names.TEXT, *column_names.GROUP, *column_names.TIME, *configured}
        if usual.isdisjoint(names) or len(names) < 2:
            return None
    table = tables.read_table(source, separator=separator, encoding=encoding)
    if not table.names:
        return None
    if sentence_column(table, chosen):
        return "table"
    names = [column_names.normalize(name) for name in table.names]
    words = chosen.get("word_column")
    has_words = words in table.names if words else not set(column_names.WORD).isdisjoint(names)
    first_values = [value for index in range(table.width) for value in table.column(index)[:1]]
    lists = any(isinstance(value, list | tuple | np.ndarray) for value in first_values)
    if has_words or (lists and not set(column_names.VALUES).isdisjoint(names)):
        return "table" if lists or group_column(table, chosen) is not None or "" not in first else "conll"
    layout = long_tables.shown_layout(table, chosen)
    grouped = long_tables.GROUP.key in layout.columns.indices or "" not in first
    return "long" if long_tables.is_long(layout) and grouped else None


def _first_lines(source: Path, encoding: str) -> list[str]:
    return [line for _, line in islice(lines(source, encoding=encoding), DETECTION_LINES)]


def _cells(line: str, separator: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(separator or tables.sniff_separator([line]))]


def read_conll(
    source: Source,
    *,
    words: Column | None = None,
    labels: LabelColumn | None = None,
    features: Sequence[Column] = (),
    separator: str | None = None,  # None: tabs, or else spaces
    encoding: str = "utf-8",
) -> Iterator[Sentence]:
    """CoNLL: by default the first column is the word and the last the label; a single column has no labels."""
    for block in without_header(conll(source, separator=separator, encoding=encoding)):
        width = len(block.rows[0])
        first = find_column(block.location, 0 if words is None else words, width, key="word_column")
        columns = label_columns(labels) or (-1,)
        second = [find_column(block.location, column, width, key="label_column") for column in columns if width > 1]
        third = [find_column(block.location, column, width, key="feature_columns") for column in features]
        known = [] if labels is None and set(second) & set(third) else second  # a file without the column of labels
        yield _sentence(block, first, known, third)


def read_conllu(
    source: Source,
    *,
    words: Column | None = None,
    labels: LabelColumn | None = None,
    features: Sequence[Column] = (),
    encoding: str = "utf-8",
) -> Iterator[Sentence]:
    """CoNLL-U; a sentence whose labels are all ``_`` has none."""
    for block in conllu(source, encoding=encoding):
        word_column = "form" if words is None else words
        first = find_column(block.location, word_column, len(CONLLU), key="word_column", names=CONLLU)
        second = [
            find_column(block.location, column, len(CONLLU), key="label_column", names=CONLLU)
            for column in label_columns(labels) or ("upos",)
        ]
        third = [
            find_column(block.location, column, len(CONLLU), key="feature_columns", names=CONLLU) for column in features
        ]
        known = any(row[column] != "_" for row in block.rows for column in second)
        yield _sentence(block, first, second if known else [], third)


def read_parallel(source: Path, names: tuple[str, str], *, encoding: str = "utf-8") -> Iterator[Sentence]:
    """Words and labels in two files, line by line; the second file may be missing.

    The last occurrence of the first name in the path is replaced by the second: ``("seq.in", "seq.out")``.
    """
    before, part, after = str(source).rpartition(names[0])
    if not part:
        raise DataError(str(source), f"{names[0]!r} (task.parallel) does not occur in the file name")
    labels = Path(before + names[1] + after)
    if not labels.exists():
        yield from read_lines(source, encoding=encoding)
        return
    for location, text, tags in parallel(source, labels, encoding=encoding):
        words, word_labels = tuple(text.split()), tuple(tags.split())
        if len(words) != len(word_labels):
            counts = f"{pluralize(len(words), 'word')}, but {pluralize(len(word_labels), 'label')}"
            raise DataError(location, f"found {counts} in {labels}")
        yield Sentence(location, words, word_labels)


def read_lines(source: Source, *, encoding: str = "utf-8") -> Iterator[Sentence]:
    """Words separated by whitespace, without labels."""
    for location, text in lines(source, encoding=encoding):
        yield Sentence(location, tuple(text.split()))


def read_items(items: Sequence[Any]) -> Iterator[TaggedSequence]:
    """Python values: lines of text, lists of words, or arrays (T, D), each alone or as a pair with its labels."""
    if isinstance(items, str):
        raise DataError("input", "expected a list of strings, found a single string")
    for number, item in enumerate(items, start=1):
        location = Location("input", number)
        if isinstance(item, Sentence | VectorSequence):
            yield item
        elif isinstance(item, tuple) and len(item) == 2 and not isinstance(item[1], str):
            yield _labelled(location, *item)
        elif isinstance(item, str):
            yield Sentence(location, tuple(item.split()))
        elif isinstance(item, list | tuple) and all(isinstance(word, str) for word in item):
            yield Sentence(location, tuple(item))
        else:
            yield VectorSequence(location, array_of(location, item))


def _labelled(location: Location, item: Any, labels: Any) -> TaggedSequence:
    """Words or vectors with a label for each."""
    words = tuple(item.split()) if isinstance(item, str) else item
    if np.ndim(labels) == 2:
        target = finite(location, labels)
        if len(words) != len(target):
            raise DataError(location, f"expected numbers for each of {len(words)} elements, found {len(target)}")
        if all(isinstance(word, str) for word in words):
            return Sentence(location, tuple(words), target=target)
        return VectorSequence(location, array_of(location, item), target=target)
    names = [as_label(location, label, name="labels") for label in labels]
    if len(words) != len(names):
        raise DataError(location, f"expected a label for each of {len(words)} elements, found {len(names)}")
    if None in names:
        raise DataError(location, f"label {names.index(None) + 1} is missing")
    known = tuple(name for name in names if name is not None)
    if all(isinstance(word, str) for word in words):
        return Sentence(location, tuple(words), known)
    return VectorSequence(location, array_of(location, item), labels=known)


def _sentence(block: Block, words: int, labels: Sequence[int], features: Sequence[int]) -> Sentence:
    numbers = [block.at(row).line for row in range(len(block.rows))]
    consecutive = range(numbers[0], numbers[0] + len(numbers))
    sentence = Sentence(
        block.location,
        tuple(row[words] for row in block.rows),
        tuple(row[labels[0]] for row in block.rows) if len(labels) == 1 else None,
        consecutive if numbers == list(consecutive) else tuple(numbers),
        features=tuple(tuple(row[column] for row in block.rows) for column in features),
    )
    if len(labels) < 2:
        return sentence
    rows = [(block.at(number), [row[label] for label in labels]) for number, row in enumerate(block.rows)]
    return with_labels(sentence, rows)


def to_numbers(sequence: TaggedSequence, *, name: str = "target", decimal: DecimalMark = "") -> TaggedSequence:
    """A sequence whose labels are taken as numbers."""
    if sequence.labels is None:
        return sequence
    places = (
        [sequence.at(index) for index in range(len(sequence))]
        if isinstance(sequence, Sentence)
        else [sequence.location] * len(sequence)
    )
    numbers = [
        to_number(place, label, name=name, decimal=decimal)
        for place, label in zip(places, sequence.labels, strict=True)
    ]
    target = np.stack(numbers) if numbers else np.zeros((0, 1))
    return replace(sequence, labels=None, target=target)
