"""Forecasting: the next values of time series, or the next frames of binary sequences such as piano rolls."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.data.batch import Batch, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.feature_statistics import SINGLE_DIGITS
from seqloom.data.preview import DataPreview
from seqloom.data.readers.memory import IN_MEMORY
from seqloom.data.readers.series import (
    Numbers,
    Series,
    Window,
    column_positions,
    consecutive_windows,
    last_window,
    windows,
)
from seqloom.data.readers.series_reader import SeriesReader
from seqloom.data.readers.text_files import DataError, Source, pluralize, resolve
from seqloom.formats import format_number
from seqloom.insight.attribution import Attribution
from seqloom.insight.dev_forecasts import DevForecasts
from seqloom.insight.explanation import Explanation
from seqloom.insight.forecast_attribution import (
    ForecastValue,
    HistoryInput,
    attribute_forecast,
    choose_place,
    choose_step,
)
from seqloom.insight.plotting import plot_path
from seqloom.metrics import regression
from seqloom.metrics.confidence import MetricSums, mean_of_sums
from seqloom.metrics.forecasts import Forecasts
from seqloom.models.baseline import Baseline
from seqloom.models.encoder import Encoder, build_stack
from seqloom.models.forecaster import Forecaster
from seqloom.tasks.forecast.prediction import ForecastPrediction, ForecastTarget
from seqloom.tasks.forecast.settings import ForecastSettings, Learned
from seqloom.tasks.task import Loss, Predictions, require_fitted

MAX_TITLE = 3  # columns in a title
SHORT_FILE = 1_000_000  # bytes of a file that may have too few rows
MIN_PROBABILITY = 1e-3  # lower bound of the initial probability that a binary feature is 1, and that it is 0

LOSS_FUNCTIONS = {"mse": nn.functional.mse_loss, "mae": nn.functional.l1_loss, "huber": nn.functional.smooth_l1_loss}


UNREAD_DATES = (
    "no time stamps, since the dates can be read with the day or the month first, and the model was trained with "
    "other dates: write them as 2020-01-31"
)


class Forecast(ForecastSettings):
    """Predict the next values of time series."""

    def preview(self, source: Source) -> DataPreview:
        """All series, with the rows of their ranges."""
        series = tuple(self._reader().read(source))
        return DataPreview(series, len(series))

    @property
    def no_max_length_reason(self) -> str:
        return "the length of a window is task.history"

    @property
    def main_metric(self) -> str:
        return "nll" if self.data_type == "binary" else "mse_scaled"

    @property
    def gap(self) -> int:
        """Examples whose horizon overlaps both the training and the held-out part of a series."""
        if self.output == "last":
            return self.horizon - 1
        return math.ceil((self.horizon - 1) / self.history) if self.history else 0

    def resolve(self, source: Source) -> tuple[Self, tuple[str, ...]]:
        settings, notes = self._reader().inspect(source)
        if self.season:
            settings.pop("season", None)
        return self.model_copy(update=settings), notes

    def _reader(self) -> SeriesReader:
        date: tuple[str, ...] | None = (self.date,) if isinstance(self.date, str) else self.date
        if date in (("auto",), ("",)):
            date = None if date == ("auto",) else ()
        learned = self.learned
        return SeriesReader(
            columns=learned.columns if learned else self.columns,
            target=() if learned else self.target,
            date=None if learned else date,  # the time axis of another file may have another name, or be missing
            date_order=self.date_order,
            decimal=self.decimal,
            separator=self.separator,
            fill_missing=self.fill_missing,
            history=self.history,
            horizon=self.horizon,
            needs_history=self.output == "last",
            train=self.train,
            dev=self.dev,
            dev_fraction=self.dev_fraction,
            is_fitted=learned is not None,
        )

    def read(self, source: Source) -> Iterator[Window]:
        reader = self._reader()
        for series in reader.read(source):
            if self.data_type == "binary" and not np.isin(series.values, (0, 1)).all():
                row = int((~np.isin(series.values, (0, 1))).any(axis=1).argmax())
                raise DataError(series.at(row), 'found a value other than 0 and 1; task.data_type is "binary"')
            if self.last_window_only:
                yield last_window(series, self.history)
            elif self.output == "every_step":
                yield from consecutive_windows(series, self.history, horizon=self.horizon)
            else:
                yield from windows(reader.with_history(series, source), self.history, horizon=self.horizon)

    def read_inputs(self, source: Source) -> Iterator[Window]:
        """The end of each series, to forecast what follows."""
        return self.model_copy(update={"last_window_only": True}).read(source)

    def fit(self, examples: Iterable[Window]) -> Self:
        spans: dict[int, tuple[Series, int, int]] = {}
        shortest = self.history
        for window in examples:
            shortest = min(shortest, len(window))
            if not window.known:
                raise DataError(window.location, "the values to forecast are missing; training needs them")
            series, start, end = spans.get(id(window.series), (window.series, window.start, 0))
            spans[id(series)] = series, min(start, window.start), max(end, window.stop + self.horizon)
        parts = [series.values[start:end] for series, start, end in spans.values()]
        if not parts:
            raise self._no_examples()
        columns = next(iter(spans.values()))[0].names
        targets = self._targets(columns)
        learned = Learned.of(
            parts,
            columns,
            targets=targets,
            horizon=self.horizon,
            season=self.season,
            shortest=shortest if self.output == "last" else 0,
        )
        return self.model_copy(update={"learned": learned})

    def summarize_example(self, example: Window) -> ExampleSummary:
        """The columns of the series; windows overlap, so that duplicates are not counted."""
        return ExampleSummary(values=example.series.values, columns=example.series.names, is_view=True)

    def _targets(self, columns: Sequence[str]) -> list[int]:
        positions = column_positions(columns)
        if missing := [name for name in self.target if name not in positions]:
            raise DataError(self.train, f"no column {missing[0]!r} (task.target); found {', '.join(columns)}")
        return [positions[name] for name in self.target or columns]

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    def collate(self, examples: Sequence[Window]) -> Batch:
        learned = self.fitted
        every_step = self.output == "every_step"
        inputs = pad([self._features(window) for window in examples], dtype=np.float32)
        mask = inputs.mask if every_step else torch.ones(len(examples), 1, dtype=torch.bool)
        target = None
        if all(window.known for window in examples):
            targets = self._targets(learned.columns)
            observed = (window.future(self.horizon, every_step=every_step) for window in examples)
            future = [self._scale(values)[..., targets] for values in observed]
            target = ForecastTarget(pad(future, dtype=np.float32).values, mask)
        future_unknown = not any(window.known for window in examples)
        return Batch(inputs, target, int(mask.sum()), examples=tuple(examples) if future_unknown else ())

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

    def share_learned(self, other: Self) -> Self:
        mine, others = (task.target or task.fitted.columns for task in (self, other))
        if len(mine) != len(others):
            value = f"'{json.dumps(others, ensure_ascii=False)}'" if len(others) > 1 else others[0]
            raise DataError(
                self.train,
                f"found the targets {', '.join(mine)}, but the run to start from forecasts {', '.join(others)}: set "
                f"task.target={value}",
            )
        if self.horizon != other.horizon:
            raise DataError(
                self.train,
                f"task.horizon is {self.horizon}, but the run to start from forecasts {other.horizon} steps: set "
                f"task.horizon={other.horizon}",
            )
        return super().share_learned(other)

    def build_model(self) -> nn.Module:
        learned = self.fitted
        relative = self.data_type == "numbers" and self.relative
        features = 2 if self.data_type == "numbers" and self.inputs == "both" else 1
        size = features * (1 if self.channel_independent else len(learned.columns))
        layer = build_stack(self.prenet, self.encoder, size, causal=True)
        encoder = Encoder(
            nn.Identity(), layer, dropout=self.encoder.dropout, variational=self.encoder.variational_dropout
        )
        targets = self._targets(learned.columns)
        changes = (len(learned.horizon_changes), len(learned.naive_errors))
        if changes != (self.horizon, len(targets)):
            raise ValueError(f"expected the changes of {len(targets)} targets in {self.horizon} steps, found {changes}")
        model = Forecaster(
            encoder,
            self.horizon,
            targets=targets,
            every_step=self.output == "every_step",
            separate=self.channel_independent,
            horizon_changes=torch.tensor(learned.horizon_changes) if relative else None,
            first=1 if self.data_type == "numbers" and self.inputs == "changes" else 0,
        )
        if self.data_type == "binary" and not self.channel_independent:
            # Starting from the frequency of each feature reaches the same likelihood in fewer updates.
            odds = torch.tensor(learned.means)[targets].clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY).logit()
            model.head.bias.data = odds.repeat(self.horizon)
        return model

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        if batch.target is None:
            raise ValueError("cannot compute the loss: the values to forecast are missing")
        forecast, state = model(batch.inputs, batch.state)
        # Both are (N, horizon, targets).
        predicted, truth = forecast[batch.target.mask], batch.target.values[batch.target.mask]
        if self.data_type == "binary":
            losses = nn.functional.binary_cross_entropy_with_logits(predicted, truth, reduction="none").sum(dim=-1)
        else:
            # In units of the naive forecast's error, so that the learning rate does not depend on the data's scale.
            unit = math.sqrt(np.square(self.fitted.horizon_changes).mean()) or 1.0
            losses = LOSS_FUNCTIONS[self.loss_function](predicted / unit, truth / unit, reduction="none")
        return Loss(losses.flatten(1).mean(dim=1).sum(), len(predicted), state)

    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        forecast, state = model(batch.inputs, batch.state)
        values = self._restore(forecast.double().sigmoid() if self.data_type == "binary" else forecast)
        columns = self.fitted.columns
        names = [columns[target] for target in self._targets(columns)]
        if batch.examples and self.data_type == "numbers":  # forecasts that people read
            values = self.fitted.round(values, self._targets(columns))
        stamps = [window.time_stamps(self.horizon) for window in batch.examples] or [[] for _ in values]
        unread = [UNREAD_DATES * window.has_ambiguous_dates for window in batch.examples] or [""] * len(values)
        if self.output == "last":
            short = map(self._short_history, batch.inputs.lengths.tolist())
            forecasts = [
                ForecastPrediction(names, row[0].tolist(), [], [], times, "; ".join(filter(None, warnings)))
                for row, times, *warnings in zip(values, stamps, short, unread, strict=True)
            ]
            return Predictions(forecasts, state)
        truth = None if batch.target is None else self._restore(batch.target.values)
        answers = []
        for row, length in enumerate(batch.inputs.lengths.tolist()):
            steps = values[row, :length].tolist()
            observed = [] if truth is None else truth[row, :length].tolist()
            answers.append(
                ForecastPrediction(names, steps[-1] if steps else [], steps, observed, stamps[row], unread[row])
            )
        return Predictions(answers, state)

    def _short_history(self, rows: int) -> str:
        """A warning about fewer rows than in training; empty: they are enough."""
        if rows >= (expected := self.fitted.shortest):
            return ""
        return (
            f"forecast from {pluralize(rows, 'row')}, but the model was trained with {expected} (task.history): give "
            f"at least {expected} rows"
        )

    def _scored(self) -> tuple[list[int], list[int]]:
        """The columns to score, and their places among the targets: those that change."""
        targets = self._targets(self.fitted.columns)
        places = self.fitted.varying(targets)
        return [targets[place] for place in places], places

    def _pairs(
        self, predictions: Sequence[ForecastPrediction], examples: Sequence[Window]
    ) -> list[tuple[Numbers, Numbers]]:
        """The observed and the forecast values of each example, (N, horizon, targets)."""
        unknown = next((window for window in examples if not window.known), None)
        if unknown is not None:
            raise DataError(unknown.location, "the values to forecast are missing; evaluation needs them")
        targets = self._targets(self.fitted.columns)
        shape = -1, self.horizon, len(targets)
        if self.output == "every_step":
            # Sequences may have been concatenated and cut; concatenating all answers restores the order of examples.
            ends = np.cumsum([len(window) for window in examples])[:-1]
            sides = [answer.truth for answer in predictions], [answer.steps for answer in predictions]
            joined = (np.concatenate([np.reshape(part, shape) for part in side]) for side in sides)
            return list(zip(*(np.split(side, ends) for side in joined), strict=True))
        return [
            (window.future(self.horizon)[..., targets], np.reshape(answer.values, shape))
            for window, answer in zip(examples, predictions, strict=True)
        ]

    def metric_sums(self, predictions: Sequence[ForecastPrediction], examples: Sequence[Window]) -> MetricSums:
        pairs = self._pairs(predictions, examples)
        if self.data_type == "binary":
            return mean_of_sums([regression.log_losses(*pair) for pair in pairs])
        columns, places = self._scored()
        scale = np.array(self.fitted.deviations)[columns]
        return mean_of_sums([((forecast - truth)[..., places] / scale) ** 2 for truth, forecast in pairs])

    @property
    def custom_layer_field(self) -> str:
        return "encoder"

    def explain(self, model: nn.Module, example: Window, *, beam: bool = False, heads: bool = False) -> Explanation:  # noqa: ARG002
        """The forecast; ``attribute`` says which values mattered."""
        prediction: ForecastPrediction
        (prediction,) = self.predict(model, self.collate([example])).answers
        first = zip(prediction.columns[:MAX_TITLE], prediction.values[0] if prediction.values else (), strict=False)
        values = ", ".join(f"{name} {format_number(value, SINGLE_DIGITS)}" for name, value in first)
        time = prediction.times[0] if prediction.times else "next step"
        return Explanation(
            task=self.name,
            source=str(example.location),
            prediction=prediction,
            headline=str(prediction),
            title=f"{time}: {values}{', …' if len(prediction.columns) > MAX_TITLE else ''}",
            notes=[] if self.data_type == "binary" else ["a zero vector stands for the mean of the training data"],
        )

    @property
    def can_attribute(self) -> bool:
        return True

    def attribute(
        self,
        model: nn.Module,
        example: Window,
        *,
        prediction: ForecastPrediction,
        method: str,
        target: str = "",
        word: str | int = "",
    ) -> Attribution:
        """How much each value of the history raises or lowers the forecast of a column, ``word`` steps ahead."""
        learned, is_binary = self.fitted, self.data_type == "binary"
        place, step = choose_place(prediction.columns, target), choose_step(self.horizon, word)
        has_changes = not is_binary and self.inputs != "values"
        is_preceded = has_changes and example.start > 0
        rows = example.series.values[example.start - is_preceded : example.stop]
        history = HistoryInput(
            rows, self._scale(rows), np.array(learned.rms_changes) if has_changes else None, is_preceded
        )
        column = self._targets(learned.columns)[place]
        scale = None if is_binary else (learned.means[column], learned.deviations[column])
        is_change = self.relative and not is_binary
        value = ForecastValue(prediction.columns[place], column, place, step, scale, is_change)
        time = prediction.times[step] if prediction.times else ""
        return attribute_forecast(model, history, value, method=method, columns=learned.columns, time=time)

    def score(self, predictions: Sequence[ForecastPrediction], examples: Sequence[Window]) -> dict[str, Any]:
        truth, forecast = (np.concatenate(side) for side in zip(*self._pairs(predictions, examples), strict=True))
        if self.data_type == "binary":
            return {
                "nll": regression.frame_nll(truth, forecast),
                "accuracy": regression.frame_accuracy(truth, forecast),
                "frames": len(truth) * self.horizon,
            }
        observed, (columns, places) = self._observed(examples), self._scored()
        last, seasonal = (
            (self._naive(examples, lag) - observed)[..., places] if lag else None
            for lag in (1, self.season if self.season > 1 else 0)
        )
        assert last is not None  # noqa: S101  its lag is 1
        forecasts = Forecasts(
            truth=truth[..., places],
            forecast=forecast[..., places],
            last_errors=last,
            seasonal_errors=seasonal,
            scale=np.array(self.fitted.deviations)[columns],
            names=[self.fitted.columns[column] for column in columns],
            naive_errors=[self.fitted.naive_errors[place] for place in places],
        )
        scores = forecasts.score()
        return {name: value for name, value in scores.items() if not (isinstance(value, float) and math.isnan(value))}

    def _observed(self, examples: Sequence[Window]) -> Numbers:  # (N, horizon, targets)
        """The values to forecast, in the order of the examples."""
        every_step = self.output == "every_step"
        futures = [window.future(self.horizon, every_step=every_step) for window in examples]
        return np.concatenate(futures)[..., self._targets(self.fitted.columns)]

    def _naive(self, examples: Sequence[Window], season: int) -> Numbers:  # (N, horizon, targets)
        """The values one season before those to forecast, in the order of the examples."""
        every_step = self.output == "every_step"
        naive = [window.seasonal_forecast(self.horizon, season, every_step=every_step) for window in examples]
        return np.concatenate(naive)[..., self._targets(self.fitted.columns)]

    def fit_baseline(self, counts: Counter[Any], examples: Sequence[Window]) -> Baseline | None:  # noqa: ARG002
        if self.data_type == "binary":
            return Baseline(name="frequency of each feature")
        candidates = [Baseline(name="last value", lag=1)]
        if self.season > 1:
            candidates.append(Baseline(name=f"value one season ({self.season} steps) before", lag=self.season))
        if not examples:
            return candidates[-1]
        return min(candidates, key=lambda candidate: self.score_baseline(candidate, examples)[self.main_metric])

    def score_baseline(self, baseline: Baseline, examples: Sequence[Window]) -> dict[str, float]:
        learned, truth = self.fitted, self._observed(examples)
        targets = self._targets(learned.columns)
        if self.data_type == "binary":
            forecast = np.broadcast_to(np.array(learned.means)[targets], truth.shape)
            return {
                "nll": regression.frame_nll(truth, forecast),
                "accuracy": regression.frame_accuracy(truth, forecast),
            }
        columns, places = self._scored()
        truth, forecast = truth[..., places], self._naive(examples, max(baseline.lag, 1))[..., places]
        scale = np.array(learned.deviations)[columns]
        return {
            "mse_scaled": regression.mse(truth / scale, forecast / scale),
            "mse": regression.mse(truth, forecast),
            "mae": regression.mae(truth, forecast),
        }

    @property
    def dev_is_short(self) -> bool:
        if self.learned is None or not self.dev or self.dev == IN_MEMORY:
            return False
        with suppress(DataError, OSError):
            path = resolve(self.dev)
            if path.is_file() and path.stat().st_size <= SHORT_FILE:
                return any(len(window) < self.fitted.shortest for window in self.read_inputs(path))
        return False

    @property
    def answers_each_line(self) -> bool:
        return False

    @property
    def inputs_are_files(self) -> bool:
        return True

    def draw_predictions(
        self, examples: Sequence[Window], folder: Path, *, predict: Callable[[Sequence[Any]], list[Any]]
    ) -> None:
        """Draw forecasts at the end of the development data, with their history, interval and baseline."""
        baseline = self.fit_baseline(Counter(), examples) if examples else None
        if self.data_type != "numbers" or baseline is None:
            return
        every_step, columns = self.output == "every_step", self.fitted.columns

        def forecasts(windows: Sequence[Window]) -> list[Numbers]:
            answers = predict(windows)
            return [np.array(answer.steps)[:, 0] if every_step else np.array(answer.values) for answer in answers]

        DevForecasts(
            predict=forecasts,
            names=[columns[target] for target in self._targets(columns)],
            horizon=self.horizon,
            every_step=every_step,
            baseline_name=baseline.name,
            baseline_lag=baseline.lag,
        ).draw(examples, plot_path(folder, "forecast"))
