"""The frames of a video in a row, with the attention that they receive: a plot, and pictures for HTML."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.insight.plotting import FRAME, SLATE, escape_dollars, save_figure
from seqloom.insight.token_names import show_whitespace

MAX_FRAMES = 24  # in a row; of more, several share a picture
WIDTH = 0.55  # inches of a frame
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOUR_TYPES = {3: 2, 4: 6}  # of a PNG file by the number of channels; the fourth is the opacity


def draw_frame_attention(
    frames: ArrayLike,  # (T, H, W, 3), integers up to 255
    weights: ArrayLike,  # (words, T)
    words: Sequence[str],
    path: str | Path,
    *,
    title: str = "",
) -> None:
    """Draw the frames in a row, and below each of them how much each word attends to it."""
    from matplotlib.figure import Figure

    pixels, values = np.asarray(frames), np.asarray(weights, dtype=np.float64)
    if values.shape != (len(words), len(pixels)):
        raise ValueError(f"weights has shape {values.shape}, expected {(len(words), len(pixels))}: words and frames")
    if not values.size:
        raise ValueError("there is nothing to draw: no words or no frames")
    parts = frame_parts(len(pixels))
    sums = np.add.reduceat(values, [part.start for part in parts], axis=1)
    left = 0.09 * max(len(show_whitespace(word)) for word in words) + 0.3
    rows = 0.24 * len(words)
    height = WIDTH + rows + 0.75 + (0.3 if title else 0)
    figure = Figure(figsize=(max(WIDTH * len(parts) + left + 0.9, 4.0), height), layout="constrained")
    strip, heat = figure.subplots(2, 1, sharex=True, height_ratios=(WIDTH, rows))
    draw_strip(strip, pixels, parts)
    image = heat.imshow(sums, aspect="auto", vmin=0, vmax=sums.max() or 1.0, cmap="Blues", interpolation="nearest")
    names = [escape_dollars(show_whitespace(word)) for word in words]
    heat.set_yticks(range(len(words)), names, fontsize=9)
    heat.set_xticks(range(len(parts)), part_names(parts), fontsize=7.5)
    heat.set_xlabel("frame", fontsize=9)
    heat.tick_params(length=0)
    bar: Any = figure.colorbar(image, ax=heat, fraction=0.03, pad=0.01)
    bar.set_label("attention weight", color=SLATE, fontsize=8)
    bar.ax.tick_params(labelsize=7.5, colors=SLATE, length=2)
    bar.outline.set_edgecolor(FRAME)
    save_figure(figure, path, title=title)


def draw_strip(axes: Any, frames: NDArray[Any], parts: Sequence[range]) -> None:
    """The middle frame of each part, at its place in the row."""
    for place, part in enumerate(parts):
        axes.imshow(middle_frame(frames, part), extent=(place - 0.46, place + 0.46, 0, 1), interpolation="nearest")
    axes.set_xlim(-0.5, len(parts) - 0.5)
    axes.set_ylim(0, 1)
    axes.set_aspect("auto")
    axes.tick_params(labelbottom=False, labelleft=False, length=0)
    axes.set_facecolor("none")
    for side in axes.spines.values():
        side.set_visible(False)


def frame_parts(count: int) -> list[range]:
    """The frames that share a picture: each alone, or equal parts if there are many."""
    size = math.ceil(count / MAX_FRAMES)
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def part_names(parts: Sequence[range]) -> list[str]:
    """The numbers of the frames, from 1."""
    return [str(part.start + 1) if len(part) == 1 else f"{part.start + 1}–{part.stop}" for part in parts]


def middle_frame(frames: NDArray[Any], part: range) -> NDArray[Any]:
    picture: NDArray[Any] = frames[part[len(part) // 2]]
    return picture


def png_address(pixels: NDArray[Any]) -> str:  # (H, W, 3), or (H, W, 4) with opacity, of uint8
    """A picture as the address of an ``<img>``, which needs no other file."""
    height, width, channels = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1).astype(np.uint8)], axis=1)
    parts = (
        (b"IHDR", struct.pack(">II5B", width, height, 8, COLOUR_TYPES[channels], 0, 0, 0)),  # bits, type, filter, …
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return "data:image/png;base64," + base64.b64encode(PNG_SIGNATURE + b"".join(chunks)).decode()
