"""Intervals of 95 %: how far a figure may be off because the test data are few."""

import math

import numpy as np
from numpy.typing import ArrayLike

from seqloom.metrics.labels import f1

NORMAL = 1.959963984540054
"""95 % of a normal distribution lie within this many standard deviations."""


def wilson(right: int, total: int) -> tuple[float, float]:
    """The interval of a share (Wilson 1927); of nothing it is (0, 1)."""
    if not 0 <= right <= total:
        raise ValueError(f"right is {right} of {total}, wanted from 0 to the total")
    if not total:
        return 0.0, 1.0
    share, square = right / total, NORMAL**2 / total
    middle = share + square / 2
    half = NORMAL * math.sqrt(share * (1 - share) / total + square / (4 * total))
    return max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square))


def bootstrap_f1(
    right: ArrayLike,  # (N,), of each sentence
    found: ArrayLike,
    wanted: ArrayLike,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """The interval of F1 over sentences drawn anew with replacement (Efron 1979, percentiles)."""
    counts = np.stack([np.asarray(count, dtype=np.int64) for count in (right, found, wanted)], axis=1)
    if not len(counts):
        return 0.0, 1.0
    # Sentences with the same counts are the same to F1: a draw is how often each kind of them occurs.
    kinds, times = np.unique(counts, axis=0, return_counts=True)
    draws = np.random.default_rng(seed).multinomial(len(counts), times / len(counts), size=resamples)
    sums = draws @ kinds  # (resamples, 3)
    low, high = np.quantile(f1(sums[:, 0], sums[:, 1], sums[:, 2]), [0.025, 0.975])
    return float(low), float(high)
