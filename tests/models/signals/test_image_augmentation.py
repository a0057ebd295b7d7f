"""Random changes of images against the same changes in NumPy."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.models.signals.image_augmentation import jitter_colors, shift_images, zoom_images


def random_images(count: int, size: int) -> Tensor:
    return torch.randn(count, size, size, 3, dtype=torch.float64)


def test_images_are_shifted_and_mirrored_independently() -> None:
    torch.manual_seed(3)
    values = random_images(200, 5)
    seen = set()
    for image, result in zip(values.numpy(), shift_images(values, mirror=True, shift=1).numpy(), strict=True):
        ways = {}
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                padded = np.pad(image, ((1, 1), (1, 1), (0, 0)), mode="edge")
                shifted = padded[1 + down : 6 + down, 1 + right : 6 + right]
                ways[down, right, False] = shifted
                ways[down, right, True] = shifted[:, ::-1]
        (way,) = [way for way, expected in ways.items() if np.array_equal(expected, result)]
        seen.add(way)
    assert len(seen) == 18
    assert torch.equal(shift_images(values, mirror=False, shift=0), values)


def interpolated(image: NDArray[np.float64], row: float, column: float) -> NDArray[np.float64]:
    """The color at a place between four pixels, whose centers are integers; edges are repeated."""
    top, left = int(np.floor(row)), int(np.floor(column))
    color = np.zeros(3)
    for y in (top, top + 1):
        for x in (left, left + 1):
            pixel = image[min(max(y, 0), len(image) - 1), min(max(x, 0), len(image) - 1)]
            color += (1 - abs(row - y)) * (1 - abs(column - x)) * pixel
    return color


def test_zoomed_images_show_a_part_that_lies_within_them() -> None:
    """On a ramp, colors tell the place they are from, so that the part can be read off and drawn again."""
    torch.manual_seed(4)
    size, most = 9, 1.0
    ramp = torch.arange(size, dtype=torch.float64)
    values = random_images(50, size)
    values[..., 0], values[..., 1] = ramp.view(-1, 1), ramp
    shares = []
    for image, result in zip(values.numpy(), zoom_images(values, most).numpy(), strict=True):
        middle = result[3:6, 3:6]  # away from the edges, where the ramp ends
        step_down, step_right = middle[1, 1, 0] - middle[0, 1, 0], middle[1, 1, 1] - middle[1, 0, 1]
        np.testing.assert_allclose(step_down, step_right)  # proportions are kept
        shares.append(step_down)
        first_row, first_column = middle[0, 0, 0] - 3 * step_down, middle[0, 0, 1] - 3 * step_right
        for start in (first_row, first_column):  # the part begins half a step before the center of its first pixel
            assert start - step_down / 2 >= -0.5 - 1e-9
            assert start + (size - 0.5) * step_down <= size - 0.5 + 1e-9
        expected = [
            [interpolated(image, first_row + i * step_down, first_column + j * step_right) for j in range(size)]
            for i in range(size)
        ]
        np.testing.assert_allclose(result, expected, atol=1e-9)
    assert 0.5 <= min(shares) < 0.55
    assert 0.9 < max(shares) <= 1.0
    np.testing.assert_allclose(zoom_images(values, 0.0), values, atol=1e-12)


def test_colors_change_by_channel() -> None:
    torch.manual_seed(5)
    values, most = random_images(300, 4), 0.4
    factors, offsets = [], []
    for image, result in zip(values.numpy(), jitter_colors(values, most).numpy(), strict=True):
        for channel in range(3):
            x, y = image[..., channel].ravel(), result[..., channel].ravel()
            factor, offset = np.polyfit(x, y, 1)
            np.testing.assert_allclose(factor * x + offset, y)
            factors.append(factor)
            offsets.append(offset)
    for found, center in ((factors, 1), (offsets, 0)):
        assert center - most <= min(found) < center - 0.9 * most
        assert center + 0.9 * most < max(found) <= center + most
    assert abs(np.corrcoef(factors, offsets)[0, 1]) < 0.2
