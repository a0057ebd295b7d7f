"""Sample paths of a forecast: the distribution of each step, and the dependence of the steps in the past.

A forecaster gives a distribution for each step on its own. How its errors go together from step to step, and from
column to column, is taken from its forecasts at earlier origins (the Schaake shuffle of Clark et al. 2004): a path
takes at each step the quantile that the truth after one of these origins had there.
"""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def sample_paths(
    quantiles: Numbers,  # (horizon, targets, levels), of the forecast
    levels: Sequence[float],
    *,
    past_quantiles: Numbers,  # (origins, horizon, targets, levels), of earlier forecasts
    past_truth: Numbers,  # (origins, horizon, targets), what came
    count: int,
    random: np.random.Generator,
) -> Numbers:  # (count, horizon, targets)
    """Paths whose values have the distribution of the forecast at each step."""
    origins = len(past_truth)
    scores = normal_scores(past_truth, past_quantiles, levels)
    ties = random.permuted(np.broadcast_to(np.arange(origins)[:, None, None], scores.shape), axis=0)
    ranks = np.lexsort((ties, scores), axis=0).argsort(axis=0)  # (origins, horizon, targets)
    rounds = [random.permutation(origins) for _ in range(-(-count // origins))]
    chosen = ranks[np.concatenate(rounds)[:count]]
    probabilities = (chosen + random.uniform(size=(count, 1, 1))) / origins  # uniform at each step
    normal = np.vectorize(NormalDist().inv_cdf)(probabilities.clip(1e-6, 1 - 1e-6))
    return values_at(normal, quantiles, levels)


def values_at(
    scores: Numbers,  # (..., horizon, targets), quantiles of the standard normal distribution
    quantiles: Numbers,  # (horizon, targets, levels)
    levels: Sequence[float],
) -> Numbers:  # (..., horizon, targets)
    """The values of a forecast at normal scores: linear between its quantiles, and beyond the outermost ones."""
    known = _scores_of(levels)
    place = np.clip(np.searchsorted(known, scores) - 1, 0, len(known) - 2)
    steps, targets = np.ogrid[: quantiles.shape[0], : quantiles.shape[1]]
    low, high = quantiles[steps, targets, place], quantiles[steps, targets, place + 1]
    return low + (high - low) * (scores - known[place]) / (known[place + 1] - known[place])


def normal_scores(
    truth: Numbers,  # (...)
    quantiles: Numbers,  # (..., levels)
    levels: Sequence[float],
) -> Numbers:  # (...)
    """The inverse of ``values_at``; between equal quantiles, the score in the middle of them."""
    known = _scores_of(levels)
    last = len(known) - 1
    below, above = (quantiles < truth[..., None]).sum(axis=-1), (quantiles <= truth[..., None]).sum(axis=-1)
    place = np.clip(below - 1, 0, last - 1)
    low, high = (np.take_along_axis(quantiles, (place + side)[..., None], axis=-1)[..., 0] for side in (0, 1))
    width = np.where(high > low, high - low, 1.0)
    between = known[place] + (known[place + 1] - known[place]) * (truth - low) / width
    middle = (known[np.clip(below, 0, last)] + known[np.clip(above - 1, 0, last)]) / 2
    scores: Numbers = np.where(above > below, middle, between)
    return scores


def _scores_of(levels: Sequence[float]) -> Numbers:
    return np.array([NormalDist().inv_cdf(level) for level in levels])
