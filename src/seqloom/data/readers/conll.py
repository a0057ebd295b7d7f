"""Sentences in columns, a word on each line and a blank line after each sentence: CoNLL and CoNLL-U."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seqloom.data.readers.text_files import DataError, Location, Source, counted, lines

LONGEST_BLOCK = 100_000  # rows; a file that lacks its blank lines would be one sentence


@dataclass(frozen=True, slots=True)
class Block:
    """The rows between two blank lines: a sentence."""

    location: Location  # of the first row
    rows: list[list[str]]
    lines: Sequence[int] = ()  # of the rows, where they do not follow each other

    def at(self, row: int) -> Location:
        return self.location._replace(line=self.lines[row] if self.lines else self.location.line + row)


def conll(source: Source, *, separator: str | None = None, encoding: str = "utf-8") -> Iterator[Block]:
    """Sentences with a blank line between them; columns by tabs, or by blanks in a line without a tab."""
    rows: list[list[str]] = []
    start = Location("", 0)
    width = 0
    for location, line in lines(source, encoding=encoding):
        fields = split(line, separator)
        if not fields or fields[0] == "-DOCSTART-":
            if rows:
                yield Block(start, rows)
                rows = []
            continue
        if len(fields) != width:
            if width:
                raise DataError(location, f"found {counted(len(fields), 'column')}; the rows before have {width}")
            width = len(fields)
        if not rows:
            start = location
        rows.append(filled(location, fields, before=len(rows)))
    if rows:
        yield Block(start, rows)


def split(line: str, separator: str | None) -> list[str]:
    """The columns of a row; none in a blank line."""
    if separator is None:
        separator = "\t" if "\t" in line else " "
    if separator == " ":
        return [field for field in line.split(" ") if field]
    return line.split(separator) if line.strip(" \t") else []


def filled(location: Location, fields: list[str], *, before: int) -> list[str]:
    """A row without empty columns that is not one too many."""
    if "" in fields:
        raise DataError(location, f"column {fields.index('') + 1} is empty")
    if before == LONGEST_BLOCK:
        raise DataError(
            location, f"there are {LONGEST_BLOCK} rows before without a blank line, which ends each sentence"
        )
    return fields


def conllu(source: Source, *, encoding: str = "utf-8") -> Iterator[Block]:
    """Sentences of Universal Dependencies: ten columns; comments, multiword ranges and empty nodes are left out."""
    rows: list[list[str]] = []
    numbers: list[int] = []
    start = Location("", 0)
    for location, line in itertools.chain(lines(source, encoding=encoding), [(start, "")]):
        if line.startswith("#"):
            continue
        fields = split(line, "\t")
        if not fields:
            if rows:
                yield Block(start, rows, numbers)
                rows, numbers = [], []
            continue
        if len(fields) != 10:
            raise DataError(location, f"found {counted(len(fields), 'column')} separated by tabs; CoNLL-U has 10")
        if not (fields[0].isascii() and fields[0].isdecimal()):
            if re.fullmatch(r"[0-9]+[-.][0-9]+", fields[0]):
                continue
            raise DataError(location, f"found {fields[0][:20]!r} in column 1; the number of the word is wanted")
        if not rows:
            start = location
        rows.append(filled(location, fields, before=len(rows)))
        numbers.append(location.line)
