"""Vectors of words as points of the plane, with names that do not hide each other."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom import terminal

ROUNDS, TURNS = 60, 16  # rings around a point on which there may be room for its name, and places on each


def principal(vectors: NDArray[Any], count: int = 2) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The coordinates (N, count) along the directions of greatest variance, and its share in each (Pearson 1901).

    A direction points to where its largest coordinate is positive, so that a picture is always the same.
    """
    centred = np.asarray(vectors, np.float64) - np.mean(vectors, axis=0, dtype=np.float64)
    few = len(centred) < centred.shape[1]
    values, directions = np.linalg.eigh(centred @ centred.T if few else centred.T @ centred)
    order = np.argsort(values)[::-1][:count]
    values, directions = values.clip(0), directions[:, order]
    found = directions * np.sqrt(values[order]) if few else centred @ directions
    found = np.pad(found, ((0, 0), (0, count - found.shape[1])))
    furthest = np.abs(found).argmax(axis=0)
    found = found * np.where(found[furthest, range(count)] < 0, -1.0, 1.0)
    shares = values[order] / max(values.sum(), 1e-300)
    return found, np.pad(shares, (0, count - len(shares)))


def flatten(vectors: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``principal`` of the vectors as long as one."""
    lengths = np.linalg.norm(np.asarray(vectors, np.float64), axis=1, keepdims=True)
    return principal(vectors / np.maximum(lengths, 1e-12))


def arrange(points: NDArray[np.float64], sizes: NDArray[np.float64], *, gap: float = 4.0) -> NDArray[np.float64]:
    """The lower left corners (N, 2) of names of given widths and heights, each near its point, none on another."""
    placed: list[tuple[float, float, float, float]] = []
    dots = [(x - gap / 2, y - gap / 2, x + gap / 2, y + gap / 2) for x, y in points.tolist()]
    corners = np.zeros_like(points)
    for index, ((x, y), (width, height)) in enumerate(zip(points.tolist(), sizes.tolist(), strict=True)):
        for ring in range(ROUNDS * len(points)):
            spots = _around(x, y, width, height, gap=gap * (1 + ring))
            free = (box for box in spots if not any(_overlap(box, other) for other in (*placed, *dots)))
            if box := next(free, None):
                placed.append(box)
                corners[index] = box[:2]
                break
    return corners


def _around(x: float, y: float, width: float, height: float, *, gap: float) -> list[tuple[float, float, float, float]]:
    """Places on a ring, first to the right of the point."""
    found = []
    for turn in range(TURNS):
        angle = 2 * np.pi * turn / TURNS
        across, up = np.cos(angle), np.sin(angle)
        left = x + gap * across + width * (across - 1) / 2
        low = y + gap * up + height * (up - 1) / 2
        found.append((float(left), float(low), float(left + width), float(low + height)))
    return found


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def draw_words(
    flat: tuple[NDArray[np.float64], NDArray[np.float64]],  # see flatten
    words: Sequence[str],
    path: Path,
) -> None:
    """Points and names as a picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    points, shares = flat
    figure = Figure(figsize=(8, 6), layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.scatter(points[:, 0], points[:, 1], s=12, color="tab:blue", zorder=2)
    axes.margins(0.15)
    axes.set_xlabel(f"{shares[0]:.0%} of the variance")
    axes.set_ylabel(f"{shares[1]:.0%} of the variance")
    names = [
        axes.annotate(word.replace("$", r"\$"), point, fontsize=9) for word, point in zip(words, points, strict=True)
    ]
    canvas.draw()
    boxes = [name.get_window_extent() for name in names]
    at = axes.transData.transform(points)
    corners = arrange(at, np.array([[box.width, box.height] for box in boxes]).reshape(-1, 2))
    back = axes.transData.inverted()
    for name, point, corner, box in zip(names, at, corners, boxes, strict=True):
        x, y = back.transform(corner)
        name.set_position((float(x), float(y)))
        middle = corner + np.array([box.width, box.height]) / 2
        if np.abs(middle - point).max() > box.width / 2 + 14:  # it is not clear which point it belongs to
            ends = back.transform(np.array([point, middle]))
            axes.plot(ends[:, 0], ends[:, 1], color="0.8", linewidth=0.7, zorder=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def explain_words(task: Any, module: Any, given: Sequence[Any], folder: Path, *, as_json: bool) -> None:
    """Print where the words of questions stand to each other, and draw it."""
    words = list(dict.fromkeys(word for question in given for word in question.words))
    numbers = [task.fitted.known.find(word) for word in words]
    if unknown := [word for word, number in zip(words, numbers, strict=True) if number < 0]:
        near = task.fitted.known.nearest(unknown[0])
        raise ValueError(f"the word {unknown[0]!r} has no vector" + (f"; did you mean {near!r}?" if near else ""))
    if len(words) < 2 or not hasattr(module, "vectors"):
        raise ValueError("two words or more, and vectors that were learnt, are wanted for a picture")
    vectors = module.vectors[numbers].numpy()
    flat = flatten(vectors)
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = units @ units.T - 2 * np.eye(len(words))
    pictures = [folder / "words.png"]
    try:
        draw_words(flat, words, pictures[0])
    except ModuleNotFoundError:
        pictures = []
    nearest = [(words[int(row.argmax())], float(row.max())) for row in cosines]
    if as_json:
        places = [{"word": word, "place": place} for word, place in zip(words, flat[0].tolist(), strict=True)]
        found = {"words": places, "variance": flat[1].tolist(), "pictures": list(map(str, pictures))}
        terminal.say(json.dumps(found))
        return
    rows = [
        (word, f"{x:.3f}", f"{y:.3f}", other, f"{cosine:.3f}")
        for word, (x, y), (other, cosine) in zip(words, flat[0].tolist(), nearest, strict=True)
    ]
    terminal.table(("word", "x", "y", "nearest of these", "cosine"), rows)
    terminal.say("", f"The plane holds {flat[1].sum():.0%} of the variance of these words.")
    terminal.say(*(f"Picture: {picture}" for picture in pictures))
