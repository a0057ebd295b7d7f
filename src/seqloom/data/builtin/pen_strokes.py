"""Words written by a pen: letters as curves, with the slant, width and tremor of many hands."""

import json
import random
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]  # (n, 2)

LETTERS = {
    "a": "0.65,0.8 0.4,1 0.1,0.8 0,0.45 0.12,0.1 0.38,0 0.62,0.25 0.66,0.9 0.66,0.35 0.75,0.05 0.9,0.05",
    "b": "0.05,1.8 0.05,0.9 0.05,0 0.08,0.6 0.3,1 0.6,0.85 0.68,0.5 0.55,0.1 0.3,0 0.05,0.2",
    "c": "0.62,0.8 0.38,1 0.1,0.8 0,0.45 0.12,0.1 0.4,0 0.65,0.2",
    "d": "0.65,0.8 0.4,1 0.1,0.8 0,0.45 0.12,0.1 0.38,0 0.62,0.3 0.66,1 0.66,1.8 0.66,0.9 0.68,0.3 0.8,0.02",
    "e": "0.02,0.5 0.35,0.55 0.62,0.7 0.5,0.97 0.25,0.95 0.02,0.6 0.1,0.15 0.38,0 0.65,0.2",
    "f": "0.55,1.6 0.4,1.8 0.25,1.6 0.2,0.9 0.2,0|0,0.95 0.45,0.95",
    "g": "0.65,0.8 0.4,1 0.1,0.8 0,0.45 0.12,0.1 0.38,0.02 0.62,0.3 0.66,0.95 0.66,-0.4 0.45,-0.8 0.1,-0.6",
    "h": "0.05,1.8 0.05,0.9 0.05,0 0.08,0.6 0.3,1 0.55,0.9 0.6,0.5 0.6,0",
    "i": "0.05,1 0.05,0.2 0.15,0|0.05,1.4 0.09,1.44",
    "k": "0.05,1.8 0.05,0.9 0.05,0|0.55,1 0.05,0.45 0.6,0",
    "l": "0.05,1.8 0.05,1 0.05,0.2 0.2,0",
    "m": "0.05,1 0.05,0 0.08,0.6 0.28,1 0.45,0.8 0.46,0 0.5,0.6 0.7,1 0.88,0.8 0.9,0",
    "n": "0.05,1 0.05,0 0.08,0.6 0.3,1 0.55,0.85 0.6,0",
    "o": "0.35,1 0.08,0.8 0,0.45 0.15,0.08 0.4,0 0.63,0.25 0.66,0.6 0.55,0.92 0.35,1",
    "p": "0.05,1 0.05,0 0.05,-0.8 0.06,0.6 0.3,1 0.6,0.85 0.68,0.5 0.55,0.1 0.3,0 0.05,0.2",
    "r": "0.05,1 0.05,0 0.08,0.6 0.25,0.95 0.5,0.95",
    "s": "0.55,0.85 0.3,1 0.05,0.8 0.25,0.55 0.5,0.35 0.45,0.05 0.2,0 0,0.15",
    "t": "0.2,1.5 0.2,0.8 0.2,0.25 0.35,0 0.5,0.08|0,1 0.45,1",
    "u": "0.05,1 0.05,0.3 0.25,0 0.5,0.2 0.6,1 0.6,0.2 0.75,0",
    "v": "0.02,1 0.3,0 0.6,1",
    "w": "0.02,1 0.22,0 0.42,0.8 0.65,0 0.88,1",
}
"""Control points of each line of a letter; the height of an x is 1, y points upwards."""

CONSONANTS, VOWELS = "bcdfghklmnprstvw", "aeiou"
SPACING = 0.25  # between letters
STEP = 0.22  # between points, in heights of an x
SIZE = 10.0  # of an x, in the units of the data
CURVE = 12  # points of a curve between two control points, before they are spaced evenly


def generate(count: int, split: str, *, seed: int) -> Iterator[str]:
    """JSON lines with the strokes of a word and its text; dev and test have other words than train."""
    draw = random.Random(f"{split} {seed}")  # noqa: S311  data, not secrets
    written = 0
    while written < count:
        word = _word(draw)
        if _part(word) == split:
            strokes = [[round(float(x), 2), round(float(y), 2), int(up)] for x, y, up in write(word, draw)]
            yield json.dumps({"strokes": strokes, "text": word})
            written += 1


def write(text: str, draw: random.Random) -> NDArray[np.float64]:  # (T, 3)
    """The movements of a pen that writes the text in a hand of its own."""
    slant, width, size = draw.gauss(0.1, 0.15), draw.uniform(0.85, 1.15), SIZE * draw.uniform(0.9, 1.1)
    tremor, spacing = draw.uniform(0.005, 0.025), SPACING * draw.uniform(0.8, 1.3)
    lines: list[Points] = []
    left = 0.0
    for letter in text:
        control = [_parse(line) for line in LETTERS[letter].split("|")]
        for line in control:
            moved = line + [[draw.gauss(0, 0.03), draw.gauss(0, 0.03)] for _ in line]
            lines.append(_spaced(_smooth(moved)) + np.array([left, 0.0]))
        left += max(float(line[:, 0].max()) for line in control) + spacing
    noise = np.random.default_rng(draw.getrandbits(32))
    path = np.concatenate(lines)
    path = path + noise.normal(0, tremor, path.shape)
    path = np.column_stack([width * path[:, 0] + slant * path[:, 1], path[:, 1]]) * size
    lifted = np.zeros(len(path))
    lifted[np.cumsum([len(line) for line in lines]) - 1] = 1
    return np.column_stack([np.diff(path, axis=0, prepend=path[:1]), lifted])


def _word(draw: random.Random) -> str:
    """One or two syllables."""
    syllables = []
    for _ in range(draw.randint(1, 2)):
        last = draw.choice(CONSONANTS) if draw.random() < 0.5 else ""
        syllables.append(draw.choice(CONSONANTS) + draw.choice(VOWELS) + last)
    return "".join(syllables)


def _part(word: str) -> str:
    """The part of the data that a word belongs to; a tenth of the words each are dev and test words."""
    number = sum(ord(letter) * 31**place for place, letter in enumerate(word)) % 10
    return {0: "dev", 1: "test"}.get(number, "train")


def _parse(line: str) -> Points:
    return np.array([[float(value) for value in point.split(",")] for point in line.split()])


def _smooth(points: Points) -> Points:
    """A Catmull-Rom spline through the points."""
    if len(points) < 3:
        return points
    padded = np.concatenate([points[:1], points, points[-1:]])
    parts = []
    for start in range(len(points) - 1):
        before, first, second, after = padded[start : start + 4]
        t = np.linspace(0, 1, CURVE, endpoint=False)[:, None]
        parts.append(
            0.5
            * (
                2 * first
                + (second - before) * t
                + (2 * before - 5 * first + 4 * second - after) * t**2
                + (3 * first - before - 3 * second + after) * t**3
            )
        )
    return np.concatenate([*parts, points[-1:]])


def _spaced(path: Points) -> Points:
    """Points at equal distances along the path, both ends included."""
    distance = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(path, axis=0).T))])
    places = np.linspace(0, distance[-1], max(int(distance[-1] / STEP), 1) + 1)
    return np.column_stack([np.interp(places, distance, path[:, axis]) for axis in (0, 1)])
