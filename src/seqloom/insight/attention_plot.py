"""Attention weights as a heat map: a plot, and text for a terminal."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.insight.plotting import BLACK, FRAME, GRID, SLATE, escape_dollars, save_figure
from seqloom.insight.token_names import show_whitespace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

SHADES = " ░▒▓█"  # from 0 to 1
MAX_LABEL = 12  # characters of a token that are shown
CELL, MIN_CELL = 0.26, 0.1  # inches of a column, and the least when there are very many
MAX_WIDTH = 20.0  # inches of a figure before its columns shrink
PANELS_PER_ROW = 4


def draw_attention(
    weights: ArrayLike,  # (T, S)
    source: Sequence[str],  # S tokens
    target: Sequence[str],  # T tokens
    path: str | Path,
    *,
    title: str = "",
    label: str = "attention weight",  # what the weights are
) -> None:
    """Draw a row for each target token and a column for each source token: darker means more attention."""
    from matplotlib.figure import Figure

    values = _checked(weights, source, target)
    columns = int(MAX_WIDTH / CELL)
    parts = math.ceil(len(source) / columns)
    if parts * len(target) > columns:
        parts, columns = 1, len(source)
    columns = min(columns, len(source))
    cell = max(MIN_CELL, min(CELL, MAX_WIDTH / max(columns, parts * len(target))))
    left, top = (max(len(_short(token)) for token in tokens) for tokens in (target, source))
    character = 0.085 * cell / CELL + 0.015  # inches
    width = cell * columns + character * left + 1.3
    height = parts * (cell * len(target) + character * top + 0.6) + (0.35 if title else 0)
    figure = Figure(figsize=(max(3.6, width), max(2.0, height)), layout="constrained")
    panels = figure.subplots(parts, 1, squeeze=False)[:, 0]
    for first, axes in zip(range(0, len(source), columns), panels, strict=True):
        part = slice(first, first + columns)
        image = _heat_map(axes, values[:, part], source[part], target, font_size=10 * cell / CELL)
        axes.axvspan(len(source[part]) - 0.5, columns - 0.5, color="white", zorder=2.6)  # no grid after the last token
        axes.set_xlim(-0.5, columns - 0.5)
    if title:
        panels[0].set_title(escape_dollars(title), loc="left", fontweight="bold", color=BLACK, fontsize=10)
    _style_colorbar(figure.colorbar(image, ax=panels, fraction=0.03, pad=0.01, aspect=30), label)
    save_figure(figure, path)


def draw_attention_heads(
    maps: Sequence[tuple[str, ArrayLike]],  # the title and the weights (T, S) of each
    source: Sequence[str],  # S tokens
    target: Sequence[str],  # T tokens
    path: str | Path,
    *,
    panels_per_row: int = PANELS_PER_ROW,
) -> None:
    """Draw a small heat map for each layer and head, side by side."""
    from matplotlib.figure import Figure

    if not maps:
        raise ValueError("there is nothing to draw: no attention was given")
    checked = [(name, _checked(weights, source, target)) for name, weights in maps]
    across = min(panels_per_row, len(maps))
    down = math.ceil(len(maps) / across)
    cell = max(0.06, min(0.16, MAX_WIDTH / across / len(source), 5.0 / len(target)))
    left, top = (max(len(_short(token)) for token in tokens) for tokens in (target, source))
    character = 0.45 * cell  # inches
    width = max(1.6, cell * len(source)) + character * left + 0.4
    height = max(0.8, cell * len(target)) + character * top + 0.55
    figure = Figure(figsize=(across * width + 0.5, down * height), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False)
    for axes in panels.flat[len(maps) :]:
        axes.axis("off")
    for axes, (name, values) in zip(panels.flat, checked, strict=False):
        image = _heat_map(axes, values, source, target, font_size=max(3.5, 7 * cell / 0.13))
        axes.set_title(escape_dollars(name), loc="left", fontsize=9, fontweight="bold", color=BLACK)
    _style_colorbar(figure.colorbar(image, ax=panels, fraction=0.02, pad=0.01, aspect=30))
    save_figure(figure, path)


def _heat_map(
    axes: "Axes", values: NDArray[np.float64], source: Sequence[str], target: Sequence[str], *, font_size: float
) -> "AxesImage":
    image = axes.imshow(values, aspect="auto", vmin=0, vmax=1, cmap="Blues", interpolation="nearest")
    names = [[escape_dollars(_short(token)) for token in tokens] for tokens in (source, target)]
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source token", fontsize=0.9 * font_size)
    axes.set_ylabel("target token", fontsize=0.9 * font_size)
    axes.set_xticks(range(len(source)), names[0], fontsize=font_size)
    for label, token in zip(axes.get_xticklabels(), source, strict=True):
        label.set_rotation(90 if len(token) > 2 else 0)
    axes.set_yticks(range(len(target)), names[1], fontsize=font_size)
    axes.tick_params(length=0, colors=SLATE, pad=2)
    axes.set_xticks(np.arange(len(source) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(target) + 1) - 0.5, minor=True)
    axes.grid(visible=True, which="minor", color=GRID, linewidth=0.08 * font_size)
    axes.tick_params(which="minor", length=0)
    for side in axes.spines.values():
        side.set_color(FRAME)
    return image


def attention_lines(
    weights: ArrayLike,  # (T, S)
    source: Sequence[str],
    target: Sequence[str],
    *,
    width: int = 0,  # characters of a line, wider sources are wrapped; 0: no limit
) -> list[str]:
    """The heat map as text: two shaded blocks for each weight, source tokens written from top to bottom."""
    values = _checked(weights, source, target)
    margin = max(len(_short(token)) for token in target)
    columns = max((width - margin - 1) // 2, 8) if width else len(source)
    lines: list[str] = []
    for first in range(0, len(source), columns):
        part = slice(first, first + columns)
        lines += [""] if lines else []
        lines += _part_lines(values[:, part], source[part], target, margin=margin)
    return lines


def _part_lines(values: NDArray[np.float64], source: Sequence[str], target: Sequence[str], *, margin: int) -> list[str]:
    labels = [_short(token) for token in source]
    height = max(map(len, labels))
    header = [
        f"{'':{margin}} " + "".join(f"{label.rjust(height)[line]} " for label in labels) for line in range(height)
    ]
    rows = [
        f"{_short(token):>{margin}} " + "".join(2 * SHADES[shade] for shade in row)
        for token, row in zip(target, shade_levels(values), strict=True)
    ]
    return [line.rstrip() for line in (*header, *rows)]


def shade_levels(values: NDArray[np.float64]) -> list[list[int]]:
    """Places in SHADES for a matrix of numbers from 0 to 1."""
    levels: list[list[int]] = np.ceil(values.clip(0, 1) * (len(SHADES) - 1) - 0.5).astype(int).tolist()
    return levels


def _short(token: str) -> str:
    shown = show_whitespace(token)
    return shown if len(shown) <= MAX_LABEL else f"{shown[: MAX_LABEL - 1]}…"


def _style_colorbar(bar: Any, label: str = "attention weight") -> None:
    bar.ax.tick_params(labelsize=8, colors=SLATE, length=2)
    bar.outline.set_edgecolor(FRAME)
    bar.set_label(label, color=SLATE, fontsize=8)


def _checked(weights: ArrayLike, source: Sequence[str], target: Sequence[str]) -> NDArray[np.float64]:
    values = np.asarray(weights, dtype=np.float64)
    expected = (len(target), len(source))
    if values.shape != expected:
        tokens = f"{len(target)} target tokens and {len(source)} source tokens"
        raise ValueError(f"weights has shape {values.shape}, expected {expected} for {tokens}")
    if not values.size:
        raise ValueError("there is nothing to draw: the source or the target has no tokens")
    return values
