"""Where attention looked: pictures, which need matplotlib, and text."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

SHADES = " ░▒▓█"  # from nothing to all
LONGEST = 12
"""Letters of a symbol that are shown over a column."""
CELL, SMALLEST = 0.26, 0.1  # inches of a column, and of one among very many
WIDEST = 20.0  # inches that a picture may have before its columns become smaller
ACROSS = 4  # small pictures side by side


def draw_alignment(
    weights: ArrayLike,  # (T, S)
    source: Sequence[str],  # S symbols
    target: Sequence[str],  # T symbols
    path: str | Path,
    *,
    title: str = "",
) -> None:
    """A row for each symbol that was said, a column for each that was read: the darker, the more it was looked at."""
    from matplotlib.figure import Figure

    values = _checked(weights, source, target)
    wide = int(WIDEST / CELL)
    parts = math.ceil(len(source) / wide)
    if parts * len(target) > wide:
        parts, wide = 1, len(source)
    wide = min(wide, len(source))
    cell = max(SMALLEST, min(CELL, WIDEST / max(wide, parts * len(target))))
    beside, above = (max(len(_short(symbol)) for symbol in symbols) for symbols in (target, source))
    letter = 0.085 * cell / CELL + 0.015
    width = cell * wide + letter * beside + 1.1
    height = parts * (cell * len(target) + letter * above + 0.4) + (0.35 if title else 0)
    figure = Figure(figsize=(max(3.6, width), max(2.0, height)), layout="constrained")
    panels = figure.subplots(parts, 1, squeeze=False)[:, 0]
    for first, axes in zip(range(0, len(source), wide), panels, strict=True):
        part = slice(first, first + wide)
        image = _map(axes, values[:, part], source[part], target, size=10 * cell / CELL)
        axes.axvspan(len(source[part]) - 0.5, wide - 0.5, color="white", zorder=2.6)  # behind the end, no grid
        axes.set_xlim(-0.5, wide - 0.5)
    if title:
        panels[0].set_title(literal(title), loc="left", fontweight="bold", color="#2b2f36", fontsize=10)
    _scale(figure.colorbar(image, ax=panels, fraction=0.03, pad=0.01, aspect=30))
    _save(figure, path)


def draw_alignments(
    maps: Sequence[tuple[str, ArrayLike]],  # a title and weights (T, S) of each
    source: Sequence[str],  # S symbols
    target: Sequence[str],  # T symbols
    path: str | Path,
    *,
    across: int = ACROSS,  # in a row
) -> None:
    """Small pictures of the same symbols side by side: a panel for each layer and head."""
    from matplotlib.figure import Figure

    if not maps:
        raise ValueError("there is nothing to draw: no attention was given")
    checked = [(name, _checked(weights, source, target)) for name, weights in maps]
    across = min(across, len(maps))
    down = math.ceil(len(maps) / across)
    cell = max(0.06, min(0.16, WIDEST / across / len(source), 5.0 / len(target)))
    beside, above = (max(len(_short(symbol)) for symbol in symbols) for symbols in (target, source))
    letter = 0.45 * cell
    width = max(1.6, cell * len(source)) + letter * beside + 0.25
    height = max(0.8, cell * len(target)) + letter * above + 0.4
    figure = Figure(figsize=(across * width + 0.5, down * height), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False)
    for axes in panels.flat[len(maps) :]:
        axes.axis("off")
    for axes, (name, values) in zip(panels.flat, checked, strict=False):
        image = _map(axes, values, source, target, size=max(3.5, 7 * cell / 0.13))
        axes.set_title(literal(name), loc="left", fontsize=9, fontweight="bold", color="#2b2f36")
    _scale(figure.colorbar(image, ax=panels, fraction=0.02, pad=0.01, aspect=30))
    _save(figure, path)


def _map(
    axes: "Axes", values: NDArray[np.float64], source: Sequence[str], target: Sequence[str], *, size: float
) -> "AxesImage":
    image = axes.imshow(values, aspect="auto", vmin=0, vmax=1, cmap="Blues", interpolation="nearest")
    names = [[literal(_short(symbol)) for symbol in symbols] for symbols in (source, target)]
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(source)), names[0], fontsize=size)
    for label, symbol in zip(axes.get_xticklabels(), source, strict=True):
        label.set_rotation(90 if len(symbol) > 2 else 0)
    axes.set_yticks(range(len(target)), names[1], fontsize=size)
    axes.tick_params(length=0, colors="#4a5260", pad=2)
    axes.set_xticks(np.arange(len(source) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(target) + 1) - 0.5, minor=True)
    axes.grid(visible=True, which="minor", color="#e6e9ed", linewidth=0.08 * size)
    axes.tick_params(which="minor", length=0)
    for side in axes.spines.values():
        side.set_color("#b8c0ca")
    return image


def alignment_lines(
    weights: ArrayLike,  # (T, S)
    source: Sequence[str],
    target: Sequence[str],
    *,
    width: int = 0,  # letters of a line; a wider source is broken into parts below each other; 0: any
) -> list[str]:
    """The same as text: two shaded blocks for each weight, the source above, read from top to bottom."""
    values = _checked(weights, source, target)
    margin = max(len(_short(symbol)) for symbol in target)
    most = max((width - margin - 1) // 2, 8) if width else len(source)
    lines: list[str] = []
    for first in range(0, len(source), most):
        part = slice(first, first + most)
        lines += [""] if lines else []
        lines += _part(values[:, part], source[part], target, margin=margin)
    return lines


def _part(values: NDArray[np.float64], source: Sequence[str], target: Sequence[str], *, margin: int) -> list[str]:
    above = [_short(symbol) for symbol in source]
    deep = max(map(len, above))
    heads = [f"{'':{margin}} " + "".join(f"{symbol.rjust(deep)[row]} " for symbol in above) for row in range(deep)]
    shades = np.ceil(values.clip(0, 1) * (len(SHADES) - 1) - 0.5).astype(int)
    rows = [
        f"{_short(symbol):>{margin}} " + "".join(2 * SHADES[shade] for shade in row)
        for symbol, row in zip(target, shades.tolist(), strict=True)
    ]
    return [line.rstrip() for line in (*heads, *rows)]


def visible(symbol: str) -> str:
    """A symbol in which blanks can be seen."""
    return symbol.replace(" ", "␣").replace("\t", "⇥").replace("\n", "⏎")


def literal(text: str) -> str:
    """A text for a picture, where a dollar is a dollar and does not begin a formula."""
    return text.replace("$", r"\$")


def _short(symbol: str) -> str:
    shown = visible(symbol)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


def _scale(bar: Any) -> None:
    bar.ax.tick_params(labelsize=8, colors="#4a5260", length=2)
    bar.outline.set_edgecolor("#b8c0ca")


def _save(figure: Any, path: str | Path) -> None:
    chosen = Path(path)
    chosen.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(chosen, dpi=150)


def _checked(weights: ArrayLike, source: Sequence[str], target: Sequence[str]) -> NDArray[np.float64]:
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (len(target), len(source)):
        wanted = f"{len(target)} symbols that were said and {len(source)} that were read"
        raise ValueError(f"weights has shape {values.shape}, wanted {(len(target), len(source))} for {wanted}")
    if not values.size:
        raise ValueError("there is nothing to draw: no symbol was read, or none said")
    return values
