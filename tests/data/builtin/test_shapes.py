"""Captions describe the generated images, and no caption is in two splits."""

from pathlib import Path

import numpy as np
import pytest

from seqloom.data.builtin.datasets import shapes
from seqloom.data.builtin.shapes import COLOURS, FORMS, SIZE, Scene, draw, scenes
from seqloom.data.readers.captioned_signals import CaptionedSignalReader
from seqloom.data.readers.media import MediaDecoder
from seqloom.data.readers.media_lists import MediaFiles


def measure(scene: Scene, brightness: int) -> list[tuple[str, str, float, float]]:
    """Colour, form and position of the shapes, recognised from the pixels."""
    pixels = np.array(draw(scene, brightness)).astype(int)
    actual = []
    for name, colour in COLOURS.items():
        rows, columns = np.nonzero(abs(pixels - colour).max(axis=2) == 0)
        if not len(rows):
            continue
        for half in _parts(np.stack([rows, columns], axis=1)):
            height, width = half.max(axis=0) - half.min(axis=0) + 1
            filled = len(half) / (
                height * width
            )  # of a circle π / 4, of a triangle half, of a cross five of nine parts
            lowest = (half[:, 0] > half[:, 0].max() - 3).mean() > 0.15  # only a triangle stands on a broad base
            form = "circle" if filled > 0.68 else "triangle" if lowest else "cross"
            actual.append((name, form, half[:, 1].mean(), half[:, 0].mean()))
    return actual


def _parts(points: np.ndarray) -> list[np.ndarray]:
    """Group adjacent points."""
    left = {tuple(point) for point in points.tolist()}
    parts = []
    while left:
        waiting, part = [left.pop()], []
        while waiting:
            row, column = waiting.pop()
            part.append((row, column))
            around = {(row + down, column + right) for down in (-1, 0, 1) for right in (-1, 0, 1)} & left
            left -= around
            waiting += around
        parts.append(np.array(part))
    return parts


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_captions_describe_the_image(split: str) -> None:
    for scene, brightness in scenes(25, split, seed=3):
        for caption in scene.captions:
            words = caption.replace(" of", "").split()
            shapes_in_image = measure(scene, brightness)
            assert len(shapes_in_image) == 2, caption
            (first,) = [each for each in shapes_in_image if each[:2] == (words[1], words[2])]
            (second,) = [each for each in shapes_in_image if each[:2] == (words[5], words[6])]
            right, down = first[2] - second[2], first[3] - second[3]
            distance = {"above": -down, "over": -down, "left": -right, "beside": -right}[words[3]]
            assert distance > 15, caption
            assert distance > max(abs(right), abs(down)) - 1e-9


def test_captions_are_split_without_overlap() -> None:
    captions = {
        split: {caption for scene, _ in scenes(700, split, seed=1) for caption in scene.captions}
        for split in ("train", "dev", "test")
    }
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        assert not captions[one] & captions[other]
    names = len(COLOURS) * len(FORMS)
    assert sum(map(len, captions.values())) > 0.5 * names * (names - 1) * 4
    words = {word for caption in captions["train"] for word in caption.split()}
    assert words == {"a", "above", "over", "left", "of", "beside", *COLOURS, *FORMS}


def test_files_are_readable(tmp_path: Path) -> None:
    files = shapes(tmp_path)
    pictures = list(CaptionedSignalReader(media=MediaFiles(MediaDecoder(image_size=SIZE))).read(files.dev))
    assert len(pictures) == 150
    ((scene, brightness), *_) = scenes(1, "dev", seed=1)
    assert pictures[0].captions == scene.captions
    assert np.array_equal(pictures[0].content, np.array(draw(scene, brightness)))
