"""Mean and standard deviation of each feature of the training data, computed in one pass."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONSTANT = 1e-12
"""Standard deviation relative to the mean up to which a feature is constant: what rounding in float64 leaves."""


SINGLE_DIGITS = 7  # significant digits of a 32-bit floating-point number


def is_constant(mean: NDArray[np.float64], deviation: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which features do not vary, except for rounding."""
    return np.asarray(deviation <= CONSTANT * np.abs(mean))


def round_to_single(values: NDArray[np.float64], deviations: ArrayLike) -> NDArray[np.float64]:  # (..., D), (D,)
    """Values without the digits that single precision does not determine, given the deviation of each column."""
    decimals = np.maximum(SINGLE_DIGITS - 1 - np.floor(np.log10(deviations)), 0).astype(int)
    return np.stack([values[..., column].round(count) for column, count in enumerate(decimals.tolist())], axis=-1)


def check_scales(means: Sequence[float], deviations: Sequence[float], names: Sequence[str] = ()) -> None:
    """Raise ValueError unless there are as many finite means as positive, finite deviations, and as many names."""
    if names and len(set(names)) != len(means):
        raise ValueError(f"expected {len(means)} different names of channels, found {len(set(names))}")
    if len(means) != len(deviations):
        raise ValueError(f"expected as many means as standard deviations, found {len(means)} and {len(deviations)}")
    if not all(map(math.isfinite, means)) or not all(0 < deviation < math.inf for deviation in deviations):
        raise ValueError("expected finite means and positive, finite standard deviations")


class RunningMoments:
    """Mean and standard deviation by the parallel algorithm, which is accurate for any mean (Chan et al. 1979)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = self.squares = np.zeros(0)

    @property
    def size(self) -> int:
        """Features per frame; 0: no sequence yet."""
        return len(self.mean)

    def add(self, sequence: ArrayLike) -> None:  # (T, D)
        values = np.asarray(sequence, dtype=np.float64)
        if not self.size:
            self.mean = self.squares = np.zeros(values.shape[1])
        if len(values):
            batch_mean = values.mean(axis=0)
            total = self.count + len(values)
            between = (batch_mean - self.mean) ** 2 * self.count * len(values) / total
            self.squares = self.squares + ((values - batch_mean) ** 2).sum(axis=0) + between
            self.mean = self.mean + (batch_mean - self.mean) * len(values) / total
            self.count = total

    def means(self) -> tuple[float, ...]:
        return tuple(self.mean.tolist())

    def deviations(self) -> tuple[float, ...]:
        """Standard deviations; 1 for a constant feature."""
        deviations = np.sqrt(self.squares / max(self.count, 1))
        return tuple(np.where(is_constant(self.mean, deviations), 1.0, deviations).tolist())

    def constant(self) -> list[int]:
        """The features that are constant."""
        return np.flatnonzero(is_constant(self.mean, np.sqrt(self.squares / max(self.count, 1)))).tolist()


def compact(values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:  # (T, D)
    """The values in float32 where that keeps their differences; Unix times, for example, stay in float64."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    known = np.where(np.isfinite(values), values, 0)
    if values.dtype == np.float32 or not len(values) or np.isinf(single).any():
        return single
    errors = np.abs(np.where(np.isfinite(values), single, 0) - known).max(axis=0)
    lowest = np.where(np.isfinite(values), values, np.inf).min(axis=0)
    highest = np.where(np.isfinite(values), values, -np.inf).max(axis=0)
    return values if (errors > 1e-6 * (highest - lowest)).any() and (errors > 1e-6).any() else single
