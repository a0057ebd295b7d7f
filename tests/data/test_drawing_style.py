"""The ground and the pen of drawings."""

from types import SimpleNamespace

import numpy as np
import pytest

from seqloom.data.drawing_style import ink, pen_size, polarity_warning


def test_the_size_of_a_drawing_is_that_of_the_examples() -> None:
    # Two strokes: up by 3 and 4 to the right (length 5), a jump without ink, then down by 5.
    pen = np.array([[0, 0, 0], [4, 3, 1], [50, 0, 0], [0, -5, 1]], float)
    assert pen_size([SimpleNamespace(values=pen, name="")]) == {"height": 5.0, "step": 5.0}
    assert pen_size([SimpleNamespace(values=np.eye(3), name="")]) is None
    assert pen_size([]) is None


def test_the_ground_and_the_pen_of_drawings_are_those_of_the_images() -> None:
    image = np.zeros((40, 60), np.float32)
    image[10:30, 20:24] = 1  # a line of a tenth of the height
    light_on_dark = [SimpleNamespace(values=image.T, name="a.png"), SimpleNamespace(content=image[:, :, None], rate=0)]
    for example in light_on_dark:
        measured = ink([example]) or {}
        assert measured["dark"]
        assert measured["width"] == pytest.approx(0.1, abs=0.015)
    dark_on_light = ink([SimpleNamespace(values=1 - image.T, name="a.png")]) or {}
    assert not dark_on_light["dark"]
    assert dark_on_light["width"] == pytest.approx(0.1, abs=0.015)
    assert ink([SimpleNamespace(values=np.ones((5, 4)), name="a.npy")]) is None


def test_an_image_of_the_other_polarity_is_noticed() -> None:
    def example(image: np.ndarray) -> SimpleNamespace:
        return SimpleNamespace(content=image[:, :, None].astype(np.float32), rate=0)

    image = np.zeros((40, 60))
    image[10:30, 20:24] = 1
    light_on_dark, dark_on_light = example(image), example(1 - image)
    digits = [light_on_dark] * 20
    assert polarity_warning(light_on_dark, digits) == ""
    assert polarity_warning(dark_on_light, digits).startswith(
        "this image is dark on light, and the dev data are light on dark"
    )
    assert polarity_warning(light_on_dark, [dark_on_light] * 20).startswith("this image is light on dark")
    assert polarity_warning(example(np.full((40, 60), 0.5)), digits) == ""  # grey
    assert polarity_warning(dark_on_light, [*digits, *[dark_on_light] * 2]) == ""  # the model knows both
    assert polarity_warning(dark_on_light, []) == ""
    assert polarity_warning(SimpleNamespace(text="a"), digits) == ""
