import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from seqloom.metrics.confidence import (
    MetricSums,
    bootstrap,
    bootstrap_f1,
    mean_of_sums,
    paired_difference,
    ratio_of_sums,
    wilson_interval,
)


@pytest.mark.parametrize(("right", "total"), [(0, 1), (0, 7), (3, 7), (7, 7), (9453, 10000)])
def test_wilson_as_scipy(right: int, total: int) -> None:
    wanted = binomtest(right, total).proportion_ci(0.95, method="wilson")
    assert wilson_interval(right, total) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


def test_wilson_of_nothing_and_of_nonsense() -> None:
    assert wilson_interval(0, 0) == (0, 1)
    with pytest.raises(ValueError, match="3 of 2"):
        wilson_interval(3, 2)


def test_bootstrap_is_that_of_sentences_drawn_one_by_one() -> None:
    generator = np.random.default_rng(3)
    wanted = generator.poisson(1.5, 300)
    found = generator.poisson(1.5, 300)
    right = generator.binomial(np.minimum(wanted, found), 0.7)
    rows = generator.integers(0, 300, (20000, 300))
    draws = 2 * right[rows].sum(axis=1) / (found[rows] + wanted[rows]).sum(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    # Both are estimates from draws: with 20,000 of them a quantile of this width is off by about 0.001.
    assert bootstrap_f1(right, found, wanted, resamples=20000) == pytest.approx((low, high), abs=0.003)


def test_bootstrap_is_the_same_each_time_and_knows_the_ends() -> None:
    counts = np.arange(20) % 3, np.arange(20) % 3 + 1, np.arange(20) % 4 + 2
    assert bootstrap_f1(*counts) == bootstrap_f1(*counts)
    assert bootstrap_f1(*counts) != bootstrap_f1(*counts, seed=1)
    assert bootstrap_f1([1, 1], [1, 1], [1, 1]) == (1, 1)
    assert bootstrap_f1([0, 0], [0, 0], [0, 0]) == (0, 0)
    assert bootstrap_f1([], [], []) == (0, 1)


def drawn(rows: NDArray[np.float64], *, resamples: int) -> NDArray[np.float64]:
    """Sums over examples drawn one by one."""
    generator = np.random.default_rng(11)
    return np.stack([rows[generator.integers(0, len(rows), len(rows))].sum(axis=0) for _ in range(resamples)])


def test_paired_differences_are_those_of_examples_drawn_together() -> None:
    generator = np.random.default_rng(5)
    lengths = generator.integers(1, 30, 400)
    hard = generator.gamma(2.0, 1.0, 400)  # what is hard for one model is so for the other
    surprise = [lengths * hard, lengths * hard, lengths * (hard - 0.05 + generator.normal(0, 0.2, 400))]
    rows = [np.stack([each, lengths], axis=1) for each in surprise]
    models = [MetricSums(each, lambda sums: float(np.exp(sums[0] / sums[1]))) for each in rows]
    draws = drawn(np.stack([*surprise, lengths], axis=1), resamples=4000)
    values = np.exp(draws[:, :3] / draws[:, 3:])
    wanted = np.quantile(values[:, 2] - values[:, 0], [0.025, 0.975])
    samples = [bootstrap(each, resamples=4000) for each in models]
    found = paired_difference(samples[:1], samples[2:])
    # Both are estimates from 4,000 draws, whose quantiles are off by about a twentieth of the width.
    assert found == pytest.approx(tuple(wanted), abs=0.1 * (wanted[1] - wanted[0]))
    apart = np.quantile(values[:, 2] - values[::-1, 0], [0.025, 0.975])  # not paired
    assert found[1] - found[0] < 0.3 * (apart[1] - apart[0])
    assert paired_difference(samples[:2], samples[:1]) == (0, 0)
    assert paired_difference(samples[:1], samples[1:]) == pytest.approx(
        tuple(np.array(found) / 2)
    )  # the mean of two seeds


def test_sums_of_nothing_and_of_unequal_parts() -> None:
    assert ratio_of_sums([1, 2], [4, 2]).whole == 0.5
    assert ratio_of_sums([0], [0]).whole == 0
    assert mean_of_sums([[1.0, 2.0], [], [6.0]]).whole == 3
    assert len(bootstrap(MetricSums(np.zeros((0, 2)), float))) == 0
