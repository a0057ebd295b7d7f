"""Forecasts as targets and answers."""

from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seqloom import html
from seqloom.data.feature_statistics import SINGLE_DIGITS
from seqloom.formats import format_number
from seqloom.metrics.forecast_quantiles import SAME_LEVEL, USUAL_COVERAGE, central_intervals, usual_interval

Quantiles = NDArray[np.float32]

MAX_LEGEND = 20  # columns that are named beside a forecast


class ForecastTarget(NamedTuple):
    """The target of a forecast."""

    values: Tensor  # (B, T or 1, horizon, targets), scaled
    mask: Tensor  # (B, T or 1)


@dataclass(frozen=True)
class ForecastPrediction:
    """The values after the last input row, in the units of the data (binary: probabilities)."""

    columns: list[str]
    values: list[list[float]]  # (horizon, targets)
    steps: list[list[list[float]]]  # (T, horizon, targets), the forecast at each row; only for every_step
    truth: list[list[list[float]]]  # (T, horizon, targets), the observed values; empty if unknown
    times: list[str] = field(default_factory=list)  # (horizon,), time stamps of the values; empty if unknown
    warning: str = ""  # why the forecast may be worse than others
    levels: tuple[float, ...] = ()  # probabilities of the quantiles; empty: there are none
    bands: InitVar[Quantiles | None] = None  # see quantiles
    step_bands: InitVar[Quantiles | None] = None  # see step_quantiles

    quantiles: ClassVar[Quantiles]
    """(horizon, targets, levels); an array, since lists of all forecasts of an evaluation would need much memory"""
    step_quantiles: ClassVar[Quantiles]
    """(T, horizon, targets, levels), the quantiles at each row; only for every_step"""

    def __post_init__(self, bands: Quantiles | None, step_bands: Quantiles | None) -> None:
        for name, values in (("quantiles", bands), ("step_quantiles", step_bands)):
            object.__setattr__(self, name, np.zeros((0, 0, 0), np.float32) if values is None else values)

    def interval(self, coverage: float = USUAL_COVERAGE) -> tuple[list[list[float]], list[list[float]]]:
        """Lower and upper bounds, (horizon, targets) each, between which this share of the values is expected."""
        for low, high, share in central_intervals(self.levels):
            if abs(share - coverage) < SAME_LEVEL:
                return self.quantiles[..., low].tolist(), self.quantiles[..., high].tolist()
        known = ", ".join(f"{share:g}" for *_, share in central_intervals(self.levels)) or "none"
        raise ValueError(f"coverage is {coverage:g}, expected one of the intervals of the model: {known}")

    def quantile(self, level: float) -> list[list[float]]:  # (horizon, targets)
        """The values that the truth does not exceed with this probability."""
        for place, known in enumerate(self.levels):
            if abs(known - level) < SAME_LEVEL:
                values: list[list[float]] = self.quantiles[..., place].tolist()
                return values
        raise ValueError(f"level is {level:g}, expected one of {', '.join(f'{each:g}' for each in self.levels)}")

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values, with the quantiles by their probabilities."""
        kept = ("columns", "values", "steps", "truth", "times", "warning")
        quantiles = {f"{level:g}": self.quantile(level) for level in self.levels}
        return {name: getattr(self, name) for name in kept} | {"quantiles": quantiles}

    def _shown_interval(self) -> tuple[str, str, int, int] | None:
        """Names and places of the bounds that a table shows; None: there are no intervals."""
        bounds = usual_interval(self.levels)
        if bounds is None:
            return None
        low, high = bounds
        return f"{self.levels[low]:.3g}", f"{self.levels[high]:.3g}", low, high

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: each column, followed by the bounds of its interval."""
        shown, names, rows = self._shown_interval(), [], []
        for name in self.columns:
            names += [name] if shown is None else [name, f"{name} {shown[0]}", f"{name} {shown[1]}"]
        for step, row in enumerate(self.values):
            cells: list[str] = []
            for place, value in enumerate(row):
                numbers = [value]
                if shown is not None:
                    numbers += [float(self.quantiles[step, place, bound]) for bound in shown[2:]]
                cells += [format_number(number, SINGLE_DIGITS) for number in numbers]
            rows.append(cells)
        return names, rows

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows of texts: the time or the step, then each column and the bounds of its interval."""
        names, rows = self._table()
        steps = self.times or map(str, range(1, len(rows) + 1))
        return ["time" if self.times else "step", *names], [[step, *row] for step, row in zip(steps, rows, strict=True)]

    def __str__(self) -> str:
        rows = self.table()[1] if self.times else self._table()[1]
        return "\n".join(map(",".join, rows))

    @property
    def legend(self) -> str:
        """What the columns of the text are, and how to get more rows; empty if columns have no names."""
        unnamed = self.columns == [str(number + 1) for number in range(len(self.columns))]
        shown = self._shown_interval()
        if unnamed and shown is None:
            return ""
        names = self._table()[0]
        if unnamed:
            names = [f"column {name}" for name in names]
        more = "; one step ahead: train with task.horizon=N for N steps" if len(self.values) == 1 else ""
        about = ""
        if shown is not None:
            share = float(shown[1]) - float(shown[0])
            about = f" ({shown[0]} and {shown[1]}: {share:.0%} of the values are expected between these quantiles)"
        return f"columns: {', '.join(['time'] * bool(self.times) + names[:MAX_LEGEND])}{about}{more}"

    def _repr_html_(self) -> str:
        names, rows = self.table()
        shown = [[html.remark(step), *map(html.escape, row)] for step, *row in rows]
        return html.table(names, shown, right=range(len(names)))
