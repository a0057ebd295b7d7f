"""The range of numbers to predict, gathered while examples are read."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.data.feature_statistics import RunningMoments
from seqloom.data.readers.columns import LabelColumn
from seqloom.data.readers.numeric_targets import target_names


@dataclass(frozen=True)
class TargetRange:
    """The distribution of one number."""

    name: str  # of its column, where known
    minimum: float
    mean: float
    maximum: float
    standard_deviation: float


class TargetRanges:
    """The range of each number to predict; those of another width than the first are reported elsewhere."""

    def __init__(self, column: LabelColumn | None = None) -> None:
        self.column = column
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
        names = target_names(self.column, self.moments.size)
        columns = zip(self.low, self.moments.mean, self.high, deviations, strict=True)
        return [TargetRange(name, *map(float, column)) for name, column in zip(names, columns, strict=True)]

    def compare(self, train: "TargetRanges") -> Iterator[str]:
        """Sentences about numbers that lie outside of those of the training data."""
        for own, other in zip(self.summary(), train.summary(), strict=False):
            if own.minimum > other.maximum or own.maximum < other.minimum:
                name = "the target" if own.name == "target" else own.name
                yield (
                    f"dev: {name} is {own.minimum:g} to {own.maximum:g}, outside of train, where it is "
                    f"{other.minimum:g} to {other.maximum:g}"
                )
