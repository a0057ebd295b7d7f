"""Learning curves of runs that were trained separately, as data and in one picture."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seqloom.insight.comparison_plot import draw_compared_curves
from seqloom.insight.learning_curves import is_number
from seqloom.insight.plotting import SUFFIXES


@dataclass(frozen=True)
class RunCurves:
    """The curves of one run: pairs of an update and a value."""

    name: str
    metric: str
    higher_is_better: bool
    training_loss: list[tuple[int, float]]
    dev: list[tuple[int, float]]  # of the metric

    def to_dict(self) -> dict[str, Any]:
        """Everything as lists, numbers and strings."""
        return asdict(self)


def run_curves(rows: Sequence[dict[str, Any]], *, name: str, metric: str, higher_is_better: bool) -> RunCurves:
    """The curves in the rows of a run's metrics.jsonl."""
    return RunCurves(
        name=name,
        metric=metric,
        higher_is_better=higher_is_better,
        training_loss=[(row["update"], row["loss"]) for row in rows if is_number(row.get("loss"))],
        dev=[(row["update"], row["dev"][metric]) for row in rows if is_number((row.get("dev") or {}).get(metric))],
    )


def draw_run_curves(curves: Sequence[RunCurves], path: Path) -> None:
    """Draw the training loss and the dev metric of runs over their updates, a colour for each run."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path}: a picture is written as {', '.join(SUFFIXES)}")
    metrics = list(dict.fromkeys(run.metric for run in curves))
    if len(metrics) != 1:
        raise ValueError(f"the metrics of the runs differ ({', '.join(metrics)}): draw them one by one")
    rows: dict[str, list[list[dict[str, Any]]]] = {
        run.name: [
            [
                *({"update": update, "loss": value} for update, value in run.training_loss),
                *({"update": update, "dev": {run.metric: value}} for update, value in run.dev),
            ]
        ]
        for run in curves
    }
    better = all(run.higher_is_better for run in curves)
    if draw_compared_curves(rows, path, metric=metrics[0], higher_is_better=better) is None:
        raise ValueError("there is nothing to draw: no run has a loss or a score of its dev data")
