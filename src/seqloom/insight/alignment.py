"""Where a translator looked for each symbol that it said: a picture, which needs matplotlib, and text."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

SHADES = " ░▒▓█"  # from nothing to all
LONGEST = 12
"""Letters of a symbol that are shown over a column."""


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
    wide = sum(map(len, source)) > 2 * len(source)
    height = 0.26 * len(target) + (1.9 if wide else 1.1)
    figure = Figure(figsize=(max(4.0, 0.26 * len(source) + 2), max(2.2, height)), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(values, aspect="auto", vmin=0, vmax=1, cmap="Blues", interpolation="nearest")
    axes.set_xticks(range(len(source)), map(visible, source), rotation=90 if wide else 0)
    axes.set_yticks(range(len(target)), map(visible, target))
    axes.xaxis.tick_top()
    axes.tick_params(length=0, colors="#4a5260")
    axes.set_xticks(np.arange(len(source) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(target) + 1) - 0.5, minor=True)
    axes.grid(visible=True, which="minor", color="#e6e9ed", linewidth=0.8)
    axes.tick_params(which="minor", length=0)
    for side in axes.spines.values():
        side.set_color("#b8c0ca")
    if title:
        axes.set_title(title, loc="left", fontweight="bold", color="#2b2f36")
    figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
    chosen = Path(path)
    chosen.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(chosen, dpi=150)


def alignment_lines(weights: ArrayLike, source: Sequence[str], target: Sequence[str]) -> list[str]:
    """The same as text: two shaded blocks for each weight, the source above, read from top to bottom."""
    values = _checked(weights, source, target)
    above = [_short(symbol) for symbol in source]
    beside = [_short(symbol) for symbol in target]
    margin = max(map(len, beside), default=0)
    deep = max(map(len, above), default=0)
    heads = [f"{'':{margin}} " + "".join(f"{symbol.rjust(deep)[row]} " for symbol in above) for row in range(deep)]
    shades = np.ceil(values.clip(0, 1) * (len(SHADES) - 1) - 0.5).astype(int)
    rows = [
        f"{symbol:>{margin}} " + "".join(2 * SHADES[shade] for shade in row)
        for symbol, row in zip(beside, shades.tolist(), strict=True)
    ]
    return [line.rstrip() for line in (*heads, *rows)]


def visible(symbol: str) -> str:
    """A symbol in which blanks can be seen."""
    return symbol.replace(" ", "␣").replace("\t", "⇥").replace("\n", "⏎")


def _short(symbol: str) -> str:
    shown = visible(symbol)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


def _checked(weights: ArrayLike, source: Sequence[str], target: Sequence[str]) -> NDArray[np.float64]:
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (len(target), len(source)):
        wanted = f"{len(target)} symbols that were said and {len(source)} that were read"
        raise ValueError(f"weights has shape {values.shape}, wanted {(len(target), len(source))} for {wanted}")
    if not values.size:
        raise ValueError("there is nothing to draw: no symbol was read, or none said")
    return values
