"""Estimates against SciPy, and the status that follows from them."""

import math

import pytest
from scipy.stats import ttest_1samp

from seqloom.lab.estimate import Estimate, conclude, seed_means


def test_a_mean_and_a_geometric_mean_with_student_s_interval() -> None:
    values = [10, 20, 40, 40]
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    estimate = Estimate.of_mean(values)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((27.5, expected.low, expected.high))
    logarithms = ttest_1samp([math.log(value) for value in values], 0).confidence_interval(0.95)
    estimate = Estimate.of_geometric_mean(values)
    assert estimate.value == pytest.approx(math.prod(values) ** 0.25)
    assert (estimate.low, estimate.high) == pytest.approx((math.exp(logarithms.low), math.exp(logarithms.high)))
    one = Estimate.of_geometric_mean([3])
    assert one.value == pytest.approx(3)
    assert (one.low, one.high) == (0, math.inf)


@pytest.mark.parametrize(
    ("low", "high", "above", "below"),
    [(0.1, 0.2, True, False), (-0.2, -0.1, False, True), (-0.1, 0.1, None, None), (0, 0, False, False)],
)
def test_an_interval_lies_above_or_below_a_bound(low: float, high: float, above: object, below: object) -> None:
    estimate = Estimate((low + high) / 2, low, high)
    assert estimate.is_above(0) is above
    assert estimate.is_below(0) is below


@pytest.mark.parametrize(
    ("low", "high", "within"),
    [
        (-0.05, 0.05, True),
        (-0.1, 0.1, True),
        (0.05, 0.2, None),
        (-0.5, 0.5, None),
        (0.2, 0.3, False),
        (-1, -0.2, False),
    ],
)
def test_an_interval_lies_within_a_range(low: float, high: float, within: object) -> None:
    assert Estimate((low + high) / 2, low, high).is_within(-0.1, 0.1) is within


def test_a_claim_holds_if_all_of_it_does() -> None:
    assert conclude(True, True) == "holds"
    assert conclude(True, None) == "not decided"
    assert conclude(True, None, False) == "does not hold here"


def test_estimates_as_text() -> None:
    assert Estimate(0.9312, 0.9, 0.951).format() == "0.931 [0.9, 0.951]"
    assert Estimate(0.9312, 0.9, 0.951).format(percent=True) == "93.1% [90.0%, 95.1%]"
    assert Estimate.of_mean([0.5]).format() == "0.5 (one seed, no interval)"
    assert Estimate.of_share(9, 10).value == 0.9


def test_differences_and_ratios_are_those_of_the_same_key() -> None:
    values, reference = {1: 2.0, 2: 6.0}, {2: 3.0, 1: 4.0}
    assert Estimate.of_differences(values, reference) == Estimate.of_mean([-2.0, 3.0])
    assert Estimate.of_ratios(values, reference) == Estimate.of_geometric_mean([0.5, 2.0])


def test_values_are_averaged_for_each_seed() -> None:
    assert seed_means([(2, 1.0), (1, 0.5), (2, 0.0)]) == {2: 0.5, 1: 0.5}


def test_points_are_signed_percentages() -> None:
    assert Estimate(0.031, -0.02, 0.0425).format_points() == "+3.1 [-2.0, +4.2]"
    assert Estimate.of_mean([0.5]).format_points() == "+50.0 (one seed, no interval)"
