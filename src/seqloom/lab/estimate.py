"""Means over seeds with their 95 % confidence intervals, and the status of a claim that follows from them."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, Self, TypeVar, get_args

from seqloom.formats import format_number
from seqloom.metrics.confidence import mean_interval, wilson_interval

Status = Literal["holds", "does not hold here", "not decided"]
STATUSES: tuple[Status, ...] = get_args(Status)
K = TypeVar("K", bound=Hashable)
LARGEST_EXPONENT = 700
"""exp of more is infinite in double precision."""


@dataclass(frozen=True)
class Estimate:
    """A measured value and its 95 % confidence interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of_mean(cls, values: Sequence[float]) -> Self:
        """The mean of repetitions and Student's interval; one repetition has an infinite interval."""
        return cls(fmean(values), *mean_interval(values))

    @classmethod
    def of_geometric_mean(cls, values: Sequence[float]) -> Self:
        """The geometric mean of positive values such as lengths or ratios, and Student's interval of the logarithms."""
        mean = cls.of_mean([math.log(value) for value in values])
        high = math.exp(mean.high) if mean.high < LARGEST_EXPONENT else math.inf
        return cls(math.exp(mean.value), math.exp(mean.low), high)

    @classmethod
    def of_differences(cls, values: Mapping[K, float], reference: Mapping[K, float]) -> Self:
        """The mean of value - reference for the same seed, or any other key."""
        return cls.of_mean([value - reference[key] for key, value in values.items()])

    @classmethod
    def of_ratios(cls, values: Mapping[K, float], reference: Mapping[K, float]) -> Self:
        """The geometric mean of value / reference for the same seed, or any other key."""
        return cls.of_geometric_mean([value / reference[key] for key, value in values.items()])

    @classmethod
    def of_share(cls, successes: int, total: int) -> Self:
        """A share and Wilson's interval."""
        return cls(successes / total if total else float("nan"), *wilson_interval(successes, total))

    def is_above(self, bound: float) -> bool | None:
        """Whether the whole interval lies above a bound; None if the bound lies inside the interval."""
        return True if self.low > bound else False if self.high <= bound else None

    def is_below(self, bound: float) -> bool | None:
        """Whether the whole interval lies below a bound; None if the bound lies inside the interval."""
        return True if self.high < bound else False if self.low >= bound else None

    def is_within(self, low: float, high: float) -> bool | None:
        """Whether the interval lies inside a range: False if it lies outside, None if it overlaps an end."""
        if low <= self.low and self.high <= high:
            return True
        return False if self.high < low or self.low > high else None

    def format(self, *, digits: int = 3, percent: bool = False) -> str:
        """The value with its interval, such as ``0.93 [0.9, 0.95]``."""
        value, low, high = (
            f"{number:.{max(digits - 2, 0)}%}" if percent else format_number(number, digits)
            for number in (self.value, self.low, self.high)
        )
        return f"{value} [{low}, {high}]" if self.high - self.low < float("inf") else f"{value} (one seed, no interval)"

    def format_points(self) -> str:
        """A difference of shares in percentage points, with its interval, such as ``+3.1 [+2.0, +4.2]``."""
        if math.isinf(self.high - self.low):
            return f"{100 * self.value:+.1f} (one seed, no interval)"
        return f"{100 * self.value:+.1f} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"


def seed_means(values: Iterable[tuple[int, float]]) -> dict[int, float]:
    """The mean of the values of each seed, from pairs of a seed and a value."""
    by_seed: dict[int, list[float]] = {}
    for seed, value in values:
        by_seed.setdefault(seed, []).append(value)
    return {seed: fmean(own) for seed, own in by_seed.items()}


def conclude(*answers: bool | None) -> Status:
    """A claim holds if every part of it does, and does not hold if one part does not."""
    if any(answer is False for answer in answers):
        return "does not hold here"
    return "holds" if all(answers) else "not decided"
