"""Decimal commas and thousands separators."""

from typing import Any

import pytest

from seqloom.data.readers.series import table
from seqloom.data.readers.text_files import DataError


def lines(*numbers: str, header: str = "day;load") -> list[str]:
    return [header, *(f"2020-01-{day:02};{number}" for day, number in enumerate(numbers, start=1))]


@pytest.mark.parametrize(
    ("numbers", "expected", "note"),
    [
        (["210,6", "998", "-3,25"], [210.6, 998, -3.25], "numbers with a decimal comma: load"),
        (["1.210,6", "1.998", "3,5"], [1210.6, 1998, 3.5], "numbers with a decimal comma: load"),
        (["1 210,6", "12\u00a0998", "0,125"], [1210.6, 12998, 0.125], "numbers with a decimal comma: load"),
        (["1,210.6", "998", "2,500"], [1210.6, 998, 2500], "numbers with thousands separators: load"),
        (["1,210,600", "998", "2,500"], [1210600, 998, 2500], "numbers with thousands separators: load"),
        (["210.6", "", "1.234"], [210.6, 210.6, 1.234], ""),
    ],
)
def test_numbers_are_read_as_they_are_written(numbers: list[str], expected: list[float], note: str) -> None:
    series = table(lines(*numbers), fill=True)
    assert series.values[:, 0].tolist() == expected
    assert series.number_note == note


@pytest.mark.parametrize(("decimal", "expected"), [(",", 1.234), (".", 1234.0)])
def test_a_comma_before_three_digits_is_ambiguous(decimal: Any, expected: float) -> None:
    ambiguous = lines("1,234", "2,345", "998")
    with pytest.raises(
        DataError, match=r"'1,234' may have a decimal comma or a thousands separator; set task\.decimal"
    ):
        table(ambiguous)
    assert table(ambiguous, decimal=decimal).values[0, 0] == expected


def test_another_column_shows_the_mark() -> None:
    rows = ["day;a;b", "2020-01-01;1,5;1.234", "2020-01-02;2,5;2.345"]
    assert table(rows).values.tolist() == [[1.5, 1234], [2.5, 2345]]


def test_mixed_marks_are_refused() -> None:
    with pytest.raises(DataError, match=r"input:4: column 'load': '3\.5' is no number with a decimal comma"):
        table(lines("1,5", "2,5", "3.5"))


def test_semicolons_beside_decimal_commas_without_a_header() -> None:
    rows = [f"{day:02}.01.2020;{day},5" for day in range(1, 9)]
    series = table(rows)
    assert series.values[:2].tolist() == [[1.5], [2.5]]
    assert series.axis is not None
    assert str(series.axis.step) == "every day"
