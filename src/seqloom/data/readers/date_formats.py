"""Dates and times from texts, in the formats that people use; 03/04/2020 may be in March or in April."""

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.month_names import in_english
from seqloom.data.readers.table_values import is_missing

Dates = NDArray[np.datetime64]  # (T,), in microseconds
DateOrder = Literal["", "day_first", "month_first"]

DATE_FORMATS = (
    *("%Y-%m", "%Y/%m/%d", "%Y/%m", "%Y.%m.%d", "%Y %b %d", "%Y-%b-%d", "%Y-%b"),
    *("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%m-%d-%Y", "%d-%m-%Y", "%m/%d/%y", "%d/%m/%y", "%m/%Y", "%d.%m.%y"),
    *("%b-%d-%Y", "%b %d %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%d-%b-%y"),
    *("%b %Y", "%b-%Y", "%B %Y", "%b-%y", "%Y %b", "%Y-%jT", "%a %b %d %Y"),
)
CLOCK_FORMATS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", " %H.%M.%S", " %H")
PROBED = 24  # values of a column that show whether it looks like dates
DIGIT = re.compile(r"\d")
QUARTER = re.compile(r"(?:(\d{4})[\s-]*[Qq]([1-4])|[Qq]([1-4])[\s/-]*(\d{4}))")


class ParsedDates(NamedTuple):
    """Dates as written, and which of two numbers was taken for the day, where the format leaves that open."""

    dates: Dates
    order: DateOrder = ""
    offsets: NDArray[np.timedelta64] | None = None  # (T,), from UTC, NaT where there is none; None: there are none
    is_utc: bool = False  # the offsets were subtracted


def parse_dates(values: Sequence[Any]) -> list[ParsedDates]:
    """Dates and times from texts or Python objects, in each way in which all can be read; empty: a value is none."""
    if not values:
        return []
    if isinstance(values[0], date):
        try:
            return [_with_offsets(values)]
        except (AttributeError, TypeError, ValueError):
            return []
    if isinstance(values[0], np.datetime64):
        return [ParsedDates(np.array(values).astype("M8[us]"))]
    if not all(isinstance(value, str) for value in values):
        return []
    texts = [value.strip() for value in values]
    return _parse_texts(texts) or _parse_texts(in_english(texts) or [])


def _parse_texts(texts: Sequence[str]) -> list[ParsedDates]:
    if not texts:
        return []
    try:
        return [_with_offsets([datetime.fromisoformat(text) for text in texts])]
    except ValueError:
        pass
    if all(QUARTER.fullmatch(text) for text in texts[:3]):
        matches = [QUARTER.fullmatch(text) for text in texts]
        if all(matches):
            parts = [(match[1] or match[4], match[2] or match[3]) for match in matches if match]
            return [ParsedDates(np.array([f"{year}-{3 * int(quarter) - 2:02}" for year, quarter in parts], "M8[us]"))]
    return [
        ParsedDates(dates, _order(format_))
        for format_ in _fitting_formats(texts)
        if (dates := with_format(texts, format_)) is not None
    ]


def count_leading_dates(values: Sequence[Any]) -> int:
    """How many values at the beginning are dates of one format; 0 if the first three are not."""
    low, high = 3, len(values)
    if high < low or any(map(is_missing, values[:low])) or not parse_dates(values[:low]):
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        if any(map(is_missing, values[low:middle])) or not parse_dates(values[:middle]):
            high = middle - 1
        else:
            low = middle
    return low


def first_unreadable(values: Sequence[Any]) -> Any | None:
    """The first value that is no date, in a column in which at least two others are; None: it does not look like dates.

    An evident mistake, or names of months in a language that is not known.
    """
    head = values[:PROBED]
    unreadable = [value for value in head if is_missing(value) or not parse_dates([value])]
    return unreadable[0] if unreadable and len(head) - len(unreadable) >= 2 else None


def _order(format_: str) -> DateOrder:
    match format_[:5]:
        case "%m/%d" | "%m-%d":
            return "month_first"
        case "%d/%m" | "%d-%m":
            return "day_first"
    return ""


def _with_offsets(values: Sequence[Any]) -> ParsedDates:
    """Dates or times of Python as local times, with their offsets from UTC if they have some."""
    offsets: list[timedelta | None] = [value.utcoffset() if isinstance(value, datetime) else None for value in values]
    if all(offset is None for offset in offsets):
        return ParsedDates(np.array(values, "M8[us]"))
    local = [value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in values]
    return ParsedDates(np.array(local, "M8[us]"), offsets=np.array(offsets, "m8[us]"))


def _fitting_formats(texts: Sequence[str]) -> Iterator[str]:
    """The formats of the first texts."""
    probe = texts[:3]
    if not all(map(DIGIT.search, probe)):  # every format has a year
        return
    for format_ in DATE_FORMATS:
        for clock in CLOCK_FORMATS:
            if with_format(probe, format_ + clock) is not None:
                yield format_ + clock


def with_format(texts: Sequence[str], format_: str) -> Dates | None:
    """Dates in a format of ``strptime``; None if a text is none."""
    try:
        return np.array([datetime.strptime(text, format_) for text in texts], "M8[us]")  # noqa: DTZ007  no time zone
    except ValueError:
        return None
