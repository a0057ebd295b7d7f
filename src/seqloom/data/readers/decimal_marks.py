"""Numbers as people write them: decimal commas (1.234,5), thousands separators (1,234.5), minus signs (−1)."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

from seqloom.data.readers.table_values import MINUS, MISSING, as_number, is_missing, with_hyphen_minus
from seqloom.data.readers.tables import HEAD, Record, Table
from seqloom.data.readers.text_files import DataError, Location

DecimalMark = Literal["", ".", ","]  # empty: as the values show

_SIGNS = f"-+{MINUS}"  # also between brackets of a pattern
_SPACE = " \u00a0\u2009\u202f'’"
_COMMA = re.compile(rf"[{_SIGNS}]?(\d{{1,3}}([.{_SPACE}]\d{{3}})+|\d+)(,\d+)?")
_POINT = re.compile(rf"[{_SIGNS}]?(\d{{1,3}}([,{_SPACE}]\d{{3}})+|\d+)(\.\d+)?")
_PATTERNS = {",": _COMMA, ".": _POINT}
_TO_POINT = {
    ",": str.maketrans("," + MINUS, ".-", "." + _SPACE),
    ".": str.maketrans(MINUS, "-", "," + _SPACE),
}
"""What makes of a number with each decimal mark one that ``float`` reads."""
_SIGN = r"[$€£¥₹₩₽₺]|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD)(?![A-Z])"
_AMOUNT = re.compile(
    rf"[{_SIGNS}]?(?P<before>{_SIGN})?\s*(?P<number>[{_SIGNS}]?\d\S*?(?: \d{{3}}\S*?)*)\s*(?P<after>{_SIGN}|%)?"
)
MIN_GROUPS = 10  # different numbers such as 1.234 that show what the point is
_ONE_GROUP = re.compile(rf"[{_SIGNS}]?[1-9]\d{{0,2}}[.,]\d{{3}}")  # 1,234 or 1.234: thousands, or three decimals


def writes_number(field: Any) -> bool:
    """Whether a text is a number, with any decimal mark."""
    return isinstance(field, str) and bool(_COMMA.fullmatch(field.strip()) or _POINT.fullmatch(field.strip()))


def has_mark(field: str, decimal: Literal[".", ","]) -> bool:
    """Whether a text is a number if this is the decimal mark."""
    return bool(_PATTERNS[decimal].fullmatch(field.strip()))


def to_point(field: str, decimal: DecimalMark) -> str:
    """A number with this decimal mark as ``float`` reads it; other texts, and all without a mark, keep their marks."""
    marked = decimal and has_mark(field, decimal)
    return field.strip().translate(_TO_POINT[decimal]) if marked else with_hyphen_minus(field)


def unit_of(field: str) -> str:
    """What makes a text of a number, such as ``the currency sign $`` or ``the percent sign``; empty: nothing does."""
    match = _AMOUNT.fullmatch(field.strip())
    sign = (match["before"] or match["after"] or "") if match else ""
    if match is None or not sign or not writes_number(match["number"]):
        return ""
    return "the percent sign" if sign == "%" else f"the currency {'code' if sign.isalpha() else 'sign'} {sign}"


class NumberMarks(NamedTuple):
    """How the numbers of the columns are written."""

    marks: dict[int, str]  # decimal marks of the columns with commas or thousands separators
    pointed: frozenset[int] = frozenset()  # columns in which points separate thousands, and nothing has a comma
    uncertain: tuple[int, ...] = ()  # columns in which all numbers are like 1.234, read with a decimal point
    integers: frozenset[int] = frozenset()  # columns without a comma or a point, whose mark is that of the others

    def describe(self, names: Sequence[str], columns: Container[int]) -> str:
        """One sentence about those of some columns whose numbers are not plain; empty if there are none."""
        shown = {index: mark for index, mark in self.marks.items() if index in columns}

        def shown_as(mark: str) -> set[int]:
            return {index for index in shown if shown[index] == mark}

        meanings = {
            "numbers with a decimal comma": shown_as(",") - self.pointed - self.integers,
            "numbers with points between thousands (1.234 is 1234)": self.pointed & shown.keys(),
            "numbers with thousands separators": shown_as("."),
        }
        parts = [
            f"{meaning}: {', '.join(names[index] for index in sorted(indices))}"
            for meaning, indices in meanings.items()
            if indices
        ]
        if uncertain := [names[index] for index in self.uncertain if index in columns]:
            parts.append(
                f"numbers such as 1.234 are read with a decimal point, not as thousands: {', '.join(uncertain)} "
                '(task.decimal = "," reads thousands)'
            )
        return "; ".join(parts)

    def decimal(self, columns: Container[int]) -> DecimalMark:
        """The decimal mark of some columns."""
        return "," if any(mark == "," and index in columns for index, mark in self.marks.items()) else "."


def find_marks(
    location: Location,
    names: Sequence[str],
    columns: Sequence[Sequence[Any]],  # the values of each column, or enough of them
    *,
    preferred: DecimalMark = "",  # where the values leave it open
    separator: str = "",  # of the columns; a semicolon separates them where the comma is the decimal mark
) -> NumberMarks:
    """The decimal marks of the columns.

    DataError if the values do not show whether commas or points are decimal marks.
    """
    written = {index: values for index, column in enumerate(columns) if (values := _written(column))}
    marks = {index: mark for index, values in written.items() if (mark := _mark(values))}
    unusual = {index for index, values in written.items() if any(not _is_plain(value) for value in values)}
    common = {marks[index] for index in marks if index in unusual}
    for index in written.keys() - marks.keys():
        unclear = [value for value in written[index] if not _is_plain(value)] or _thousands(written[index])
        if preferred or len(common) == 1:
            marks[index] = preferred or next(iter(common))
        elif unclear:
            raise _undecidable(location, names[index], unclear[0])
    uncertain = [
        index
        for index in sorted(written.keys() - marks.keys())
        if len(written[index]) >= MIN_GROUPS and all(map(_ONE_GROUP.fullmatch, written[index]))
    ]
    if uncertain and separator == ";" and not preferred:
        raise _undecidable(location, names[uncertain[0]], written[uncertain[0]][0])
    kept = {index: mark for index, mark in marks.items() if index in unusual or mark == ","}
    pointed = frozenset(index for index, mark in kept.items() if mark == "," and _thousands(written[index]))
    integers = frozenset(index for index in kept if all(value.lstrip(_SIGNS).isdigit() for value in written[index]))
    return NumberMarks(kept, pointed, tuple(uncertain), integers)


def _undecidable(location: Location, name: str, value: str) -> DataError:
    mark = "comma" if "," in value else "point"
    return DataError(
        location,
        f"column {name!r}: {value!r} may have a decimal {mark} or a thousands separator; set task.decimal to "
        '"," (decimal comma) or "." (decimal point)',
    )


def undecided(columns: Sequence[Sequence[Any]]) -> list[int]:
    """The columns of numbers whose decimal mark the first values do not show."""
    return [index for index, column in enumerate(columns) if (values := _written(column)) and not _mark(values)]


def deciding_values(records: Iterable[Record], columns: Iterable[int]) -> dict[int, list[str]]:
    """The values of all records that decide on the decimal mark of some columns: of the integers, only the longest."""
    different: dict[int, dict[str, None]] = {index: {} for index in columns}
    integers = dict.fromkeys(different, "")
    searched = set(different)
    for _, fields in records:
        for index in list(searched):
            field = fields[index] if index < len(fields) else None
            text = field.strip() if isinstance(field, str) else ""
            if text.lstrip(_SIGNS).isdigit():
                integers[index] = max(integers[index], text, key=len)
            elif text and text.lower() not in MISSING:
                different[index][text] = None
                if not writes_number(text) or _mark([text]):
                    searched.discard(index)
        if not searched:
            break
    return {index: [integers[index], *values] for index, values in different.items()}


def _written(column: Iterable[Any]) -> list[str]:
    """The texts of a column if all of them are numbers; otherwise none."""
    values = [value.strip() for value in column if isinstance(value, str) and value.strip()]
    return values if all(map(writes_number, values)) else []


def _mark(values: Sequence[str]) -> str:
    """The decimal mark that the values of a column show; empty: none is certain."""
    for value in values:
        is_comma, is_point = bool(_COMMA.fullmatch(value)), bool(_POINT.fullmatch(value))
        if is_comma != is_point:
            return "," if is_comma else "."
        if "," in value and not _ONE_GROUP.fullmatch(value):  # 0,125
            return ","
        if "." in value and not _ONE_GROUP.fullmatch(value):
            return "."
    thousands = set(_thousands(values))
    if len(thousands) < MIN_GROUPS:
        return ""
    return "," if all("." in value for value in thousands) else "." if all("," in value for value in thousands) else ""


def _thousands(values: Sequence[str]) -> list[str]:
    """Numbers such as 1.234 among integers below 1,000, which seem to be thousands; empty if others contradict that."""
    integers = [value.lstrip(_SIGNS) for value in values if value.lstrip(_SIGNS).isdigit()]
    groups = [value for value in values if _ONE_GROUP.fullmatch(value)]
    below = 1 < max(map(len, integers), default=0) <= 3
    return groups if below and len(groups) + len(integers) == len(values) else []


def _is_plain(value: str) -> bool:
    return as_number(value) is not None


def plain_records(
    names: Sequence[str],
    head: Sequence[Record],
    records: Iterable[Record],  # those after the head
    reopen: Callable[[], Iterable[Record]] | None,  # reads all records once more; None: that is not possible
    *,
    decimal: DecimalMark = "",  # decimal mark, where the numbers leave it open
    separator: str = "",
    columns: Container[int] | None = None,  # None: all
) -> tuple[list[Record], Iterator[Record], NumberMarks]:
    """The first records and the others, with decimal points only, and the decimal marks that they have had."""
    values = [
        [fields[index] for _, fields in head if index < len(fields) and not _is_missing(fields[index])]
        if columns is None or index in columns
        else []
        for index in range(len(names))
    ]
    still_open = undecided(values) if not decimal and len(head) == HEAD else []
    if still_open and reopen is not None:
        for index, deciding in deciding_values(reopen(), still_open).items():
            values[index] = deciding
    marks = find_marks(head[0][0], names, values, preferred=decimal, separator=separator)
    if not marks.marks:
        return list(head), iter(records), marks
    return list(with_points(head, marks.marks, names)), with_points(records, marks.marks, names), marks


class NumberFormat(NamedTuple):
    """How the numbers of a table are written that are not plain."""

    decimal: DecimalMark = ""  # empty: all of them are plain
    note: str = ""


PLAIN = NumberFormat()


def rows_format(rows: Iterable[tuple[Location, Sequence[str]]], *, decimal: DecimalMark = "") -> NumberFormat:
    """How the numbers of rows without names are written; DataError if they do not show it."""
    fields = [(location, field) for location, row in rows for field in row if writes_number(field)]
    if not fields:
        return PLAIN
    marks = find_marks(fields[0][0], ["values"], [[field for _, field in fields]], preferred=decimal)
    return NumberFormat(marks.decimal({0}), marks.describe(["values"], {0})) if marks.marks else PLAIN


def plain_table(
    table: Table, columns: Container[int], reopen: Callable[[], Table] | None, *, decimal: DecimalMark = ""
) -> tuple[Table, NumberFormat]:
    """A table in which some columns have decimal points only, and how their numbers have been written."""
    if not table.head:
        return table, PLAIN
    names = table.names or tuple(str(index) for index in range(table.width))
    rest = islice(table.records, len(table.head), None)
    head, others, marks = plain_records(
        names,
        table.head,
        rest,
        None if reopen is None else lambda: reopen().records,
        decimal=decimal,
        separator=table.separator,
        columns=columns,
    )
    plain = replace(table, head=tuple(head), records=chain(head, others))
    return plain, NumberFormat(marks.decimal(columns) if marks.marks else "", marks.describe(names, columns))


def _is_missing(value: object) -> bool:
    return is_missing(value) or (isinstance(value, str) and value.strip().lower() in MISSING)


def with_points(records: Iterable[Record], marks: Mapping[int, str], names: Sequence[str]) -> Iterator[Record]:
    """The same records, with numbers that ``float`` reads in the columns of ``marks``."""
    for location, fields in records:
        changed = list(fields)
        for index, mark in marks.items():
            field = fields[index] if index < len(fields) else None
            if not isinstance(field, str):
                continue
            if _PATTERNS[mark].fullmatch(field.strip()):
                changed[index] = field.strip().translate(_TO_POINT[mark])
            elif writes_number(field):
                usual = "comma" if mark == "," else "point"
                raise DataError(
                    location,
                    f"column {names[index]!r}: {field.strip()!r} is no number with a decimal {usual}, as others of the "
                    "column are",
                )
        yield location, changed
