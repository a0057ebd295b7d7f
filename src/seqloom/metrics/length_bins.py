"""Bins of lengths, in each of which a metric is computed on its own."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

QUANTILES = 5
"""Bins by default, each with about the same number of examples."""
MAX_LIMITS = 100
"""More bins cannot be distinguished in a picture."""


@dataclass(frozen=True)
class LengthBins:
    """Lengths up to the first limit, up to each further one, and longer than the last one."""

    limits: tuple[float, ...]  # increasing; each is the largest length of its bin

    def __post_init__(self) -> None:
        if len(self.limits) > MAX_LIMITS:
            raise ValueError(f"expected at most {MAX_LIMITS} lengths as bins, such as 10,20,40, got {len(self.limits)}")
        if any(not math.isfinite(limit) or limit <= 0 for limit in self.limits):
            raise ValueError(f"expected positive lengths as bins, such as 10,20,40, got {_join(self.limits)}")
        if list(self.limits) != sorted(set(self.limits)):
            raise ValueError(f"expected increasing lengths as bins, such as 10,20,40, got {_join(self.limits)}")

    def __len__(self) -> int:
        return len(self.limits) + 1

    def index(self, length: float) -> int:
        """The bin of a length."""
        return bisect_left(self.limits, length)

    def bounds(self, index: int) -> tuple[float | None, float | None]:
        """The lengths of a bin are above the first number and up to the second one; None: there is no bound."""
        low = self.limits[index - 1] if index else None
        return low, self.limits[index] if index < len(self.limits) else None

    def name(self, index: int, *, whole: bool) -> str:
        """A bin as people write it, such as 11–20; ``whole``: lengths are whole numbers."""
        low, high = self.bounds(index)
        if low is None:
            return "all" if high is None else f"≤ {high:g}"
        if high is None:
            return f"> {low:g}"
        first = math.floor(low) + 1 if whole else low
        return f"{high:g}" if first == high else f"{first:g}–{high:g}"


def quantile_bins(lengths: Sequence[float], count: int = QUANTILES) -> LengthBins:
    """Bins with about the same number of examples; fewer than ``count`` if many lengths are equal."""
    shares = np.arange(1, count) / count
    limits = np.unique(np.quantile(np.asarray(lengths, dtype=np.float64), shares, method="inverted_cdf"))
    longest = max(lengths)
    return LengthBins(tuple(float(limit) for limit in limits if 0 < limit < longest))


def parse_bins(text: str) -> tuple[float, ...]:
    """The limits of bins that are written as 10,20,40; empty: none."""
    try:
        limits = tuple(float(part) for part in text.split(",") if text.strip())
    except ValueError:
        raise ValueError(f"expected lengths separated by commas as bins, such as 10,20,40, got {text!r}") from None
    return LengthBins(limits).limits


def _join(limits: Sequence[float]) -> str:
    return ",".join(f"{limit:g}" for limit in limits)
