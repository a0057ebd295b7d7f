"""Small pictures of inputs, read back with Pillow."""

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from seqloom.studio.thumbnails import HEIGHT, INK, WIDTH, png, thumbnail


def pixels(example: Any) -> np.ndarray[Any, Any]:
    content = thumbnail(example)
    assert content is not None
    return np.asarray(Image.open(io.BytesIO(content)))


def test_a_png_file_has_the_pixels_that_were_given() -> None:
    for channels in (3, 4):
        given = np.random.default_rng(1).integers(0, 256, (5, 7, channels), dtype=np.uint8)
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(png(given)))), given)


def test_an_image_keeps_its_colours_and_its_proportions() -> None:
    image = np.zeros((10, 20, 3), np.uint8)
    image[:, 10:] = (250, 120, 0)
    small = pixels(SimpleNamespace(content=image))
    assert small.shape == (HEIGHT, 2 * HEIGHT, 3)
    np.testing.assert_array_equal(small[:, : HEIGHT - 1], 0)
    np.testing.assert_array_equal(small[HEIGHT // 2, -1], (250, 120, 0))


def test_vectors_are_drawn_with_time_from_left_to_right() -> None:
    values = np.zeros((4, 7), np.float32)
    values[3, 0] = 2.0  # the last step, its first value: at the top right
    small = pixels(SimpleNamespace(values=values))
    ink = small[..., 3]
    assert ink[0, -1] == 255
    assert ink[-1, -1] == ink[0, 0] == 0
    np.testing.assert_array_equal(small[0, -1, :3], INK)


def test_a_pen_line_to_the_right_is_a_row_of_ink() -> None:
    strokes = np.array([[0, 0, 0], [4, 0, 0], [0.5, 4, 1]], np.float32)  # right, then up
    ink = pixels(SimpleNamespace(values=strokes))[..., 3] > 0
    assert ink[-3:].any(axis=0).sum() > 0.7 * ink.any(axis=0).sum()  # the line lies at the bottom
    assert ink[:5].any()


@pytest.mark.parametrize("steps", [1, 3, 100_000])
def test_sound_and_series_of_any_length_fit(steps: int) -> None:
    wave = np.sin(np.arange(steps)).astype(np.float32)
    assert pixels(SimpleNamespace(values=wave, rate=100)).shape == (HEIGHT, WIDTH, 4)
    assert pixels(SimpleNamespace(history=wave[:, None])).shape[0] == HEIGHT
    assert thumbnail(SimpleNamespace(text="a text")) is None
