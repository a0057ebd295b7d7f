"""Sequences with a label each, texts or vectors, from files in the formats of the field."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from seqloom.data.readers import text_files, vectors
from seqloom.data.readers.text_files import DataError, Location, Source
from seqloom.data.readers.vectors import Missing, Values, Vectors

Format = Literal["auto", "lines", "columns", "jsonl", "folder", "numbers", "ts", "npz"]
Found = Iterator[tuple[Location, str | Values, str | None]]  # content and label
SUFFIXES: dict[str, Format] = {".ts": "ts", ".npz": "npz", ".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "columns"}
STANDARD_INPUT = Path("-")
LOOKED_AT = 20
"""Lines of a file by which it is decided whether it has labels."""


@dataclass(frozen=True, slots=True)
class Example:
    """A sequence with its label."""

    location: Location
    content: str | Values  # a text, or vectors (T, D)
    label: str | None  # None: not known
    length: int  # about how many elements, for buckets

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True)
class Reader:
    """How files become examples; tasks/classify.py tells what the options mean to a user."""

    format: Format = "auto"
    separator: str = ""
    label_column: int | str = ""
    text_column: int | str = ""
    label_separator: str = ""
    channels: int = 1
    missing: Missing = "error"
    encoding: str = "utf-8"  # of texts
    measure: Callable[[str], int] = len  # the length of a text
    known: Container[str] | None = None  # labels that were learnt; None: they are about to be, so there have to be some
    numeric: bool = False  # what standard input holds: vectors, or else text

    def read(self, source: Source) -> Iterator[Example]:
        for location, content, label in self._found(source):
            length = self.measure(content) if isinstance(content, str) else len(content)
            yield Example(location, content, self._part(label) if label else None, length)

    def _found(self, source: Source) -> Found:
        if not isinstance(source, Path):
            return _given(source)
        kind = self.format
        if kind == "auto":
            kind = detect(source, numeric=self.numeric, encoding=self.encoding)
        if kind == "ts":
            return _cases(vectors.ts(source, missing=self.missing))
        if kind == "npz":
            return _cases(vectors.npz(source, missing=self.missing))
        if kind == "numbers":
            return self._numbers(source)
        readers = {"lines": self._lines, "columns": self._columns, "jsonl": self._jsonl, "folder": self._folder}
        return readers[kind](source)

    def _numbers(self, source: Path) -> Found:
        column = -1 if self.label_column == "" else self.label_column
        if isinstance(column, str):
            raise DataError(str(source), f"label_column is {column!r}; among numbers, the number of a column is wanted")
        label = None if source == STANDARD_INPUT else column
        separator = self.separator or ","
        return _cases(
            vectors.csv(source, channels=self.channels, label=label, separator=separator, missing=self.missing)
        )

    def _lines(self, source: Path) -> Found:
        if not self._has_labels(source):
            yield from self._texts(source)
            return
        for location, label, text in text_files.labelled(source, encoding=self.encoding):
            yield location, text, label

    def _has_labels(self, source: Path) -> bool:
        """Whether lines begin with a label: so before training, and where most of them begin with one that is known.

        Standard input, which cannot be looked at first, has none.
        """
        if self.known is None or source == STANDARD_INPUT:
            return self.known is None
        first = islice(text_files.lines(source, encoding=self.encoding), LOOKED_AT)
        words = [line.split(maxsplit=1)[0] for _, line in first if line.strip()]
        if any(word.startswith("__label__") for word in words):
            return True
        return 2 * sum(self._part(word) in self.known for word in words) > len(words)

    def _columns(self, source: Path) -> Found:
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

    def _jsonl(self, source: Path) -> Found:
        names = [self.text_column or "text", self.label_column or "label"]
        for location, value in text_files.jsonl(source, encoding=self.encoding):
            text, label = (value.get(str(name)) for name in names)
            if not isinstance(text, str):
                raise DataError(
                    location, f"found {type(text).__name__} as {names[0]!r}; a text is wanted (text_column names it)"
                )
            if isinstance(label, (list, dict, float)):
                raise DataError(
                    location, f"found {type(label).__name__} as {names[1]!r}; a text or an integer is wanted"
                )
            yield location, text.strip(), None if label is None else str(label)

    def _folder(self, source: Path) -> Found:
        if not source.is_dir():
            yield from self._texts(source)
            return
        files = sorted(file for file in source.iterdir() if file.name.removesuffix(".gz").endswith(".txt"))
        if not files:
            raise DataError(str(source), "there is no .txt file in the folder; one for each label is wanted")
        for file in files:
            for location, text, _ in self._texts(file):
                yield location, text, file.name.removesuffix(".gz").removesuffix(".txt")

    def _texts(self, source: Path) -> Found:
        """A text on each line that is not empty, without labels."""
        for location, line in text_files.lines(source, encoding=self.encoding):
            if line.strip():
                yield location, line.strip(), None

    def _part(self, label: str) -> str:
        return label.split(self.label_separator, maxsplit=1)[0] if self.label_separator else label


def detect(source: Path, *, numeric: bool = False, encoding: str = "utf-8") -> Format:
    """The format by the name of a file, or else by its first lines."""
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
    fields = first[-1].split(",") if first else []  # of the second line: the first may be a header
    if len(fields) > 2 and all(vectors.is_number(field) for field in fields[1:-1]):
        return "numbers"
    return "columns" if suffix == ".csv" else "lines"


def _suffix(source: Path) -> str:
    return Path(source.name.removesuffix(".gz")).suffix.lower()


def _cases(cases: Iterable[Vectors]) -> Found:
    for case in cases:
        if case.labels is not None and case.label is None:
            raise DataError(case.location, "each element has a label; one label for the whole sequence is wanted")
        yield case.location, case.values, case.label


def pick(location: Location, fields: list[str], header: list[str], column: int | str) -> str:
    """The field of a column, by its number or by its name in the header."""
    if isinstance(column, str):
        if column not in header:
            raise DataError(location, f"there is no column {column!r}; the header has {', '.join(header)[:200]}")
        column = header.index(column)
    if not -len(fields) <= column < len(fields):
        raise DataError(
            location, f"found {text_files.counted(len(fields), 'column')}; there is no column {column} (the first is 0)"
        )
    return fields[column].strip()


def _given(values: Sequence[Any]) -> Found:
    """Python values: texts or arrays (T, D) or (T,), or pairs (tuples) of one of those and its label."""
    if isinstance(values, str):
        raise DataError("input", "found one text; a list of texts is wanted")
    for number, value in enumerate(values, start=1):
        location = Location("input", number)
        content, label = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
        if label is not None and not isinstance(label, str):
            raise DataError(location, f"found {type(label).__name__} as the label; a text is wanted")
        if isinstance(content, str):
            text_files.checked(location, content)
            yield location, content.strip(), label
            continue
        try:
            array = np.asarray(content, dtype=np.float32)
        except (TypeError, ValueError):
            raise DataError(location, f"found {type(content).__name__}; a text or numbers (T, D) are wanted") from None
        array = array[:, np.newaxis] if array.ndim == 1 else array
        if array.ndim != 2:
            raise DataError(location, f"found numbers {array.shape}; (T, D) is wanted")
        yield location, vectors.filled(location, array, "error"), label
