"""Mean and deviation of many sequences, added up one by one."""

import numpy as np
from numpy.typing import ArrayLike


class RunningMoments:
    """Of each number of a frame, over all frames so far (Chan et al. 1979)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = self.squares = np.zeros(0)

    @property
    def size(self) -> int:
        """Numbers in a frame; 0: not known yet."""
        return len(self.mean)

    def add(self, sequence: ArrayLike) -> None:  # (T, D)
        values = np.asarray(sequence, dtype=np.float64)
        if not self.size:
            self.mean = self.squares = np.zeros(values.shape[1])
        if len(values):
            own = values.mean(axis=0)
            total = self.count + len(values)
            between = (own - self.mean) ** 2 * self.count * len(values) / total
            self.squares = self.squares + ((values - own) ** 2).sum(axis=0) + between
            self.mean = self.mean + (own - self.mean) * len(values) / total
            self.count = total

    def means(self) -> tuple[float, ...]:
        return tuple(self.mean.tolist())

    def deviations(self) -> tuple[float, ...]:
        """A number that never changes has 1, and so is left as wide as it is."""
        found = np.sqrt(self.squares / max(self.count, 1))
        return tuple(np.where(found > 0, found, 1.0).tolist())
