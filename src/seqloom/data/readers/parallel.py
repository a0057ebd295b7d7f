"""Pairs of source and target texts: tables, parallel files, the SCAN format."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal

from seqloom.data.readers import column_names, tables, text_files
from seqloom.data.readers.columns import Columns, Role, find_columns
from seqloom.data.readers.table_values import as_text, is_missing
from seqloom.data.readers.tables import Table
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Location, Source

Format = Literal["auto", "columns", "lines", "jsonl", "scan"]
Rows = Iterator[tuple[Location, str, str | None]]  # source and target
SOURCE = Role("source_column", "source", column_names.SOURCE)
TARGET = Role("target_column", "target", column_names.TARGET)
SCAN = re.compile(r"IN:(?P<source>.*?)(?:\bOUT:(?P<target>.*))?")


@dataclass(frozen=True, slots=True)
class Pair:
    """A source text and its target."""

    location: Location
    source: str
    target: str | None  # None: unknown
    lengths: tuple[int, int]  # approximate numbers of tokens
    tokens: tuple[list[int], list[int]] | None = None  # ids of both, if they were split at random; None: as usual

    def __len__(self) -> int:
        return max(self.lengths)


@dataclass(frozen=True)
class PairReader:
    """Reads pairs from files; tasks/translate documents the options."""

    format: Format = "auto"
    encoding: str = "utf-8"
    separator: str = ""
    source_column: int | str = ""
    target_column: int | str = ""
    source_length: Callable[[str], int] = len
    target_length: Callable[[str], int] = len
    roles: tuple[Role, Role] = (SOURCE, TARGET)

    def read(self, source: Source) -> Iterator[Pair]:
        """The pairs of a file, of two (``x.{en,de}``), of standard input, or of a list of strings or tuples."""
        if not isinstance(source, Path):
            return self._pairs(self._columns(source) if tables.is_table(source) else _python_values(source))
        if source == STANDARD_INPUT and self.format == "auto":
            return self._pairs(self._columns(source))
        return self._pairs(self._rows(source))

    def inspect(self, source: Source) -> tuple[dict[str, int | str], str]:
        """The columns that a source shows, as configuration, and a sentence about them; both may be empty."""
        if isinstance(source, Path):
            if len(text_files.expand(source)) == 2 or self.detect(source) not in ("columns", "jsonl"):
                return {}, ""
        elif not tables.is_table(source):
            return {}, ""
        _, columns = self._find(source, optional_target=False)
        return columns.settings(), columns.describe()

    def read_inputs(self, source: Source) -> Iterator[Pair]:
        """As ``read``, but a line with several targets occurs once, and standard input holds sources only."""
        if isinstance(source, Path) and source == STANDARD_INPUT and self.format == "auto":
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
        kind = self.detect(path)
        if kind in ("columns", "jsonl"):
            return self._columns(path)
        return self._scan(path) if kind == "scan" else self._sources(path)

    def detect(self, path: Path) -> Format:
        """The configured format, or else the one that the name or the first line of the file shows."""
        if self.format != "auto":
            return self.format
        if tables.suffix(path) in tables.SUFFIXES or tables.is_binary(path):
            return "jsonl" if tables.suffix(path) in tables.JSON_SUFFIXES else "columns"
        first = next((line for _, line in islice(text_files.lines(path, encoding=self.encoding), 1)), "")
        if first.startswith(("{", "[{")):
            return "jsonl"
        if first.startswith("IN:"):
            return "scan"
        return "columns" if self.separator or "\t" in first else "lines"

    def _find(self, source: Source, *, optional_target: bool) -> tuple[Table, Columns]:
        roles = (self.roles[0], replace(self.roles[1], optional=optional_target))
        chosen = {
            role.key: column for role, column in zip(roles, (self.source_column, self.target_column), strict=True)
        }
        separator = self.separator
        if not separator and isinstance(source, Path) and tables.suffix(source) not in tables.SUFFIXES:
            separator = "" if self.format == "jsonl" else "\t"
        return find_columns(source, roles, chosen, separator=separator, encoding=self.encoding)

    def _columns(self, source: Source) -> Rows:
        table, columns = self._find(source, optional_target=True)
        first, second = (role.key for role in self.roles)
        names = columns.name(first), columns.name(second)
        for location, fields in table.records:
            if len(fields) == 1 and not table.names:
                yield location, as_text(location, fields[0], name=names[0]), None
                continue
            text = as_text(location, columns.value(location, fields, first), name=names[0])
            target = columns.value(location, fields, second)
            for answer in (target or [None]) if isinstance(target, list) else [target]:
                known = isinstance(answer, str) or not is_missing(answer)
                yield location, text, as_text(location, answer, name=names[1]) if known else None

    def _sources(self, path: Path) -> Rows:
        for location, line in text_files.lines(path, encoding=self.encoding):
            yield location, line, None

    def _scan(self, path: Path) -> Rows:
        for location, line in text_files.lines(path, encoding=self.encoding):
            match = SCAN.fullmatch(line.strip())
            if match is None:
                raise DataError(location, f"expected 'IN: source OUT: target', found {line[:40]!r}")
            yield location, match["source"], match["target"]


def _python_values(values: Sequence[Any]) -> Rows:
    """Python values: sources, or pairs (source, target)."""
    if isinstance(values, str):
        raise DataError("input", "expected a list of strings, found a single string")
    for number, value in enumerate(values, start=1):
        location = Location("input", number)
        source, target = value if isinstance(value, tuple | list) and len(value) == 2 else (value, None)
        for text in (source, target):
            if text is not None and not isinstance(text, str):
                raise DataError(location, f"expected a string or a tuple of two, found {type(text).__name__}")
        if source is None:
            raise DataError(location, "expected a string, found None")
        for text in filter(None, (source, target)):
            text_files.check_text(location, text)
        yield location, source, target
