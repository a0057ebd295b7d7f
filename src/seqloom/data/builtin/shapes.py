"""Coloured shapes beside each other, and what may be said of them: generated images to caption; needs Pillow."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SIZE = 64  # pixels
FINER = 4  # times as large as an image is drawn, so that its edges are smooth
COLOURS = {
    "red": (214, 40, 40),
    "green": (46, 160, 67),
    "blue": (38, 84, 200),
    "yellow": (240, 200, 30),
    "purple": (140, 60, 170),
    "black": (30, 30, 30),
}
FORMS = ("circle", "cross", "triangle")
RELATIONS = {"above": "over", "left of": "beside"}
"""Of the shape that is named first, which is the upper or the left one, to the other; each with another word for it."""

TOWARDS = {"above": (0, -1), "left of": (-1, 0)}
SPLITS = ("test", "dev", *["train"] * 8)
"""To which a pair of shapes belongs, by its hash: what is to be said in one is never said in another."""


class Shape(NamedTuple):
    """One shape, by its name and place."""

    colour: str
    form: str
    x: float  # of its middle, in pixels from the left and from above
    y: float
    radius: float

    @property
    def name(self) -> str:
        return f"a {self.colour} {self.form}"


class Scene(NamedTuple):
    """Two shapes."""

    first: Shape
    second: Shape
    relation: str  # of the first to the second

    @property
    def captions(self) -> tuple[str, str]:
        """What may be said."""
        first, second = self.first.name, self.second.name
        return f"{first} {self.relation} {second}", f"{first} {RELATIONS[self.relation]} {second}"

    @property
    def split(self) -> str:
        return SPLITS[zlib.crc32(self.captions[0].encode()) % len(SPLITS)]


def scenes(count: int, split: str, *, seed: int) -> Iterator[tuple[Scene, int]]:
    """So many scenes that belong to a split, each with the brightness of its background."""
    random = np.random.default_rng([seed, sorted(set(SPLITS)).index(split)])
    while count:
        scene = _scene(random)
        brightness = int(random.integers(200, 256))
        if scene.split == split and scene.first[:2] != scene.second[:2]:
            count -= 1
            yield scene, brightness


def _scene(random: np.random.Generator) -> Scene:
    names = [
        (list(COLOURS)[random.integers(len(COLOURS))], FORMS[random.integers(len(FORMS))], random.uniform(9, 13))
        for _ in range(2)
    ]
    relation = list(RELATIONS)[random.integers(len(RELATIONS))]
    far, aside = random.uniform(28, 38), random.uniform(-8, 8)  # how the two lie, along the relation and across it
    along = np.array(TOWARDS[relation])
    apart = far * along + aside * along[::-1]
    room = (SIZE - 26 - abs(apart)) / 2  # that is left on each side of the middle
    middle = SIZE / 2 + random.uniform(-1, 1, size=2) * room
    places = (middle + apart / 2, middle - apart / 2)
    first, second = (
        Shape(colour, form, float(x), float(y), float(radius))
        for (colour, form, radius), (x, y) in zip(names, places, strict=True)
    )
    return Scene(first, second, relation)


def draw(scene: Scene, brightness: int) -> Any:
    """The scene as an image of Pillow."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (SIZE * FINER, SIZE * FINER), (brightness,) * 3)
    pencil = ImageDraw.Draw(image)
    for shape in (scene.first, scene.second):
        colour = COLOURS[shape.colour]
        left, top, right, bottom = (
            FINER * edge
            for edge in (
                *(shape.x - shape.radius, shape.y - shape.radius),
                *(shape.x + shape.radius, shape.y + shape.radius),
            )
        )
        if shape.form == "circle":
            pencil.ellipse((left, top, right, bottom), fill=colour)
        elif shape.form == "cross":
            third = (right - left) / 3
            pencil.rectangle((left + third, top, right - third, bottom), fill=colour)
            pencil.rectangle((left, top + third, right, bottom - third), fill=colour)
        else:
            pencil.polygon([((left + right) / 2, top), (right, bottom), (left, bottom)], fill=colour)
    return image.resize((SIZE, SIZE), Image.Resampling.BOX)


def lines(folder: Path, count: int, split: str, *, seed: int) -> Iterator[str]:
    """Draws the images of a split into the folder ``images``; for each caption the name, a tab, the caption."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for number, (scene, brightness) in enumerate(scenes(count, split, seed=seed), start=1):
        name = f"images/{split}-{number:04}.png"
        draw(scene, brightness).save(folder / name)
        for caption in scene.captions:
            yield f"{name}\t{caption}"
