"""The configuration of the task forecast, and what it learns from the training data."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from seqloom.config import Document
from seqloom.data.preview import DataPreview
from seqloom.data.readers.date_formats import DateOrder
from seqloom.data.readers.decimal_marks import DecimalMark
from seqloom.data.readers.series import Series
from seqloom.data.readers.time_axis import Step, TimeZone
from seqloom.data.series_scales import SeriesScales
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig
from seqloom.models.exponential_smoothing import Smoothing
from seqloom.models.linear_forecast import LinearForecast
from seqloom.tasks.task import Task, TextEncoding

DistributionName = Literal["none", "quantiles", "gaussian", "student_t", "gaussian_mixture", "negative_binomial"]

MIN_HISTORY, MAX_HISTORY = 8, 64  # time steps that a model reads by default


MIN_GAIN = 0.02  # by which a linear forecast has to be better than the last value to be the base of a network

READ_AND_FORECAST = (
    *("data_type", "output", "history", "horizon", "columns", "target", "group_column", "inputs", "calendar"),
    *("future_covariates", "static_covariates", "channel_independent", "distribution", "quantiles"),
)
"""Keys of what a model reads and forecasts, in which the models of an ensemble agree."""


class Learned(SeriesScales):
    """Columns and scales of the training data, and baselines fitted to them."""

    linear: LinearForecast | None = None
    calendar: tuple[str, ...] = ()  # cycles of the calendar that the model reads
    combined: LinearForecast | None = None  # DLinear's mean with its maps of changes; None: of an earlier version
    linear_base: bool = False  # the network forecasts the change from a linear forecast
    smoothing: tuple[Smoothing, ...] = ()  # of each target
    steps: tuple[Step, ...] | None = None  # between rows, all that occur; None: of an earlier version
    offsets: tuple[str, ...] | None = None  # of times from UTC, see TimeAxis; None: not known, or no dates

    def with_times(self, every: Iterable[Series]) -> Self:
        """The same with the time steps of training data, and the offsets of their times from UTC."""
        axes = [series.axis for series in every if series.axis is not None]
        steps = dict.fromkeys(axis.step for axis in axes if axis.step is not None)
        dated = [axis.offsets for axis in axes if axis.has_dates]
        offsets = tuple(dict.fromkeys(chain.from_iterable(dated))) if dated else None
        return self.model_copy(update={"steps": tuple(steps), "offsets": offsets})

    @property
    def base(self) -> LinearForecast | None:
        """The linear forecast that the network adds its changes to; None: the last value."""
        return (self.combined or self.linear) if self.linear_base else None


class ForecastSettings(Task):
    """The keys of [task]."""

    higher_is_better: ClassVar[bool] = False
    sequential: ClassVar[bool] = True
    option_fields: ClassVar[Mapping[str, str]] = {"encoding": "encoding"}
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
        le=10_000_000,
        description="Time steps that the model reads before a forecast (0: the whole series, every_step only).",
    )
    horizon: int = Field(1, ge=1, le=100_000, description="Time steps to forecast.")
    columns: tuple[str, ...] = Field(
        (), description='Input columns by name, without a header "1", "2", … (empty: all).'
    )
    target: tuple[str, ...] = Field((), description="Columns to forecast (empty: all input columns).")
    group_column: str = Field(
        "",
        description="Column that names the series of each row, in a table with several series below each other (empty: "
        "the table is one series). A range selects rows of each series.",
    )
    future_covariates: tuple[str, ...] = Field(
        (),
        description="Input columns that are known in advance, such as prices or holidays: their values at the steps to "
        "forecast are read, too. Predictions need rows for these steps, in which the other columns are empty.",
    )
    static_covariates: tuple[str, ...] = Field(
        (),
        description="Input columns that do not change within a series, such as the size of a shop; they are read and "
        "not forecast.",
    )
    date: str | tuple[str, ...] = Field(
        "auto",
        description="Column with the dates or times, or several of them such as year and month; it is neither read nor "
        "forecast (auto: a column that holds dates or times, or counts up; empty: none).",
    )
    date_order: DateOrder = Field(
        "", description="Whether 03/04/2020 has the day or the month first (empty: the one that gives equal steps)."
    )
    time_zone: TimeZone = Field(
        "",
        description="How times with an offset from UTC, such as 2023-02-04T00:00+02:00, are read. local: as written, "
        "without the offset; utc: in UTC; empty: local, unless the offsets differ and only UTC gives equal steps.",
    )
    decimal: DecimalMark = Field(
        "", description="Decimal mark, . or , where numbers such as 1,234 leave it open (empty: as the numbers show)."
    )
    separator: str = Field(
        "",
        max_length=1,
        description="Column separator of a text file (empty: comma, semicolon, tab or |, as the first lines show).",
    )
    encoding: TextEncoding = Field("utf-8", description="Text encoding of the files, such as utf-8, latin-1, cp1252.")
    fill_missing: bool = Field(
        default=False, description="Replace missing values by the previous value; false: missing values are errors."
    )
    season: int = Field(
        0,
        ge=0,
        le=10_000_000,
        description="Length of a season in time steps, for the seasonal baseline and MASE (0: 12 months, 4 quarters, "
        "24 hours, 7 days or 5 weekdays, as the time axis shows; 1: no season).",
    )
    inputs: Literal["values", "changes", "both"] = Field(
        "both", description="What the model reads: values, changes from step to step, or both (data_type numbers)."
    )
    calendar: bool = Field(
        default=False,
        description="Also read hour, weekday and time of the year, of the history and of the steps to forecast, as far "
        "as they differ from step to step; needs dates.",
    )
    relative: bool = Field(
        default=True,
        description="Forecast the change from the last value, so that training starts from that baseline.",
    )
    base_forecast: Literal["last_value", "linear", "auto"] = Field(
        "last_value",
        description="What the change that the model forecasts is added to (relative = true). linear: the mean of two "
        "linear forecasts from the history, one of which follows changes of the level, fitted to the training data "
        '(output = "last"); auto: linear, if it is better than the last value at the end of the training data.',
    )
    channel_independent: bool = Field(
        default=False, description="Forecast each column from its own past only, with one model for all columns."
    )
    loss_function: Literal["mse", "mae", "huber"] = Field(
        "mse", description="Loss function (data_type numbers; binary data use cross-entropy)."
    )
    distribution: DistributionName = Field(
        "none",
        description="What is forecast besides a number (data_type numbers). quantiles: those of task.quantiles, by the "
        "pinball loss; gaussian, student_t, gaussian_mixture: a distribution, whose mean is the forecast; "
        "negative_binomial: the same for counts; none: no intervals.",
    )
    quantiles: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        (0.025, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.975),
        min_length=2,
        description="Probabilities of the quantiles, in ascending order; two such as 0.1 and 0.9 bound an interval.",
    )
    calibrate: bool = Field(
        default=False,
        description="After training, correct the intervals by the dev data, and return to the last value as far as the "
        "dev data do not show that the model is better (relative = true).",
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

    def ensemble_conflict(self, other: Task) -> str:
        if not isinstance(other, ForecastSettings):
            return super().ensemble_conflict(other)
        for field in READ_AND_FORECAST:
            if getattr(self, field) != getattr(other, field):
                return f"differ in task.{field}"
        # A linear forecast is a baseline of each: the same data give the same one. Earlier versions learned no times.
        mine, others = (task.learned and task.learned.with_times(()) for task in (self, other))
        return "" if mine == others else "were trained on different data"

    @property
    def known_columns(self) -> tuple[str, ...]:
        """The columns that are known at the steps to forecast."""
        return (*self.future_covariates, *self.static_covariates)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        values: dict[str, Any] = {"task.encoder.hidden_size": 64, "task.encoder.dropout": 0.1}
        if document.get("task.data_type") != "binary":
            values |= {"task.distribution": "quantiles", "task.calibrate": True, "task.base_forecast": "auto"}
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

    @field_validator("columns", "target", "future_covariates", "static_covariates", mode="before")
    @classmethod
    def _one_name(cls, names: Any) -> Any:
        return (names,) if isinstance(names, str) else tuple(names) if isinstance(names, list) else names

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.history and self.output == "last":
            raise ValueError('history is 0, which needs output = "every_step": set task.history or task.output')
        if list(self.quantiles) != sorted(set(self.quantiles)):
            raise ValueError(f"quantiles is {list(self.quantiles)}, expected different numbers in ascending order")
        if self.data_type == "binary" and self.distribution != "none":
            raise ValueError(
                f'distribution is "{self.distribution}", but binary frames have probabilities: set it to "none"'
            )
        if self.base_forecast == "linear" and self.output == "every_step":
            raise ValueError('base_forecast is "linear", which needs output = "last": set it to "last_value"')
        if self.encoder.bidirectional:
            raise ValueError("encoder.bidirectional is true, but a forecast must not see later values: set it to false")
        for field in ("target", "future_covariates", "static_covariates"):
            if missing := [name for name in getattr(self, field) if self.columns and name not in self.columns]:
                raise ValueError(f"{field} {missing[0]!r} is not one of task.columns ({', '.join(self.columns)})")
        if both := [name for name in self.target if name in self.known_columns]:
            raise ValueError(f"target {both[0]!r} is one of the covariates: what is known is not forecast")
        if both := [name for name in self.static_covariates if name in self.future_covariates]:
            raise ValueError(f"{both[0]!r} is in future_covariates and in static_covariates: remove one of them")
        if self.data_type == "binary" and self.known_columns:
            raise ValueError('covariates need data_type = "numbers", but it is "binary"')
        if self.group_column and not self.dev and self.dev_fraction and not self.dev_fold:
            raise ValueError(
                'group_column needs dev, such as "series.csv[0.8:1]" for the last fifth of each series: without it, '
                "the last series would be held out"
            )
        return self
