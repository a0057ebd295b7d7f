"""Words and how they are spelt or spoken: pronunciation dictionaries, or plain lists of words."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from seqloom.data.readers.text_files import DataError, Location, lines

VARIANT = re.compile(r"(?<=.)\(\d+\)$")
"""Stands behind a word that is listed once more, with another pronunciation: ``READ(2)``."""


class Entry(NamedTuple):
    """A word, and one way to spell it."""

    location: Location
    word: str
    spelling: tuple[str, ...]  # none: as it is written


def read_pronunciations(path: Path, *, encoding: str = "utf-8") -> Iterator[Entry]:
    """``WORD  S P E L L`` on each line, or one word on each; the first line tells. Lines with ;;; are comments."""
    spelt: bool | None = None
    for location, line in lines(path, encoding=encoding):
        if line.startswith(";;;") or not (found := line.partition(" #")[0].split()):
            continue
        word, *spelling = found
        if spelt is None:
            spelt = bool(spelling)
        if spelt is not bool(spelling):
            odd = f"found {word!r} {'with' if spelling else 'without'} a spelling"
            raise DataError(location, f"{odd}; the words before have {'one' if spelt else 'none'}")
        yield Entry(location, VARIANT.sub("", word) if spelt else word, tuple(spelling))


def first_spellings(path: Path, *, encoding: str = "utf-8") -> dict[str, tuple[str, ...]]:
    """Of each word of a pronunciation dictionary."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in read_pronunciations(path, encoding=encoding):
        if not entry.spelling:
            raise DataError(entry.location, f"found {entry.word!r} alone; wanted a word and its spelling")
        found.setdefault(entry.word, entry.spelling)
    return found
