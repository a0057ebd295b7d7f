"""How to draw so that a drawing resembles what a model was trained on: the ground and the pen of its examples."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom.data.input_media import input_media, pixel_levels

MEASURED = 100  # examples
DARK = 0.5  # brightness below which a background is dark
THINNEST, THICKEST = 0.02, 0.15  # pen of a drawing, relative to the height of an image


def drawing_style(examples: Sequence[Any]) -> dict[str, Any]:
    """What a page needs to draw an input: ``pen`` for pen strokes, ``ink`` for images; None where there are none."""
    return {"pen": pen_size(examples), "ink": ink(examples)}


def pen_size(examples: Sequence[Any]) -> dict[str, float] | None:
    """The height of a drawing and the length of a movement on paper, medians of examples; None: no pen strokes.

    A drawing on a page gets this size and this spacing of points, to resemble what the model was trained on.
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

    A drawing on a page gets this ground and this pen, to resemble what the model was trained on.
    """
    grounds, widths = [], []
    for example in examples[:MEASURED]:
        for facts, values in input_media(example, None, None):
            if facts["kind"] not in {"line", "image"}:
                continue
            image = pixel_levels(values).mean(axis=2) if values.ndim == 3 else pixel_levels(values).T
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
