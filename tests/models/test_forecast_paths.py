"""Sample paths: a random walk, whose paths are known, and the quantile function and its inverse."""

from statistics import NormalDist

import numpy as np
import pytest

from seqloom.models.forecast_paths import normal_scores, sample_paths, values_at

LEVELS = (0.025, 0.1, 0.3, 0.5, 0.7, 0.9, 0.975)
SCORES = np.array([NormalDist().inv_cdf(level) for level in LEVELS])


def test_paths_of_a_random_walk() -> None:
    """Step k is normal with variance k; steps j < k have the correlation √(j / k)."""
    random = np.random.default_rng(1)
    origins, horizon = 3000, 9
    truth = random.normal(size=(origins, horizon)).cumsum(axis=1)[..., None]
    deviations = np.sqrt(np.arange(1, horizon + 1))[:, None, None]
    quantiles = deviations * SCORES  # (horizon, 1, levels)
    paths = sample_paths(
        100 + quantiles,
        LEVELS,
        past_quantiles=np.broadcast_to(quantiles, (origins, *quantiles.shape)),
        past_truth=truth,
        count=3000,
        random=random,
    )[..., 0]
    assert np.abs(paths.mean(axis=0) - 100).max() < 0.01  # the probabilities of 3,000 origins are stratified
    assert paths.std(axis=0) == pytest.approx(deviations[:, 0, 0], rel=0.02)
    correlations = np.corrcoef(paths.T)
    steps = np.arange(1, horizon + 1)
    expected = np.sqrt(np.minimum.outer(steps, steps) / np.maximum.outer(steps, steps))
    assert np.abs(correlations - expected).max() < 0.06  # three standard errors of a correlation of 3,000 pairs


def test_scores_are_the_inverse_of_values() -> None:
    random = np.random.default_rng(2)
    quantiles = np.sort(random.normal(size=(4, 2, len(LEVELS))), axis=-1)
    scores = random.normal(size=(5, 4, 2)) * 1.5
    values = values_at(scores, quantiles, LEVELS)
    assert normal_scores(values, np.broadcast_to(quantiles, (5, *quantiles.shape)), LEVELS) == pytest.approx(scores)
    assert values_at(np.broadcast_to(SCORES[:, None, None], (7, 4, 2)), quantiles, LEVELS) == pytest.approx(
        np.moveaxis(quantiles, -1, 0)
    )


def test_equal_quantiles_have_a_score_in_their_middle() -> None:
    quantiles = np.array([[0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0]])
    assert normal_scores(np.array([1.0]), quantiles, LEVELS) == pytest.approx([(SCORES[1] + SCORES[5]) / 2])
    constant = np.ones((1, len(LEVELS)))
    assert normal_scores(np.array([1.0]), constant, LEVELS) == pytest.approx([0])
    assert np.isfinite(normal_scores(np.array([5.0]), constant, LEVELS)).all()


def test_more_paths_than_origins() -> None:
    quantiles = np.broadcast_to(SCORES, (2, 1, 7))
    options = {"past_quantiles": np.broadcast_to(SCORES, (3, 2, 1, 7)), "past_truth": np.zeros((3, 2, 1))}
    paths = sample_paths(quantiles, LEVELS, **options, count=8, random=np.random.default_rng(1))
    assert paths.shape == (8, 2, 1)
