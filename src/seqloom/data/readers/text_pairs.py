"""Pairs of texts: one string, in which a tab separates the two."""

from collections.abc import Sequence
from typing import Any

from seqloom.data.readers import column_names
from seqloom.data.readers.columns import Role
from seqloom.data.readers.text_files import DataError, Location

SEPARATOR = "\t"
TYPED_SEPARATOR = "|||"
"""What separates two texts where a tab is hard to type."""
EXPECTED = f"expected two texts with a tab or {TYPED_SEPARATOR} between them"
SECOND_TEXT = Role("second_text_column", "second text", (), "text")


def join_texts(first: str, second: str) -> str:
    """A pair as one string; tabs within a text become blanks."""
    return SEPARATOR.join(text.replace(SEPARATOR, " ").strip() for text in (first, second))


def typed_pair(location: Location, text: str) -> str:
    """A pair or a single text that a person has typed, as it is stored."""
    parts = [part.strip() for part in text.replace(TYPED_SEPARATOR, SEPARATOR).split(SEPARATOR)]
    if len(parts) > 2:
        raise DataError(location, f"{EXPECTED}, found {len(parts)}")
    return SEPARATOR.join(parts)


def split_pair(location: Location, text: str) -> tuple[str, str]:
    """The two texts of a pair."""
    first, separator, second = text.partition(SEPARATOR)
    if not separator:
        raise DataError(location, f"{EXPECTED}, found one")
    return first, second


def named_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """Two columns with usual names of pairs of texts, such as premise and hypothesis; None: there are none."""
    by_name = {column_names.normalize(name): name for name in names}
    for first, second in column_names.TEXT_PAIRS:
        if first in by_name and second in by_name:
            return by_name[first], by_name[second]
    return None


def python_pair(location: Location, value: Any) -> tuple[Any, Any]:
    """The pair and the label of a Python value: ``(first, second)``, ``(first, second, label)`` or a string."""
    if isinstance(value, str):
        return typed_pair(location, value), None
    if is_labelled_pair(value):
        return join_texts(*value[:2]), value[2]
    if isinstance(value, tuple | list) and len(value) == 2 and _are_texts(value):
        return join_texts(*value), None
    raise DataError(
        location, f"expected (first text, second text) or (first text, second text, label), found {value!r:.80}"
    )


def is_labelled_pair(value: Any) -> bool:
    """Whether a Python value is ``(first, second, label)``."""
    return isinstance(value, tuple | list) and len(value) == 3 and _are_texts(value[:2])


def _are_texts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)
