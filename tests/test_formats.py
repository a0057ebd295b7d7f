"""Numbers, percentages, durations and texts as people read them."""

import math

import numpy as np
import pytest

from seqloom.formats import (
    describe_type,
    format_duration,
    format_loss,
    format_number,
    format_percent,
    format_signed,
    format_value,
    shorten,
    single_precision,
)


@pytest.mark.parametrize(
    ("number", "digits", "expected"),
    [
        (12465830.4, 7, "12465830"),
        (-12465830.4, 5, "-12465830"),
        (23.253267, 7, "23.25327"),
        (99999.6, 5, "100000"),
        (0.00001234567, 5, "1.2346e-05"),
        (1e30, 5, "1e+30"),
        (math.nan, 5, "nan"),
    ],
)
def test_numbers_have_the_digits_that_matter(number: float, digits: int, expected: str) -> None:
    assert format_number(number, digits) == expected


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (1.25, "1.2500"),
        (0.0, "0.0000"),
        (2.3e29, "2.3e+29"),
        (12345.6, "12345.6000"),
        (3.21e-6, "3.21e-06"),
        (-4.0, "-4.0000"),
    ],
)
def test_losses_are_readable(loss: float, expected: str) -> None:
    assert format_loss(loss) == expected


@pytest.mark.parametrize(
    ("share", "decimals", "expected"),
    [
        (1.0, 0, "100%"),
        (0.9999, 0, ">99%"),
        (0.9999, 1, ">99.9%"),
        (0.999, 1, "99.9%"),
        (0.0, 1, "0.0%"),
        (1e-9, 2, "<0.01%"),
    ],
)
def test_percentages_are_not_rounded_to_certainty(share: float, decimals: int, expected: str) -> None:
    assert format_percent(share, decimals) == expected


def test_durations_are_for_people() -> None:
    assert [format_duration(seconds) for seconds in (1.234, 42.4, 192, 3725)] == [
        "1.2 s",
        "42 s",
        "3 min 12 s",
        "1 h 2 min",
    ]


def test_long_values_are_shortened() -> None:
    assert shorten("a\n b", 4) == "a b"
    assert shorten("abcdef", 4) == "abc…"


def test_values_are_shown_by_their_type() -> None:
    values = (1234567.0, 3, "x", [0.5, 1])
    assert [format_value(value) for value in values] == ["1234567", "3", "x", "0.5, 1"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(4.813, "+4.81"), (-0.0012, "−0.0012"), (0.0234, "+0.023"), (-0.0, "+0.00"), (0.1, "+0.10"), (-12.0, "−12.00")],
)
def test_contributions_have_a_sign_and_do_not_become_zero(value: float, expected: str) -> None:
    assert format_signed(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5175488024257344, 0.517548802),
        (0.10000000149011612, 0.1),  # float32 of 0.1
        (16777216.0, 16777216.0),
        (1000000.3456781, 1000000.345678),
        (1.2345678912e-20, 1.23456789e-20),
        (1e300, 1e300),
        (-0.25, -0.25),
        (math.inf, math.inf),
    ],
)
def test_numbers_in_single_precision(value: float, expected: float) -> None:
    assert single_precision(value) == expected


def test_no_digit_of_single_precision_is_lost() -> None:
    values = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    assert [np.float32(single_precision(float(value))) for value in values] == values.tolist()
    assert max(len(str(abs(single_precision(float(value))))) for value in values if abs(value) > 0.1) <= 11


def test_types_have_an_article() -> None:
    assert [describe_type(value) for value in (1, "x", np.zeros(1))] == ["an int", "a str", "an ndarray"]
