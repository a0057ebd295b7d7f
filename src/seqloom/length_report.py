"""Scores of one or several models by the length of their inputs: a table, a picture, JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seqloom import terminal
from seqloom.evaluation import LengthScore
from seqloom.formats import format_value
from seqloom.insight.length_plot import LengthCurve, draw_by_length
from seqloom.insight.plotting import SUFFIXES
from seqloom.metrics.length_bins import quantile_bins
from seqloom.model import Model


@dataclass(frozen=True)
class LengthReport:
    """The scores of several models in the same bins of lengths."""

    metric: str
    unit: str  # of the lengths
    higher_is_better: bool
    names: list[str]  # of the models
    scores: list[list[LengthScore]]  # of each model, for each bin

    def value(self, model: int, index: int) -> float | None:
        """The metric of a model in a bin; None if there is none."""
        value = self.scores[model][index].scores.get(self.metric)
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

    def interval(self, model: int, index: int) -> Sequence[float] | None:
        """The confidence interval of ``value``."""
        interval: Sequence[float] | None = self.scores[model][index].scores.get(f"{self.metric}_interval")
        return interval

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Columns and rows: each bin with the metric of each model."""
        columns, rows = [f"length ({self.unit})", "examples"], []
        for name in self.names:
            columns += [self.metric if len(self.names) == 1 else name, "95 % interval"]
        for index, first in enumerate(self.scores[0]):
            row = [first.length, f"{first.examples:,}"]
            for model in range(len(self.names)):
                value, interval = self.value(model, index), self.interval(model, index)
                row.append("" if value is None else format_value(value))
                row.append("" if interval is None else f"[{format_value(list(interval))}]")
            rows.append(row)
        return columns, rows

    def to_json(self) -> dict[str, Any]:
        """All scores of all bins."""
        runs = [
            {"run": name, "bins": [asdict(score) for score in scores]}
            for name, scores in zip(self.names, self.scores, strict=True)
        ]
        return {"metric": self.metric, "unit": self.unit, "runs": runs}

    def draw(self, path: Path) -> None:
        """Draw the metric of all models into one picture."""
        bins = range(len(self.scores[0]))
        curves = [
            LengthCurve(name, [self.value(model, each) for each in bins], [self.interval(model, each) for each in bins])
            for model, name in enumerate(self.names)
        ]
        draw_by_length(
            curves,
            path,
            bins=[score.length for score in self.scores[0]],
            examples=[score.examples for score in self.scores[0]],
            metric=self.metric,
            unit=self.unit,
            higher_is_better=self.higher_is_better,
        )


def evaluate_by_length(
    models: Sequence[Model],
    source: Any,  # the path of a file, or data in memory
    *,
    names: Sequence[str] = (),  # of the models; empty: those of their runs
    bins: Sequence[float] = (),  # largest length of each bin but the last; empty: quantiles of the lengths
) -> LengthReport:
    """Evaluate models in the same bins; the first one measures the lengths."""
    first, *others = models
    for model in others:
        if model.task.main_metric != first.task.main_metric:
            raise ValueError(
                f"the metrics of the runs differ ({first.task.main_metric}, {model.task.main_metric}): evaluate them "
                "one by one"
            )
    lengths = first.input_lengths(source)
    limits = bins or quantile_bins(lengths).limits
    return LengthReport(
        metric=first.task.main_metric,
        unit=first.task.length_unit,
        higher_is_better=first.task.higher_is_better,
        names=distinct_names(names or [model.name for model in models]),
        scores=[model.evaluate_by_length(source, bins=limits, lengths=lengths) for model in models],
    )


def distinct_names(paths: Sequence[str]) -> list[str]:
    """The last parts of paths, as many as distinguish them; equal paths are numbered."""
    parts = [Path(path).parts for path in paths]
    different = len(set(parts))
    depth = next(
        (depth for depth in range(1, 100) if len({part[-depth:] for part in parts}) == different),
        100,
    )
    names = [str(Path(*part[-depth:])) for part in parts]
    return [
        f"{name} ({names[: index + 1].count(name)})" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    ]


def report_by_length(
    models: Sequence[Model],
    file: str,
    *,
    names: Sequence[str],
    bins: Sequence[float],
    output: Path,  # file of the picture
    as_json: bool,
) -> None:
    """Print the scores of runs by length, and draw them."""
    if output.suffix not in SUFFIXES:
        raise ValueError(f"{output}: a picture is written as {', '.join(SUFFIXES)}")
    report = evaluate_by_length(models, file, names=names, bins=bins)
    report.draw(output)
    if as_json:
        terminal.print_json({**report.to_json(), "plot": str(output)})
        return
    if len(report.scores[0]) == 1:
        terminal.print_note(
            "nearly all inputs are equally long, so that there is one row; --bins chooses other lengths"
        )
    terminal.table(*report.table())
    terminal.print_lines("", f"{report.metric} by length: {output}")
