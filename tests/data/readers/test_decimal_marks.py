"""Decimal commas, thousands separators and minus signs."""

from typing import Any

import pytest

from seqloom.data.readers.series import Series, table
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
        (["−210.6", "998", "-1.5"], [-210.6, 998, -1.5], ""),
        (["−2", "998", "−1"], [-2, 998, -1], ""),
        (["−210,6", "998", "−1"], [-210.6, 998, -1], "numbers with a decimal comma: load"),
        (["−1,210.6", "998", "−2,500"], [-1210.6, 998, -2500], "numbers with thousands separators: load"),
    ],
)
def test_numbers_are_read_as_they_are_written(numbers: list[str], expected: list[float], note: str) -> None:
    series = table(lines(*numbers), fill=True)
    assert series.values[:, 0].tolist() == expected
    assert series.number_note == note


def test_columns_of_integers_have_no_decimal_comma() -> None:
    series = table(["day;load;people", "2020-01-01;210,6;12", "2020-01-02;211,5;1", "2020-01-03;3,25;7"])
    assert series.values[:, 1].tolist() == [12, 1, 7]
    assert series.number_note == "numbers with a decimal comma: load"


@pytest.mark.parametrize(("decimal", "expected"), [(",", 1.234), (".", 1234.0)])
def test_a_comma_before_three_digits_is_ambiguous(decimal: Any, expected: float) -> None:
    ambiguous = lines("1,234", "2,345", "998")
    with pytest.raises(
        DataError, match=r"'1,234' may have a decimal comma or a thousands separator; set task\.decimal"
    ):
        table(ambiguous)
    assert table(ambiguous, decimal=decimal).values[0, 0] == expected


def german(number: int) -> str:
    return f"{number:,}".replace(",", ".")


def test_the_whole_column_decides() -> None:
    days = [f"{2020 + day // 360}-{day // 30 % 12 + 1:02}-{day % 30 + 1:02}" for day in range(150)]
    days = [day for day in days if not day.endswith(("02-30", "02-29"))]
    integers = [str(500 + day % 7) for day in range(120)]

    def read(*numbers: str, **options: Any) -> Series:
        return table(["day;load", *(f"{day};{number}" for day, number in zip(days, numbers, strict=False))], **options)

    rising = read(*map(german, range(500, 1600, 9)))
    assert rising.values[[0, 60], 0].tolist() == [500, 1040]
    assert (rising.number_note, rising.decimal) == ("numbers with points between thousands (1.234 is 1234): load", ",")
    assert read(*integers, "1.234,5").values[-1, 0] == 1234.5
    assert read(*integers, "1234", "1.234").values[-1, 0] == 1.234  # four digits without a separator
    with pytest.raises(DataError, match=r"'1\.234' may have a decimal point or a thousands separator"):
        read(*integers, "1.234")
    assert read(*integers, "1.234", decimal=".").values[-1, 0] == 1.234


def test_three_decimals_are_mentioned_or_between_semicolons_refused() -> None:
    numbers = [f"1.{number}" for number in range(230, 250)]
    series = table([line.replace(";", ",") for line in lines(*numbers)])
    assert series.values[0, 0] == 1.23
    assert series.number_note.startswith("numbers such as 1.234 are read with a decimal point, not as thousands: load")
    assert not table(lines(*(f"{number}.234" for number in range(20)))).number_note
    with pytest.raises(DataError, match=r"column 'load': '1\.230' may have a decimal point or a thousands separator"):
        table(lines(*numbers))
    assert table(lines(*numbers), decimal=",").values[0, 0] == 1230
    assert table(lines(*numbers), decimal=".").values[0, 0] == 1.23


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
