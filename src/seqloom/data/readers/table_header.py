"""Whether the first row of a table holds the names of its columns."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from seqloom.data.readers import column_names
from seqloom.data.readers.table_values import as_number, is_missing, is_numeric, is_prose, recurs

NAME = re.compile(r"\w[\w .#/()&:%$€\[\]-]{0,39}|\w+(?: \w+)?\s?\?")
"""What the name of a column may look like; a longer question is a text."""
FIGURES = re.compile(r"[-+$€£]?\d[\d.,:/ -]*[%€]?")
"""A number, an amount, a date or a time, as people write them."""


def has_header(rows: Sequence[Sequence[Any]]) -> bool:
    """Whether the first of these rows holds the names of the columns."""
    if not rows:
        return False
    first, others = [str("" if value is None else value).strip() for value in rows[0]], rows[1:]
    if first == [str(number) for number in range(len(first))] and len(first) > 1:  # as pandas numbers columns
        return any(_is_words(_column(others, index)) for index in range(len(first)))
    indexed = not first[0] and len(first) > 1 and is_numeric(_column(others, 0))  # pandas writes its index so
    names = first[1:] if indexed else first
    while names and not names[-1]:
        names = names[:-1]
    if not names or not all(NAME.fullmatch(name) and as_number(name) is None for name in names):
        return False
    usual = sum(map(_is_usual, names))
    if 2 * usual >= len(names) > 1:  # files that were joined repeat their header
        others = [row for row in others if not repeats(row, first)]
    columns = [_column(others, index) for index in range(len(first))]
    pairs = [(name, column) for name, column in zip(first, columns, strict=True) if name]
    if any(is_numeric(column) or _are_figures(column) for name, column in pairs if not FIGURES.fullmatch(name)):
        return True
    recurring = any(name in column for name, column in pairs)
    short = all(len(name.split()) == 1 or _is_usual(name) for name in names)
    if 2 * usual >= len(names) and short and not recurring:
        return True
    # A class that occurs once and a text of one word, where the others are classes that recur and long texts.
    return not recurring and any(map(recurs, columns)) and any(map(is_prose, columns)) and len(others) >= 10


def repeats(row: Sequence[Any], names: Sequence[str]) -> bool:
    """Whether a row holds the names of the columns once more."""
    return len(row) == len(names) and all(
        isinstance(value, str) and value.strip() == name for value, name in zip(row, names, strict=True)
    )


def _is_usual(name: str) -> bool:
    """Whether a name, or the last word of a compound such as ``review_text`` or ``Review Text``, is a usual one."""
    normal = column_names.normalize(name)
    last = normal.rpartition("_")[2] if " " not in name or name.istitle() else normal
    return not {normal, last, name.casefold()}.isdisjoint(column_names.ALL)


def _column(rows: Iterable[Sequence[Any]], index: int) -> list[str]:
    values = (row[index] for row in rows if index < len(row))
    return [str(value).strip() for value in values if not is_missing(value)]


def _are_figures(column: Sequence[str]) -> bool:
    return bool(column) and all(map(FIGURES.fullmatch, column))


def _is_words(column: Sequence[str]) -> bool:
    return bool(column) and all(as_number(value) is None for value in column)
