"""Clips of a moving shape, with its activity and a caption: generated data for videos; needs Pillow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqloom import files
from seqloom.data.builtin.shapes import COLOURS, FORMS, SUPERSAMPLING, Shape, draw_shapes

SIZE = 32  # pixels
FRAMES = (10, 16)  # fewest and most frames of a clip
FRAME_MILLISECONDS = 80
ACTIVITIES = {
    "left": "moves to the left",
    "right": "moves to the right",
    "up": "moves up",
    "down": "moves down",
    "grows": "grows",
    "shrinks": "shrinks",
    "stays": "stays where it is",
}
"""What a shape does, and how its caption says so."""

DIRECTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
SPLITS = {"train": 1, "dev": 2, "test": 3}


class Clip(NamedTuple):
    """The shape in each frame."""

    activity: str
    frames: list[Shape]
    brightness: int  # of the background

    @property
    def caption(self) -> str:
        return f"{self.frames[0].name} {ACTIVITIES[self.activity]}"


def clips(count: int, split: str, *, seed: int) -> Iterator[Clip]:
    """Random clips; the activities take turns."""
    random = np.random.default_rng([seed, SPLITS[split]])
    names = list(ACTIVITIES)
    for number in range(count):
        yield _clip(random, names[number % len(names)])


def _clip(random: np.random.Generator, activity: str) -> Clip:
    colour, form = list(COLOURS)[random.integers(len(COLOURS))], FORMS[random.integers(len(FORMS))]
    steps = np.linspace(-0.5, 0.5, int(random.integers(FRAMES[0], FRAMES[1] + 1)))
    small, large = random.uniform(3, 5), random.uniform(7, 9)
    radius = random.uniform(4, 7)
    distance = np.zeros(2)
    radii = np.full(len(steps), radius)
    if activity in DIRECTIONS:
        distance = random.uniform(8, 14) * np.array(DIRECTIONS[activity], dtype=float)
    elif activity in ("grows", "shrinks"):
        sign = 1 if activity == "grows" else -1
        radii = (small + large) / 2 + sign * steps * (large - small)
    margin = SIZE / 2 - radii.max() - abs(distance) / 2 - 0.5  # by which the middle of the path can move
    middle = SIZE / 2 + random.uniform(-1, 1, size=2) * np.maximum(margin, 0)
    shapes = [
        Shape(colour, form, float(x), float(y), float(size))
        for (x, y), size in zip(middle + steps[:, None] * distance, radii, strict=True)
    ]
    return Clip(activity, shapes, int(random.integers(200, 256)))


def draw(clip: Clip) -> list[Any]:
    """The frames of a clip as Pillow images."""
    return [draw_shapes([shape], clip.brightness, size=SIZE, scale=SUPERSAMPLING) for shape in clip.frames]


def write_split(folder: Path, count: int, split: str, *, seed: int) -> Iterator[str]:
    """Write the clips of a split to ``folder/clips`` as GIF files; yields a header and rows."""
    (folder / "clips").mkdir(parents=True, exist_ok=True)
    yield "video\tactivity\tcaption"
    for number, clip in enumerate(clips(count, split, seed=seed), start=1):
        name = f"clips/{split}-{number:04}.gif"
        first, *others = draw(clip)
        with files.replacing(folder / name, durable=False) as file:
            first.save(file, "gif", save_all=True, append_images=others, duration=FRAME_MILLISECONDS, loop=0)
        yield f"{name}\t{clip.activity}\t{clip.caption}"
