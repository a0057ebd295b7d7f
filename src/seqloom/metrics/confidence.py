"""95 % confidence intervals of metrics, by formula and by bootstrap over examples."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.metrics.labels import f1

NORMAL = 1.959963984540054
"""95 % of a normal distribution lie within this many standard deviations."""

RESAMPLES = 1000
SIGNIFICANT = 0.05
"""A p value below this is called significant."""
MIN_PAIRS = 6
"""Examples from which on a paired test can be significant: fewer can be exchanged in at most 32 ways."""
MAX_EXACT = 12
"""Examples that differ, up to which all exchanges are counted."""
MAX_PAIRS = 20_000
"""More examples are exchanged in groups."""
COUNTS_AT_ONCE = 1 << 22
"""Resampled counts held in memory at once: 32 MB."""


class MetricSums(NamedTuple):
    """A metric that is a function of sums over examples, so that it can be resampled without the predictions."""

    rows: NDArray[np.float64]  # (N, S), the summands of each example
    value: Callable[[NDArray[np.float64]], float]  # the metric, given their sum (S,)

    def in_blocks(self, size: int) -> "MetricSums":
        """The same with the sums of consecutive examples, which may overlap, as one row (Künsch 1989)."""
        if size <= 1 or not len(self.rows):
            return self
        starts = np.arange(0, len(self.rows), size)
        return MetricSums(np.add.reduceat(self.rows, starts, axis=0), self.value)

    @property
    def whole(self) -> float:
        """The metric over all examples."""
        return self.value(self.rows.sum(axis=0))


def ratio_of_sums(numerators: ArrayLike, denominators: ArrayLike) -> MetricSums:  # (N,) each
    """Σ numerators / Σ denominators."""
    rows = np.stack([np.asarray(side, dtype=np.float64) for side in (numerators, denominators)], axis=1)
    return MetricSums(rows, lambda sums: float(sums[0] / sums[1]) if sums[1] else 0.0)


def mean_of_sums(values: Sequence[ArrayLike]) -> MetricSums:
    """The mean over the values of all examples; an example may have several."""
    return ratio_of_sums([np.sum(row) for row in values], [np.size(row) for row in values])


def wilson_interval(correct: int, total: int) -> tuple[float, float]:
    """Confidence interval of a proportion (Wilson 1927); (0, 1) if there are no examples."""
    if not 0 <= correct <= total:
        raise ValueError(f"correct is {correct}, expected a number from 0 to {total} (total)")
    if not total:
        return 0.0, 1.0
    proportion, square = correct / total, NORMAL**2 / total
    centre = proportion + square / 2
    half = NORMAL * math.sqrt(proportion * (1 - proportion) / total + square / (4 * total))
    low, high = (centre - half) / (1 + square), (centre + half) / (1 + square)
    return 0.0 if correct == 0 else low, 1.0 if correct == total else high  # exact in spite of rounding


def bootstrap_f1(
    correct: ArrayLike,  # (N,), of each sentence
    predicted: ArrayLike,
    reference: ArrayLike,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """Confidence interval of F1: percentile bootstrap over sentences (Efron 1979)."""
    counts = np.stack([np.asarray(count, dtype=np.int64) for count in (correct, predicted, reference)], axis=1)
    if not len(counts):
        return 0.0, 1.0
    sums = np.stack(list(resample(counts, resamples=resamples, seed=seed)))  # (resamples, 3)
    return quantiles(f1(sums[:, 0], sums[:, 1], sums[:, 2]))


def bootstrap_ratio(
    errors: ArrayLike,  # (N,), of each sentence
    tokens: ArrayLike,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """Confidence interval of Σ errors / Σ tokens: percentile bootstrap over sentences."""
    counts = np.stack([np.asarray(count, dtype=np.int64) for count in (errors, tokens)], axis=1)
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
    """Yield the sums over N sentences drawn with replacement (Efron 1979)."""
    # Sentences with equal statistics are interchangeable: draw how often each distinct row occurs.
    distinct, times = np.unique(statistics, axis=0, return_counts=True)
    random = np.random.default_rng(seed)
    at_once = max(COUNTS_AT_ONCE // max(len(distinct), 1), 1)
    for start in range(0, resamples if len(distinct) else 0, at_once):
        count = min(at_once, resamples - start)
        yield from random.multinomial(len(statistics), times / len(statistics), size=count) @ distinct


def bootstrap(
    sums: MetricSums,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> NDArray[np.float64]:  # (resamples,)
    """The metric over N examples drawn with replacement.

    The draws depend only on N and the seed, so that two models evaluated on the same examples can be compared pairwise
    (Efron & Tibshirani 1993, Koehn 2004).
    """
    random = np.random.default_rng(seed)
    count = len(sums.rows)
    times = (np.bincount(random.integers(count, size=count), minlength=count) for _ in range(resamples if count else 0))
    return np.array([sums.value(counts @ sums.rows) for counts in times])


class SignificanceTest(NamedTuple):
    """Whether two models differ on the same examples."""

    p_value: float  # two-sided
    examples: int  # of which each is independent of the others

    @property
    def is_possible(self) -> bool:
        """Whether there are enough examples for any difference to be significant."""
        return self.examples >= MIN_PAIRS

    @property
    def is_significant(self) -> bool:
        return self.p_value < SIGNIFICANT


def significance(
    first: MetricSums,
    other: MetricSums,  # on the same examples
    *,
    overlap: int = 1,  # successive examples that overlap, and count as one
) -> SignificanceTest | None:
    """The randomization test of two models; None if their metrics cannot be paired."""
    if len(first.rows) != len(other.rows) or not len(first.rows):
        return None
    first, other = (sums.in_blocks(overlap) for sums in (first, other))
    together = math.ceil(len(first.rows) / MAX_PAIRS)
    p_value = randomization_test(*(sums.in_blocks(together) for sums in (first, other)))
    return None if math.isnan(p_value) else SignificanceTest(p_value, len(first.rows))


def randomization_test(
    first: MetricSums,
    other: MetricSums,  # on the same examples
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> float:
    """The p value of the difference between two models, two-sided; NaN if one of the metrics is not finite.

    If the models are equally good, exchanging their results on an example changes nothing: the share of exchanges with
    at least the observed difference (Noreen 1989, Riezler & Maxwell 2005). If few examples differ, all exchanges are
    counted, which for shares of correct answers is the exact test of McNemar.
    """
    if not (np.isfinite(first.rows).all() and np.isfinite(other.rows).all()):
        return math.nan
    changes = (other.rows - first.rows)[(other.rows != first.rows).any(axis=1)]
    totals = first.rows.sum(axis=0), other.rows.sum(axis=0)

    def difference(exchanged: NDArray[np.float64]) -> float:  # (examples that differ,), 1: exchanged
        moved = exchanged @ changes
        return abs(first.value(totals[0] + moved) - first.value(totals[1] - moved))

    count = len(changes)
    observed = difference(np.zeros(count))
    if not math.isfinite(observed):
        return math.nan
    random = np.random.default_rng(seed)
    is_exact = count <= MAX_EXACT
    exchanges: Iterator[NDArray[np.float64]] = (
        (np.array(signs, np.float64) for signs in product((0, 1), repeat=count))
        if is_exact
        else (random.integers(2, size=count).astype(np.float64) for _ in range(resamples))
    )
    least = observed * (1 - 1e-9)  # rounding
    extreme = sum(not difference(each) < least for each in exchanges)
    return extreme / (1 << count) if is_exact else (extreme + 1) / (resamples + 1)


def paired_difference(first: Sequence[ArrayLike], other: Sequence[ArrayLike]) -> tuple[float, float]:
    """Confidence interval of other - first; each is a list of bootstrap samples, one per training run, to average."""
    means = [np.mean([np.asarray(run, dtype=np.float64) for run in runs], axis=0) for runs in (first, other)]
    return quantiles(means[1] - means[0])


def quantiles(values: ArrayLike) -> tuple[float, float]:
    """The 2.5 % and 97.5 % quantiles."""
    low, high = np.quantile(np.asarray(values, dtype=np.float64), [0.025, 0.975])
    return float(low), float(high)


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Confidence interval of the mean of independent values, by Student's t; infinite for a single value."""
    if len(values) < 2:
        return -math.inf, math.inf
    mean = float(np.mean(values))
    margin = _t_quantile(len(values) - 1) * math.sqrt(float(np.var(values, ddof=1)) / len(values))
    return mean - margin, mean + margin


class PairedTest(NamedTuple):
    """The mean of paired differences, tested against 0."""

    mean: float
    interval: tuple[float, float]
    p_value: float  # two-sided


def cross_validated_test(differences: Sequence[float]) -> PairedTest:
    """The corrected paired t-test of the differences of two models on the folds of a cross-validation.

    Training sets of folds overlap, so the variance of the mean is taken as (1/K + 1/(K - 1)) s² instead of s²/K
    (Nadeau & Bengio 2003).
    """
    folds = len(differences)
    if folds < 2:
        raise ValueError(f"a paired test needs at least 2 folds, got {folds}")
    mean = float(np.mean(differences))
    error = math.sqrt((1 / folds + 1 / (folds - 1)) * float(np.var(differences, ddof=1)))
    if not error:
        return PairedTest(mean, (mean, mean), 1.0 if mean == 0 else 0.0)
    margin = error * _t_quantile(folds - 1)
    return PairedTest(mean, (mean - margin, mean + margin), t_tail(mean / error, folds - 1))


def t_tail(t: float, freedom: int) -> float:
    """The probability that Student's t with this many degrees of freedom is at least as far from 0 as ``t``.

    By the finite series of Abramowitz & Stegun 26.7.3 and 26.7.4.
    """
    angle = math.atan(abs(t) / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for step in range(2 + odd, freedom, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    inside = 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0)) if odd else sine * total
    return max(1 - inside, 0.0)


def _t_quantile(freedom: int) -> float:
    """How far from 0 Student's t lies with a probability of 5 %."""
    low, high = 0.0, 1e3
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, freedom) > 0.05 else (low, middle)
    return high
