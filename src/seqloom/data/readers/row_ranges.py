"""Ranges of rows after the name of a file: ``x.csv[0.6:0.8]``, ``x.csv[:8640]``, ``x.csv[-100:]``."""

import math
import os
import re
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Source


class Range(NamedTuple):
    """A range of rows after the name of a file."""

    text: str
    start: str
    stop: str

    def rows(self, length: int, *, noun: str) -> tuple[int, int]:
        """First row and end of the range among ``length`` rows; a number with a decimal point is a fraction of them."""
        fractions = "." in self.start + self.stop
        start, stop = (
            default if not text else self._row(text, length, fraction=fractions and text.lstrip("-") in ("0", "1"))
            for text, default in ((self.start, 0), (self.stop, length))
        )
        if not 0 <= start < stop <= length:
            raise DataError(self.text, f"expected a non-empty range of the {length} {noun}, found {start} to {stop}")
        return start, stop

    def _row(self, text: str, length: int, *, fraction: bool) -> int:
        if fraction or "." in text:
            return math.floor(Fraction(text) * length)
        return int(text) + (length if text.startswith("-") else 0)


def split_range(path: Path) -> tuple[Path, Range]:
    """A file name and the range after it; all rows if there is none."""
    match = re.fullmatch(r"(.+)\[([^\[\]]*)\]", path.name)
    if not match:
        return path, Range(str(path), "", "")
    bounds = match[2].split(":")
    number = r"-?\d+|\d*\.\d+|\d+\.|"
    if len(bounds) != 2 or not all(re.fullmatch(number, bound.strip()) for bound in bounds):
        raise DataError(
            str(path), f"expected a range of rows or fractions such as [0:8640] or [0.6:0.8], found [{match[2]}]"
        )
    return path.with_name(match[1]), Range(str(path), bounds[0].strip(), bounds[1].strip())


def without_range(source: Source) -> tuple[Source, Range | None]:
    """A source without the range of rows after its name, and this range; None: there is none."""
    if not isinstance(source, Path) or source == STANDARD_INPUT or os.path.lexists(source):
        return source, None
    path, rows = split_range(source)
    return (source, None) if path == source else (path, rows)
