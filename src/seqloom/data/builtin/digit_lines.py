"""Lines of handwritten digits, made of scikit-learn's small images of single ones; needs scikit-learn and Pillow."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

HEIGHT = 12  # pixels of a line; a digit has 8
SHORTEST, LONGEST = 3, 8  # digits
GAP = 3  # pixels between two digits at most
SHARES = {"train": (0.0, 0.7), "dev": (0.7, 0.8), "test": (0.8, 1.0)}
"""Which of the digits; they come in the order of their 13 writers, who are not named: most are in one part only."""


class Line(NamedTuple):
    """Digits beside each other."""

    pixels: NDArray[np.uint8]  # (HEIGHT, W), ink is white
    text: str


def draw(count: int, part: str, *, seed: int) -> Iterator[Line]:
    """Lines of digits of one part of the set."""
    images, names = singles()
    first, last = (round(share * len(images)) for share in SHARES[part])
    random = np.random.default_rng([seed, list(SHARES).index(part)])
    for _ in range(count):
        chosen = random.integers(first, last, size=random.integers(SHORTEST, LONGEST + 1))
        pieces = []
        for number in chosen:
            image = images[number]  # (8, 8), from 0 to 16
            above = int(random.integers(HEIGHT - len(image) + 1))
            pieces.append(np.pad(image, ((above, HEIGHT - len(image) - above), (0, int(random.integers(GAP + 1))))))
        pixels = (np.concatenate(pieces, axis=1) * (255 / 16)).astype(np.uint8)
        yield Line(pixels, "".join(str(names[number]) for number in chosen))


def lines(folder: Path, count: int, part: str, *, seed: int) -> list[str]:
    """Columns: the name of an image, written to ``folder/lines``, and its digits."""
    from PIL import Image

    (folder / "lines").mkdir(parents=True, exist_ok=True)
    rows = []
    for number, line in enumerate(draw(count, part, seed=seed)):
        name = f"lines/{part}-{number:04}.png"
        Image.fromarray(line.pixels).save(folder / name)
        rows.append(f"{name}\t{line.text}")
    return rows


def singles() -> tuple[NDArray[np.float64], NDArray[np.int64]]:  # (N, 8, 8), (N,)
    """All images of single digits, from 0 to 16, and which they show."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise ModuleNotFoundError("no module named sklearn: pip install 'seqloom[digits]'", name="sklearn") from None
    found = load_digits()
    return found.images, found.target
