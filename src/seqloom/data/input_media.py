"""What a model reads where that is no text: pictures, sound, music and vectors, as numbers for a browser."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers import pixels
from seqloom.data.readers.music import Piece

MAX_FRAMES = 32  # of a video
MAX_STEPS = 4000  # of vectors or music
MAX_SECONDS = 60  # of sound
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
        return {"kind": "video", "shape": list(frames.shape), "of": len(values)}, pixel_levels(frames)
    if values.ndim == 3:
        return {"kind": "image", "shape": list(values.shape)}, pixel_levels(values)
    steps = values[:MAX_STEPS]
    # Columns of pixels are bytes or numbers from 0 to 1; anything else is scaled by its own range.
    kind = "strokes" if is_pen else "line" if is_line else "vectors"
    return {"kind": kind, "shape": list(steps.shape), "of": len(values)}, steps.astype(np.float32)


def pixel_levels(pixels: Values) -> Values:
    """Pixels from 0 to 1."""
    scale = 255.0 if pixels.dtype == np.uint8 or float(pixels.max()) > 1 else 1.0
    return (pixels / scale).astype(np.float32)
