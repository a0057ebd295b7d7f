"""Labelled sequences, texts or vectors: text lines, columns, JSON lines, folders, .ts and .npz files."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from seqloom.data.readers import text_files, vectors
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location, Source
from seqloom.data.readers.vectors import Missing, Values, VectorSequence

Format = Literal["auto", "lines", "columns", "jsonl", "folder", "numbers", "ts", "npz"]
Rows = Iterator[tuple[Location, str | Values, str | None]]  # content and label
SUFFIXES: dict[str, Format] = {".ts": "ts", ".npz": "npz", ".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "columns"}
DETECTION_LINES = 20  # lines that decide whether a file has labels


@dataclass(frozen=True, slots=True)
class LabelledSequence:
    """A labelled sequence."""

    location: Location
    content: str | Values  # a text, or vectors (T, D)
    label: str | None  # None: unknown
    length: int  # approximate number of elements, for bucketing

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True)
class LabelledReader:
    """Reads labelled examples from files; tasks/classify.py documents the options."""

    format: Format = "auto"
    separator: str = ""
    label_column: int | str = ""
    text_column: int | str = ""
    label_separator: str = ""
    channels: int = 1
    missing: Missing = "error"
    encoding: str = "utf-8"  # encoding of text files
    measure: Callable[[str], int] = len  # length of a text
    known: Container[str] | None = None  # labels of the trained model; None: before training, where labels are required
    numeric: bool = False  # standard input holds vectors, not text

    def read(self, source: Source) -> Iterator[LabelledSequence]:
        for location, content, label in self._rows(source):
            length = self.measure(content) if isinstance(content, str) else len(content)
            yield LabelledSequence(location, content, self._first_label(label) if label else None, length)

    def _rows(self, source: Source) -> Rows:
        if not isinstance(source, Path):
            return _python_values(source)
        format_ = self.format
        if format_ == "auto":
            format_ = detect(source, numeric=self.numeric, encoding=self.encoding)
        if format_ == "ts":
            return _labelled_vectors(vectors.ts(source, missing=self.missing))
        if format_ == "npz":
            return _labelled_vectors(vectors.npz(source, missing=self.missing))
        if format_ == "numbers":
            return self._numbers(source)
        readers = {"lines": self._lines, "columns": self._columns, "jsonl": self._jsonl, "folder": self._folder}
        return readers[format_](source)

    def _numbers(self, source: Path) -> Rows:
        column = -1 if self.label_column == "" else self.label_column
        if isinstance(column, str):
            raise DataError(
                str(source),
                f"label_column: expected the index of a column, found {column!r}; rows of numbers have no names",
            )
        label = None if source == STANDARD_INPUT else column
        separator = self.separator or ","
        return _labelled_vectors(
            vectors.csv(source, channels=self.channels, label=label, separator=separator, missing=self.missing)
        )

    def _lines(self, source: Path) -> Rows:
        if not self._has_labels(source):
            yield from self._texts(source)
            return
        for location, label, text in text_files.labelled(source, encoding=self.encoding):
            yield location, text, label

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

    def _columns(self, source: Path) -> Rows:
        separator = self.separator or ("," if _suffix(source) == ".csv" else "\t")
        label = 0 if self.label_column == "" else self.label_column
        text = 1 if self.text_column == "" else self.text_column
        named = isinstance(label, str) or isinstance(text, str)
        if separator == "\t":
            rows = text_files.tsv(source, encoding=self.encoding)
        else:
            rows = text_files.delimited(source, separator=separator, header=named, encoding=self.encoding)
        header: list[str] = []
        for location, fields in rows:
            if named and not header:
                header = [field.strip() for field in fields]
            elif len(fields) == 1 and not named:
                yield location, fields[0].strip(), None
            else:
                unlabelled = isinstance(label, str) and label not in header and self.known is not None
                name = None if unlabelled else pick(location, fields, header, label)
                yield location, pick(location, fields, header, text), name

    def _jsonl(self, source: Path) -> Rows:
        names = [self.text_column or "text", self.label_column or "label"]
        for location, value in text_files.jsonl(source, encoding=self.encoding):
            text, label = (value.get(str(name)) for name in names)
            if not isinstance(text, str):
                raise DataError(
                    location, f"{names[0]!r}: expected a string, found {type(text).__name__}; text_column sets the key"
                )
            if isinstance(label, (list, dict, float)):
                raise DataError(
                    location, f"{names[1]!r}: expected a string or an integer, found {type(label).__name__}"
                )
            yield location, text.strip(), None if label is None else str(label)

    def _folder(self, source: Path) -> Rows:
        if not source.is_dir():
            yield from self._texts(source)
            return
        files = sorted(file for file in source.iterdir() if file.name.removesuffix(".gz").endswith(".txt"))
        if not files:
            raise DataError(str(source), "no .txt file in the folder; expected one for each label")
        for file in files:
            for location, text, _ in self._texts(file):
                yield location, text, file.name.removesuffix(".gz").removesuffix(".txt")

    def _texts(self, source: Path) -> Rows:
        """Each non-empty line as a text without a label."""
        for location, line in text_files.lines(source, encoding=self.encoding):
            if line.strip():
                yield location, line.strip(), None

    def _first_label(self, label: str) -> str:
        return label.split(self.label_separator, maxsplit=1)[0] if self.label_separator else label


def detect(source: Path, *, numeric: bool = False, encoding: str = "utf-8") -> Format:
    """The format of a file, by its name or else by its first lines."""
    if source == STANDARD_INPUT:
        return "numbers" if numeric else "lines"
    if source.is_dir():
        return "folder"
    suffix = _suffix(source)
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    first = [line for _, line in islice(text_files.lines(source, encoding=encoding), 2)]
    if first and first[0].startswith("{"):
        return "jsonl"
    fields = first[-1].split(",") if first else []  # second line: the first may be a header
    if len(fields) > 2 and all(vectors.is_number(field) for field in fields[1:-1]):
        return "numbers"
    return "columns" if suffix == ".csv" else "lines"


def _suffix(source: Path) -> str:
    return Path(source.name.removesuffix(".gz")).suffix.lower()


def _labelled_vectors(sequences: Iterable[VectorSequence]) -> Rows:
    for sequence in sequences:
        if sequence.labels is not None and sequence.label is None:
            raise DataError(sequence.location, "expected one label for the sequence, found one for each element")
        yield sequence.location, sequence.values, sequence.label


def pick(location: Location, fields: list[str], header: list[str], column: int | str) -> str:
    """The field of a column, by index or by its name in the header."""
    if isinstance(column, str):
        if column not in header:
            raise DataError(location, f"no column {column!r}; the header has {', '.join(header)[:200]}")
        column = header.index(column)
    if not -len(fields) <= column < len(fields):
        raise DataError(location, f"no column {column} among {len(fields)} (the first is 0)")
    return fields[column].strip()


def _python_values(values: Sequence[Any]) -> Rows:
    """Python values: strings or arrays (T, D) or (T,), or tuples (value, label)."""
    if isinstance(values, str):
        raise DataError("input", "expected a list of strings, found a single string")
    for number, value in enumerate(values, start=1):
        location = Location("input", number)
        content, label = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
        if label is not None and not isinstance(label, str):
            raise DataError(location, f"label: expected a string, found {type(label).__name__}")
        if isinstance(content, str):
            text_files.check_text(location, content)
            yield location, content.strip(), label
            continue
        try:
            array = np.asarray(content, dtype=np.float32)
        except (TypeError, ValueError):
            raise DataError(location, f"expected a string or numbers (T, D), found {type(content).__name__}") from None
        array = array[:, np.newaxis] if array.ndim == 1 else array
        if array.ndim != 2:
            raise DataError(location, f"expected numbers (T, D), found shape {array.shape}")
        yield location, vectors.fill_missing(location, array, "error"), label
