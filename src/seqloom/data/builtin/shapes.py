"""Images of two coloured shapes with captions: generated data for captioning; needs Pillow."""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqloom import files

SIZE = 64  # pixels
SUPERSAMPLING = 4  # scale at which an image is drawn, for smooth edges
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
"""Relations of the first shape (the upper or left one) to the second, each with a synonym."""

DIRECTIONS = {"above": (0, -1), "left of": (-1, 0)}
SPLITS = ("test", "dev", *["train"] * 8)
"""The split of a scene, by the hash of its caption: no caption occurs in two splits."""


class Shape(NamedTuple):
    """A shape with its position."""

    colour: str
    form: str
    x: float  # centre, in pixels from the left and the top
    y: float
    radius: float

    @property
    def name(self) -> str:
        return f"a {self.colour} {self.form}"


class Scene(NamedTuple):
    """Two shapes and their relation."""

    first: Shape
    second: Shape
    relation: str  # relation of the first shape to the second

    @property
    def captions(self) -> tuple[str, str]:
        """The two captions of the scene."""
        first, second = self.first.name, self.second.name
        return f"{first} {self.relation} {second}", f"{first} {RELATIONS[self.relation]} {second}"

    @property
    def split(self) -> str:
        return SPLITS[zlib.crc32(self.captions[0].encode()) % len(SPLITS)]


def scenes(count: int, split: str, *, seed: int) -> Iterator[tuple[Scene, int]]:
    """``count`` random scenes of a split, each with the brightness of its background."""
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
    distance, shift = random.uniform(28, 38), random.uniform(-8, 8)  # along the direction and across it
    direction = np.array(DIRECTIONS[relation])
    offset = distance * direction + shift * direction[::-1]
    margin = (SIZE - 26 - abs(offset)) / 2  # by which the centre can move
    centre = SIZE / 2 + random.uniform(-1, 1, size=2) * margin
    positions = (centre + offset / 2, centre - offset / 2)
    first, second = (
        Shape(colour, form, float(x), float(y), float(radius))
        for (colour, form, radius), (x, y) in zip(names, positions, strict=True)
    )
    return Scene(first, second, relation)


def draw(scene: Scene, brightness: int) -> Any:
    """The scene as a Pillow image."""
    return draw_shapes((scene.first, scene.second), brightness, size=SIZE, scale=SUPERSAMPLING)


def draw_shapes(shapes: Sequence[Shape], brightness: int, *, size: int, scale: int) -> Any:
    """Shapes on a grey background as a Pillow image, drawn at a larger scale for smooth edges."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (size * scale, size * scale), (brightness,) * 3)
    canvas = ImageDraw.Draw(image)
    for shape in shapes:
        colour = COLOURS[shape.colour]
        left, top, right, bottom = (
            scale * edge
            for edge in (
                *(shape.x - shape.radius, shape.y - shape.radius),
                *(shape.x + shape.radius, shape.y + shape.radius),
            )
        )
        if shape.form == "circle":
            canvas.ellipse((left, top, right, bottom), fill=colour)
        elif shape.form == "cross":
            third = (right - left) / 3
            canvas.rectangle((left + third, top, right - third, bottom), fill=colour)
            canvas.rectangle((left, top + third, right, bottom - third), fill=colour)
        else:
            canvas.polygon([((left + right) / 2, top), (right, bottom), (left, bottom)], fill=colour)
    return image.resize((size, size), Image.Resampling.BOX)


def write_split(folder: Path, count: int, split: str, *, seed: int) -> Iterator[str]:
    """Write the images of a split to ``folder/images``; yields rows of file name and caption."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for number, (scene, brightness) in enumerate(scenes(count, split, seed=seed), start=1):
        name = f"images/{split}-{number:04}.png"
        with files.replacing(folder / name, durable=False) as file:
            draw(scene, brightness).save(file, "png")
        for caption in scene.captions:
            yield f"{name}\t{caption}"


def label_rows(count: int, split: str, *, seed: int) -> Iterator[str]:
    """The images of a split with one label each, their forms and their relation; starts with a header."""
    yield "image\tlabel"
    for number, (scene, _) in enumerate(scenes(count, split, seed=seed), start=1):
        yield f"images/{split}-{number:04}.png\t{scene.first.form} {scene.relation} {scene.second.form}"
