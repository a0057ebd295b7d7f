"""The range of numbers to predict, gathered while examples are read."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.data.feature_statistics import RunningMoments


@dataclass(frozen=True)
class TargetRange:
    """The distribution of one number."""

    minimum: float
    mean: float
    maximum: float
    deviation: float  # standard deviation


class TargetRanges:
    """The range of each number to predict; those of another width than the first are reported elsewhere."""

    def __init__(self) -> None:
        self.moments = RunningMoments()
        self.low = self.high = np.zeros(0)

    def add(self, values: NDArray[np.float64] | None) -> None:  # (N, K)
        if values is None or not len(values) or (self.moments.size and values.shape[1] != self.moments.size):
            return
        low, high = values.min(axis=0), values.max(axis=0)
        first = not self.moments.count
        self.low, self.high = (low, high) if first else (np.minimum(low, self.low), np.maximum(high, self.high))
        self.moments.add(values)

    def summary(self) -> list[TargetRange]:
        """One for each number; empty if there are none."""
        if not self.moments.count:
            return []
        deviations = np.sqrt(self.moments.squares / self.moments.count)
        columns = zip(self.low, self.moments.mean, self.high, deviations, strict=True)
        return [TargetRange(*map(float, column)) for column in columns]

    def compare(self, train: "TargetRanges") -> Iterator[str]:
        """Sentences about numbers that lie outside of those of the training data."""
        for number, (own, other) in enumerate(zip(self.summary(), train.summary(), strict=False), start=1):
            if own.minimum > other.maximum or own.maximum < other.minimum:
                name = f"target {number}" if self.moments.size > 1 else "the target"
                yield (
                    f"dev: {name} is {own.minimum:g} to {own.maximum:g}, outside of train, where it is "
                    f"{other.minimum:g} to {other.maximum:g}"
                )
