"""Which cells of an image, or which frames of a video, mattered: printed, in HTML and as plots."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom import html
from seqloom.insight.attention_plot import SHADES, shade_levels
from seqloom.insight.attribution import Attribution
from seqloom.insight.frame_strip import draw_strip, frame_parts, middle_frame, part_names, png_address
from seqloom.insight.heatmap_text import signed_heatmap_lines
from seqloom.insight.plotting import BLUE, ORANGE, SLATE, diverging_colours, save_figure

STRENGTH = 0.85  # opacity of the strongest colour over an image
PICTURE_WIDTH = 192  # pixels of an image in HTML


def picture_lines(attribution: Attribution, *, width: int) -> Iterator[str]:
    """Two maps of an image, for and against the target, with a common scale; a line of bars for a video."""
    if attribution.grid is None:
        parts, sums = _frame_sums(attribution)
        yield from signed_heatmap_lines(part_names(parts), sums.tolist(), width=width)
        return
    values = _cells(attribution)
    bound = float(np.abs(values).max(initial=0.0)) or 1.0
    names = ("raises it", "lowers it") if attribution.is_number else ("for", "against")
    columns = max(2 * values.shape[1], 8) + 3
    yield "".join(f"{name:{columns}}" for name in names).rstrip()
    maps = [shade_levels(part.clip(min=0) / bound) for part in (values, -values)]
    for rows in zip(*maps, strict=True):
        yield "".join(f"{''.join(2 * SHADES[level] for level in row):{columns}}" for row in rows).rstrip()
    yield f"█ = {bound:.3g}"


def picture_html(attribution: Attribution) -> str:
    """The image with its cells in colours, or the frames of a video with a coloured line below each."""
    pictures = np.asarray(attribution.pictures)
    if attribution.grid is not None:
        values = _cells(attribution)
        shaded = (255 * _shaded(pictures, values)).astype(np.uint8)
        return html.pictures([png_address(pictures), png_address(shaded)], [], width=PICTURE_WIDTH)
    parts, sums = _frame_sums(attribution)
    addresses = [png_address(middle_frame(pictures, part)) for part in parts]
    return html.pictures(addresses, sums.tolist(), names=part_names(parts))


def draw_picture_attribution(attribution: Attribution, path: str | Path, *, title: str, label: str) -> None:
    """Draw the image with its cells in colours, or the frames of a video above their values."""
    draw = _draw_video if attribution.grid is None else _draw_image
    draw(attribution, path, title=title, label=label)


def _draw_image(attribution: Attribution, path: str | Path, *, title: str, label: str) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    pixels, values = np.asarray(attribution.pictures), _cells(attribution)
    bound = float(np.abs(values).max(initial=0.0)) or 1.0
    figure = Figure(figsize=(6.6, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, picture in ((left, pixels), (right, _shaded(pixels, values))):
        axes.imshow(picture, interpolation="nearest")
        axes.axis("off")
    bar: Any = figure.colorbar(
        ScalarMappable(Normalize(-bound, bound), diverging_colours()), ax=right, pad=0.02, fraction=0.05
    )
    _label(bar, label)
    save_figure(figure, path, title=title)


def _draw_video(attribution: Attribution, path: str | Path, *, title: str, label: str) -> None:
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    parts, sums = _frame_sums(attribution)
    bound = float(np.abs(sums).max(initial=0.0)) or 1.0
    figure = Figure(figsize=(max(0.55 * len(parts) + 1.6, 5.0), 1.8), layout="constrained")
    strip, heat = figure.subplots(2, 1, sharex=True, height_ratios=(0.55, 0.25))
    draw_strip(strip, np.asarray(attribution.pictures), parts)
    colours = heat.imshow(
        sums[np.newaxis],
        aspect="auto",
        cmap=diverging_colours(),
        norm=Normalize(-bound, bound),
        interpolation="nearest",
    )
    heat.set_yticks([])
    heat.set_xticks(range(len(parts)), part_names(parts), fontsize=7.5)
    heat.set_xlabel("frame", fontsize=9)
    heat.tick_params(length=0)
    _label(figure.colorbar(colours, ax=[strip, heat], pad=0.01, fraction=0.03), label)
    save_figure(figure, path, title=title)


def _label(bar: Any, label: str) -> None:
    bar.set_label(label.replace(" to ", "\nto ", 1), fontsize=8, color=SLATE)
    bar.ax.tick_params(labelsize=7.5, colors=SLATE)


def _cells(attribution: Attribution) -> NDArray[np.float64]:  # (rows, columns)
    if attribution.grid is None:
        raise ValueError("the attribution is not one of an image")
    return np.array(attribution.values).reshape(attribution.grid)


def _frame_sums(attribution: Attribution) -> tuple[list[range], NDArray[np.float64]]:
    """The frames that share a picture, and the sum of their values."""
    parts = frame_parts(len(attribution.values))
    return parts, np.add.reduceat(np.array(attribution.values), [part.start for part in parts])


def _shaded(pixels: NDArray[Any], values: NDArray[np.float64]) -> NDArray[np.float64]:  # (H, W, 3), from 0 to 1
    """An image in grey, with blue over the cells that raise the score, and orange over those that lower it."""
    height, width = pixels.shape[:2]
    rows = np.arange(height) * values.shape[0] // height
    columns = np.arange(width) * values.shape[1] // width
    spread = values[rows][:, columns, np.newaxis] / (float(np.abs(values).max(initial=0.0)) or 1.0)
    grey = 0.3 + 0.65 * pixels.mean(axis=2, keepdims=True) / 255
    colour = np.where(spread >= 0, _rgb(BLUE), _rgb(ORANGE))
    opacity = STRENGTH * np.abs(spread)
    shaded: NDArray[np.float64] = (1 - opacity) * grey + opacity * colour
    return shaded


def _rgb(colour: str) -> NDArray[np.float64]:  # (3,), from 0 to 1
    """A colour such as ``#1f6fb4``."""
    return np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255
