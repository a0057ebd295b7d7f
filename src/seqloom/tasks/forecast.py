"""Forecasting: the next values of time series, or the next frames of binary sequences such as piano rolls."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom import html
from seqloom.config import ConfigSection, Document
from seqloom.data.batch import Batch, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.preview import DataPreview
from seqloom.data.readers import tables, text_files
from seqloom.data.readers.memory import IN_MEMORY
from seqloom.data.readers.series import (
    Numbers,
    Series,
    Window,
    consecutive_windows,
    differences,
    last_window,
    one_series,
    sequences,
    split_range,
    table,
    windows,
)
from seqloom.data.readers.text_files import DataError, Source
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.insight.forecast_plot import draw_forecast
from seqloom.insight.plotting import titled
from seqloom.metrics import regression
from seqloom.metrics.confidence import MetricSums, mean_of_sums
from seqloom.models.baseline import Baseline
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.forecaster import Forecaster
from seqloom.tasks.task import Loss, Predictions, Task, require_fitted
from seqloom.terminal import format_number

MIN_HISTORY, MAX_HISTORY = 8, 64  # time steps that a model reads by default
MAX_PLOT_STEPS = 200  # time steps in a plot
MAX_ERROR_WINDOWS = 500  # forecasts whose errors give the interval in a plot
MIN_PROBABILITY = 1e-3  # lower bound of the initial probability that a binary feature is 1, and that it is 0

SINGLE_DIGITS = 7  # significant digits of a 32-bit floating-point number
FEW_FORECASTS = 5  # forecasts on the development data, below which scores say little

LOSS_FUNCTIONS = {"mse": nn.functional.mse_loss, "mae": nn.functional.l1_loss, "huber": nn.functional.smooth_l1_loss}


class Learned(ConfigSection):
    """Columns and scales of the training data."""

    columns: tuple[str, ...]  # input columns
    means: tuple[float, ...]  # one per column
    deviations: tuple[float, ...]  # standard deviations, one per column; 1 for constant columns
    rms_changes: tuple[float, ...]  # root mean square change from row to row, in deviations
    horizon_changes: tuple[tuple[float, ...], ...]  # (horizon, targets), root mean square change after 1, 2, … steps
    naive_errors: tuple[float, ...]  # mean absolute error of the (seasonal) naive forecast, for each target


class ForecastTarget(NamedTuple):
    """The target of a forecast."""

    values: Tensor  # (B, T or 1, horizon, targets), scaled
    mask: Tensor  # (B, T or 1)


@dataclass(frozen=True, slots=True)
class ForecastPrediction:
    """The values after the last input row, in the units of the data (binary: probabilities)."""

    columns: list[str]
    values: list[list[float]]  # (horizon, targets)
    steps: list[list[list[float]]]  # (T, horizon, targets), the forecast at each row; only for every_step
    truth: list[list[list[float]]]  # (T, horizon, targets), the observed values; empty if unknown
    times: list[str] = field(default_factory=list)  # (horizon,), time stamps of the values; empty if unknown

    def __str__(self) -> str:
        rows = [",".join(format_number(value, SINGLE_DIGITS) for value in row) for row in self.values]
        return (
            "\n".join(f"{time},{row}" for time, row in zip(self.times, rows, strict=True))
            if self.times
            else "\n".join(rows)
        )

    def _repr_html_(self) -> str:
        rows = [
            [html.remark(step), *(html.escape(format_number(value, SINGLE_DIGITS)) for value in row)]
            for step, row in zip(self.times or range(1, len(self.values) + 1), self.values, strict=True)
        ]
        return html.table(["time" if self.times else "step", *self.columns], rows, right=range(len(self.columns) + 1))


class Forecast(Task):
    """Predict the next values of time series."""

    higher_is_better: ClassVar[bool] = False
    sequential: ClassVar[bool] = True
    example_files: ClassVar[tuple[str, str]] = ("series.csv[0:0.8]", "series.csv[0.8:1]")
    depends_on_data: ClassVar[Mapping[str, str]] = DEPENDS_ON_SIZE | {
        "task.history": "an eighth of the shortest series, at least 8 and at most 64"
    }

    name: Literal["forecast"] = "forecast"
    train: str = Field(
        description="CSV file (one row per time step), or .npz or .ts file (many series). A range after the name "
        "selects the rows to forecast, as fractions or row numbers: x.csv[0:0.6], x.csv[8640:11520], x.csv[-100:]; the "
        "history may lie before them. $NAME is replaced by the environment variable NAME."
    )
    data_type: Literal["numbers", "binary"] = Field(
        "numbers", description="numbers: real values; binary: frames of zeros and ones, such as piano rolls."
    )
    output: Literal["last", "every_step"] = Field(
        "last", description="last: forecast once, after history steps; every_step: forecast after every step."
    )
    history: int = Field(
        64,
        ge=0,
        description="Time steps that the model reads before a forecast (0: the whole series, every_step only).",
    )
    horizon: int = Field(1, ge=1, description="Time steps to forecast.")
    columns: tuple[str, ...] = Field(
        (), description='Input columns by name, without a header "1", "2", … (empty: all).'
    )
    target: tuple[str, ...] = Field((), description="Columns to forecast (empty: all input columns).")
    date: str | tuple[str, ...] = Field(
        "auto",
        description="Column with the dates or times, or several of them such as year and month; it is neither read nor "
        "forecast (auto: a column that holds dates or times, or counts up; empty: none).",
    )
    separator: str = Field(
        "",
        max_length=1,
        description="Column separator of a text file (empty: comma, semicolon, tab or |, as the first lines show).",
    )
    fill_missing: bool = Field(
        default=False, description="Replace missing values by the previous value; false: missing values are errors."
    )
    season: int = Field(
        0, ge=0, description="Length of a season in time steps, for the seasonal baseline (0: no season)."
    )
    inputs: Literal["values", "changes", "both"] = Field(
        "both", description="What the model reads: values, changes from step to step, or both (data_type numbers)."
    )
    relative: bool = Field(
        default=True,
        description="Forecast the change from the last value, so that training starts from that baseline.",
    )
    channel_independent: bool = Field(
        default=False, description="Forecast each column from its own past only, with one model for all columns."
    )
    loss_function: Literal["mse", "mae", "huber"] = Field(
        "mse", description="Loss function (data_type numbers; binary data use cross-entropy)."
    )
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the encoder."
    )
    encoder: RecurrenceConfig = Field(
        default_factory=RecurrenceConfig, description="Encoder: recurrent or Transformer layers."
    )
    last_window_only: bool = Field(default=False, exclude=True, repr=False)
    """Read only the end of each series, to forecast the unknown future."""

    learned: Learned | None = Field(None, exclude=True)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        values: dict[str, Any] = {"task.encoder.hidden_size": 64, "task.encoder.dropout": 0.1}
        if data is None or not data.head:
            return values | training_defaults(document, None)
        rows = min(len(series.values) for series in data.head)
        history = values["task.history"] = min(max(rows // 8, MIN_HISTORY), MAX_HISTORY)
        given = document.get("task.history")
        every_step = document.get("task.output") == "every_step"
        examples = sum(series.stop - series.start for series in data.head)
        if every_step:
            examples = examples // max(given if isinstance(given, int) and given else history, 1)
        return values | training_defaults(document, examples)

    def preview(self, source: Source) -> DataPreview:
        """All series, with the rows of their ranges."""
        series = tuple(self._series(source))
        return DataPreview(series, len(series))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.history and self.output == "last":
            raise ValueError('history is 0, which needs output = "every_step": set task.history or task.output')
        if self.encoder.bidirectional:
            raise ValueError("encoder.bidirectional is true, but a forecast must not see later values: set it to false")
        if missing := [name for name in self.target if self.columns and name not in self.columns]:
            raise ValueError(f"target {missing[0]!r} is not one of task.columns ({', '.join(self.columns)})")
        return self

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
        if self._is_many(source):
            return self, ()
        series = self._table(source)
        axis, notes = series.axis, []
        changes: dict[str, Any] = {"date": ""}
        if axis is not None:
            changes["date"] = axis.names if len(axis.names) > 1 else axis.names[0]
            notes.append(axis.describe())
        if series.left_out:
            changes["columns"] = series.names
            notes.append(f"columns that number the rows or hold dates are ignored: {', '.join(series.left_out)}")
        if problem := _irregular(series):
            notes.append(problem)
        return self.model_copy(update=changes), (*notes, *self._dev_notes(series))

    def _dev_notes(self, train: Series) -> list[str]:
        """What has to be known about the development data: where their history is, and that they are few."""
        if self.output != "last" or (not self.dev and not self.dev_fraction) or self.dev == IN_MEMORY:
            return []
        notes = []
        if self.dev:
            path = text_files.resolve(self.dev)
            if self._is_many(path):
                return []
            series = self._table(path)
            if problem := _irregular(series):
                notes.append(f"dev file: {problem}")
            rows = series.stop - series.start
            if self._is_short(series):
                series = self._with_history(series, path)
                notes.append(
                    f"the {rows} rows of the dev file are fewer than task.history + task.horizon "
                    f"({self.history} + {self.horizon}); they continue the training file, whose end is their history"
                )
            count = series.stop - self.horizon - max(series.start, self.history) + 1
        else:
            total = train.stop - self.horizon - max(train.start, self.history) + 1
            count = round(total * self.dev_fraction)
        if 0 < count < FEW_FORECASTS:
            forecasts = text_files.pluralize(count, "forecast")
            notes.append(
                f"the development data allow only {forecasts}, so that scores and the best checkpoint are uncertain"
            )
        return notes

    def _is_short(self, series: Series) -> bool:
        """Whether a series is too short for a forecast with the whole history."""
        return self.output == "last" and series.stop < self.history + self.horizon

    def _with_history(self, series: Series, source: Source) -> Series:
        """A short series with the end of the training file before it, if it is the dev file and continues that."""
        named = "" not in (self.train, self.dev) and IN_MEMORY not in (self.train, self.dev)
        files = {name: text_files.resolve(name) for name in (self.train, self.dev)} if named else {}
        if files and source == files[self.dev] != files[self.train]:
            train = self._table(files[self.train])
            at_end = train.stop == len(train.values) and not series.start
            if at_end and series.axis is not None and train.axis is not None and series.axis.continues(train.axis):
                longer = series.after(train, self.history)
                if not self._is_short(longer):
                    return longer
        most = series.stop - self.horizon - 1
        shorter = f"set task.history to at most {most}, or " if most >= 1 and self.learned is None else ""
        raise DataError(
            series.location,
            f"{text_files.pluralize(series.stop, 'row')}, expected at least task.history + task.horizon "
            f"({self.history} + {self.horizon}): {shorter}put all rows into one file and select a range of it, such as "
            "series.csv[0.8:1], whose history may lie before it",
        )

    def read(self, source: Source) -> Iterator[Window]:
        for series in self._series(source):
            if self.data_type == "binary" and not np.isin(series.values, (0, 1)).all():
                row = int((~np.isin(series.values, (0, 1))).any(axis=1).argmax())
                raise DataError(series.at(row), 'found a value other than 0 and 1; task.data_type is "binary"')
            if self.last_window_only:
                yield last_window(series, self.history)
            elif self.output == "every_step":
                yield from consecutive_windows(series, self.history, horizon=self.horizon)
            else:
                whole = self._with_history(series, source) if series.lines and self._is_short(series) else series
                yield from windows(whole, self.history, horizon=self.horizon)

    def read_inputs(self, source: Source) -> Iterator[Window]:
        """The end of each series, to forecast what follows."""
        return self.model_copy(update={"last_window_only": True}).read(source)

    def _series(self, source: Source) -> Iterator[Series]:
        if self._is_many(source):
            columns = self.learned.columns if self.learned else self.columns
            values = source if isinstance(source, Path) else one_series(source)
            yield from sequences(values, columns=columns, fill=self.fill_missing)
        else:
            yield self._table(source)

    def _is_many(self, source: Source) -> bool:
        """Whether a source holds many series: an .npz or .ts file, or arrays."""
        if isinstance(source, Path):
            return split_range(source)[0].name.removesuffix(".gz").endswith((".npz", ".ts"))
        return not tables.is_table(source) and not all(isinstance(line, str) for line in one_series(source))

    def _table(self, source: Source) -> Series:
        date: tuple[str, ...] | None = (self.date,) if isinstance(self.date, str) else self.date
        if date in (("auto",), ("",)):
            date = None if date == ("auto",) else ()
        options: dict[str, Any] = {"separator": self.separator, "fill": self.fill_missing}
        if self.learned is None:
            series = table(source, columns=self.columns, target=self.target, date=date, **options)
        else:  # the time axis of another file may have another name, or be missing
            series = table(source, columns=self.learned.columns, **options)
        if series.axis is not None and (irregular := series.axis.irregularities()).is_descending:
            first = irregular.backwards[0]
            names = " and ".join(map(repr, series.axis.names))
            raise DataError(series.at(first), f"time runs backwards in column {names}; sort the rows by time")
        return series

    def fit(self, examples: Iterable[Window]) -> Self:
        spans: dict[int, tuple[Series, int, int]] = {}
        for window in examples:
            if not window.known:
                raise DataError(window.location, "the values to forecast are missing; training needs them")
            series, start, end = spans.get(id(window.series), (window.series, window.start, 0))
            spans[id(series)] = series, min(start, window.start), max(end, window.stop + self.horizon)
        parts = [series.values[start:end] for series, start, end in spans.values()]
        if not parts:
            raise self._no_examples()
        columns = next(iter(spans.values()))[0].names
        targets = self._targets(columns)
        joined = np.concatenate(parts)
        means, deviations = joined.mean(axis=0), joined.std(axis=0)
        deviations[deviations == 0] = 1
        squares = [(differences(parts, step + 1) ** 2).mean(axis=0) for step in range(self.horizon)]
        horizon_changes = np.sqrt(squares) / deviations
        rms_changes = np.sqrt((differences(parts, 1) ** 2).mean(axis=0)) / deviations
        season = differences(parts, self.season or 1)[:, targets]
        learned = Learned(
            columns=columns,
            means=tuple(means.tolist()),
            deviations=tuple(deviations.tolist()),
            rms_changes=tuple(np.where(rms_changes > 0, rms_changes, 1).tolist()),
            horizon_changes=tuple(map(tuple, horizon_changes[:, targets].tolist())),
            naive_errors=tuple(np.abs(season).mean(axis=0).tolist()) if len(season) else (0.0,) * len(targets),
        )
        return self.model_copy(update={"learned": learned})

    def summarize_example(self, example: Window) -> ExampleSummary:
        """The columns of the series; windows overlap, so that duplicates are not counted."""
        return ExampleSummary(values=example.series.values, columns=example.series.names, is_view=True)

    def _targets(self, columns: Sequence[str]) -> list[int]:
        if missing := [name for name in self.target if name not in columns]:
            raise DataError(self.train, f"no column {missing[0]!r} (task.target); found {', '.join(columns)}")
        return [columns.index(name) for name in self.target or columns]

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
        if self.data_type == "binary":
            return values
        scaled: Numbers = (values - np.array(self.fitted.means)) / np.array(self.fitted.deviations)
        return scaled

    def _restore(self, scaled: Tensor) -> Numbers:  # (..., targets), in the units of the data
        values: Numbers = scaled.double().cpu().numpy()
        if self.data_type == "binary":
            return values
        targets = self._targets(self.fitted.columns)
        values *= np.array(self.fitted.deviations)[targets]
        values += np.array(self.fitted.means)[targets]
        return values

    def _rounded(self, values: Numbers) -> Numbers:  # (..., targets)
        """Values without the digits that single precision does not determine."""
        if self.data_type == "binary":
            return values
        deviations = np.array(self.fitted.deviations)[self._targets(self.fitted.columns)]
        decimals = np.maximum(SINGLE_DIGITS - 1 - np.floor(np.log10(deviations)), 0).astype(int)
        return np.stack([values[..., column].round(count) for column, count in enumerate(decimals.tolist())], axis=-1)

    def _features(self, window: Window) -> Numbers:  # (T, 1 or 2, D)
        """The scaled values and their changes from row to row."""
        if self.data_type == "binary" or self.inputs == "values":
            return self._scale(window.history)[:, None]
        before = max(window.start - 1, 0)
        values = self._scale(window.series.values[before : window.stop])
        changes = np.diff(values, axis=0, prepend=values[:1]) / np.array(self.fitted.rms_changes)
        return np.stack([values, changes], axis=1)[window.start - before :]

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
        if batch.examples:  # forecasts that people read
            values = self._rounded(values)
        stamps = [window.time_stamps(self.horizon) for window in batch.examples] or [[] for _ in values]
        if self.output == "last":
            forecasts = [
                ForecastPrediction(names, row[0].tolist(), [], [], times)
                for row, times in zip(values, stamps, strict=True)
            ]
            return Predictions(forecasts, state)
        truth = None if batch.target is None else self._restore(batch.target.values)
        answers = []
        for row, length in enumerate(batch.inputs.lengths.tolist()):
            steps = values[row, :length].tolist()
            observed = [] if truth is None else truth[row, :length].tolist()
            answers.append(ForecastPrediction(names, steps[-1] if steps else [], steps, observed, stamps[row]))
        return Predictions(answers, state)

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
        scale = np.array(self.fitted.deviations)[self._targets(self.fitted.columns)]
        return mean_of_sums([((forecast - truth) / scale) ** 2 for truth, forecast in pairs])

    @property
    def custom_layer_field(self) -> str:
        return "encoder"

    def score(self, predictions: Sequence[ForecastPrediction], examples: Sequence[Window]) -> dict[str, Any]:
        truth, forecast = (np.concatenate(side) for side in zip(*self._pairs(predictions, examples), strict=True))
        if self.data_type == "binary":
            return {
                "nll": regression.frame_nll(truth, forecast),
                "accuracy": regression.frame_accuracy(truth, forecast),
                "frames": len(truth) * self.horizon,
            }
        scores = self._errors(truth, forecast, examples)
        return {name: value for name, value in scores.items() if not (isinstance(value, float) and math.isnan(value))}

    def _errors(self, truth: Numbers, forecast: Numbers, examples: Sequence[Window]) -> dict[str, Any]:
        """Errors in the units of the data, and in deviations where columns are averaged."""
        learned = self.fitted
        targets = self._targets(learned.columns)
        scale = np.array(learned.deviations)[targets]
        every_step = self.output == "every_step"

        def baseline_error(season: int) -> Numbers:  # in the order of the examples
            steps = [
                window.seasonal_forecast(self.horizon, season, every_step=every_step)
                - window.future(self.horizon, every_step=every_step)
                for window in examples
            ]
            return np.concatenate(steps)[..., targets]

        def scaled(error: Numbers) -> Numbers:  # (horizon,), the mean squared error at each step
            squared: Numbers = ((error / scale) ** 2).mean(axis=(0, 2))
            return squared

        last = baseline_error(1)
        model_mse, last_mse = scaled(forecast - truth), scaled(last)
        flat = truth.reshape(-1, len(targets)), forecast.reshape(-1, len(targets))
        scores = {
            "mse_scaled": float(model_mse.mean()),
            "mse": regression.mse(truth, forecast),
            "mae": regression.mae(truth, forecast),
            "mase": regression.mase(truth, forecast, learned.naive_errors),
            "rse": regression.rse(truth, forecast),
            "correlation": regression.correlation(*flat),
            "skill": float(1 - model_mse.mean() / last_mse.mean()) if last_mse.mean() else float("nan"),
            "skill_worst": float((1 - model_mse / last_mse).min()) if last_mse.all() else float("nan"),
            "last_mse": float((last**2).mean()),
            "last_mse_scaled": float(last_mse.mean()),
        }
        if self.season:
            seasonal = baseline_error(self.season)
            scores |= {
                "seasonal_mse": float((seasonal**2).mean()),
                "seasonal_mse_scaled": float(scaled(seasonal).mean()),
            }
        steps = {"mse_scaled": model_mse, "last_mse_scaled": last_mse}
        return scores | {"windows": len(truth), "per_step": regression.by_step(truth, forecast, steps)}

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
        learned, every_step = self.fitted, self.output == "every_step"
        targets = self._targets(learned.columns)
        futures = [window.future(self.horizon, every_step=every_step)[..., targets] for window in examples]
        truth = np.concatenate(futures)
        if self.data_type == "binary":
            forecast = np.broadcast_to(np.array(learned.means)[targets], truth.shape)
            return {
                "nll": regression.frame_nll(truth, forecast),
                "accuracy": regression.frame_accuracy(truth, forecast),
            }
        season = max(baseline.lag, 1)
        naive = [window.seasonal_forecast(self.horizon, season, every_step=every_step) for window in examples]
        forecast = np.concatenate(naive)[..., targets]
        scale = np.array(learned.deviations)[targets]
        return {
            "mse_scaled": regression.mse(truth / scale, forecast / scale),
            "mse": regression.mse(truth, forecast),
            "mae": regression.mae(truth, forecast),
        }

    @property
    def answers_each_line(self) -> bool:
        return False

    @property
    def inputs_are_files(self) -> bool:
        return True

    def draw_predictions(
        self, examples: Sequence[Window], folder: Path, *, predict: Callable[[Sequence[Any]], list[Any]]
    ) -> None:
        """forecast.png: forecasts at the end of the development data, with their history, interval and baseline."""
        baseline = self.fit_baseline(Counter(), examples) if examples else None
        if self.data_type != "numbers" or baseline is None:
            return
        last = self.output == "last"
        stride = self.horizon if last else 1
        series = examples[-1].series
        windows = [window for window in examples[::-1] if window.series is series][::stride]
        windows = windows[: max(MAX_PLOT_STEPS // stride, 1)][::-1] if last else windows[:1]
        predictions = predict(windows)
        names = predictions[0].columns
        columns = [series.names.index(name) for name in names]
        steps = [self._plotted(prediction) for prediction in predictions]
        forecast = np.concatenate(steps)[-MAX_PLOT_STEPS:]
        naive = [
            window.seasonal_forecast(self.horizon, baseline.lag, every_step=not last)[..., columns]
            for window in windows
        ]
        joined = np.concatenate([values[0] if last else values[:, 0] for values in naive])[-len(forecast) :]
        end = windows[-1].stop + (self.horizon if last else 1)
        start = max(end - len(forecast) - max(min(len(forecast), MAX_PLOT_STEPS // 2), self.horizon), 0)
        stamps = None if series.axis is None else series.axis.stamps
        low, high = self._error_quantiles(examples, predict)
        repeats = math.ceil(len(forecast) / len(low))
        title = f"forecasts of {text_files.pluralize(self.horizon if last else 1, 'step')} on the dev data"
        draw_forecast(
            series.values[start:end, columns],
            forecast,
            joined,
            folder / "forecast.png",
            names=names,
            times=None if stamps is None else stamps[start:end],
            interval=(
                forecast + np.tile(low, (repeats, 1))[-len(forecast) :],
                forecast + np.tile(high, (repeats, 1))[-len(forecast) :],
            ),
            baseline_name=f"baseline: {baseline.name}",
            interval_name="95 % of the errors on the dev data",
            title=titled(title),
        )

    def _plotted(self, prediction: ForecastPrediction) -> Numbers:  # (T, targets)
        """The forecasts that a plot shows: of all steps, or of the next step after each row."""
        return np.array(prediction.values) if self.output == "last" else np.array(prediction.steps)[:, 0]

    def _error_quantiles(
        self, examples: Sequence[Window], predict: Callable[[Sequence[Any]], list[Any]]
    ) -> tuple[Numbers, Numbers]:  # (horizon or 1, targets)
        """Bounds of 95 % of the errors at each step of the horizon."""
        last = self.output == "last"
        chosen = [examples[index] for index in np.linspace(0, len(examples) - 1, MAX_ERROR_WINDOWS, dtype=int).tolist()]
        chosen = list({id(window): window for window in chosen}.values())
        columns = self._targets(self.fitted.columns)
        errors = []
        for window, prediction in zip(chosen, predict(chosen), strict=True):
            future = window.future(self.horizon, every_step=not last)[..., columns]
            observed = future[0] if last else future[:, 0]
            error = observed - self._plotted(prediction)
            errors.append(error[None] if last else error[:, None])
        low, high = np.quantile(np.concatenate(errors), (0.025, 0.975), axis=0)
        return low, high


def _irregular(series: Series) -> str:
    """What is irregular about the time stamps of a series; empty if nothing is."""
    return "" if series.axis is None else series.axis.irregularities().describe(series.at)
