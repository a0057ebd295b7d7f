"""Small pictures of inputs that are no text, for lists of examples: a PNG file without any library."""

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.input_media import MAX_CURVES, input_media

HEIGHT = 56  # pixels; the pages show half of it, sharp on dense screens
WIDTH = 224  # at most
VIDEO_FRAMES = 4
MAX_SAMPLES = 20_000  # of a sound or a series that are drawn
INK = (58, 134, 200)  # can be read on light and on dark pages

Mask = NDArray[np.float32]  # (H, W), from 0 to 1: how much ink


def thumbnail(example: Any) -> bytes | None:
    """A PNG file of an input; None if there is nothing to draw."""
    for facts, values in input_media(example, None, None):
        numbers = np.asarray(values, dtype=np.float32)
        if not numbers.size:
            continue
        if facts["kind"] in ("image", "video"):
            return png(_picture(numbers, is_video=facts["kind"] == "video"))
        return png(_inked(_mask(facts["kind"], numbers)))
    return None


def png(pixels: NDArray[np.uint8]) -> bytes:  # (H, W, 3 or 4)
    """Pixels as a PNG file (ISO/IEC 15948)."""
    height, width, channels = pixels.shape

    def chunk(name: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    rows = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))  # each row begins with its filter: none
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes())) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + content


def _picture(pixels: Mask, *, is_video: bool) -> NDArray[np.uint8]:
    """An image (H, W, C), or some frames of a video (T, H, W, C) side by side."""
    if is_video:
        chosen = np.linspace(0, len(pixels) - 1, min(VIDEO_FRAMES, len(pixels))).round().astype(int)
        pixels = np.concatenate(list(pixels[chosen]), axis=1)
    height, width = pixels.shape[:2]
    scale = min(HEIGHT / height, WIDTH / width)
    shrunk = pixels[_nearest(height, max(1, round(height * scale)))][:, _nearest(width, max(1, round(width * scale)))]
    colours = shrunk if shrunk.shape[2] == 3 else np.repeat(shrunk[..., :1], 3, axis=2)
    return (255 * colours.clip(0, 1)).round().astype(np.uint8)


def _nearest(size: int, count: int) -> NDArray[np.int64]:
    """The indices of ``count`` of ``size`` elements, evenly spaced."""
    return ((np.arange(count) + 0.5) * size / count).astype(np.int64).clip(0, size - 1)


def _inked(mask: Mask) -> NDArray[np.uint8]:
    colour = np.broadcast_to(np.array(INK, dtype=np.uint8), (*mask.shape, 3))
    return np.concatenate([colour, (255 * mask.clip(0, 1)).round().astype(np.uint8)[..., None]], axis=2)


def _mask(kind: str, values: Mask) -> Mask:
    if kind == "sound":
        return _waveform(values)
    if kind == "strokes":
        return _strokes(values)
    if kind == "music":
        used = np.flatnonzero(values.any(axis=0))
        low, high = (used[0], used[-1] + 1) if used.size else (0, values.shape[1])
        return _grid(values[:, low:high].T[::-1])
    if values.shape[1] <= MAX_CURVES:
        return _curves(values)
    return _grid(values.T)


def _grid(values: Mask) -> Mask:  # (D, T)
    """Time from left to right; the lowest value is empty, the highest full."""
    low, high = float(values.min()), float(values.max())
    shares = (values - low) / (high - low or 1.0)
    rows, columns = shares.shape
    zoom = max(1, min(HEIGHT // rows, WIDTH // columns))
    height, width = min(HEIGHT, rows * zoom), min(WIDTH, columns * zoom)
    return shares[_nearest(rows, height)][:, _nearest(columns, width)].astype(np.float32)


def _waveform(samples: Mask) -> Mask:
    mask = np.zeros((HEIGHT, WIDTH), dtype=np.float32)
    middle = (HEIGHT - 1) / 2
    for column, part in enumerate(np.array_split(samples, WIDTH)):
        if part.size:
            top, bottom = (round(float(middle * (1 - end))) for end in (part.max(), part.min()))
            mask[max(0, top) : bottom + 1, column] = 1
    return mask


def _strokes(values: Mask) -> Mask:  # (T, 3): dx, dy upwards, whether the pen is lifted
    x, y = np.cumsum(values[:, 0]), -np.cumsum(values[:, 1])
    down = np.concatenate([[False], values[:-1, 2] == 0])  # a line leads to the point
    return _lines(x, y, down, width=min(WIDTH, max(HEIGHT, round(HEIGHT * float(np.ptp(x)) / (float(np.ptp(y)) or 1)))))


def _curves(values: Mask) -> Mask:
    steps = values[_nearest(len(values), min(len(values), MAX_SAMPLES))]
    x = np.tile(np.arange(len(steps), dtype=np.float32), steps.shape[1])
    down = np.tile(np.arange(len(steps)) > 0, steps.shape[1])
    return _lines(x, -steps.T.reshape(-1), down, width=HEIGHT * 2, stretched=True)


def _lines(x: Mask, y: Mask, down: NDArray[np.bool_], *, width: int, stretched: bool = False) -> Mask:
    """Lines between points of a plane, two pixels wide; x and y get the same scale unless they are stretched."""
    margin = 2
    spans = float(np.ptp(x)) or 1.0, float(np.ptp(y)) or 1.0
    sizes = width - 2 * margin - 1, HEIGHT - 2 * margin - 1
    scales = [size / span for size, span in zip(sizes, spans, strict=True)]
    scales = scales if stretched else [min(scales)] * 2
    columns, rows = margin + (x - x.min()) * scales[0], margin + (y - y.min()) * scales[1]
    mask = np.zeros((HEIGHT, width), dtype=np.float32)
    for index in range(len(x)):
        start = index - 1 if down[index] else index
        count = 1 + int(max(abs(columns[index] - columns[start]), abs(rows[index] - rows[start])))
        across = np.linspace(columns[start], columns[index], count + 1).round().astype(int).clip(0, width - 2)
        along = np.linspace(rows[start], rows[index], count + 1).round().astype(int).clip(0, HEIGHT - 2)
        for right, below in ((0, 0), (1, 0), (0, 1), (1, 1)):
            mask[along + below, across + right] = 1
    return mask
