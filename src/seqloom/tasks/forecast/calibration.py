"""What the development data say about a trained forecaster: how far to trust it, and how wide its intervals are."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

PRIOR_BLOCKS = 100  # of examples that are taken to agree with the quantiles that the network has learned
MIN_BLOCKS = 8  # of development examples that do not overlap; fewer say too little
ERRORS = 2.0  # standard errors by which the factor stays below the best one: about a 95 % confidence interval


class Shrinkage(NamedTuple):
    """The factor by which the change that a model predicts is multiplied."""

    factor: float  # 0 to 1, as far as is proved; 0: the base forecast
    best: float  # the factor with the smallest squared error on the development data
    error: float  # its standard error


def estimate_shrinkage(
    changes: Sequence[Numbers],  # of each example: forecast − base forecast, in standard deviations
    needed: Sequence[Numbers],  # of each example: truth − base forecast
    *,
    overlap: int,  # consecutive examples that overlap
) -> Shrinkage | None:
    """The lower limit for the factor s that minimises Σ (truth − base − s · change)²; None: too few data.

    Changes are taken only as far as the development data prove that they help: the checkpoint was selected by the same
    data, and what comes later differs from them, so that the best factor promises too much.
    """
    products = np.array([float((change * need).sum()) for change, need in zip(changes, needed, strict=True)])
    squares = np.array([float((change**2).sum()) for change in changes])
    starts = np.arange(0, len(products), max(overlap, 1))
    if len(starts) < MIN_BLOCKS or not squares.sum():
        return None
    products, squares = np.add.reduceat(products, starts), np.add.reduceat(squares, starts)
    best = products.sum() / squares.sum()
    error = float(np.sqrt(_variance_of_sum(products - best * squares)) / squares.sum())
    return Shrinkage(float(np.clip(best - ERRORS * error, 0.0, 1.0)), float(best), error)


def _variance_of_sum(residuals: Numbers) -> float:
    """The variance of a sum of residuals in order of time, of which neighbours may agree (Newey & West 1987)."""
    lags = int(4 * (len(residuals) / 100) ** (2 / 9))
    variance = independent = float((residuals**2).sum())
    for lag in range(1, lags + 1):
        variance += 2 * (1 - lag / (lags + 1)) * float((residuals[lag:] * residuals[:-lag]).sum())
    return max(variance, independent)


def estimate_shifts(
    truth: Numbers,  # (N, horizon, K)
    quantiles: NDArray[np.float32],  # (N, horizon, K, levels)
    levels: Sequence[float],
    *,
    blocks: int,  # examples that do not overlap
) -> Numbers:  # (levels,)
    """How far each quantile is moved, in widths of the widest interval, towards its share of the truth below.

    The whole way would be conformal prediction with a scaled error (Romano et al. 2019), for each quantile on its own.
    Few data go a part of it: the training data say something about the errors, too.
    """
    width = quantiles[..., -1] - quantiles[..., 0]
    usable = width > 0
    if not usable.any():
        return np.zeros(len(levels))
    return (
        blocks
        / (blocks + PRIOR_BLOCKS)
        * np.array(
            [
                np.quantile((truth - quantiles[..., place])[usable] / width[usable], level)
                for place, level in enumerate(levels)
            ]
        )
    )


def describe_shrinkage(shrinkage: Shrinkage, base: str) -> str:
    """Why and how far forecasts return to the base forecast."""
    if not shrinkage.factor:
        return (
            f"the network is not used, since the dev data do not show that it is better than the {base}, which is the "
            "forecast instead"
        )
    return (
        f"the changes from the {base} are multiplied by {shrinkage.factor:.2f}: the best factor on the dev data is "
        f"{shrinkage.best:.2f} ± {ERRORS * shrinkage.error:.2f}"
    )
