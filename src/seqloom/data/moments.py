"""Running mean and standard deviation of sequences."""

import numpy as np
from numpy.typing import ArrayLike


class RunningMoments:
    """Mean and standard deviation of each feature over all frames so far (Chan et al. 1979)."""

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
