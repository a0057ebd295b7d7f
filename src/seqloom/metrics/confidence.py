"""Intervals of 95 %: how far a figure may be off because the test data are few."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.metrics.labels import f1

NORMAL = 1.959963984540054
"""95 % of a normal distribution lie within this many standard deviations."""

RESAMPLES = 1000
DRAWN_TOGETHER = 1 << 22
"""Numbers of a sample that exist at once: 32 MB."""


class MetricSums(NamedTuple):
    """A metric that is a function of sums over examples: a sample of them needs no other look at the answers."""

    rows: NDArray[np.float64]  # (N, S), of each example in order
    value: Callable[[NDArray[np.float64]], float]  # of their sum (S,)

    @property
    def whole(self) -> float:
        """The metric of all examples."""
        return self.value(self.rows.sum(axis=0))


def ratio_of_sums(above: ArrayLike, below: ArrayLike) -> MetricSums:  # (N,) each
    """Σ above / Σ below."""
    rows = np.stack([np.asarray(side, dtype=np.float64) for side in (above, below)], axis=1)
    return MetricSums(rows, lambda sums: float(sums[0] / sums[1]) if sums[1] else 0.0)


def mean_of_sums(values: Sequence[ArrayLike]) -> MetricSums:
    """The mean of numbers, of which each example has some."""
    return ratio_of_sums([np.sum(each) for each in values], [np.size(each) for each in values])


def wilson_interval(right: int, total: int) -> tuple[float, float]:
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


def bootstrap(
    sums: MetricSums,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> NDArray[np.float64]:  # (resamples,)
    """The metric over as many examples, drawn anew with replacement.

    Which are drawn depends on their number and the seed alone: two models that are asked the same are compared pair by
    pair (Efron & Tibshirani 1993, Koehn 2004).
    """
    random = np.random.default_rng(seed)
    count = len(sums.rows)
    times = (np.bincount(random.integers(count, size=count), minlength=count) for _ in range(resamples if count else 0))
    return np.array([sums.value(each @ sums.rows) for each in times])


def paired_difference(first: Sequence[ArrayLike], other: Sequence[ArrayLike]) -> tuple[float, float]:
    """The interval of how much more the other reaches: of each, samples of several trainings, whose mean counts."""
    both = [np.mean([np.asarray(each, dtype=np.float64) for each in side], axis=0) for side in (first, other)]
    return quantiles(both[1] - both[0])


def quantiles(values: ArrayLike) -> tuple[float, float]:
    """Between which 95 % of the values lie."""
    low, high = np.quantile(np.asarray(values, dtype=np.float64), [0.025, 0.975])
    return float(low), float(high)
