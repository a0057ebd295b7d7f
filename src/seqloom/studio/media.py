"""What a model reads where that is no text: pictures, sound, music and vectors, as numbers for the browser."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers import pixels
from seqloom.data.readers.music import Piece

MAX_FRAMES = 32  # of a video
MAX_STEPS = 4000  # of vectors or music
MAX_SECONDS = 60  # of sound
MEASURED = 100  # examples, for the size of pen strokes
DARK = 0.5  # brightness below which a background is dark
THINNEST, THICKEST = 0.02, 0.15  # pen of a drawing, relative to the height of an image
MAX_CURVES = 4  # channels of a series that are drawn as curves, also by the pages

Values = NDArray[Any]


def input_media(example: Any, image: Values | None, signal: Values | None) -> list[tuple[dict[str, Any], Values]]:
    """The input of an example: what it is, and its numbers; of a sound, also its spectrogram.

    ``image`` and ``signal`` are those of an explanation.
    """
    media: list[tuple[dict[str, Any], Values]] = []
    if isinstance(example, Piece):
        frames = example.frames[:MAX_STEPS]
        return [({"kind": "music", "shape": list(frames.shape), "of": len(example)}, frames)]
    rate = int(getattr(example, "rate", 0) or 0)
    content = next(
        (getattr(example, name) for name in ("content", "values", "history") if hasattr(example, name)), None
    )
    if rate and isinstance(content, np.ndarray) and content.ndim == 1:
        samples = content[: MAX_SECONDS * rate].astype(np.float32)
        peak = float(np.abs(samples).max()) if samples.size else 0.0
        media.append(({"kind": "sound", "rate": rate, "shape": [len(samples)]}, samples / (peak or 1.0)))
    for values in (image, signal, content):
        if isinstance(values, np.ndarray) and values.ndim in (2, 3, 4) and values.size:
            facts, shown = _visible(values, is_pen=_is_pen(values), is_line=_is_line(example))
            if media and facts["kind"] == "vectors":
                facts["kind"] = "spectrogram"
            media.append((facts, shown))
            break
    return media


def input_kind(example: Any) -> str:
    """What an example is: sound, music, image, line (an image of text), video, strokes or vectors; empty: unknown."""
    kinds = [facts["kind"] for facts, _ in input_media(example, None, None)]
    return kinds[0] if kinds else ""


def _is_line(example: Any) -> bool:
    """Whether vectors are the columns of an image of text."""
    return str(getattr(example, "name", "")).lower().endswith(pixels.SUFFIXES)


def pen_size(examples: Sequence[Any]) -> dict[str, float] | None:
    """The height of a drawing and the length of a movement on paper, medians of examples; None: no pen strokes.

    A drawing on the page gets this size and this spacing of points, to resemble what the model was trained on.
    """
    heights, steps = [], []
    for example in examples[:MEASURED]:
        for facts, values in input_media(example, None, None):
            if facts["kind"] == "strokes":
                y = np.cumsum(values[:, 1])
                heights.append(float(np.ptp(y)))
                drawn = values[1:][values[:-1, 2] == 0]  # movements before which the pen was not lifted
                steps.append(np.hypot(drawn[:, 0], drawn[:, 1]))
    lengths = np.concatenate(steps) if steps else np.zeros(0)
    height, step = float(np.median(heights or [0.0])), float(np.median(lengths[lengths > 0])) if lengths.any() else 0.0
    return {"height": height, "step": step} if height > 0 and step > 0 else None


def ink(examples: Sequence[Any]) -> dict[str, Any] | None:
    """Whether images are light on dark, and how thick their lines are relative to their height; None: no images.

    A drawing on the page gets this ground and this pen, to resemble what the model was trained on.
    """
    grounds, widths = [], []
    for example in examples[:MEASURED]:
        for facts, values in input_media(example, None, None):
            if facts["kind"] not in {"line", "image"}:
                continue
            image = _levels(values).mean(axis=2) if values.ndim == 3 else _levels(values).T
            border = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
            ground = float(np.median(border))
            grounds.append(ground)
            # Twice the area of lines, relative to the length of their edges, which is measured along both axes.
            marks = np.abs(image - ground)
            edges = (np.abs(np.diff(marks, axis=0)).sum() + np.abs(np.diff(marks, axis=1)).sum()) * np.pi / 4
            if edges > 0:
                widths.append(2 * float(marks.sum() / edges) / len(image))
    if not grounds:
        return None
    width = min(THICKEST, max(THINNEST, float(np.median(widths)))) if widths else THINNEST
    return {"dark": float(np.median(grounds)) < DARK, "width": width}


def _is_pen(values: Values) -> bool:
    """Whether vectors are pen strokes: two differences, and whether the pen is lifted, which it is at least once."""
    if values.ndim != 2 or values.shape[1] != 3:
        return False
    lifted = values[:, 2]
    return bool(np.isin(lifted, (0, 1)).all() and lifted[-1] == 1 and not np.isin(values[:, :2], (0, 1)).all())


def _visible(values: Values, *, is_pen: bool, is_line: bool) -> tuple[dict[str, Any], Values]:
    """An image (H, W, 3), a video (T, H, W, 3), or vectors (T, D), which are drawn with time from left to right."""
    if values.ndim == 4:
        frames = values[:: max(1, -(-len(values) // MAX_FRAMES))]
        return {"kind": "video", "shape": list(frames.shape), "of": len(values)}, _levels(frames)
    if values.ndim == 3:
        return {"kind": "image", "shape": list(values.shape)}, _levels(values)
    steps = values[:MAX_STEPS]
    # Columns of pixels are bytes or numbers from 0 to 1; anything else is scaled by its own range.
    kind = "strokes" if is_pen else "line" if is_line else "vectors"
    return {"kind": kind, "shape": list(steps.shape), "of": len(values)}, steps.astype(np.float32)


def _levels(pixels: Values) -> Values:
    """Pixels from 0 to 1."""
    scale = 255.0 if pixels.dtype == np.uint8 or float(pixels.max()) > 1 else 1.0
    return (pixels / scale).astype(np.float32)
