"""Where a model looked in an image for each word that it said: text, and a picture, which needs matplotlib."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.insight.alignment import SHADES, literal, visible

ACROSS = 6  # panels in a row
GAP = 3  # letters between panels of text


def draw_panels(
    image: ArrayLike,  # (H, W) or (H, W, 3), whole numbers to 255 or others to 1
    weights: ArrayLike,  # (T, rows, columns)
    words: Sequence[str],  # T
    path: str | Path,
    *,
    title: str = "",
    across: int = ACROSS,
) -> None:
    """The image, and again for each word, without its colours, with the heat of where it was looked at."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    shown, looks = _checked(image, weights, words)
    across = min(across, len(words) + 1)
    down = math.ceil((len(words) + 1) / across)
    figure = Figure(figsize=(1.55 * across, 1.75 * down + (0.35 if title else 0)), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False)
    height, width = shown.shape[:2]
    pale = 0.3 + 0.65 * shown.mean(axis=2)
    for axes in panels.flat:
        axes.axis("off")
    first, *others = panels.flat
    first.imshow(shown, interpolation="nearest")
    for axes, word, look in zip(others, words, looks, strict=False):
        share = look / (look.max() or 1.0)
        heat = colormaps["YlOrRd"](0.3 + 0.6 * share)
        heat[..., 3] = 0.9 * share**0.7
        axes.imshow(pale, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        # Between cells it is smooth: their borders mean nothing.
        axes.imshow(heat, interpolation="bilinear", extent=(-0.5, width - 0.5, height - 0.5, -0.5))
        axes.set_title(literal(visible(word)), fontsize=10, color="#2b2f36", pad=3)
    if title:
        figure.suptitle(literal(title), x=0.02, ha="left", fontsize=11, fontweight="bold", color="#2b2f36")
    chosen = Path(path)
    chosen.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(chosen, dpi=150)


def panel_lines(
    weights: ArrayLike,  # (T, rows, columns)
    words: Sequence[str],  # T
    *,
    width: int = 100,  # letters of a line
) -> list[str]:
    """A small map for each word, side by side: the darker, the more it was looked at, the most of all is full."""
    looks = np.asarray(weights, dtype=np.float64)
    if not len(words):
        return []
    wide = max(2 * looks.shape[2], 8)
    across = max((width + GAP) // (wide + GAP), 1)
    lines: list[str] = []
    for first in range(0, len(words), across):
        some = range(first, min(first + across, len(words)))
        lines += [""] if lines else []
        blocks = [[visible(words[index])[:wide], *_shades(looks[index])] for index in some]
        lines += [(" " * GAP).join(f"{cell:{wide}}" for cell in cells).rstrip() for cells in zip(*blocks, strict=True)]
    return lines


def _shades(look: NDArray[np.float64]) -> list[str]:
    scaled = look / (look.max() or 1.0)
    places = np.ceil(scaled.clip(0, 1) * (len(SHADES) - 1) - 0.5).astype(int)
    return ["".join(2 * SHADES[place] for place in row) for row in places.tolist()]


def _checked(
    image: ArrayLike, weights: ArrayLike, words: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    shown = np.asarray(image)
    shown = shown / 255 if shown.dtype.kind in "iu" else shown.astype(np.float64)
    if shown.ndim == 2:
        shown = np.repeat(shown[:, :, None], 3, axis=2)
    looks = np.asarray(weights, dtype=np.float64)
    if shown.ndim != 3 or shown.shape[2] != 3:
        raise ValueError(f"image has shape {shown.shape}, wanted (height, width) or (height, width, 3)")
    if looks.ndim != 3 or len(looks) != len(words):
        raise ValueError(f"weights has shape {looks.shape}, wanted ({len(words)}, rows, columns), one for each word")
    if not len(words):
        raise ValueError("there is nothing to draw: no word was said")
    return shown.clip(0, 1), looks
