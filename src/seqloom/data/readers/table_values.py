"""The values of a table: missing ones, texts, labels and numbers."""

import math
from collections.abc import Sequence
from decimal import Decimal

from seqloom.data.readers.text_files import DataError, Location

LONGEST_LABEL = 60  # characters
MISSING = {"", "na", "nan", "n/a", "null", "none", "?"}
"""How files write a missing number, in lowercase."""


def is_missing(value: object) -> bool:
    """Whether a value is missing: nothing, a blank string, NaN, or the null value of a library."""
    if isinstance(value, str):
        return not value.strip()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and math.isnan(value)


def as_text(location: Location, value: object, *, name: str) -> str:
    """A text of a column; numbers are texts, too, and a missing value is an empty text, as in a text file."""
    if isinstance(value, str):
        return value.strip()
    if is_missing(value):
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(location, f"{name!r}: expected a string, found {type(value).__name__}")
    return str(value)


def as_required_text(location: Location, value: object, *, name: str) -> str:
    """The same where a missing value is an error."""
    if is_missing(value) and not isinstance(value, str):
        raise DataError(location, f"{name!r}: expected a string, found no value")
    return as_text(location, value, name=name)


class PlainNumber(str):
    """A label that is stored as a number, not as text: the point in it is that of decimals, whatever others have."""

    __slots__ = ()


def as_label(location: Location, value: object, *, name: str) -> str | None:
    """The name of a class: a string, or a number without a useless ``.0``; None: missing."""
    if isinstance(value, str):
        return value.strip() or None
    value = value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value
    if is_missing(value):
        return None
    if isinstance(value, list | tuple | dict | set | bytes):
        raise DataError(location, f"{name!r}: expected a string or an integer, found {type(value).__name__}")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return PlainNumber(value) if isinstance(value, float | Decimal) else str(value)


MINUS = "\u2212"
"""The minus sign of typography, which spreadsheets and word processors write."""


def with_hyphen_minus(text: str) -> str:
    """A text in which minus signs are those that ``float`` reads."""
    return text.replace(MINUS, "-") if MINUS in text else text


def as_number(value: object) -> float | None:
    """The number that a value is or writes; NaN if it is missing, None if it is something else."""
    if is_missing(value) or (isinstance(value, str) and value == "?"):
        return math.nan
    try:
        return float(with_hyphen_minus(value) if isinstance(value, str) else value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def is_numeric(values: Sequence[object]) -> bool:
    """Whether all values are numbers, as far as they are known."""
    return bool(values) and all(as_number(value) is not None for value in values)


def is_prose(values: Sequence[object]) -> bool:
    """Whether values are texts of several words."""
    texts = [value for value in values if isinstance(value, str)]
    return bool(texts) and sum(len(text.split()) for text in texts) >= 3 * len(texts)


def recurs(values: Sequence[object]) -> bool:
    """Whether most values occur more than once."""
    return len(values) > 0 and 3 * len(set(values)) <= len(values)


def is_label(values: Sequence[object]) -> bool:
    """Whether all values are as short as the names of classes are."""
    return all(isinstance(value, str | int | float) and len(str(value).split()) <= 3 for value in values) and all(
        len(str(value)) <= LONGEST_LABEL for value in values
    )
