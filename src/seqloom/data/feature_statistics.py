"""Mean and standard deviation of each feature of the training data, computed in one pass."""

import numpy as np
from numpy.typing import ArrayLike


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
        return tuple(np.where(deviations > 0, deviations, 1.0).tolist())


class RunningSums:
    """Mean and standard deviation from sums of values and squares; inaccurate for means far above their deviations."""

    def __init__(self) -> None:
        self.count = 0
        self.sums = self.squares = np.zeros(0)

    @property
    def size(self) -> int:
        """Features per frame; 0: no sequence yet."""
        return len(self.sums)

    def add(self, sequence: ArrayLike) -> None:  # (T, D)
        values = np.asarray(sequence, dtype=np.float64)
        if not self.count:
            self.sums = self.squares = np.zeros(values.shape[1])
        self.count += len(values)
        self.sums = self.sums + values.sum(axis=0)
        self.squares = self.squares + np.square(values).sum(axis=0)

    def means(self) -> tuple[float, ...]:
        return tuple((self.sums / max(self.count, 1)).tolist())

    def deviations(self, *, tolerance: float = 0.0) -> tuple[float, ...]:
        """Standard deviations; 1 for a constant feature, whose deviation is at most ``tolerance`` × (1 + |mean|)."""
        mean = np.array(self.means())
        deviations = np.sqrt(np.maximum(self.squares / max(self.count, 1) - mean**2, 0))
        return tuple(np.where(deviations > tolerance * (1 + np.abs(mean)), deviations, 1.0).tolist())
