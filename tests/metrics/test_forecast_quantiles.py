"""Metrics of quantiles compared with closed forms and numerical integration."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from seqloom.metrics.forecast_quantiles import (
    central_intervals,
    coverage,
    crps,
    interval_name,
    pinball,
    quantile_scores,
    shown_names,
    usual_interval,
)

LEVELS = (0.025, 0.1, 0.3, 0.5, 0.7, 0.9, 0.975)


def test_pinball_by_its_definition() -> None:
    losses = pinball([3.0, 3.0], [[1.0, 4.0], [3.0, 5.0]], (0.1, 0.9))
    np.testing.assert_allclose(losses, [[0.1 * 2, 0.1 * 1], [0, 0.1 * 2]])


@pytest.mark.parametrize("truth", [-5.0, -1.2, 0.0, 0.4, 3.0, 9.0])
def test_crps_is_the_integral_of_the_squared_difference_of_distributions(truth: float) -> None:
    """∫ (F(x) − 1[y ≤ x])² dx, where F is linear between the quantiles and jumps at the outer ones."""
    random = np.random.default_rng(1)
    quantiles = np.sort(random.normal(size=len(LEVELS)) * 2)

    def squared(x: float) -> float:
        inside = np.interp(x, quantiles, LEVELS)
        share = 0.0 if x < quantiles[0] else 1.0 if x > quantiles[-1] else float(inside)
        return (share - (truth <= x)) ** 2

    points = sorted({truth, *quantiles.tolist()})
    expected = sum(integrate.quad(squared, *ends)[0] for ends in pairwise(points))
    assert crps(truth, quantiles, LEVELS) == pytest.approx(expected, rel=1e-6)
    by_levels = integrate.quad(
        lambda alpha: 2 * pinball(truth, [np.interp(alpha, LEVELS, quantiles)], (alpha,))[0],
        0,
        1,
        points=list(LEVELS),
        limit=200,
    )[0]
    assert crps(truth, quantiles, LEVELS) == pytest.approx(by_levels, rel=1e-5)


def test_crps_approaches_that_of_the_distribution() -> None:
    """Of a normal distribution: z (2 Φ(z) − 1) + 2 φ(z) − 1/√π (Gneiting & Raftery 2007)."""
    levels = np.linspace(0, 1, 4001)[1:-1]
    quantiles = stats.norm.ppf(levels)
    for truth in (-2.0, 0.0, 0.7):
        exact = truth * (2 * stats.norm.cdf(truth) - 1) + 2 * stats.norm.pdf(truth) - 1 / np.sqrt(np.pi)
        # Half a thousandth of the probability lies beyond the outer levels.
        assert crps(truth, quantiles, levels.tolist()) == pytest.approx(exact, abs=1e-4)


def test_crps_of_a_single_value_is_the_absolute_error() -> None:
    assert crps(5.0, [2.0] * len(LEVELS), LEVELS) == pytest.approx(3.0)
    assert crps(-5.0, [2.0] * len(LEVELS), LEVELS) == pytest.approx(7.0)


def test_intervals() -> None:
    assert central_intervals(LEVELS) == [(0, 6, 0.95), (1, 5, 0.8), (2, 4, 0.4)]
    assert usual_interval(LEVELS) == (1, 5)
    assert usual_interval((0.1, 0.5)) is None
    assert interval_name(0.8) == "80"
    assert interval_name(0.995) == "99_5"
    assert shown_names(LEVELS) == ["crps", "crps_scaled", "pinball", "coverage_95", "coverage_80"]
    np.testing.assert_array_equal(coverage([1.0, 2.0, 3.0], [1, 0, 4], [1, 1, 5]), [True, False, False])


def test_scores_by_step_and_target() -> None:
    """A right distribution covers its nominal share, and the scores are means of their definitions."""
    random = np.random.default_rng(0)
    truth = random.normal(size=(4000, 2, 3)) * [1.0, 2.0, 5.0]
    quantiles = (stats.norm.ppf(LEVELS)[None, None, None] * np.array([1.0, 2.0, 5.0])[:, None]).astype(np.float32)
    quantiles = np.broadcast_to(quantiles, (4000, 2, 3, len(LEVELS)))
    scores = quantile_scores(truth, quantiles, LEVELS, scale=np.array([1.0, 2.0, 5.0]))
    # Four standard errors of a share among 4000.
    np.testing.assert_allclose(scores["coverage_80"], 0.8, atol=4 * np.sqrt(0.16 / 4000))
    np.testing.assert_allclose(scores["coverage_95"], 0.95, atol=4 * np.sqrt(0.0475 / 4000))
    expected = 2 * pinball(truth, quantiles, LEVELS)
    np.testing.assert_allclose(2 * scores["pinball"], expected.mean(axis=(0, 3)), rtol=1e-6)
    np.testing.assert_allclose(scores["crps"], crps(truth, quantiles, LEVELS).mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(scores["crps_scaled"], scores["crps"] / [1.0, 2.0, 5.0], rtol=1e-9)
    np.testing.assert_allclose(scores["width_80"][:, 0], 2 * stats.norm.ppf(0.9), rtol=1e-6)
