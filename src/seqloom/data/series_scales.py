"""The scales of the columns of time series: means, standard deviations, and how much values change."""

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor

from seqloom.config import ConfigSection
from seqloom.data.feature_statistics import check_scales, is_constant, round_to_single
from seqloom.data.readers.series import Numbers, differences


class SeriesScales(ConfigSection):
    """Columns and scales of training data."""

    columns: tuple[str, ...]  # input columns
    means: tuple[float, ...]  # one per column
    deviations: tuple[float, ...]  # standard deviations, one per column; 1 for constant columns
    rms_changes: tuple[float, ...]  # root mean square change from row to row, in deviations
    horizon_changes: tuple[tuple[float, ...], ...]  # (horizon, targets), root mean square change after 1, 2, … steps
    naive_errors: tuple[float, ...]  # mean absolute error of the (seasonal) naive forecast, for each target
    constant: tuple[int, ...] = ()  # columns that never change
    shortest: int = 0  # rows of the shortest history before a forecast; 0: any

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_scales(self.means, self.deviations)
        if not len(self.columns) == len(self.means) == len(self.rms_changes):
            raise ValueError(f"expected a scale for each of {len(self.columns)} columns")
        targets = len(self.naive_errors)
        if targets > len(self.columns) or any(len(row) != targets for row in self.horizon_changes):
            raise ValueError(f"horizon_changes: expected a value for each of {targets} targets")
        return self

    @classmethod
    def of(
        cls,
        parts: Sequence[Numbers],  # each (T, D)
        columns: tuple[str, ...],
        *,
        targets: Sequence[int],  # columns to forecast
        horizon: int,
        season: int,  # 0: none
        shortest: int = 0,
    ) -> Self:
        """The scales of series."""
        joined = np.concatenate(parts)
        means, deviations = joined.mean(axis=0), joined.std(axis=0)
        constant = is_constant(means, deviations)
        deviations[constant] = 1
        squares = [(differences(parts, step + 1) ** 2).mean(axis=0) for step in range(horizon)]
        horizon_changes = np.sqrt(squares) / deviations
        rms_changes = np.sqrt((differences(parts, 1) ** 2).mean(axis=0)) / deviations
        seasonal = differences(parts, season or 1)[:, targets]
        return cls(
            columns=columns,
            means=tuple(means.tolist()),
            deviations=tuple(deviations.tolist()),
            rms_changes=tuple(np.where(rms_changes > 0, rms_changes, 1).tolist()),
            horizon_changes=tuple(map(tuple, horizon_changes[:, targets].tolist())),
            naive_errors=tuple(np.abs(seasonal).mean(axis=0).tolist()) if len(seasonal) else (0.0,) * len(targets),
            constant=tuple(np.flatnonzero(constant).tolist()),
            shortest=shortest,
        )

    def scale(self, values: Numbers) -> Numbers:  # (..., D)
        """Values with mean 0 and standard deviation 1."""
        scaled: Numbers = (values - np.array(self.means)) / np.array(self.deviations)
        return scaled

    def restore(self, scaled: Numbers, targets: Sequence[int]) -> Numbers:  # (..., targets)
        """Scaled values of the targets in the units of the data."""
        restored: Numbers = scaled * np.array(self.deviations)[targets] + np.array(self.means)[targets]
        return restored

    def target_scales(self, targets: Sequence[int]) -> tuple[Tensor, Tensor]:  # (targets,) each
        """The means and the standard deviations of the targets."""
        means, deviations = (torch.tensor(each)[list(targets)] for each in (self.means, self.deviations))
        return means, deviations

    def varying(self, targets: Sequence[int]) -> list[int]:
        """The positions of the targets that change, which are those to score; all, if none does."""
        constant = set(self.constant)
        return [place for place, column in enumerate(targets) if column not in constant] or list(range(len(targets)))

    def round(self, values: Numbers, targets: Sequence[int]) -> Numbers:  # (..., targets)
        """Values without the digits that single precision does not determine."""
        return round_to_single(values, np.array(self.deviations)[targets])
