"""The scale of targets that are numbers, by which they are standardised."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from seqloom.config import ConfigSection
from seqloom.data.feature_statistics import RunningMoments, check_scales
from seqloom.data.readers.columns import LabelColumn
from seqloom.data.readers.numeric_targets import target_names
from seqloom.data.readers.text_files import DataError, Location

Numbers = NDArray[np.float64]

SINGLE_DIGITS = 7  # significant digits of a 32-bit floating-point number
CONSTANT = 1e-12  # deviation relative to the mean, up to which targets count as constant


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
        decimals = SINGLE_DIGITS - 1 - np.floor(np.log10(np.array(self.deviations)))
        for column, count in enumerate(decimals.astype(int).tolist()):
            values[..., column] = values[..., column].round(max(count, 0))
        return values


class TargetStatistics:
    """The scale of the targets, gathered while examples are read."""

    def __init__(self) -> None:
        self.moments = RunningMoments()

    def add(self, location: Location, values: Numbers) -> None:  # (N, K)
        size = self.moments.size
        if size and values.shape[1] != size:
            raise DataError(location, f"expected {size} targets as in the first example, found {values.shape[1]}")
        self.moments.add(values)

    def constant(self) -> list[int]:
        """Indices of targets that never change."""
        deviations = np.sqrt(self.moments.squares / max(self.moments.count, 1))
        return np.flatnonzero(deviations <= CONSTANT * np.abs(self.moments.mean)).tolist()

    def checked_scale(self, columns: LabelColumn | None, *, file: str, check: bool) -> TargetScale:
        """The scale of targets from these columns of a file; DataError if one of them never changes, if ``check``."""
        scale = self.scale(target_names(columns, self.moments.size))
        constant = self.constant()
        if check and constant and self.moments.count > 1:
            index = constant[0]
            raise DataError(
                file,
                f"all {self.moments.count:,} numbers of {scale.names[index]!r} are {scale.means[index]:g}; is it the "
                "right column? task.check_labels = false trains nevertheless",
            )
        return scale

    def scale(self, names: Sequence[str]) -> TargetScale:
        deviations = np.array(self.moments.deviations())
        deviations[self.constant()] = 1.0
        return TargetScale(names=tuple(names), means=self.moments.means(), deviations=tuple(deviations.tolist()))
