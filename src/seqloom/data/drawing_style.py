"""How to draw so that a drawing resembles what a model was trained on: the ground and the pen of its examples."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.input_media import input_media, pixel_levels

MEASURED = 100  # examples
DARK = 0.5  # brightness below which a background is dark
CLEARLY_DARK, CLEARLY_LIGHT = 0.35, 0.65  # brightness of a background that is certain
RARE = 0.05  # share of examples with such a background, up to which it is unusual
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


def _images(example: Any) -> Iterator[NDArray[Any]]:
    """The brightness of the pixels of an input, (H, W), from 0 to 1; none if it is no image."""
    for facts, values in input_media(example, None, None):
        if facts["kind"] in {"line", "image"}:
            yield pixel_levels(values).mean(axis=2) if values.ndim == 3 else pixel_levels(values).T


def _ground(image: NDArray[Any]) -> float:
    """The brightness of the background: the median of the border."""
    return float(np.median(np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])))


def polarity_warning(example: Any, examples: Sequence[Any]) -> str:
    """What is wrong with an image whose background is light where that of the examples is dark, or the reverse.

    Empty: nothing is wrong, or the examples have backgrounds of both kinds, as photos have.
    """
    grounds = [_ground(image) for image in _images(example)]
    known = [_ground(image) for each in examples[:MEASURED] for image in _images(each)] if grounds else []
    if not known or CLEARLY_DARK <= grounds[0] <= CLEARLY_LIGHT:
        return ""
    is_dark = grounds[0] < CLEARLY_DARK
    same = sum((ground < DARK) == is_dark for ground in known)
    if same > RARE * len(known):
        return ""
    own, usual = ("light on dark", "dark on light")[:: 1 if is_dark else -1]
    return (
        f"this image is {own}, and the dev data are {usual}: the model knows no such images, so that its answer may be "
        "wrong although it is confident; invert the colours"
    )


def ink(examples: Sequence[Any]) -> dict[str, Any] | None:
    """Whether images are light on dark, and how thick their lines are relative to their height; None: no images.

    A drawing on a page gets this ground and this pen, to resemble what the model was trained on.
    """
    grounds, widths = [], []
    for example in examples[:MEASURED]:
        for image in _images(example):
            ground = _ground(image)
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
