"""The same word in several contexts: how similar its vectors are, layer by layer; text, and a picture of it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Protocol

import numpy as np

from seqloom import terminal
from seqloom.insight.alignment import literal

AROUND = 3  # words that are shown on each side
MOST = 24  # pairs that are shown: those that differ most


class Represented(Protocol):
    """The words of a text and their vectors."""

    @property
    def words(self) -> list[str]: ...

    @property
    def vectors(self) -> list[list[list[float]]]: ...  # of each word, by each layer


@dataclass(frozen=True)
class Pair:
    """A word at two places."""

    word: str
    one: str  # its context, the word in brackets
    other: str
    similarities: list[float]  # cosine by each layer; the first is of the word out of context


def compare(texts: Sequence[Represented]) -> list[Pair]:
    """All words that occur at several places, capitals or not; those that differ most in the highest layer first."""
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, text in enumerate(texts):
        for place, word in enumerate(text.words):
            places[word.lower()].append((number, place))
    found = []
    for word, where in places.items():
        for (first, left), (second, right) in combinations(where, 2):
            layers = zip(texts[first].vectors[left], texts[second].vectors[right], strict=True)
            similarities = [cosine(one, other) for one, other in layers]
            found.append(Pair(word, _shown(texts[first], left), _shown(texts[second], right), similarities))
    return sorted(found, key=lambda pair: pair.similarities[-1])[:MOST]


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Of the angle between two vectors; 0 where one of them is zero."""
    left, right = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    length = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right) / length if length else 0.0


def _shown(text: Represented, place: int) -> str:
    start, end = max(place - AROUND, 0), place + AROUND + 1
    words = [*text.words[start:place], f"[{text.words[place]}]", *text.words[place + 1 : end]]
    return " ".join(["…"] * (start > 0) + words + ["…"] * (end < len(text.words)))


def levels(count: int) -> list[str]:
    """The names of layers, the lowest being the word itself."""
    return ["out of context", *(f"layer {number}" for number in range(1, count))]


def show_contexts(pairs: Sequence[Pair]) -> None:
    """Print a table of cosines."""
    rows = [(pair.one, pair.other, *(f"{value:.3f}" for value in pair.similarities)) for pair in pairs]
    terminal.table(("in", "and in", *levels(len(pairs[0].similarities))), rows)


def draw_contexts(pairs: Sequence[Pair], path: Path) -> None:
    """Draw the cosines: a row for each pair, a column for each layer."""
    from matplotlib.figure import Figure

    if not pairs:
        raise ValueError("there is nothing to draw: no word occurs twice")
    values = np.array([pair.similarities for pair in pairs])
    labels = [literal(f"{pair.one}\n{pair.other}") for pair in pairs]
    wide = 0.085 * max(max(map(len, label.split("\n"))) for label in labels)
    figure = Figure(figsize=(wide + 1.0 * values.shape[1] + 1.2, 0.5 * len(pairs) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    drawn = axes.imshow(values, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    axes.set_xticks(range(values.shape[1]), levels(values.shape[1]), fontsize=8)
    axes.set_yticks(range(len(pairs)), labels, fontsize=8)
    axes.tick_params(length=0)
    for (row, column), value in np.ndenumerate(values):
        ink = "white" if abs(value) > 0.6 else "#2b2f36"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8, color=ink)
    figure.colorbar(drawn, ax=axes, label="cosine").ax.tick_params(labelsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
