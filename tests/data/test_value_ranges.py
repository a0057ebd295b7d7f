"""Columns of numbers: those that never change, and values far outside the others."""

import numpy as np
import pytest

from seqloom.data.value_ranges import ValueRanges, has_single_colour

USUAL = np.linspace(38, 72, 100)


def far_outside(*extra: float, usual: np.ndarray = USUAL) -> list[str]:
    ranges = ValueRanges()
    ranges.add(np.concatenate([usual, extra])[:, None], ["sales"])
    return ranges.far_outside()


def test_views_of_the_same_values_count_once() -> None:
    ranges, values = ValueRanges(), np.concatenate([USUAL, [-999.0] * 3])[:, None]
    for _ in range(3):
        ranges.add(values[:], ["sales"])
    (sentence,) = ranges.far_outside()
    assert sentence.startswith("column sales: 3 times -999, far outside the other values")


def test_codes_for_missing_values() -> None:
    expected = "column sales: 3 times -999, far outside the other values, 38 to 72: missing?"
    assert far_outside(-999, -999, -999, 80) == [expected]
    assert far_outside(-999, -999, 9999, 9999)[0].startswith("column sales: 2 times -999 and 2 times 9999, far")
    assert far_outside(-99, -99, usual=np.linspace(0, 100, 50))  # nines are enough, though -99 is not far away
    assert not far_outside(-80, -80, usual=np.linspace(0, 100, 50))
    assert far_outside(-999, -999, usual=np.arange(50.0) % 6)  # few different values, but nines
    assert not far_outside(-800, -800, usual=np.arange(50.0) % 6)


def test_a_single_value_hundreds_of_deviations_away() -> None:
    assert far_outside(27497.06)[0].startswith("column sales: 27497.1, far outside the other values, ")
    assert not far_outside(500)


@pytest.mark.parametrize("usual", [np.zeros(50), np.arange(50) % 3, np.full(50, np.nan)])
def test_few_different_values_may_be_codes_themselves(usual: np.ndarray) -> None:
    assert not far_outside(999, 999, usual=usual)


def test_arrays_are_joined_and_a_shared_one_counts_once() -> None:
    ranges, first = ValueRanges(), np.stack([USUAL, np.ones(100)], axis=1)
    for values in (first, first, np.array([[-999.0, 1.0]])):
        ranges.add(values, [])
    ranges.add(np.array([[-999.0, 1.0]]), [])
    assert ranges.constant == ["2"]
    assert ranges.far_outside()[0].startswith("column 1: 2 times -999, ")


def test_pixels_are_no_columns() -> None:
    ranges, video = ValueRanges(), np.zeros((4, 8, 8, 3), np.uint8)
    ranges.add(video, [])
    assert ranges.constant == []
    assert has_single_colour(video)
    assert has_single_colour(video[0] + np.array([1, 2, 3], np.uint8))
    video[2, 3, 4] = 5
    assert not has_single_colour(video)
    assert not has_single_colour(np.zeros((4, 3)))
