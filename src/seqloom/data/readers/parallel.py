"""Pairs of a source and its target, both texts, from files in the formats of the field."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal

from seqloom.data.readers import text_files
from seqloom.data.readers.labelled import STANDARD_INPUT, pick
from seqloom.data.readers.text_files import DataError, Location, Source

Format = Literal["auto", "columns", "lines", "jsonl", "scan"]
Found = Iterator[tuple[Location, str, str | None]]  # source and target
SUFFIXES: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "columns", ".csv": "columns"}
SCAN = re.compile(r"IN:(?P<source>.*?)(?:\bOUT:(?P<target>.*))?")


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and what it should become."""

    location: Location
    source: str
    target: str | None  # None: not known
    lengths: tuple[int, int]  # about how many symbols the two have

    def __len__(self) -> int:
        return max(self.lengths)


@dataclass(frozen=True)
class Reader:
    """How files become pairs; tasks/translate.py tells what the options mean to a user."""

    format: Format = "auto"
    encoding: str = "utf-8"
    separator: str = ""
    source_column: int | str = ""
    target_column: int | str = ""
    source_length: Callable[[str], int] = len
    target_length: Callable[[str], int] = len

    def read(self, source: Source) -> Iterator[Pair]:
        """The pairs of one file or of two (``x.{en,de}``), of standard input, or of a list of texts or tuples."""
        if not isinstance(source, Path):
            return self._pairs(_given(source))
        if source == STANDARD_INPUT and self.format == "auto":
            return self._pairs(self._columns(source))
        return self._pairs(self._found(source))

    def read_inputs(self, source: Source) -> Iterator[Pair]:
        """The same, but a line is asked once whatever the targets it has, and of standard input it is all source."""
        if source == STANDARD_INPUT and self.format == "auto":
            return self._pairs(self._sources(source))
        return (next(pairs) for _, pairs in groupby(self.read(source), key=lambda pair: pair.location))

    def _pairs(self, found: Found) -> Iterator[Pair]:
        for location, left, right in found:
            source, target = left.strip(), None if right is None else right.strip()
            lengths = self.source_length(source), 0 if target is None else self.target_length(target)
            yield Pair(location, source, target, lengths)

    def _found(self, path: Path) -> Found:
        files = text_files.files(path)
        if len(files) == 2:
            if self.format not in ("auto", "lines"):
                raise DataError(str(path), f'names two files, and format is "{self.format}"; two files are "lines"')
            return text_files.parallel(*files, encoding=self.encoding)
        kind = self.detect(path)
        readers = {"columns": self._columns, "lines": self._sources, "jsonl": self._jsonl, "scan": self._scan}
        return readers[kind](path)

    def detect(self, path: Path) -> Format:
        """The format: as it is given, or by the name of a file, or else by its first line."""
        if self.format != "auto":
            return self.format
        suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
        if suffix in SUFFIXES:
            return SUFFIXES[suffix]
        first = next((line for _, line in islice(text_files.lines(path, encoding=self.encoding), 1)), "")
        if first.startswith("{"):
            return "jsonl"
        if first.startswith("IN:"):
            return "scan"
        return "columns" if self.separator or "\t" in first else "lines"

    def _columns(self, path: Path) -> Found:
        separator = self.separator or ("," if path.name.removesuffix(".gz").endswith(".csv") else "\t")
        columns = [
            default if column == "" else column
            for default, column in enumerate((self.source_column, self.target_column))
        ]
        named = any(isinstance(column, str) for column in columns)
        if len(separator) == 1 and not separator.isspace():
            rows = text_files.delimited(path, separator=separator, header=named, encoding=self.encoding)
        else:
            rows = text_files.tsv(path, separator=separator, encoding=self.encoding)
        header: list[str] = []
        for location, fields in rows:
            if named and not header:
                header = [field.strip() for field in fields]
            elif len(fields) == 1 and not named:
                yield location, fields[0], None
            else:
                source, target = columns
                known = not isinstance(target, str) or target in header
                yield (
                    location,
                    pick(location, fields, header, source),
                    pick(location, fields, header, target) if known else None,
                )

    def _sources(self, path: Path) -> Found:
        for location, line in text_files.lines(path, encoding=self.encoding):
            yield location, line, None

    def _jsonl(self, path: Path) -> Found:
        names = [str(self.source_column or "source"), str(self.target_column or "target")]
        for location, value in text_files.jsonl(path, encoding=self.encoding):
            source, target = (value.get(name) for name in names)
            if not isinstance(source, str):
                raise DataError(
                    location,
                    f"found {type(source).__name__} as {names[0]!r}; a text is wanted (source_column names it)",
                )
            for each in (target or [None]) if isinstance(target, list) else [target]:
                if each is not None and not isinstance(each, str):
                    kind = type(each).__name__
                    raise DataError(location, f"found {kind} as {names[1]!r}; a text, or a list of texts, is wanted")
                yield location, source, each

    def _scan(self, path: Path) -> Found:
        for location, line in text_files.lines(path, encoding=self.encoding):
            found = SCAN.fullmatch(line.strip())
            if found is None:
                raise DataError(location, f"found {line[:40]!r}; IN: source OUT: target is wanted")
            yield location, found["source"], found["target"]


def _given(values: Sequence[Any]) -> Found:
    """Python values: sources, or tuples of a source and a target."""
    if isinstance(values, str):
        raise DataError("input", "found one text; a list of texts is wanted")
    for number, value in enumerate(values, start=1):
        location = Location("input", number)
        source, target = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
        for text in (source, target):
            if text is not None and not isinstance(text, str):
                raise DataError(location, f"found {type(text).__name__}; a text, or a tuple of two, is wanted")
        if source is None:
            raise DataError(location, "found None; a text is wanted")
        for text in filter(None, (source, target)):
            text_files.checked(location, text)
        yield location, source, target
