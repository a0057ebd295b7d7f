"""Confidence intervals against SciPy and against resampling example by example."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, permutation_test, ttest_1samp

from seqloom.metrics.confidence import (
    MetricSums,
    PairedTest,
    bootstrap,
    bootstrap_f1,
    cross_validated_test,
    mean_interval,
    mean_of_sums,
    paired_difference,
    quantiles,
    randomization_test,
    ratio_of_sums,
    significance,
    t_tail,
    wilson_interval,
)


@pytest.mark.parametrize(("correct", "total"), [(0, 1), (0, 7), (3, 7), (7, 7), (9453, 10000)])
def test_wilson_interval_equals_scipy(correct: int, total: int) -> None:
    expected = binomtest(correct, total).proportion_ci(0.95, method="wilson")
    assert wilson_interval(correct, total) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_interval_ends_exactly_at_0_and_1() -> None:
    assert [wilson_interval(0, total)[0] for total in range(1, 1200)] == [0.0] * 1199
    assert [wilson_interval(total, total)[1] for total in range(1, 1200)] == [1.0] * 1199


def test_wilson_interval_of_no_examples_and_of_invalid_counts() -> None:
    assert wilson_interval(0, 0) == (0, 1)
    with pytest.raises(ValueError, match=r"correct is 3, expected a number from 0 to 2"):
        wilson_interval(3, 2)


def test_bootstrap_equals_resampling_sentence_by_sentence() -> None:
    generator = np.random.default_rng(3)
    reference = generator.poisson(1.5, 300)
    predicted = generator.poisson(1.5, 300)
    correct = generator.binomial(np.minimum(reference, predicted), 0.7)
    rows = generator.integers(0, 300, (20000, 300))
    draws = 2 * correct[rows].sum(axis=1) / (predicted[rows] + reference[rows]).sum(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    # Both are estimates from draws: with 20,000 of them a quantile of this width is off by about 0.001.
    assert bootstrap_f1(correct, predicted, reference, resamples=20000) == pytest.approx((low, high), abs=0.003)


def test_bootstrap_is_reproducible_and_bounded() -> None:
    counts = np.arange(20) % 3, np.arange(20) % 3 + 1, np.arange(20) % 4 + 2
    assert bootstrap_f1(*counts) == bootstrap_f1(*counts)
    assert bootstrap_f1(*counts) != bootstrap_f1(*counts, seed=1)
    assert bootstrap_f1([1, 1], [1, 1], [1, 1]) == (1, 1)
    assert bootstrap_f1([0, 0], [0, 0], [0, 0]) == (0, 0)
    assert bootstrap_f1([], [], []) == (0, 1)


def resampled_sums(rows: NDArray[np.float64], *, resamples: int) -> NDArray[np.float64]:
    """Sums over examples drawn one by one."""
    generator = np.random.default_rng(11)
    return np.stack([rows[generator.integers(0, len(rows), len(rows))].sum(axis=0) for _ in range(resamples)])


def hits(*correct: int) -> MetricSums:
    return ratio_of_sums(correct, [1] * len(correct))


@pytest.mark.parametrize(("gained", "lost"), [(4, 0), (5, 1), (3, 3), (0, 6), (0, 0), (9, 0)])
def test_the_randomization_test_of_shares_is_the_exact_test_of_mcnemar(gained: int, lost: int) -> None:
    model, baseline = [1] * gained + [0] * lost + [1, 0, 0], [0] * gained + [1] * lost + [1, 0, 0]
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert randomization_test(hits(*model), hits(*baseline)) == pytest.approx(expected)


def test_the_randomization_test_of_a_mean_equals_scipy_and_counts_an_observed_difference() -> None:
    generator = np.random.default_rng(5)
    first, other = generator.normal(size=30), generator.normal(0.5, size=30)
    sums = [mean_of_sums([[value] for value in values]) for values in (first, other)]
    options: dict[str, Any] = {"permutation_type": "samples", "n_resamples": 20000, "random_state": 1}
    expected = permutation_test((first, other), lambda x, y, axis: (x - y).mean(axis=axis), **options).pvalue
    difference = 4 * math.sqrt(2 * 0.07 * 0.93 / 20000)  # four standard errors of that of two samples
    assert randomization_test(*sums, resamples=20000) == pytest.approx(expected, abs=difference)
    assert randomization_test(sums[0], mean_of_sums([[value] for value in other + 9])) == 1 / 1001
    assert math.isnan(randomization_test(sums[0], mean_of_sums([[math.inf]] * 30)))


def test_the_significance_of_overlapping_and_of_many_examples() -> None:
    def tested(first: MetricSums, other: MetricSums, *, overlap: int = 1) -> tuple[float, int, bool, bool]:
        test = significance(first, other, overlap=overlap)
        assert test is not None
        return test.p_value, test.examples, test.is_possible, test.is_significant

    always, never = hits(*[1] * 12), hits(*[0] * 12)
    assert tested(always, never) == (2 / 4096, 12, True, True)
    assert tested(always, never, overlap=3) == (0.125, 4, False, False)
    many, half = hits(*[1] * 50_001), hits(*[1, 0] * 25_000, 1)
    assert tested(many, half) == (1 / 1001, 50_001, True, True)
    assert significance(always, hits(1)) is None


def test_paired_difference_equals_resampling_both_models_together() -> None:
    generator = np.random.default_rng(5)
    lengths = generator.integers(1, 30, 400)
    hard = generator.gamma(2.0, 1.0, 400)  # examples that are hard for one model are hard for the other
    losses = [lengths * hard, lengths * hard, lengths * (hard - 0.05 + generator.normal(0, 0.2, 400))]
    rows = [np.stack([loss, lengths], axis=1) for loss in losses]
    models = [MetricSums(table, lambda sums: float(np.exp(sums[0] / sums[1]))) for table in rows]
    draws = resampled_sums(np.stack([*losses, lengths], axis=1), resamples=4000)
    values = np.exp(draws[:, :3] / draws[:, 3:])
    expected = np.quantile(values[:, 2] - values[:, 0], [0.025, 0.975])
    samples = [bootstrap(model, resamples=4000) for model in models]
    interval = paired_difference(samples[:1], samples[2:])
    # Both are estimates from 4,000 draws, whose quantiles are off by about a twentieth of the width.
    assert interval == pytest.approx(tuple(expected), abs=0.1 * (expected[1] - expected[0]))
    unpaired = np.quantile(values[:, 2] - values[::-1, 0], [0.025, 0.975])
    assert interval[1] - interval[0] < 0.3 * (unpaired[1] - unpaired[0])
    assert paired_difference(samples[:2], samples[:1]) == (0, 0)
    assert paired_difference(samples[:1], samples[1:]) == pytest.approx(
        tuple(np.array(interval) / 2)
    )  # the mean of two seeds


def test_sums_of_no_examples_and_of_unequal_parts() -> None:
    assert ratio_of_sums([1, 2], [4, 2]).whole == 0.5
    assert ratio_of_sums([0], [0]).whole == 0
    assert mean_of_sums([[1.0, 2.0], [], [6.0]]).whole == 3
    assert len(bootstrap(MetricSums(np.zeros((0, 2)), float))) == 0


@pytest.mark.parametrize(
    ("freedom", "t"),  # 97.5 % quantiles from tables
    [(1, 12.7062047), (2, 4.3026527), (3, 3.1824463), (4, 2.7764451), (9, 2.2621572), (30, 2.0422725)],
)
def test_the_tail_of_student_s_t(freedom: int, t: float) -> None:
    assert t_tail(t, freedom) == pytest.approx(0.05, abs=1e-8)
    assert t_tail(-t, freedom) == t_tail(t, freedom)
    assert t_tail(0.0, freedom) == pytest.approx(1)


def test_the_corrected_test_over_folds() -> None:
    differences = [0.02, 0.01, 0.03, 0.00, 0.015]
    mean, interval, p_value = cross_validated_test(differences)
    error = np.std(differences, ddof=1) * np.sqrt(1 / 5 + 1 / 4)
    assert mean == pytest.approx(0.015)
    assert interval == pytest.approx((mean - 2.7764451 * error, mean + 2.7764451 * error))
    assert p_value == pytest.approx(t_tail(mean / error, 4))
    assert cross_validated_test([0.25, 0.25]) == PairedTest(0.25, (0.25, 0.25), 0.0)
    assert cross_validated_test([0.0, 0.0]).p_value == 1
    with pytest.raises(ValueError, match="at least 2 folds, got 1"):
        cross_validated_test([0.1])


def test_the_interval_of_a_mean_equals_scipy() -> None:
    values = [0.2, 0.9, 0.4, 0.45]
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    # The quantile of t is that of a tail computed to 1e-8.
    assert mean_interval(values) == pytest.approx((expected.low, expected.high), rel=1e-7)
    assert mean_interval([0.3, 0.3]) == pytest.approx((0.3, 0.3))
    assert mean_interval([0.3]) == (-math.inf, math.inf)


def test_blocks_are_sums_of_consecutive_rows() -> None:
    sums = ratio_of_sums(np.arange(5), np.ones(5))
    blocks = sums.in_blocks(2)
    np.testing.assert_array_equal(blocks.rows, [[1, 2], [5, 2], [4, 1]])
    assert blocks.whole == sums.whole == 2
    assert sums.in_blocks(1) is sums


def test_overlapping_examples_get_a_wider_interval() -> None:
    """Rows that are repeated ten times carry as little information as one of them."""
    values = np.random.default_rng(1).normal(size=100).repeat(10)
    sums = ratio_of_sums(values, np.ones(1000))
    narrow, wide = (np.ptp(quantiles(bootstrap(each))) for each in (sums, sums.in_blocks(10)))
    assert wide == pytest.approx(narrow * math.sqrt(10), rel=0.15)  # resampling noise of 1,000 samples
