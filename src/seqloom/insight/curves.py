"""Pictures of a training and of forecasts. They need matplotlib."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY, SLATE, BLACK = "#8a97a6", "#4a5260", "#2b2f36"
BLUE, RED, SAND = "#1f6fb4", "#d1495b", "#b99b5f"
FEW = 40
"""A curve of at most so many points shows each of them."""
MOST_PANELS = 8
"""Columns of a forecast that are drawn; more would be too small to see."""

Curve = list[tuple[float, float]]


def draw_curves(
    rows: Sequence[Mapping[str, Any]],  # of metrics.jsonl
    path: str | Path,
    *,
    metric: str = "",  # the one that chooses the best model; empty: the first of the dev data
    higher_is_better: bool = True,
) -> "Figure":
    """The loss and the metric of the dev data, its best value marked, over the updates of a training."""
    scores = [row for row in rows if row.get("dev")]
    metric = metric or next((name for row in scores for name, value in row["dev"].items() if _is_number(value)), "")
    training: Curve = [(row["update"], row["loss"]) for row in rows if _is_number(row.get("loss"))]
    losses, points = (
        [(row["update"], row["dev"][name]) for row in scores if _is_number(row["dev"].get(name))]
        for name in ("loss", metric)
    )
    panels = {"loss": training + losses, metric: points if metric != "loss" else training + losses}
    panels = {name: drawn for name, drawn in panels.items() if drawn}
    if not panels:
        raise ValueError("there is nothing to draw: no row has a loss or a score")
    figure = _figure(len(panels), width=5.6, height=3.7)
    for axes, (panel, drawn) in zip(figure.axes, panels.items(), strict=True):
        if panel == "loss":
            _line(axes, training, GREY, label="training")
            _line(axes, losses, BLUE, label="dev")
        else:
            _line(axes, points, BLUE, label="dev")
        if panel == metric and points:
            update, best = (max if higher_is_better else min)(points[::-1], key=lambda point: point[1])
            label = f"best: {best:.4g} at update {update:,}"
            axes.plot([update], [best], "o", color=RED, markersize=8, zorder=4, clip_on=False, label=label)
        axes.set_title(panel.replace("_", " "), loc="left", fontweight="bold", color=BLACK)
        axes.legend(frameon=False, fontsize=9, labelcolor=BLACK)
        _bound(axes, [value for _, value in drawn])
        _count(axes, rows)
    _save(figure, path)
    return figure


def draw_forecast(
    truth: ArrayLike,  # (T,) or (T, K), or (history + T, K): what came before may stand before
    forecast: ArrayLike,  # (T,) or (T, K), the last T steps
    baseline: ArrayLike | None,  # as the forecast
    path: str | Path,
    names: Sequence[str] = (),  # of the columns
) -> "Figure":
    """What came, what was forecast, and what the baseline said: a panel for each column."""
    wanted, found = _columns(truth), _columns(forecast)
    naive = None if baseline is None else _columns(baseline)
    for name, values in (("forecast", found), ("baseline", found if naive is None else naive)):
        if values.shape[1] != wanted.shape[1] or not 0 < len(values) <= len(wanted):
            raise ValueError(f"the {name} has shape {values.shape}, wanted at most {wanted.shape} as the truth")
    if names and len(names) != wanted.shape[1]:
        raise ValueError(f"names has {len(names)} entries, wanted {wanted.shape[1]}, one for each column")
    count = min(wanted.shape[1], MOST_PANELS)
    across = 1 if count <= 3 else 2
    figure = _figure(count, width=9.6 if across == 1 else 6.4, height=2.6 if count > 1 else 3.8, across=across)
    steps = np.arange(len(wanted)) - (len(wanted) - len(found)) + 1  # the first forecast is step 1
    for column, axes in enumerate(figure.axes):
        axes.plot(steps, wanted[:, column], color=BLACK, linewidth=1.3, label="truth")
        if naive is not None:
            axes.plot(
                steps[-len(naive) :], naive[:, column], color=SAND, linewidth=1.3, linestyle="--", label="baseline"
            )
        axes.plot(steps[-len(found) :], found[:, column], color=RED, linewidth=1.7, label="forecast")
        if len(found) < len(wanted):
            axes.axvspan(0.5, len(found) + 0.5, color=RED, alpha=0.06, linewidth=0)
        axes.set_title(names[column] if names else f"column {column + 1}", loc="left", fontweight="bold", color=BLACK)
        axes.margins(x=0.01)
    for axes in figure.axes[-across:]:
        axes.set_xlabel("step", color=SLATE)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=3, frameon=False)
    _save(figure, path)
    return figure


def _figure(panels: int, *, width: float, height: float, across: int = 0) -> "Figure":
    """Panels side by side, or ``across`` in a row."""
    from matplotlib.figure import Figure

    across = across or panels
    down = math.ceil(panels / across)
    figure = Figure(figsize=(width * across, height * down), layout="constrained")
    for index in range(panels):
        axes = figure.add_subplot(down, across, index + 1)
        axes.grid(visible=True, color="#e6e9ed", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color("#b8c0ca")
        axes.tick_params(colors=SLATE, labelsize=9)
    return figure


def _line(axes: "Axes", curve: Curve, colour: str, *, label: str) -> None:
    if curve:
        updates, values = zip(*curve, strict=True)
        marker = "o" if len(curve) <= FEW else ""
        axes.plot(updates, values, color=colour, linewidth=1.7, label=label, marker=marker, markersize=3.5)


def _bound(axes: "Axes", values: Sequence[float]) -> None:
    """Leave a few wild values at the top out of the picture: what matters happens below."""
    low, high = min(values), max(values)
    usual = float(np.quantile(values, 0.95))
    if high - usual > 2 * (usual - low) > 0:
        high = usual
    margin = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
    axes.set_ylim(low - margin, high + margin)


def _count(axes: "Axes", rows: Sequence[Mapping[str, Any]]) -> None:
    """The scale of updates below, and of epochs above."""
    last = max(rows, key=lambda row: float(row["update"]))
    axes.set_xlabel("update", color=SLATE)
    axes.set_xlim(-0.02 * (last["update"] or 1), 1.02 * (last["update"] or 1))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if last["update"] and last.get("epoch"):
        ratio = last["epoch"] / last["update"]
        above = axes.secondary_xaxis("top", functions=(lambda update: update * ratio, lambda epoch: epoch / ratio))
        above.tick_params(colors=GREY, labelsize=8, length=2)
        above.spines["top"].set_visible(False)
        above.set_xlabel("epoch", color=GREY, fontsize=8, loc="right")


def _columns(values: ArrayLike) -> np.ndarray[Any, np.dtype[np.float64]]:
    array = np.asarray(values, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _save(figure: "Figure", path: str | Path) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=150)
