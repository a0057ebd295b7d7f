"""Forecasts as targets and answers."""

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from seqloom import html
from seqloom.data.feature_statistics import SINGLE_DIGITS
from seqloom.formats import format_number

MAX_LEGEND = 20  # columns that are named beside a forecast


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
    warning: str = ""  # why the forecast may be worse than others

    def __str__(self) -> str:
        rows = [",".join(format_number(value, SINGLE_DIGITS) for value in row) for row in self.values]
        return (
            "\n".join(f"{time},{row}" for time, row in zip(self.times, rows, strict=True))
            if self.times
            else "\n".join(rows)
        )

    @property
    def legend(self) -> str:
        """What the columns of the text are, and how to get more rows; empty if columns have no names."""
        if self.columns == [str(number + 1) for number in range(len(self.columns))]:
            return ""
        more = "; one step ahead: train with task.horizon=N for N steps" if len(self.values) == 1 else ""
        return f"columns: {', '.join(['time'] * bool(self.times) + self.columns[:MAX_LEGEND])}{more}"

    def _repr_html_(self) -> str:
        rows = [
            [html.remark(step), *(html.escape(format_number(value, SINGLE_DIGITS)) for value in row)]
            for step, row in zip(self.times or range(1, len(self.values) + 1), self.values, strict=True)
        ]
        return html.table(["time" if self.times else "step", *self.columns], rows, right=range(len(self.columns) + 1))
