"""Pairs of source and target texts: columns, JSON lines, parallel files, the SCAN format."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal

from seqloom.data.readers import text_files
from seqloom.data.readers.labelled import pick
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location, Source

Format = Literal["auto", "columns", "lines", "jsonl", "scan"]
Rows = Iterator[tuple[Location, str, str | None]]  # source and target
SUFFIXES: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "columns", ".csv": "columns"}
SCAN = re.compile(r"IN:(?P<source>.*?)(?:\bOUT:(?P<target>.*))?")


@dataclass(frozen=True, slots=True)
class Pair:
    """A source text and its target."""

    location: Location
    source: str
    target: str | None  # None: unknown
    lengths: tuple[int, int]  # approximate numbers of tokens

    def __len__(self) -> int:
        return max(self.lengths)


@dataclass(frozen=True)
class PairReader:
    """Reads pairs from files; tasks/translate.py documents the options."""

    format: Format = "auto"
    encoding: str = "utf-8"
    separator: str = ""
    source_column: int | str = ""
    target_column: int | str = ""
    source_length: Callable[[str], int] = len
    target_length: Callable[[str], int] = len

    def read(self, source: Source) -> Iterator[Pair]:
        """The pairs of a file, of two (``x.{en,de}``), of standard input, or of a list of strings or tuples."""
        if not isinstance(source, Path):
            return self._pairs(_python_values(source))
        if source == STANDARD_INPUT and self.format == "auto":
            return self._pairs(self._columns(source))
        return self._pairs(self._rows(source))

    def read_inputs(self, source: Source) -> Iterator[Pair]:
        """As ``read``, but a line with several targets occurs once, and standard input holds sources only."""
        if source == STANDARD_INPUT and self.format == "auto":
            return self._pairs(self._sources(source))
        return (next(pairs) for _, pairs in groupby(self.read(source), key=lambda pair: pair.location))

    def _pairs(self, rows: Rows) -> Iterator[Pair]:
        for location, left, right in rows:
            source, target = left.strip(), None if right is None else right.strip()
            lengths = self.source_length(source), 0 if target is None else self.target_length(target)
            yield Pair(location, source, target, lengths)

    def _rows(self, path: Path) -> Rows:
        files = text_files.expand(path)
        if len(files) == 2:
            if self.format not in ("auto", "lines"):
                raise DataError(str(path), f'two files need format = "lines" or "auto", found "{self.format}"')
            return text_files.parallel(*files, encoding=self.encoding)
        readers = {"columns": self._columns, "lines": self._sources, "jsonl": self._jsonl, "scan": self._scan}
        return readers[self.detect(path)](path)

    def detect(self, path: Path) -> Format:
        """The configured format, or else the one that the name or the first line of the file shows."""
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

    def _columns(self, path: Path) -> Rows:
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

    def _sources(self, path: Path) -> Rows:
        for location, line in text_files.lines(path, encoding=self.encoding):
            yield location, line, None

    def _jsonl(self, path: Path) -> Rows:
        names = [str(self.source_column or "source"), str(self.target_column or "target")]
        for location, value in text_files.jsonl(path, encoding=self.encoding):
            source, target = (value.get(name) for name in names)
            if not isinstance(source, str):
                raise DataError(
                    location,
                    f"{names[0]!r}: expected a string, found {type(source).__name__}; source_column sets the key",
                )
            for text in (target or [None]) if isinstance(target, list) else [target]:
                if text is not None and not isinstance(text, str):
                    raise DataError(
                        location, f"{names[1]!r}: expected a string or a list of strings, found {type(text).__name__}"
                    )
                yield location, source, text

    def _scan(self, path: Path) -> Rows:
        for location, line in text_files.lines(path, encoding=self.encoding):
            match = SCAN.fullmatch(line.strip())
            if match is None:
                raise DataError(location, f"expected 'IN: source OUT: target', found {line[:40]!r}")
            yield location, match["source"], match["target"]


def _python_values(values: Sequence[Any]) -> Rows:
    """Python values: sources, or tuples (source, target)."""
    if isinstance(values, str):
        raise DataError("input", "expected a list of strings, found a single string")
    for number, value in enumerate(values, start=1):
        location = Location("input", number)
        source, target = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
        for text in (source, target):
            if text is not None and not isinstance(text, str):
                raise DataError(location, f"expected a string or a tuple of two, found {type(text).__name__}")
        if source is None:
            raise DataError(location, "expected a string, found None")
        for text in filter(None, (source, target)):
            text_files.check_text(location, text)
        yield location, source, target
