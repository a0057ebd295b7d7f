"""Lines of digits show their text, and no image is in two splits."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seqloom.data.builtin.datasets import handwriting
from seqloom.data.builtin.digit_lines import HEIGHT, MAX_GAP, SPLITS, digit_images, draw


def _read(pixels: np.ndarray, images: np.ndarray, names: np.ndarray) -> str | None:
    """The digits of a line, recognised by matching every image of a split from the left."""
    actual, at = "", 0
    while at + 8 <= pixels.shape[1]:
        window = pixels[:, at : at + 8]
        for above in range(HEIGHT - 7):
            piece = window[above : above + 8]
            same = (images == piece).all(axis=(1, 2))
            if same.any() and not window[:above].any() and not window[above + 8 :].any():
                actual, at = actual + str(names[same.argmax()]), at + 8
                break
        else:
            at += 1
    return actual


@pytest.mark.parametrize("part", SPLITS)
def test_line_shows_its_digits(part: str) -> None:
    images, names = digit_images()
    own = slice(*(round(bound * len(images)) for bound in SPLITS[part]))
    scaled = (images * (255 / 16)).astype(np.uint8)
    for line in draw(10, part, seed=3):
        assert _read(line.pixels, scaled[own], names[own]) == line.text
        assert 3 <= len(line.text) <= 8
        assert 8 * len(line.text) <= line.pixels.shape[1] <= (8 + MAX_GAP) * len(line.text)


def test_splits_are_disjoint() -> None:
    assert all(last == first for (_, last), (first, _) in pairwise(SPLITS.values()))


def test_files(tmp_path: Path) -> None:
    files = handwriting(tmp_path)
    rows = [row.split("\t") for row in files.test.read_text().splitlines()]
    assert len(rows) == 500
    for (name, text), line in zip(rows[:20], draw(20, "test", seed=1), strict=True):
        assert text == line.text
        assert (np.array(Image.open(tmp_path / name)) == line.pixels).all()
    assert files.train.read_text().split("\t", maxsplit=1)[0] == "lines/train-0000.png"
