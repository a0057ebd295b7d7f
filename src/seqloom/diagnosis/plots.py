"""A picture for each finding, in the style of all plots."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.diagnosis import thresholds as limit
from seqloom.diagnosis.diagnosis import Diagnosis, Finding, PartDiagnosis
from seqloom.diagnosis.gradients import GradientByLag
from seqloom.diagnosis.training_record import Points, TrainingRecord
from seqloom.formats import percent_in_text
from seqloom.insight.plotting import (
    BLACK,
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    RED,
    SLATE,
    panel_figure,
    save_figure,
    titled,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALLEST = 1e-12
"""Relative gradients below this are drawn at the lower edge."""
MAX_GROUPS = 10
"""Groups of parameters whose norms are drawn: those with the largest and the smallest."""


def draw_findings(diagnosis: Diagnosis, folder: Path, *, suffix: str) -> list[Path]:
    """Write the picture of each finding that has one into a folder; the paths, in the order of the findings."""
    paths = []
    for finding in diagnosis.findings:
        draw = _drawing(diagnosis, finding)
        if draw is None:
            continue
        name = "_".join(filter(None, (finding.name, finding.part))).replace(" ", "_")
        path = folder / f"{name}{suffix}"
        save_figure(draw(), path, title=titled(f"{finding.title}: {finding.severity}"))
        paths.append(path)
    return paths


def _drawing(diagnosis: Diagnosis, finding: Finding) -> "Callable[[], Figure] | None":
    """The function that draws a finding; None if there is nothing to draw."""
    for part in diagnosis.parts:
        if part.name == finding.part and finding.name in _OF_PART:
            return lambda: _OF_PART[finding.name](part)
    if finding.name == "attention" and diagnosis.heads:
        return lambda: draw_heads(diagnosis)
    record = diagnosis.training
    if record is not None and record.loss and finding.name in _OF_TRAINING:
        return lambda: _OF_TRAINING[finding.name](record)
    return None


def draw_memory(part: PartDiagnosis) -> "Figure":
    """The gradient by lag of each layer, relative to that at the target, with its spread; one panel per direction."""
    from matplotlib.ticker import MaxNLocator

    directions = list(dict.fromkeys(curve.direction for curve in part.gradients))
    figure = panel_figure(len(directions), width=6.2, height=4.0)
    for axes, direction in zip(figure.axes, directions, strict=True):
        curves = [curve for curve in part.gradients if curve.direction == direction and curve.mean]
        for number, curve in enumerate(curves):
            _draw_lags(axes, curve, COLOURS[number % len(COLOURS)])
        axes.axhline(limit.LEFT, color=GREY, linestyle=":", linewidth=1.2)
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, SMALLEST), high)
        axes.annotate(
            "1 % left", (1, limit.LEFT), xycoords=("axes fraction", "data"), xytext=(-2, 3), textcoords="offset points",
            color=GREY, fontsize=8, ha="right",
        )  # fmt: skip
        side = "before" if direction == "forward" else "after"
        axes.set_xlabel(f"lag: steps {side} the target")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        noun = "state" if any(curve.of == "state" for curve in curves) else "input"
        axes.set_ylabel(f"gradient with respect to the {noun},\nrelative to lag 0")
        axes.set_title(f"{direction}", loc="left", fontsize=10, color=BLACK)
        axes.legend(frameon=False, fontsize=8, labelcolor=BLACK, title="mean, and 10 to 90 %", title_fontsize=8)
    return figure


def _draw_lags(axes: Any, curve: GradientByLag, colour: str) -> None:
    lags = list(range(len(curve.mean)))
    start = curve.mean[0] or 1.0
    floor = SMALLEST / 10

    def scaled(values: Sequence[float]) -> list[float]:
        return [max(value / start, floor) if math.isfinite(value) else math.nan for value in values]

    sees = f"≥ {curve.reached}" if curve.memory is None else str(curve.memory)
    left = [max(value, floor) for value in curve.left]
    axes.plot(lags, left, color=colour, linewidth=1.8, label=f"{curve.layer} (sees {sees} steps)", zorder=3)
    axes.fill_between(lags, scaled(curve.low), scaled(curve.high), color=colour, alpha=0.15, linewidth=0)
    if curve.memory is not None:
        axes.plot([curve.memory], [left[curve.memory]], "o", color=colour, markersize=6, zorder=4)


def draw_stability(part: PartDiagnosis) -> "Figure":
    """The Lyapunov exponents, the largest singular values of steps, and those of the recurrent matrices."""
    if not part.dynamics:
        return draw_memory(part)
    figure = panel_figure(3, width=4.2, height=3.8)
    exponents, steps, matrices = figure.axes
    labels = [f"{each.layer}\n{each.direction}" for each in part.dynamics]
    places = range(len(labels))
    for place, each in zip(places, part.dynamics, strict=True):
        colour = COLOURS[place % len(COLOURS)]
        finite = [value for value in each.exponents if math.isfinite(value)]
        exponents.plot([place] * len(finite), finite, "o", color=colour, alpha=0.5, markersize=5)
        if math.isfinite(each.exponent):
            exponents.plot([place - 0.25, place + 0.25], [each.exponent] * 2, color=colour, linewidth=2.5)
        values = [value for value in each.jacobian if math.isfinite(value)]
        steps.plot([place] * len(values), values, "o", color=colour, alpha=0.5, markersize=5)
        names = [norm.matrix for norm in each.matrices]
        shift = (place - (len(labels) - 1) / 2) * 0.8 / max(len(labels), 1)
        matrices.plot(
            [index + shift for index in range(len(names))],
            [norm.value for norm in each.matrices],
            "o",
            color=colour,
            label=f"{each.layer} {each.direction}",
        )
        matrices.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
    exponents.axhline(0, color=RED, linestyle=":", linewidth=1.2)
    exponents.set(ylabel="largest Lyapunov exponent per step")
    steps.axhline(1, color=RED, linestyle=":", linewidth=1.2)
    steps.set(ylabel="largest singular value of a step")
    matrices.axhline(1, color=GREY, linestyle=":", linewidth=1.2)
    matrices.set(ylabel="largest singular value of the matrix")
    matrices.legend(frameon=False, fontsize=8, labelcolor=BLACK)
    titles = ("above 0: chaotic", "above 1: can stretch the state", "recurrent matrices")
    for axes, title in zip(figure.axes, titles, strict=True):
        axes.set_title(title, loc="left", fontsize=10, color=BLACK)
    for axes in (exponents, steps):
        axes.set_xticks(places, labels, fontsize=8)
        axes.set_xlim(-0.6, len(labels) - 0.4)
    return figure


def draw_gates(part: PartDiagnosis) -> "Figure":
    """For each gate the share of values that are saturated low and high."""
    uses = part.gates
    figure = panel_figure(1, width=7.4, height=1.3 + 0.32 * len(uses))
    (axes,) = figure.axes
    rows = list(range(len(uses)))
    low = [use.low for use in uses]
    high = [use.high for use in uses]
    middle = [1 - use.low - use.high for use in uses]
    axes.barh(rows, low, color=ORANGE, label="saturated low (a gate: closed)")
    axes.barh(rows, middle, left=low, color="#dfe4ea", label="reacts")
    axes.barh(
        rows,
        high,
        left=[a + b for a, b in zip(low, middle, strict=True)],
        color=BLUE,
        label="saturated high (a gate: open)",
    )
    for row, use in zip(rows, uses, strict=True):
        if use.stuck > 0.005:
            text = f"{percent_in_text(use.stuck)} of units stuck"
            box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
            axes.annotate(text, (0.5, row), va="center", ha="center", fontsize=8, color=BLACK, bbox=box)
    names = [f"{use.layer} {use.direction}, {use.gate}" + (f" ({use.effect})" if use.effect else "") for use in uses]
    axes.set_yticks(rows, names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_xlabel("share of all values")
    axes.grid(visible=False, axis="y")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def draw_units(part: PartDiagnosis) -> "Figure":
    """The share of the variance that the first principal axes of the states explain."""
    figure = panel_figure(1, width=6.4, height=4.0)
    (axes,) = figure.axes
    for number, use in enumerate(part.units):
        total, cumulated = 0.0, []
        for share in use.spectrum:
            total += share
            cumulated.append(total)
        colour = COLOURS[number % len(COLOURS)]
        label = f"{use.layer} {use.direction}: {use.effective_rank:.0f} of {use.units}"
        label += f", {use.dead} dead, {use.redundant} redundant"
        axes.plot(range(1, len(cumulated) + 1), cumulated, color=colour, linewidth=1.8, label=label)
        axes.axvline(use.effective_rank, color=colour, linestyle=":", linewidth=1.2)
    axes.set(xlabel="principal axes of the states", ylabel="share of the variance", ylim=(0, 1.03))
    axes.set_xlim(left=0)
    axes.legend(
        frameon=False,
        fontsize=8,
        labelcolor=BLACK,
        loc="lower right",
        title="effective rank (dotted)",
        title_fontsize=8,
    )
    return figure


def draw_heads(diagnosis: Diagnosis) -> "Figure":
    """Each head by its distance and its entropy; heads that look at another sequence by their entropy only."""
    figure = panel_figure(1, width=6.4, height=4.2)
    (axes,) = figure.axes
    layers = list(dict.fromkeys(head.layer for head in diagnosis.heads))
    local = any(head.distance is not None for head in diagnosis.heads)
    for number, layer in enumerate(layers):
        heads = [head for head in diagnosis.heads if head.layer == layer]
        colour = COLOURS[number % len(COLOURS)]
        across = [head.places if not local else head.distance for head in heads]
        points = [(x, head.entropy, head.head) for x, head in zip(across, heads, strict=True) if x is not None]
        if not points:
            continue
        axes.plot([x for x, _, _ in points], [y for _, y, _ in points], "o", color=colour, markersize=8, label=layer)
        for x, y, head in points:
            axes.annotate(str(head), (x, y), xytext=(5, 4), textcoords="offset points", fontsize=8, color=SLATE)
    for value, text in ((limit.EVEN, "above: all positions alike"), (limit.SINGLE, "below: a single position")):
        axes.axhline(value, color=GREY, linestyle=":", linewidth=1.2)
        axes.annotate(
            text, (1, value), xycoords=("axes fraction", "data"), xytext=(-2, 3 if value > 0.5 else -10),
            textcoords="offset points", color=GREY, fontsize=8, ha="right",
        )  # fmt: skip
    axes.set(ylim=(-0.05, 1.05), ylabel="entropy relative to its maximum")
    axes.set_xlabel("mean distance in steps" if local else "positions that a head looks at (exp of its entropy)")
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def draw_losses(record: TrainingRecord) -> "Figure":
    """Training and dev loss over the updates."""
    figure = panel_figure(1, width=6.4, height=3.9)
    (axes,) = figure.axes
    _curve(axes, record.loss, GREY, "training loss")
    _curve(axes, record.dev_loss, BLUE, "dev loss")
    if record.dev_loss:
        update, best = min(record.dev_loss, key=lambda point: point[1])
        axes.plot([update], [best], "o", color=RED, markersize=8, label=f"lowest dev loss: {best:.4g}", zorder=4)
    axes.set(xlabel="update", ylabel="loss")
    axes.legend(frameon=False, fontsize=9, labelcolor=BLACK)
    return figure


def draw_learning_rate(record: TrainingRecord) -> "Figure":
    """The training loss and, below it, the learning rate."""
    figure = panel_figure(2, width=6.4, height=2.4, across=1)
    above, below = figure.axes
    _curve(above, record.loss, GREY, "training loss")
    _curve(below, record.learning_rate, BLUE, "learning rate")
    above.set(ylabel="training loss")
    below.set(ylabel="learning rate", xlabel="update")
    below.set_ylim(bottom=0)
    return figure


def draw_clipping(record: TrainingRecord) -> "Figure":
    """The norm of the gradient with the clip norm, and the share of clipped updates."""
    figure = panel_figure(2, width=6.4, height=2.4, across=1)
    above, below = figure.axes
    _curve(above, record.gradient_norm, BLUE, "gradient norm")
    if record.clip_norm:
        above.axhline(record.clip_norm, color=RED, linestyle=":", linewidth=1.2, label="clip_norm")
    if all(value > 0 for _, value in record.gradient_norm):
        _set_log_scale(above)
    above.set(ylabel="gradient norm\nbefore clipping")
    figure.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    _curve(below, record.clipped, ORANGE, "clipped")
    below.set(ylabel="clipped updates", xlabel="update", ylim=(-0.03, 1.03))
    below.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    return figure


def draw_group_norms(record: TrainingRecord) -> "Figure":
    """The gradient norm of each group of parameters over the updates."""
    figure = panel_figure(1, width=7.0, height=4.4)
    (axes,) = figure.axes
    ordered = sorted(record.group_norms, key=lambda name: -sum(value for _, value in record.group_norms[name]))
    half = MAX_GROUPS // 2
    shown = ordered if len(ordered) <= MAX_GROUPS else [*ordered[:half], *ordered[-half:]]
    for number, name in enumerate(shown):
        points = [(update, value) for update, value in record.group_norms[name] if value > 0]
        _curve(axes, points, COLOURS[number % len(COLOURS)], name)
    _set_log_scale(axes)
    axes.set(xlabel="update", ylabel="gradient norm before clipping")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


def _set_log_scale(axes: Any) -> None:
    """A logarithmic axis with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _curve(axes: Any, points: Points, colour: str, label: str) -> None:
    from matplotlib.ticker import MaxNLocator

    if points:
        updates, values = zip(*points, strict=True)
        marker = "o" if len(points) <= 40 else ""
        axes.plot(updates, values, color=colour, linewidth=1.7, marker=marker, markersize=3.5, label=label)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


_OF_PART: "dict[str, Callable[[PartDiagnosis], Figure]]" = {
    "memory": draw_memory,
    "stability": draw_stability,
    "gates": draw_gates,
    "units": draw_units,
}
_OF_TRAINING: "dict[str, Callable[[TrainingRecord], Figure]]" = {
    "learning": draw_losses,
    "learning rate": draw_learning_rate,
    "clipping": draw_clipping,
    "gradient norms": draw_group_norms,
    "generalization": draw_losses,
}
