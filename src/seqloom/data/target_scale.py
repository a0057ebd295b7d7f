"""The scale of targets that are numbers, by which they are standardised."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from seqloom.config import ConfigSection
from seqloom.data.feature_statistics import RunningMoments, check_scales, round_to_single
from seqloom.data.readers.columns import LabelColumn
from seqloom.data.readers.numeric_targets import target_names
from seqloom.data.readers.text_files import DataError, Location

Numbers = NDArray[np.float64]


class TargetScale(ConfigSection):
    """Mean and standard deviation of each target in the training data."""

    names: tuple[str, ...] = Field(description="Names of the targets.")
    means: tuple[float, ...]
    deviations: tuple[float, ...] = Field(description="Standard deviations; 1 for a constant target.")

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        check_scales(self.means, self.deviations)
        if len(self.names) != len(self.means):
            raise ValueError(f"expected a scale for each of {len(self.names)} targets, found {len(self.means)}")
        return self

    def __len__(self) -> int:
        return len(self.names)

    def standardize(self, values: ArrayLike) -> Numbers:  # (..., K)
        """Values in deviations from the mean."""
        scaled: Numbers = (np.asarray(values, dtype=np.float64) - np.array(self.means)) / np.array(self.deviations)
        return scaled

    def restore(self, scaled: ArrayLike) -> Numbers:  # (..., K)
        """Standardised values in their own units, without the digits that single precision does not determine."""
        values: Numbers = np.asarray(scaled, dtype=np.float64) * np.array(self.deviations) + np.array(self.means)
        return round_to_single(values, self.deviations)


class TargetStatistics:
    """The scale of the targets, gathered while examples are read."""

    def __init__(self) -> None:
        self.moments = RunningMoments()

    def add(self, location: Location, values: Numbers) -> None:  # (N, K)
        size = self.moments.size
        if size and values.shape[1] != size:
            raise DataError(location, f"expected {size} targets as in the first example, found {values.shape[1]}")
        self.moments.add(values)

    def checked_scale(self, columns: LabelColumn | None, *, file: str, check: bool) -> TargetScale:
        """The scale of targets from these columns of a file; DataError if one of them never changes, if ``check``."""
        scale = self.scale(target_names(columns, self.moments.size))
        constant = self.moments.constant()
        if check and constant and self.moments.count > 1:
            index = constant[0]
            raise DataError(
                file,
                f"all {self.moments.count:,} numbers of {scale.names[index]!r} are {scale.means[index]:g}; is it the "
                "right column? task.check_labels = false trains nevertheless",
            )
        return scale

    def scale(self, names: Sequence[str]) -> TargetScale:
        return TargetScale(names=tuple(names), means=self.moments.means(), deviations=self.moments.deviations())
