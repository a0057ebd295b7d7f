"""What the development data say about a trained forecaster: how far to trust it, and how wide its intervals are."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

PRIOR_BLOCKS = 100  # of examples that are taken to agree with the quantiles that the network has learned
MIN_BLOCKS = 8  # of development examples that do not overlap; fewer say too little
ERRORS = 2.0  # standard errors by which the best factor has to exceed 0


class Shrinkage(NamedTuple):
    """The factor by which the change that a model predicts is multiplied."""

    factor: float  # 0 to 1; 0: the base forecast
    best: float  # the factor with the smallest squared error on the development data
    error: float  # its standard error


def estimate_shrinkage(
    changes: Sequence[Numbers],  # of each example: forecast − base forecast, in standard deviations
    needed: Sequence[Numbers],  # of each example: truth − base forecast
    *,
    overlap: int,  # consecutive examples that overlap
) -> Shrinkage | None:
    """The factor s that minimises Σ (truth − base − s · change)²; 0 unless it clearly exceeds 0. None: too few data."""
    products = np.array([float((change * need).sum()) for change, need in zip(changes, needed, strict=True)])
    squares = np.array([float((change**2).sum()) for change in changes])
    starts = np.arange(0, len(products), max(overlap, 1))
    if len(starts) < MIN_BLOCKS or not squares.sum():
        return None
    products, squares = np.add.reduceat(products, starts), np.add.reduceat(squares, starts)
    best = products.sum() / squares.sum()
    # Blocks do not overlap, so that the errors of their sums are nearly independent.
    error = float(np.sqrt(((products - best * squares) ** 2).sum()) / squares.sum())
    return Shrinkage(float(min(best, 1.0)) if best > ERRORS * error else 0.0, float(best), error)


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
        return f"the dev data do not show that the network is better than the {base}, so that this is the forecast"
    return f"the changes from the {base} are multiplied by {shrinkage.factor:.2f}, as is best on the dev data"
