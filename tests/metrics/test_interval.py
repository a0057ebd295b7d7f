import numpy as np
import pytest
from scipy.stats import binomtest

from seqloom.metrics.interval import bootstrap_f1, wilson


@pytest.mark.parametrize(("right", "total"), [(0, 1), (0, 7), (3, 7), (7, 7), (9453, 10000)])
def test_wilson_as_scipy(right: int, total: int) -> None:
    wanted = binomtest(right, total).proportion_ci(0.95, method="wilson")
    assert wilson(right, total) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


def test_wilson_of_nothing_and_of_nonsense() -> None:
    assert wilson(0, 0) == (0, 1)
    with pytest.raises(ValueError, match="3 of 2"):
        wilson(3, 2)


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
