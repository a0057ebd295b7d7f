"""Learning curves of the results that miss their goals: whether a longer training would reach them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqloom.insight.plotting import BLACK, BLUE, RED, panel_figure, save_figure
from seqloom.run import Run

ACROSS = 3


def learning_curve(run: Run, metric: str) -> list[tuple[float, float]]:
    """Minutes of training and the metric on the dev data, at each evaluation."""
    rows = [row for row in run.rows() if "update" in row and metric in row.get("dev", {})]
    return [(round(row["seconds"] / 60, 2), row["dev"][metric]) for row in rows]


def misses(row: dict[str, Any]) -> bool:
    """Whether a result misses its goal."""
    goal, value = row["goal"], row["value"]
    return goal is not None and (value > goal if row["lower"] else value < goal)


def curves_to_draw(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results that miss their goals, of which there is a learning curve."""
    return [row for row in results if misses(row) and len(row.get("curve", [])) > 1]


def draw(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the metric on the dev data over the minutes of training, beside the goal."""
    rows = curves_to_draw(results)
    figure = panel_figure(len(rows), width=4.4, height=2.9, across=ACROSS)
    for axes, row in zip(figure.axes, rows, strict=False):
        minutes, values = zip(*row["curve"], strict=True)
        axes.plot(minutes, values, color=BLUE, linewidth=1.7)
        axes.axhline(row["goal"], color=RED, linewidth=1.2, linestyle="--")
        ends = sorted((values[len(values) // 5], values[-1], row["goal"]))
        margin = 0.15 * (ends[-1] - ends[0])
        axes.set_ylim(ends[0] - margin, ends[-1] + margin)
        axes.set_title(row["name"], loc="left", fontsize=10, color=BLACK)
        axes.set_ylabel(f"{row['metric']} on dev")
        axes.set_xlabel("minutes")
    for axes in figure.axes[len(rows) :]:
        axes.remove()
    save_figure(figure, path, dpi=100)
