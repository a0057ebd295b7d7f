"""Intervals of 95 %: how far a figure may be off because the test data are few."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.metrics.labels import f1

NORMAL = 1.959963984540054
"""95 % of a normal distribution lie within this many standard deviations."""

RESAMPLES = 1000
DRAWN_TOGETHER = 1 << 22
"""Numbers of a sample that exist at once: 32 MB."""


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
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """The interval of F1 over sentences drawn anew with replacement (Efron 1979, percentiles)."""
    counts = np.stack([np.asarray(count, dtype=np.int64) for count in (right, found, wanted)], axis=1)
    if not len(counts):
        return 0.0, 1.0
    sums = np.stack(list(resample(counts, resamples=resamples, seed=seed)))  # (resamples, 3)
    return quantiles(f1(sums[:, 0], sums[:, 1], sums[:, 2]))


def bootstrap_ratio(
    errors: ArrayLike,  # (N,), of each sentence
    symbols: ArrayLike,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """The interval of Σ errors / Σ symbols over sentences drawn anew with replacement."""
    counts = np.stack([np.asarray(count, dtype=np.int64) for count in (errors, symbols)], axis=1)
    if not len(counts):
        return 0.0, 1.0
    sums = np.stack(list(resample(counts, resamples=resamples, seed=seed)))
    return quantiles(sums[:, 0] / np.maximum(sums[:, 1], 1))


def resample(
    statistics: NDArray[np.int64],  # (N, S), of each sentence
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Iterator[NDArray[np.int64]]:  # (S,) each
    """Sums over as many sentences, drawn anew with replacement (Efron 1979)."""
    # Sentences with the same statistics are the same to any sum: a draw is how often each kind of them occurs.
    kinds, times = np.unique(statistics, axis=0, return_counts=True)
    random = np.random.default_rng(seed)
    together = max(DRAWN_TOGETHER // max(len(kinds), 1), 1)
    for start in range(0, resamples if len(kinds) else 0, together):
        count = min(together, resamples - start)
        yield from random.multinomial(len(statistics), times / len(statistics), size=count) @ kinds


def quantiles(values: ArrayLike) -> tuple[float, float]:
    """Between which 95 % of the values lie."""
    low, high = np.quantile(np.asarray(values, dtype=np.float64), [0.025, 0.975])
    return float(low), float(high)
