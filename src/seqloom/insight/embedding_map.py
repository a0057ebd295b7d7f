"""Word vectors as points in a plane, with labels that do not overlap."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom import terminal
from seqloom.insight.plotting import (
    BLACK,
    BLUE,
    COLOURS,
    FRAME,
    GREY,
    GRID,
    RED,
    apply_style,
    escape_dollars,
    save_figure,
    style_axes,
    titled,
)

ANALOGY_COLOURS = (RED, *COLOURS[2:])
RINGS, POSITIONS = 60, 16  # rings around each point on which its label may be placed, and positions on each ring


@dataclass(frozen=True)
class Analogy:
    """positive − negative + base, such as king − man + woman: negative is to positive as base is to the answer."""

    positive: str
    negative: str
    base: str
    answer: str  # the nearest word that is not in the question
    point: list[float]  # where the sum lies in the plane: the fourth corner of a parallelogram


@dataclass(frozen=True)
class EmbeddingMap:
    """Words in the plane of their first two principal components."""

    words: list[str]
    coordinates: list[list[float]]  # (N, 2)
    nearest: list[str]  # of each word, the nearest of the others
    similarities: list[float]  # cosine of each word and its nearest
    explained_variance: list[float]  # share of each component
    analogies: list[Analogy] = field(default_factory=list)
    centre: str = ""  # the word whose neighbours the others are; empty: the words were chosen


def embedding_map(
    words: Sequence[str],
    vectors: NDArray[Any],  # (N, D)
    *,
    analogies: Sequence[tuple[str, str, str, str]] = (),  # positive, negative, base and answer
    centre: str = "",
) -> EmbeddingMap:
    """Project word vectors onto a plane, and find the nearest neighbour of each word."""
    coordinates, explained = project_vectors(vectors)
    places = dict(zip(words, coordinates, strict=True))
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = units @ units.T - 2 * np.eye(len(words))  # none is its own neighbour
    return EmbeddingMap(
        words=list(words),
        coordinates=coordinates.tolist(),
        nearest=[words[int(row.argmax())] for row in cosines],
        similarities=[float(row.max()) for row in cosines],
        explained_variance=explained.tolist(),
        analogies=[
            Analogy(positive, negative, base, answer, _sum(places, positive, negative, base))
            for positive, negative, base, answer in analogies
        ],
        centre=centre,
    )


def _sum(places: Mapping[str, NDArray[np.float64]], positive: str, negative: str, base: str) -> list[float]:
    """The projection of positive − negative + base, which is the sum of the projections."""
    values: list[float] = (places[positive] - places[negative] + places[base]).tolist()
    return values


def principal_components(vectors: NDArray[Any], count: int = 2) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coordinates (N, count) along the directions of greatest variance, and their shares of it (Pearson 1901).

    The sign of a direction is chosen so that its largest coordinate is positive: a plot always looks the same.
    """
    centred = np.asarray(vectors, np.float64) - np.mean(vectors, axis=0, dtype=np.float64)
    wide = len(centred) < centred.shape[1]  # then the Gram matrix is the smaller one
    values, directions = np.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
    order = np.argsort(values)[::-1][:count]
    values, directions = values.clip(0), directions[:, order]
    coordinates = directions * np.sqrt(values[order]) if wide else centred @ directions
    coordinates = np.pad(coordinates, ((0, 0), (0, count - coordinates.shape[1])))
    largest = np.abs(coordinates).argmax(axis=0)
    coordinates = coordinates * np.where(coordinates[largest, range(count)] < 0, -1.0, 1.0)
    explained = values[order] / max(values.sum(), 1e-300)
    return coordinates, np.pad(explained, (0, count - len(explained)))


def project_vectors(vectors: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``principal_components`` of the vectors, each scaled to length one."""
    lengths = np.linalg.norm(np.asarray(vectors, np.float64), axis=1, keepdims=True)
    return principal_components(vectors / np.maximum(lengths, 1e-12))


def place_labels(points: NDArray[np.float64], sizes: NDArray[np.float64], *, gap: float = 4.0) -> NDArray[np.float64]:
    """Lower left corners (N, 2) of labels of these widths and heights: each near its point, none on another."""
    placed: list[tuple[float, float, float, float]] = []
    dots = [(x - gap / 2, y - gap / 2, x + gap / 2, y + gap / 2) for x, y in points.tolist()]
    corners = np.zeros_like(points)
    for index, ((x, y), (width, height)) in enumerate(zip(points.tolist(), sizes.tolist(), strict=True)):
        for ring in range(RINGS * len(points)):
            boxes = _boxes_around(x, y, width, height, gap=gap * (1 + ring))
            free = (box for box in boxes if not any(_overlap(box, other) for other in (*placed, *dots)))
            if box := next(free, None):
                placed.append(box)
                corners[index] = box[:2]
                break
    return corners


def _boxes_around(
    x: float, y: float, width: float, height: float, *, gap: float
) -> list[tuple[float, float, float, float]]:
    """Boxes on a ring around a point, beginning on its right."""
    boxes = []
    for position in range(POSITIONS):
        angle = 2 * np.pi * position / POSITIONS
        across, up = np.cos(angle), np.sin(angle)
        left = x + gap * across + width * (across - 1) / 2
        low = y + gap * up + height * (up - 1) / 2
        boxes.append((float(left), float(low), float(left + width), float(low + height)))
    return boxes


def _overlap(first: tuple[float, float, float, float], second: tuple[float, float, float, float]) -> bool:
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]


def draw_embedding_map(words: EmbeddingMap, path: str | Path, *, title: str = "word vectors") -> None:
    """Draw the words as labelled points."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    points = np.array(words.coordinates)
    figure = Figure(figsize=(8, 6), layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    style_axes(axes)
    axes.scatter(points[:, 0], points[:, 1], s=28, color=BLUE, edgecolor="white", linewidth=0.6, zorder=3)
    _draw_analogies(axes, words, dict(zip(words.words, points, strict=True)))
    axes.margins(0.15)
    axes.set_xlabel(f"principal component 1 ({words.explained_variance[0]:.0%} of the variance)")
    axes.set_ylabel(f"principal component 2 ({words.explained_variance[1]:.0%} of the variance)")
    labels = [
        axes.annotate(escape_dollars(word), point, fontsize=9.5, color=BLACK)
        for word, point in zip(words.words, points, strict=True)
    ]
    title = titled(title)
    figure.suptitle(escape_dollars(title), x=0.01, ha="left", fontsize=11)  # for the layout; the style follows
    apply_style(figure)  # other fonts have other sizes
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # reported when the plot is saved
        canvas.draw()
    boxes = [label.get_window_extent() for label in labels]
    pixels = axes.transData.transform(points)
    corners = place_labels(pixels, np.array([[box.width, box.height] for box in boxes]).reshape(-1, 2))
    to_data = axes.transData.inverted()
    for label, point, corner, box in zip(labels, pixels, corners, boxes, strict=True):
        x, y = to_data.transform(corner)
        label.set_position((float(x), float(y)))
        middle = corner + np.array([box.width, box.height]) / 2
        if np.abs(middle - point).max() > box.width / 2 + 14:  # too far away to be clear without a line
            ends = to_data.transform(np.array([point, middle]))
            axes.plot(ends[:, 0], ends[:, 1], color=FRAME, linewidth=0.7, zorder=1)
    save_figure(figure, path, title=title)


def _draw_analogies(axes: Any, words: EmbeddingMap, places: Mapping[str, NDArray[np.float64]]) -> None:
    """Two parallel arrows for each analogy, and a line from their end to the answer; rays from the centre."""
    for index, analogy in enumerate(words.analogies):
        colour = ANALOGY_COLOURS[index % len(ANALOGY_COLOURS)]
        point = np.array(analogy.point)
        arrows = ((places[analogy.negative], places[analogy.positive], "-"), (places[analogy.base], point, "--"))
        for start, end, line in arrows:
            style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.6, "linestyle": line, "shrinkA": 4}
            axes.annotate("", xy=tuple(end), xytext=tuple(start), arrowprops={**style, "shrinkB": 3}, zorder=2)
        sides = np.array([[places[analogy.negative], places[analogy.base]], [places[analogy.positive], point]])
        for ends in sides:
            axes.plot(ends[:, 0], ends[:, 1], color=GREY, linewidth=0.8, linestyle=":", zorder=1)
        question = f"{analogy.positive} − {analogy.negative} + {analogy.base} ≈ {analogy.answer}"
        label = escape_dollars(question)
        axes.plot([point[0]], [point[1]], "x", color=colour, markersize=8, markeredgewidth=2, label=label, zorder=4)
        if analogy.answer in places:
            ends = np.array([point, places[analogy.answer]])
            axes.plot(ends[:, 0], ends[:, 1], color=colour, linewidth=1.0, linestyle=":", zorder=2)
    if words.analogies:
        axes.legend(loc="upper left", bbox_to_anchor=(0, 1.09), frameon=False, fontsize=9, labelcolor=BLACK)
    if words.centre:
        start = places[words.centre]
        for place in places.values():
            axes.plot(*np.array([start, place]).T, color=GRID, linewidth=1.2, zorder=1)


def print_embedding_map(words: EmbeddingMap) -> None:
    """Print the coordinates and the nearest neighbour of each word."""
    for analogy in words.analogies:
        terminal.print_lines(f"{analogy.positive} − {analogy.negative} + {analogy.base} ≈ {analogy.answer}")
    terminal.print_lines(*[""] * bool(words.analogies))
    columns = zip(words.words, words.coordinates, words.nearest, words.similarities, strict=True)
    rows = [(word, f"{x:.3f}", f"{y:.3f}", nearest, f"{cosine:.3f}") for word, (x, y), nearest, cosine in columns]
    terminal.table(("word", "x", "y", "nearest", "cosine"), rows)
    terminal.print_lines("", f"The plane explains {sum(words.explained_variance):.0%} of the variance of these words.")
