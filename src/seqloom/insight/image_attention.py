"""Attention over an image for each word of its caption: a plot, and text for a terminal."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.insight.attention_plot import SHADES, shade_levels
from seqloom.insight.plotting import BLACK, escape_dollars, save_figure
from seqloom.insight.token_names import show_whitespace

PANELS_PER_ROW = 6
GAP = 3  # characters between the maps of a line of text


def draw_image_attention(
    image: ArrayLike,  # (H, W) or (H, W, 3), integers up to 255 or floats up to 1
    weights: ArrayLike,  # (T, rows, columns)
    words: Sequence[str],  # T
    path: str | Path,
    *,
    title: str = "",
    panels_per_row: int = PANELS_PER_ROW,
) -> None:
    """Draw the image, then once more for each word: in grey, with the attention as a heat map on top."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    pixels, maps = _checked(image, weights, words)
    across = min(panels_per_row, len(words) + 1)
    down = math.ceil((len(words) + 1) / across)
    figure = Figure(figsize=(1.55 * across, 1.75 * down + (0.35 if title else 0)), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False)
    height, width = pixels.shape[:2]
    grey = 0.3 + 0.65 * pixels.mean(axis=2)
    for axes in panels.flat:
        axes.axis("off")
    first, *others = panels.flat
    first.imshow(pixels, interpolation="nearest")
    for axes, word, attention in zip(others, words, maps, strict=False):
        relative = attention / (attention.max() or 1.0)
        heat = colormaps["YlOrRd"](0.3 + 0.6 * relative)
        heat[..., 3] = 0.9 * relative**0.7
        axes.imshow(grey, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        # Smooth between the cells: their borders mean nothing.
        axes.imshow(heat, interpolation="bilinear", extent=(-0.5, width - 0.5, height - 0.5, -0.5))
        axes.set_title(escape_dollars(show_whitespace(word)), fontsize=10, color=BLACK, pad=3)
    if title:
        figure.suptitle(escape_dollars(title), x=0.02, ha="left", fontsize=11, fontweight="bold", color=BLACK)
    save_figure(figure, path)


def image_attention_lines(
    weights: ArrayLike,  # (T, rows, columns)
    words: Sequence[str],  # T
    *,
    width: int = 100,  # characters of a line
) -> list[str]:
    """A small map for each word, side by side; each is scaled so that its largest weight is a full block."""
    maps = np.asarray(weights, dtype=np.float64)
    if not len(words):
        return []
    map_width = max(2 * maps.shape[2], 8)
    across = max((width + GAP) // (map_width + GAP), 1)
    lines: list[str] = []
    for first in range(0, len(words), across):
        indices = range(first, min(first + across, len(words)))
        lines += [""] if lines else []
        blocks = [[show_whitespace(words[index])[:map_width], *_map_lines(maps[index])] for index in indices]
        lines += [
            (" " * GAP).join(f"{cell:{map_width}}" for cell in cells).rstrip() for cells in zip(*blocks, strict=True)
        ]
    return lines


def _map_lines(attention: NDArray[np.float64]) -> list[str]:
    levels = shade_levels(attention / (attention.max() or 1.0))
    return ["".join(2 * SHADES[level] for level in row) for row in levels]


def _checked(
    image: ArrayLike, weights: ArrayLike, words: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    pixels = np.asarray(image)
    pixels = pixels / 255 if pixels.dtype.kind in "iu" else pixels.astype(np.float64)
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[:, :, None], 3, axis=2)
    maps = np.asarray(weights, dtype=np.float64)
    if pixels.ndim != 3 or pixels.shape[2] != 3:
        raise ValueError(f"image has shape {pixels.shape}, expected (height, width) or (height, width, 3)")
    if maps.ndim != 3 or len(maps) != len(words):
        raise ValueError(f"weights has shape {maps.shape}, expected ({len(words)}, rows, columns): one map per word")
    if not len(words):
        raise ValueError("there is nothing to draw: the caption has no words")
    return pixels.clip(0, 1), maps
