"""Which values of the history mattered for a forecast: one series, one step of the horizon."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.data.batch import Padded
from seqloom.insight.attribution import Attribution, attribute
from seqloom.models.forecaster import ForecastInputs

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class HistoryInput:
    """What a forecaster reads, and how its features follow from the values."""

    signal: Numbers  # (T, D), in the units of the data
    scaled: Numbers  # (T, D), the same as the model reads it
    rms_changes: Numbers | None = None  # (D,), unit of the changes from row to row; None: only values are read
    is_preceded: bool = False  # the first row is only the start of the first change
    covariates: ForecastInputs | None = None  # what the model reads besides the values, of one row; None: nothing
    times: tuple[str, ...] = ()  # (T,), time stamps of the rows; empty: unknown

    def features(self, values: Tensor) -> Padded | ForecastInputs:  # (N, T, D) → (N, T, features, D)
        """The features of scaled values, as the model reads them."""
        if self.rms_changes is None:
            features = values.unsqueeze(2)
        else:
            before = values[:, :1]
            changes = torch.diff(values, dim=1, prepend=before) / values.new_tensor(self.rms_changes)
            features = torch.stack([values, changes], dim=2)[:, int(self.is_preceded) :]
        mask = torch.ones(features.shape[:2], dtype=torch.bool)
        if self.covariates is None:
            return Padded(features, mask)
        known, future = (
            part.expand(len(features), *part.shape[1:]) for part in (self.covariates.known, self.covariates.future)
        )
        return ForecastInputs(features, mask, known, future)


@dataclass(frozen=True)
class ForecastValue:
    """One of the numbers of a forecast.

    A model that forecasts changes from the last value adds that value in any case, so that its change is explained.
    """

    name: str  # of the column
    column: int  # of the history
    place: int  # of the column among those that are forecast
    step: int  # from 0
    scale: tuple[float, float] | None  # mean and standard deviation of the column; None: log-odds of a one
    is_change: bool  # from the last value of the history

    def of(self, forecast: Tensor, history: Tensor) -> Tensor:  # (N, T, horizon, targets), (N, T, D) → (N,)
        """The number after the last row, in the units of the data."""
        value = forecast[:, -1, self.step, self.place]
        if self.scale is None:
            return value
        mean, deviation = self.scale
        if self.is_change:
            return (value - history[:, -1, self.column]).double() * deviation
        return value.double() * deviation + mean

    def describe(self, time: str, last: str) -> str:
        """The name, with the time or else the step; ``last``: the time of the last value of the history."""
        if self.is_change and time and last:
            return f"the change of {self.name} from {last} to {time}"
        return f"{'the change of ' if self.is_change else ''}{self.name} ({time or f'step {self.step + 1}'})"


def choose_place(names: Sequence[str], target: str) -> int:
    """The place of a column by its name; the first, if none is chosen."""
    if target and target not in names:
        near = get_close_matches(target, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"target: no column {target!r} is forecast, only {', '.join(names)[:200]}{hint}")
    return list(names).index(target) if target else 0


def choose_step(horizon: int, step: str | int) -> int:
    """The step of the horizon, from 0; the first, if none is chosen."""
    if step == "":
        return 0
    if not str(step).isdecimal() or not 1 <= int(step) <= horizon:
        raise ValueError(f"word: expected the step of the forecast to explain, from 1 to {horizon}, found {step!r}")
    return int(step) - 1


def attribute_forecast(
    model: nn.Module,
    history: HistoryInput,
    value: ForecastValue,
    *,
    method: str,
    columns: Sequence[str],
    time: str = "",  # of the value; empty: unknown
) -> Attribution:
    """How much each value of the history raises or lowers a number of the forecast."""

    def score(values: Tensor) -> Tensor:
        forecast, _ = model(history.features(values))
        return value.of(forecast, values)

    return attribute(
        score,
        torch.tensor(history.scaled, dtype=torch.float32),
        method=method,
        target=value.describe(time, history.times[-1] if history.times else ""),
        tokens=[str(number) for number in range(1, len(history.scaled) + 1)],
        signal=history.signal,
        channels=columns,
        is_number=value.scale is not None,
        times=history.times,
    )
