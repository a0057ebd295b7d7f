"""Bins of lengths: limits belong to the bin below them, and quantiles hold about equally many examples."""

import pytest

from seqloom.metrics.length_bins import LengthBins, parse_bins, quantile_bins


def test_a_limit_is_the_largest_length_of_its_bin() -> None:
    bins = LengthBins(parse_bins("10, 20,21"))
    assert [bins.index(length) for length in (1, 10, 10.5, 11, 20, 21, 22)] == [0, 0, 1, 1, 1, 2, 3]
    assert [bins.name(index, whole=True) for index in range(len(bins))] == ["≤ 10", "11–20", "21", "> 21"]
    assert [bins.name(index, whole=False) for index in range(len(bins))] == ["≤ 10", "10–20", "20–21", "> 21"]
    assert [bins.bounds(index) for index in (0, 1, 3)] == [(None, 10.0), (10.0, 20.0), (21.0, None)]


def test_quantiles_hold_equally_many_examples() -> None:
    bins = quantile_bins([*range(1, 101)])
    counts = [0] * len(bins)
    for length in range(1, 101):
        counts[bins.index(length)] += 1
    assert counts == [20] * 5


@pytest.mark.parametrize(("lengths", "names"), [([3, 3, 3], ["all"]), ([1, 1, 1, 1, 9], ["≤ 1", "> 1"])])
def test_equal_lengths_are_in_one_bin(lengths: list[int], names: list[str]) -> None:
    bins = quantile_bins(lengths)
    assert [bins.name(index, whole=True) for index in range(len(bins))] == names


@pytest.mark.parametrize("text", ["10,5", "5,5", "0,3", "-1", "3,x", "nan", "3,,4"])
def test_bins_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"as bins, such as 10,20,40, got"):
        parse_bins(text)


def test_there_are_not_too_many_bins_for_a_picture() -> None:
    with pytest.raises(ValueError, match=r"expected at most 100 lengths as bins, .* got 3000$"):
        LengthBins(tuple(range(1, 3001)))
