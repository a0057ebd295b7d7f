"""CoNLL and CoNLL-U: one word per line, with its columns, and an empty line after each sentence."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seqloom.data.readers.text_files import DataError, Location, Source, lines, pluralize

LONG_SENTENCE = 1000  # words from which on a file of a single sentence is reported
LONGEST_SENTENCE = 100_000  # rows; a file without empty lines would be a single sentence
COMMENT = re.compile(r"# ?[A-Za-z][\w.:-]* = |# new(doc|par)\b")
"""The start of a line before a sentence that describes it, as in CoNLL-U."""


@dataclass(frozen=True, slots=True)
class Block:
    """The rows between two empty lines: a sentence."""

    location: Location  # location of the first row
    rows: list[list[str]]
    lines: Sequence[int] = ()  # line of each row, if they are not consecutive

    def at(self, row: int) -> Location:
        return self.location._replace(line=self.lines[row] if self.lines else self.location.line + row)


def conll(source: Source, *, separator: str | None = None, encoding: str = "utf-8") -> Iterator[Block]:
    """Sentences separated by empty lines; columns separated by tabs, or by spaces in lines without a tab.

    Comments such as ``# sent_id = 7`` before a sentence are skipped.
    """
    rows: list[list[str]] = []
    start = Location("", 0)
    width = 0
    for location, line in lines(source, encoding=encoding):
        if not rows and COMMENT.match(line):
            continue
        fields = split(line, separator)
        if not fields or fields[0] == "-DOCSTART-":
            if rows:
                yield Block(start, rows)
                rows = []
            continue
        if len(fields) != width:
            if width:
                raise DataError(
                    location, f"expected {pluralize(width, 'column')} as in the rows above, found {len(fields)}"
                )
            width = len(fields)
        if not rows:
            start = location
        rows.append(check_row(location, fields, preceding=len(rows)))
    if rows:
        yield Block(start, rows)


def split(line: str, separator: str | None) -> list[str]:
    """The columns of a row; none for a line of whitespace."""
    if separator is None:
        separator = "\t" if "\t" in line else " "
    if separator == " ":
        return [field for field in line.split(" ") if field]
    return line.split(separator) if line.strip(" \t") else []


def check_row(location: Location, fields: list[str], *, preceding: int) -> list[str]:
    """The row, if no column is empty and the sentence is not too long."""
    if "" in fields:
        raise DataError(location, f"column {fields.index('') + 1} is empty")
    if preceding == LONGEST_SENTENCE:
        raise DataError(
            location, f"no empty line in the last {LONGEST_SENTENCE} rows; separate sentences by empty lines"
        )
    return fields


def conllu(source: Source, *, encoding: str = "utf-8") -> Iterator[Block]:
    """Sentences of Universal Dependencies: ten columns; comments, multiword ranges and empty nodes are skipped."""
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
            raise DataError(location, f"expected the 10 columns of CoNLL-U separated by tabs, found {len(fields)}")
        if not (fields[0].isascii() and fields[0].isdecimal()):
            if re.fullmatch(r"[0-9]+[-.][0-9]+", fields[0]):
                continue
            raise DataError(location, f"expected the number of the word in column 1, found {fields[0][:20]!r}")
        if not rows:
            start = location
        rows.append(check_row(location, fields, preceding=len(rows)))
        numbers.append(location.line)
