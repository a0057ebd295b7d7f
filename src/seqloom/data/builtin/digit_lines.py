"""Lines of handwritten digits, composed of the digit images of scikit-learn; needs scikit-learn and Pillow."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom import files

HEIGHT = 12  # height of a line in pixels; a digit has 8
MIN_DIGITS, MAX_DIGITS = 3, 8  # per line
MAX_GAP = 3  # pixels between two digits
SPLITS = {"train": (0.0, 0.7), "dev": (0.7, 0.8), "test": (0.8, 1.0)}
"""Range of the images of each split; images are ordered by their 13 anonymous writers, so most are in one split."""


class DigitLine(NamedTuple):
    """The image of a line of digits and its text."""

    pixels: NDArray[np.uint8]  # (HEIGHT, W), white on black
    text: str


def draw(count: int, split: str, *, seed: int) -> Iterator[DigitLine]:
    """Random lines of digits of a split."""
    images, labels = digit_images()
    first, last = (round(bound * len(images)) for bound in SPLITS[split])
    random = np.random.default_rng([seed, list(SPLITS).index(split)])
    for _ in range(count):
        chosen = random.integers(first, last, size=random.integers(MIN_DIGITS, MAX_DIGITS + 1))
        columns = []
        for index in chosen:
            image = images[index]  # (8, 8), from 0 to 16
            above = int(random.integers(HEIGHT - len(image) + 1))
            columns.append(
                np.pad(image, ((above, HEIGHT - len(image) - above), (0, int(random.integers(MAX_GAP + 1)))))
            )
        pixels = (np.concatenate(columns, axis=1) * (255 / 16)).astype(np.uint8)
        yield DigitLine(pixels, "".join(str(labels[index]) for index in chosen))


def write_split(folder: Path, count: int, split: str, *, seed: int) -> list[str]:
    """Write the images of a split to ``folder/lines``; returns rows of file name and text."""
    from PIL import Image

    (folder / "lines").mkdir(parents=True, exist_ok=True)
    rows = []
    for number, line in enumerate(draw(count, split, seed=seed)):
        name = f"lines/{split}-{number:04}.png"
        with files.replacing(folder / name, durable=False) as file:
            Image.fromarray(line.pixels).save(file, "png")
        rows.append(f"{name}\t{line.text}")
    return rows


def digit_images() -> tuple[NDArray[np.float64], NDArray[np.int64]]:  # (N, 8, 8), (N,)
    """All images of single digits, with values from 0 to 16, and their classes."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "this data set needs scikit-learn: pip install 'seqloom[digits]'", name="sklearn"
        ) from None
    digits = load_digits()
    return digits.images, digits.target
