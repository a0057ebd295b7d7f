"""Random changes of images against the same changes in NumPy."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.models.signals.encoders import FrameImages
from seqloom.models.signals.image_augmentation import jitter_colors, shift_images, zoom_images
from seqloom.models.signals.image_encoder import ImageEncoder, ImageEncoderConfig


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
            pixel = image[min(max(y, 0), len(image) - 1), min(max(x, 0), image.shape[1] - 1)]
            color += (1 - abs(row - y)) * (1 - abs(column - x)) * pixel
    return color


def test_zoomed_images_show_a_part_that_lies_within_them() -> None:
    """On a ramp, colors tell the place they are from, so that the part can be read off and drawn again."""
    torch.manual_seed(4)
    height, width = 9, 13
    values = torch.randn(100, height, width, 3, dtype=torch.float64)
    values[..., 0] = torch.arange(height, dtype=torch.float64).view(-1, 1)
    values[..., 1] = torch.arange(width, dtype=torch.float64)
    scales, places = [], []
    for image, result in zip(values.numpy(), zoom_images(values, 1.0).numpy(), strict=True):
        row, column = result[4, 6, 0], result[4, 6, 1]  # away from the edges
        step = result[5, 6, 0] - row
        np.testing.assert_allclose(result[4, 7, 1] - column, step, atol=1e-6)  # proportions are kept
        room = (1 - step) / 2 * np.array([height, width])  # that the part has on each side, in pixels
        place = np.array([row - 4, column - 6]) / room
        assert (np.abs(place) <= 1 + 1e-4).all()
        scales.append(step)
        places.append(place)
        drawn = [
            [interpolated(image, row + (i - 4) * step, column + (j - 6) * step) for j in range(width)]
            for i in range(height)
        ]
        np.testing.assert_allclose(result, drawn, atol=1e-5)
    assert 0.5 <= min(scales) < 0.55
    assert 0.95 < max(scales) <= 1.0
    assert (np.min(places, axis=0) < -0.9).all()
    assert (np.max(places, axis=0) > 0.9).all()
    assert abs(np.corrcoef(np.transpose(places))[0, 1]) < 0.3
    np.testing.assert_allclose(zoom_images(values, 0.0), values, atol=1e-6)


def test_colors_change_by_channel() -> None:
    torch.manual_seed(5)
    values, most = random_images(300, 4), 0.4
    changes = np.empty((300, 3, 2))
    for index, (image, result) in enumerate(zip(values.numpy(), jitter_colors(values, most).numpy(), strict=True)):
        for channel in range(3):
            x, y = image[..., channel].ravel(), result[..., channel].ravel()
            factor, offset = np.polyfit(x, y, 1)
            np.testing.assert_allclose(factor * x + offset, y)
            changes[index, channel] = factor - 1, offset
    flat = changes.reshape(300, 6)
    assert (np.abs(flat) <= most).all()
    assert (flat.min(axis=0) < -0.9 * most).all()
    assert (flat.max(axis=0) > 0.9 * most).all()
    correlations = np.corrcoef(flat, rowvar=False) - np.eye(6)
    assert np.abs(correlations).max() < 0.25  # of channels, and of contrast and brightness


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_frames_of_a_video_change_alike(dtype: torch.dtype) -> None:
    torch.manual_seed(6)
    still = torch.randn(20, 1, 6, 5, 3).expand(-1, 4, -1, -1, -1).to(dtype)  # four equal frames each
    images = still.flatten(0, 1)
    for result in (
        shift_images(images, mirror=True, shift=2, frames=4),
        zoom_images(images, 0.5, frames=4),
        jitter_colors(images, 0.5, frames=4),
    ):
        changed = result.view_as(still)
        assert changed.dtype == dtype
        assert torch.equal(changed, changed[:, :1].expand_as(changed))
        assert not torch.equal(changed, still)


def test_frames_of_a_video_change_alike_in_its_encoder() -> None:
    torch.manual_seed(7)
    config = ImageEncoderConfig(
        layers=1, channels=2, random_flip=True, random_shift=1, random_zoom=0.5, color_jitter=0.5
    )
    encoder = FrameImages(ImageEncoder(config, 6)).train()
    vectors = encoder(torch.randn(5, 1, 6, 6, 3).expand(-1, 3, -1, -1, -1))
    torch.testing.assert_close(vectors, vectors[:, :1].expand_as(vectors))
    assert encoder(torch.zeros(2, 0, 6, 6, 3)).shape == (2, 0, 2)
