"""Forecasting: the next values of time series, or the next frames of binary sequences such as piano rolls."""

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from seqloom.data.batch import Batch
from seqloom.data.calendar_features import calendar_names
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.feature_statistics import SINGLE_DIGITS
from seqloom.data.preview import DataPreview
from seqloom.data.readers.memory import IN_MEMORY
from seqloom.data.readers.missing_values import describe_filled
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
from seqloom.data.split import count_remaining
from seqloom.formats import format_number
from seqloom.insight.attribution import Attribution
from seqloom.insight.dev_forecasts import DevForecasts, PlottedForecast
from seqloom.insight.explanation import Explanation
from seqloom.insight.forecast_attribution import (
    ForecastValue,
    HistoryInput,
    attribute_forecast,
    choose_place,
    choose_step,
)
from seqloom.insight.forecast_paths import ForecastPaths
from seqloom.insight.plotting import plot_path
from seqloom.metrics.backtest import Backtest
from seqloom.models.encoder import Encoder, build_stack
from seqloom.models.ensemble import ForecasterEnsemble
from seqloom.models.exponential_smoothing import fit_smoothing
from seqloom.models.forecast_distributions import ForecastDistribution, build_distribution, point_losses
from seqloom.models.forecaster import Forecaster, ForecastInputs, LinearBase
from seqloom.models.linear_forecast import LinearForecast, fit_linear
from seqloom.tasks.forecast.origins import build_backtest, choose_origins
from seqloom.tasks.forecast.paths import draw_forecast_paths
from seqloom.tasks.forecast.prediction import ForecastPrediction
from seqloom.tasks.forecast.scoring import ForecastScoring
from seqloom.tasks.forecast.settings import MIN_GAIN, Learned
from seqloom.tasks.task import Loss, Predictions

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel
    from seqloom.standalone.interface import StandaloneModel

MAX_TITLE = 3  # columns in a title
SHOWN_NAMES = 5  # series in a warning
SHORT_FILE = 1_000_000  # bytes of a file that may have too few rows
MIN_PROBABILITY = 1e-3  # lower bound of the initial probability that a binary feature is 1, and that it is 0

UNREAD_DATES = (
    "no time stamps, since the dates can be read with the day or the month first, and the model was trained with "
    "other dates: write them as 2020-01-31"
)


class _Span(NamedTuple):
    """The rows of a series that examples read and forecast."""

    series: Series
    start: int
    stop: int
    shortest: int  # rows of the shortest history


class Forecast(ForecastScoring):
    """Predict the next values of time series."""

    def preview(self, source: Source) -> DataPreview:
        """All series, with the rows of their ranges."""
        series = tuple(self._reader().read(source))
        return DataPreview(series, len(series))

    @property
    def no_max_length_reason(self) -> str:
        return "the length of a window is task.history"

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
            group_column=self.group_column,
            future_covariates=self.future_covariates,
            static_covariates=self.static_covariates,
            date=None if learned else date,  # the time axis of another file may have another name, or be missing
            date_order=self.date_order,
            # Earlier versions read all times in UTC.
            time_zone="utc" if learned and learned.steps is None and not self.time_zone else self.time_zone,
            decimal=self.decimal,
            separator=self.separator,
            encoding=self.encoding,
            fill_missing=self.fill_missing,
            history=self.history,
            horizon=self.horizon,
            needs_history=self.output == "last",
            train=self.train,
            dev=self.dev,
            dev_fraction=self.dev_fraction,
            is_fitted=learned is not None,
            last_window_only=self.last_window_only,
        )

    def read(self, source: Source) -> Iterator[Window]:
        reader = self._reader()
        for series in reader.read(source):
            if self.data_type == "binary" and not np.isin(series.values, (0, 1)).all():
                row = int((~np.isin(series.values, (0, 1))).any(axis=1).argmax())
                raise DataError(series.at(row), 'found a value other than 0 and 1; task.data_type is "binary"')
            if self.distribution == "negative_binomial":
                self._check_counts(series)
            if self.last_window_only:
                yield last_window(series, self.history)
            elif self.output == "every_step":
                yield from consecutive_windows(series, self.history, horizon=self.horizon)
            else:
                yield from windows(reader.with_history(series, source), self.history, horizon=self.horizon)

    def held_out_advice(self, source: Source) -> str:
        others = "set task.dev to later rows, or set task.dev_fraction=0"
        every = list(self._reader().read(source))
        if self.output == "every_step" or self.fold or len(every) > 1:
            return f"lower task.history or task.horizon, {others}"
        (series,) = every

        def remaining(rows: int, horizon: int) -> int:
            total = rows - horizon - max(series.start, self.history) + 1
            return count_remaining(total, self.dev_fraction, gap=horizon - 1)

        needed = next(rows for rows in itertools.count(series.stop + 1) if remaining(rows, self.horizon))
        longest = next((steps for steps in range(self.horizon - 1, 0, -1) if remaining(series.stop, steps)), 0)
        shorter = f"set task.horizon to at most {longest}, " if longest else ""
        return (
            f"found {series.stop:,} rows, expected at least {needed:,} for training and development with task.history "
            f"+ task.horizon ({self.history} + {self.horizon}): {shorter}{others}"
        )

    def _check_counts(self, series: Series) -> None:
        """DataError if a target is not a count."""
        positions = column_positions(series.names)
        unknown = [name for name in series.names if name not in self.known_columns]
        names = [name for name in self.target or unknown if name in positions]
        counts = series.observed[:, [positions[name] for name in names]]
        wrong = (counts < 0) | (counts != np.round(counts))
        if wrong.any():
            row, place = (int(index) for index in np.argwhere(wrong)[0])
            raise DataError(
                series.at(row),
                f"column {names[place]}: expected a count (0, 1, 2, …), found {counts[row, place]:g}; set "
                'task.distribution to "quantiles", or task.target to columns of counts',
            )

    def read_inputs(self, source: Source) -> Iterator[Window]:
        """The end of each series, to forecast what follows."""
        return self.model_copy(update={"last_window_only": True}).read(source)

    def fit(self, examples: Iterable[Window]) -> Self:
        spans = self._spans(_with_futures(examples))
        if not spans:
            raise self._no_examples()
        parts = [span.series.values[span.start : span.stop] for span in spans]
        columns = spans[0].series.names
        targets = self._targets(columns)
        learned = Learned.of(
            parts,
            columns,
            targets=targets,
            horizon=self.horizon,
            season=self.season,
            shortest=min(self.history, *(span.shortest for span in spans)) if self.output == "last" else 0,
        )
        if self.calendar:
            cycles = calendar_names(spans[0].series)
            learned = learned.model_copy(update={"calendar": cycles})
        learned = learned.with_times(series for series, *_ in spans)
        return self.model_copy(update={"learned": self._with_baselines(learned, parts)})

    def _spans(self, examples: Iterable[Window]) -> list[_Span]:
        """The rows that these examples read and forecast, of each series."""
        spans: dict[int, _Span] = {}
        for window in examples:
            series, end = window.series, window.stop + self.horizon
            _, start, stop, shortest = spans.get(id(series), _Span(series, window.start, end, len(window)))
            spans[id(series)] = _Span(series, min(start, window.start), max(stop, end), min(shortest, len(window)))
        return list(spans.values())

    def _with_baselines(self, learned: Learned, parts: Sequence[Numbers]) -> Learned:
        """The same with baselines fitted to the training data, and the base forecast of the model."""
        if self.data_type == "binary":
            return learned
        targets = self._targets(learned.columns)
        varying = np.isin(np.arange(len(targets)), learned.varying(targets))
        scaled = [learned.scale(part)[:, targets][:, varying] for part in parts]
        fits = fit_linear(scaled, learned.shortest or self.history, self.horizon)
        linear, combined = (_with_constant_columns(fit, varying) for fit in fits) if fits else (None, None)
        is_base = {"last_value": False, "linear": True, "auto": combined is not None and combined.gain > MIN_GAIN}
        if combined is None and self.base_forecast == "linear":
            raise DataError(self.train, 'too few rows for a linear forecast: set task.base_forecast to "last_value"')
        smoothing = fit_smoothing([part[:, targets] for part in parts], max(self.season, 1))
        update = {
            "linear": linear,
            "combined": combined,
            "linear_base": is_base[self.base_forecast] and self.relative and self.output == "last",
            "smoothing": tuple(smoothing),
        }
        return learned.model_copy(update=update)

    def summarize_example(self, example: Window) -> ExampleSummary:
        """The columns of the series; windows overlap, so that duplicates are not counted."""
        series = example.series
        return ExampleSummary(values=series.observed, columns=series.names, missing=series.missing, is_view=True)

    def data_warnings(self, examples: Sequence[Window]) -> list[str]:
        names: dict[str, list[str]] = {}  # of the series with the same problem
        spans = self._spans(examples)
        for series, start, stop, *_ in spans:
            missing = series.missing_between(start, stop)
            irregular, filled = series.irregular_between(start, stop), describe_filled(missing) if missing else ""
            for problem in filter(None, (*self.time_problems(series), irregular, filled)):
                names.setdefault(problem, []).append(series.name)
        return [_of_series(named, len(spans)) + problem for problem, named in names.items()]

    def input_warning(self, example: Window) -> str:
        name = _of_series([example.series.name], 1)
        located = (name + problem for problem in self.history_problems(example))
        return "; ".join((*self.time_problems(example.series), *located))

    def example_texts(self, example: Window) -> tuple[str, str]:
        if not example.known:
            return self.input_text(example), ""
        future = example.future(self.horizon)[-1][:, self._targets(self.fitted.columns)]
        return self.input_text(example), _rows_text(future)

    def answer_text(self, prediction: ForecastPrediction) -> str:
        return _rows_text(prediction.values)

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
        shared, learned, earlier = super().share_learned(other), self.fitted, other.fitted
        known = () if earlier.steps is None else (*earlier.steps, *(learned.steps or ()))
        times = {"steps": tuple(dict.fromkeys(known)), "offsets": learned.offsets}  # of the data of both models
        return shared.model_copy(update={"learned": earlier.model_copy(update=times)})

    def build_model(self) -> nn.Module:
        learned = self.fitted
        relative = self.data_type == "numbers" and self.relative
        features = 2 if self.data_type == "numbers" and self.inputs == "both" else 1
        covariates = 2 * len(learned.calendar) + len(self.known_columns)
        read = covariates if self.channel_independent else 2 * len(learned.calendar)
        size = features * (1 if self.channel_independent else len(learned.columns)) + read
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
            linear=None if learned.base is None else LinearBase(*learned.base.tensors()),
            first=1 if self.data_type == "numbers" and self.inputs == "changes" else 0,
            covariates=covariates,
            distribution=self._distribution(),
            levels=self.levels,
            calibrated=self.is_calibrated,
        )
        if self.data_type == "binary" and not self.channel_independent:
            # Starting from the frequency of each feature reaches the same likelihood in fewer updates.
            odds = torch.tensor(learned.means)[targets].clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY).logit()
            model.head.bias.data = odds.repeat(self.horizon)
        return model

    def _distribution(self) -> ForecastDistribution:
        # In units of the base forecast's error, so that the learning rate does not depend on the data's scale.
        learned = self.fitted
        errors = learned.horizon_changes if learned.base is None else learned.base.errors
        unit = math.sqrt(np.square(errors).mean()) or 1.0
        return build_distribution(
            self.distribution,
            point_loss=partial(point_losses, function=self.loss_function, unit=unit),
            unit=unit,
            levels=self.quantiles,
            horizon=self.horizon,
            counts=learned.target_scales(self._targets(learned.columns)),
        )

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        if batch.target is None:
            raise ValueError("cannot compute the loss: the values to forecast are missing")
        mask, truth = batch.target.mask, batch.target.values[batch.target.mask]  # (N, horizon, targets)
        if self.data_type == "binary":
            forecast, state = model(batch.inputs, batch.state)
            frames = nn.functional.binary_cross_entropy_with_logits(forecast[mask], truth, reduction="none")
            return Loss(frames.sum(dim=-1).mean(dim=1).sum(), len(truth), state)
        forecaster = cast(Forecaster, model)
        if model.training:
            forecaster.calibrate()  # of a run that training starts from
        numbers, reference, state = forecaster.numbers(batch.inputs, batch.state)
        base = reference.base[mask] if reference.base.dim() else reference.base
        losses = forecaster.distribution.loss(numbers[mask], truth, reference._replace(base=base))
        return Loss(losses.flatten(1).mean(dim=1).sum(), len(truth), state)

    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        if self.levels:
            (forecast, scaled_quantiles), state = cast(Forecaster | ForecasterEnsemble, model).forecast(
                batch.inputs, batch.state
            )
        else:
            forecast, state = model(batch.inputs, batch.state)
            scaled_quantiles = forecast.new_empty((*forecast.shape, 0))
        targets = self._targets(self.fitted.columns)
        values = self._restore(forecast.double().sigmoid() if self.data_type == "binary" else forecast)
        quantiles = self._restore(scaled_quantiles.movedim(-1, 0))  # (levels, B, T or 1, horizon, targets)
        names = [self.fitted.columns[target] for target in targets]
        if batch.examples and self.data_type == "numbers":  # forecasts that people read
            values, quantiles = (self.fitted.round(each, targets) for each in (values, quantiles))
        bands = np.moveaxis(quantiles, 0, -1).astype(np.float32)
        stamps = [window.time_stamps(self.horizon) for window in batch.examples] or [[] for _ in values]
        unread = [UNREAD_DATES * window.has_ambiguous_dates for window in batch.examples] or [""] * len(values)
        if self.output == "last":
            short = map(self._short_history, batch.inputs.lengths.tolist())
            forecasts = [
                ForecastPrediction(
                    names,
                    row[0].tolist(),
                    [],
                    [],
                    times,
                    "; ".join(filter(None, warnings)),
                    levels=self.levels,
                    bands=band[0],
                )
                for row, band, times, *warnings in zip(values, bands, stamps, short, unread, strict=True)
            ]
            return Predictions(forecasts, state)
        truth = None if batch.target is None else self._restore(batch.target.values)
        answers = []
        for row, length in enumerate(batch.inputs.lengths.tolist()):
            steps = values[row, :length].tolist()
            observed = [] if truth is None else truth[row, :length].tolist()
            answers.append(
                ForecastPrediction(
                    names,
                    steps[-1] if steps else [],
                    steps,
                    observed,
                    stamps[row],
                    unread[row],
                    levels=self.levels,
                    bands=bands[row, length - 1] if length else None,
                    step_bands=bands[row, :length],
                )
            )
        return Predictions(answers, state)

    def ensemble(self, models: Sequence[nn.Module]) -> ForecasterEnsemble:
        return ForecasterEnsemble(models, binary=self.data_type == "binary")

    def to_json(self, prediction: ForecastPrediction) -> dict[str, Any]:
        return prediction.to_json()

    def _short_history(self, rows: int) -> str:
        """A warning about fewer rows than in training; empty: they are enough."""
        if rows >= (expected := self.fitted.shortest):
            return ""
        return (
            f"forecast from {pluralize(rows, 'row')}, but the model was trained with {expected} (task.history): give "
            f"at least {expected} rows"
        )

    def sample_paths(
        self, source: Source, *, count: int, seed: int, predict: Callable[[Sequence[Any]], list[Any]]
    ) -> list[ForecastPaths]:
        if self.data_type == "binary":
            raise ValueError(
                'a model with task.data_type = "binary" generates nothing: it forecasts how probable each 1 is, not '
                "how zeros and ones go together; for the keys of a piano, use the task music"
            )
        if self.output == "every_step" or not self.levels:
            raise ValueError(
                'sample paths need a model with task.output = "last" and task.distribution, such as "quantiles"'
            )
        return draw_forecast_paths(self, self.read(source), count=count, seed=seed, predict=predict)

    def onnx_model(self, model: Any) -> "OnnxModel":
        from seqloom.tasks.forecast.onnx_model import onnx_model

        return onnx_model(self, model)

    def standalone_model(self, model: Any) -> "StandaloneModel":
        from seqloom.tasks.forecast.standalone_model import standalone_model

        return standalone_model(self, model)

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
        first = example.start - is_preceded
        rows = example.series.values[first : example.stop]
        inputs = self._inputs([example])
        history = HistoryInput(
            rows,
            self._scale(rows),
            np.array(learned.rms_changes) if has_changes else None,
            is_preceded,
            inputs if isinstance(inputs, ForecastInputs) else None,
            example.series.times(first, example.stop),
        )
        column = self._targets(learned.columns)[place]
        scale = None if is_binary else (learned.means[column], learned.deviations[column])
        is_change = self.relative and not is_binary
        value = ForecastValue(prediction.columns[place], column, place, step, scale, is_change)
        time = prediction.times[step] if prediction.times else ""
        return attribute_forecast(model, history, value, method=method, columns=learned.columns, time=time)

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
        """Draw forecasts at the end of the development data, with their history, intervals and baseline."""
        if examples and self.data_type == "numbers":
            self._draw(examples, plot_path(folder, "forecast"), "on the dev data", predict)

    def _draw(
        self, examples: Sequence[Window], path: Path, data: str, predict: Callable[[Sequence[Any]], list[Any]]
    ) -> None:
        baseline = self.fit_baseline(Counter(), examples)
        assert baseline is not None  # noqa: S101  there are several
        every_step, columns = self.output == "every_step", self.fitted.columns

        def forecasts(windows: Sequence[Window]) -> list[PlottedForecast]:
            return [
                PlottedForecast(np.array(answer.steps)[:, 0], answer.step_quantiles[:, 0])
                if every_step
                else PlottedForecast(np.array(answer.values), answer.quantiles)
                for answer in predict(windows)
            ]

        DevForecasts(
            predict=forecasts,
            names=[columns[target] for target in self._targets(columns)],
            horizon=self.horizon,
            every_step=every_step,
            levels=self.levels,
            baseline_name=baseline.name,
            baseline=lambda windows: self.baseline_forecast(baseline, windows),
            data=data,
        ).draw(examples, path)

    def backtest(
        self,
        examples: Sequence[Window],
        *,
        step: int,
        origins: int,
        predict: Callable[[Sequence[Any]], list[Any]],
        picture: Path | None = None,
    ) -> Backtest:
        if self.data_type == "binary" or self.output == "every_step":
            raise ValueError('a backtest needs forecasts of numbers with task.output = "last"')
        chosen = choose_origins(examples, step or self.horizon, origins)
        predictions = predict(chosen)
        result = build_backtest(self, predictions, chosen)
        if picture is not None:
            self._draw(examples, picture, "of the backtest", predict)
        return result


def _with_futures(examples: Iterable[Window]) -> Iterator[Window]:
    """The same examples; DataError at one without the values to forecast."""
    for window in examples:
        if not window.known:
            raise DataError(window.location, "the values to forecast are missing; training needs them")
        yield window


def _of_series(names: Sequence[str], total: int) -> str:
    """The names of series at the beginning of a warning; empty if they have none, or if there are many and all do."""
    if not any(names) or 1 < len(names) == total:
        return ""
    shown = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
    return f"series {shown}: "


def _with_constant_columns(linear: LinearForecast, varying: NDArray[np.bool_]) -> LinearForecast:
    """The same for all targets, of which the constant ones have no errors."""
    errors = np.zeros((len(linear.bias), len(varying)))
    errors[:, varying] = linear.errors
    return linear.model_copy(update={"errors": tuple(map(tuple, errors.tolist()))})


def _rows_text(rows: Any) -> str:  # (horizon, targets)
    """Numbers for people: the columns of a step with commas, the steps with semicolons."""
    return "; ".join(", ".join(format_number(float(value), SINGLE_DIGITS) for value in row) for row in rows)
