"""Numbers as people write them: decimal commas (1.234,5), and thousands separators (1,234.5 or 1 234,5)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from seqloom.data.readers.tables import Record
from seqloom.data.readers.text_files import DataError, Location

DecimalMark = Literal["", ".", ","]  # empty: as the values show

_SPACE = " \u00a0\u2009\u202f'’"
_COMMA = re.compile(rf"[-+]?(\d{{1,3}}([.{_SPACE}]\d{{3}})+|\d+)(,\d+)?")
_POINT = re.compile(rf"[-+]?(\d{{1,3}}([,{_SPACE}]\d{{3}})+|\d+)(\.\d+)?")
_ONE_GROUP = re.compile(r"[-+]?[1-9]\d{0,2}[.,]\d{3}")  # 1,234 or 1.234: thousands, or three decimals


def writes_number(field: Any) -> bool:
    """Whether a text is a number, with any decimal mark."""
    return isinstance(field, str) and bool(_COMMA.fullmatch(field.strip()) or _POINT.fullmatch(field.strip()))


def find_marks(
    location: Location,
    names: Sequence[str],
    columns: Sequence[Sequence[Any]],  # the first values of each column
    *,
    preferred: DecimalMark = "",  # where the values leave it open
) -> dict[int, str]:
    """The decimal marks of the columns whose numbers have commas or thousands separators, by column.

    DataError if the values do not show whether commas are decimal marks.
    """
    texts = {
        index: [value.strip() for value in column if isinstance(value, str) and value.strip()]
        for index, column in enumerate(columns)
    }
    written = {index: values for index, values in texts.items() if values and all(map(writes_number, values))}
    marks = {index: mark for index, values in written.items() if (mark := _mark(values))}
    unusual = {index for index, values in written.items() if any(not _is_plain(value) for value in values)}
    common = {marks[index] for index in marks if index in unusual}
    for index in written.keys() - marks.keys():
        if preferred or len(common) == 1:
            marks[index] = preferred or next(iter(common))
        elif index in unusual:
            example = next(value for value in written[index] if not _is_plain(value))
            raise DataError(
                location,
                f"column {names[index]!r}: {example!r} may have a decimal comma or a thousands separator; "
                'set task.decimal to "," (decimal comma) or "." (decimal point)',
            )
    return {index: mark for index, mark in marks.items() if index in unusual or mark == ","}


def _mark(values: Iterable[str]) -> str:
    """The decimal mark that the values of a column show; empty: none is certain."""
    for value in values:
        is_comma, is_point = bool(_COMMA.fullmatch(value)), bool(_POINT.fullmatch(value))
        if is_comma != is_point:
            return "," if is_comma else "."
        if "," in value and not _ONE_GROUP.fullmatch(value):  # 0,125
            return ","
        if "." in value and not _ONE_GROUP.fullmatch(value):
            return "."
    return ""


def _is_plain(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def with_points(records: Iterable[Record], marks: Mapping[int, str], names: Sequence[str]) -> Iterator[Record]:
    """The same records, with numbers that ``float`` reads in the columns of ``marks``."""
    patterns = {index: (_COMMA if mark == "," else _POINT, mark) for index, mark in marks.items()}
    table = {",": str.maketrans(",", ".", "." + _SPACE), ".": str.maketrans("", "", "," + _SPACE)}
    for location, fields in records:
        changed = list(fields)
        for index, (pattern, mark) in patterns.items():
            field = fields[index] if index < len(fields) else None
            if not isinstance(field, str):
                continue
            if pattern.fullmatch(field.strip()):
                changed[index] = field.strip().translate(table[mark])
            elif writes_number(field):
                usual = "comma" if mark == "," else "point"
                raise DataError(
                    location,
                    f"column {names[index]!r}: {field.strip()!r} is no number with a decimal {usual}, as others of the "
                    "column are",
                )
        yield location, changed


def describe(marks: Mapping[int, str], names: Sequence[str]) -> str:
    """One sentence about the columns whose numbers are not plain; empty if there are none."""
    parts = [
        f"{meaning}: {', '.join(names[index] for index in sorted(marks) if marks[index] == mark)}"
        for mark, meaning in ((",", "numbers with a decimal comma"), (".", "numbers with thousands separators"))
        if mark in marks.values()
    ]
    return "; ".join(parts)
