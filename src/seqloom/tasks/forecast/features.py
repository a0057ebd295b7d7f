"""What a forecaster reads and predicts: windows of series as scaled values, changes and covariates."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.calendar_features import calendar_features
from seqloom.data.readers.missing_values import describe
from seqloom.data.readers.series import Numbers, Series, Window, column_positions
from seqloom.data.readers.text_files import DataError, pluralize
from seqloom.models.forecaster import ForecastInputs
from seqloom.tasks.forecast.prediction import ForecastTarget
from seqloom.tasks.forecast.settings import ForecastSettings, Learned
from seqloom.tasks.task import require_fitted


class ForecastFeatures(ForecastSettings):
    """The part of the task forecast that turns windows into features, and outputs into the units of the data."""

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    def _targets(self, columns: Sequence[str]) -> list[int]:
        positions = column_positions(columns)
        for field in ("target", "future_covariates", "static_covariates"):
            if missing := [name for name in getattr(self, field) if name not in positions]:
                raise DataError(self.train, f"no column {missing[0]!r} (task.{field}); found {', '.join(columns)}")
        unknown = [name for name in columns if name not in self.known_columns]
        if not unknown:
            raise DataError(self.train, "all columns are covariates, so that nothing is left to forecast")
        return [positions[name] for name in self.target or unknown]

    def collate(self, examples: Sequence[Window]) -> Batch:
        learned = self.fitted
        every_step = self.output == "every_step"
        inputs = self._inputs(examples)
        mask = inputs.mask if every_step else torch.ones(len(examples), 1, dtype=torch.bool)
        target = None
        if all(window.known for window in examples):
            targets = self._targets(learned.columns)
            observed = (window.future(self.horizon, every_step=every_step) for window in examples)
            future = [self._scale(values)[..., targets] for values in observed]
            target = ForecastTarget(pad(future, dtype=np.float32).values, mask)
        future_unknown = not any(window.known for window in examples)
        return Batch(inputs, target, int(mask.sum()), examples=tuple(examples) if future_unknown else ())

    def _inputs(self, examples: Sequence[Window]) -> Padded | ForecastInputs:
        history = pad([self._features(window) for window in examples], dtype=np.float32)
        if not self.fitted.calendar and not self.known_columns:
            return history
        known, future = [], []
        for window in examples:
            features = self.covariates(window)  # of the rows from the start of the history to the end of the horizon
            length = len(window)
            # The encoder reads covariates with all columns, unless it reads each column for itself.
            read = features.shape[1] if self.channel_independent else 2 * len(self.fitted.calendar)
            known.append(features[:length, :read])
            first = 1 if self.output == "every_step" else length
            after = np.lib.stride_tricks.sliding_window_view(features[first:], self.horizon, 0)
            future.append(after.swapaxes(1, 2))
        both = (pad(part, dtype=np.float32).values for part in (known, future))
        return ForecastInputs(*history, *both)

    def covariates(self, window: Window) -> Numbers:  # (length + horizon, covariates)
        """What is known of the history and of the steps to forecast: the calendar, then columns."""
        rows = slice(window.start, window.stop + self.horizon)
        every = calendar_features(window.series, self.fitted.calendar, self.horizon, history=self.history)
        features = every[rows]
        if not self.known_columns:
            return features
        names, values = self.future_covariates, window.series.values[rows]
        if names and len(values) < len(window) + self.horizon:
            raise DataError(
                window.location,
                f"expected the values of {', '.join(names)} at the {pluralize(self.horizon, 'step')} to forecast "
                f"(task.future_covariates), found {len(values) - len(window)}: append rows in which the other columns "
                "are empty",
            )
        positions = column_positions(self.fitted.columns)
        scaled = self.fitted.scale(values)
        ahead = scaled[:, [positions[name] for name in names]]
        static = scaled[len(window) - 1, [positions[name] for name in self.static_covariates]]
        length = len(window) + self.horizon
        known = np.concatenate([ahead if names else np.zeros((length, 0)), np.tile(static, (length, 1))], axis=1)
        return np.concatenate([features, known], axis=1)

    def time_problems(self, series: Series) -> list[str]:
        """How the time step and the time zone of a series differ from those of the training data."""
        axis, learned = series.axis, self.learned
        if axis is None or learned is None:
            return []
        step = axis.step_difference(learned.steps or ())
        zone = axis.zone_note if learned.offsets is None else axis.zone_difference(learned.offsets)
        return list(filter(None, (step, zone)))

    def history_problems(self, window: Window) -> list[str]:
        """What is irregular about the time stamps that are read for a forecast, and which values are filled."""
        series = window.series
        missing = series.missing_between(window.start, window.stop)
        repeated = f"the history has missing values, which repeat the previous one: {describe(missing)}"
        stop = window.stop + (self.horizon if series.ahead else 0)  # with the covariates of the steps to forecast
        return list(filter(None, (series.irregular_between(window.start, stop), repeated if missing else "")))

    def _scale(self, values: Numbers) -> Numbers:  # (..., D); binary values are not scaled
        return values if self.data_type == "binary" else self.fitted.scale(values)

    def _restore(self, scaled: Tensor) -> Numbers:  # (..., targets), in the units of the data
        values: Numbers = scaled.double().cpu().numpy()
        return values if self.data_type == "binary" else self.fitted.restore(values, self._targets(self.fitted.columns))

    def _features(self, window: Window) -> Numbers:  # (T, 1 or 2, D)
        """The scaled values and their changes from row to row."""
        if self.data_type == "binary" or self.inputs == "values":
            return self._scale(window.history)[:, None]
        before = max(window.start - 1, 0)
        values = self._scale(window.series.values[before : window.stop])
        changes = np.diff(values, axis=0, prepend=values[:1]) / np.array(self.fitted.rms_changes)
        return np.stack([values, changes], axis=1)[window.start - before :]
