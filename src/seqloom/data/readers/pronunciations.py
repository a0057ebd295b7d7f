"""Lexicons: pronunciation dictionaries and plain word lists."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from seqloom.data.readers.text_files import DataError, Location, lines

VARIANT = re.compile(r"(?<=.)\(\d+\)$")
"""The number of an alternative pronunciation: ``READ(2)``."""


class Entry(NamedTuple):
    """A word and one pronunciation."""

    location: Location
    word: str
    spelling: tuple[str, ...]  # empty: as it is written


def read_pronunciations(path: Path, *, encoding: str = "utf-8") -> Iterator[Entry]:
    """Lines of ``WORD  P H O N E S``, or of one word each, as the first line; ``;;;`` starts a comment line."""
    has_spellings: bool | None = None
    for location, line in lines(path, encoding=encoding):
        if line.startswith(";;;") or not (fields := line.partition(" #")[0].split()):
            continue
        word, *spelling = fields
        if has_spellings is None:
            has_spellings = bool(spelling)
        if has_spellings is not bool(spelling):
            expected = "a word and its spelling" if has_spellings else "a word without spelling"
            raise DataError(location, f"expected {expected} as in the lines above, found {line[:60]!r}")
        yield Entry(location, VARIANT.sub("", word) if has_spellings else word, tuple(spelling))


def first_spellings(path: Path, *, encoding: str = "utf-8") -> dict[str, tuple[str, ...]]:
    """The first spelling of each word of a pronunciation dictionary."""
    spellings: dict[str, tuple[str, ...]] = {}
    for entry in read_pronunciations(path, encoding=encoding):
        if not entry.spelling:
            raise DataError(entry.location, f"expected a word and its spelling, found only {entry.word!r}")
        spellings.setdefault(entry.word, entry.spelling)
    return spellings
