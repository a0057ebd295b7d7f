"""The same word in several contexts: cosine similarity of its vectors, layer by layer; as a table and as a plot."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from seqloom import terminal
from seqloom.insight.plotting import BLACK, escape_dollars, save_figure, titled
from seqloom.models.pretrained.contextual import ContextualVectors

CONTEXT_WORDS = 3  # shown on each side
MAX_PAIRS = 24  # shown: those that differ most


@dataclass(frozen=True)
class ContextPair:
    """A word in two contexts."""

    word: str
    first: str  # its context, with the word in brackets
    second: str
    similarities: list[float]  # cosine at each layer; the lowest layer does not depend on the context


def compare_contexts(texts: Sequence[ContextualVectors]) -> list[ContextPair]:
    """All words that occur more than once, case ignored; those that differ most in the highest layer come first."""
    positions: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, text in enumerate(texts):
        for position, word in enumerate(text.words):
            positions[word.lower()].append((number, position))
    pairs = []
    for word, occurrences in positions.items():
        for (first, left), (second, right) in combinations(occurrences, 2):
            layers = zip(texts[first].vectors[left], texts[second].vectors[right], strict=True)
            similarities = [cosine(*vectors) for vectors in layers]
            pairs.append(ContextPair(word, _context(texts[first], left), _context(texts[second], right), similarities))
    return sorted(pairs, key=lambda pair: pair.similarities[-1])[:MAX_PAIRS]


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Cosine similarity of two vectors; 0 if one of them is zero."""
    left, right = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    norm = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right) / norm if norm else 0.0


def _context(text: ContextualVectors, position: int) -> str:
    start, end = max(position - CONTEXT_WORDS, 0), position + CONTEXT_WORDS + 1
    words = [*text.words[start:position], f"[{text.words[position]}]", *text.words[position + 1 : end]]
    return " ".join(["…"] * (start > 0) + words + ["…"] * (end < len(text.words)))


def layer_names(count: int) -> list[str]:
    """Names of the layers of a contextual model; the lowest is the embedding, which does not depend on the context."""
    return ["embedding", *(f"layer {number}" for number in range(1, count))]


def print_contexts(pairs: Sequence[ContextPair]) -> None:
    """Print a table of cosine similarities."""
    rows = [(pair.first, pair.second, *(f"{value:.3f}" for value in pair.similarities)) for pair in pairs]
    terminal.table(("context 1", "context 2", *layer_names(len(pairs[0].similarities))), rows)


def draw_contexts(pairs: Sequence[ContextPair], path: str | Path) -> None:
    """Draw the similarities: a row for each pair, a column for each layer."""
    from matplotlib.figure import Figure

    if not pairs:
        raise ValueError("there is nothing to draw: no word occurs twice")
    values = np.array([pair.similarities for pair in pairs])
    labels = [escape_dollars(f"{pair.first}\n{pair.second}") for pair in pairs]
    label_width = 0.085 * max(max(map(len, label.split("\n"))) for label in labels)  # inches
    size = (label_width + 1.0 * values.shape[1] + 1.2, 0.5 * len(pairs) + 1.2)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    signed = bool((values < 0).any())
    low = -1.0 if signed else np.floor(10 * values.min()) / 10
    image = axes.imshow(values, cmap="RdBu" if signed else "Blues", vmin=low, vmax=1, aspect="auto")
    axes.set_xticks(range(values.shape[1]), layer_names(values.shape[1]), fontsize=8)
    axes.set_yticks(range(len(pairs)), labels, fontsize=8)
    axes.tick_params(length=0)
    for (row, column), value in np.ndenumerate(values):
        share = abs(value) if signed else (value - low) / max(1 - low, 1e-9)
        ink = "white" if share > 0.6 else BLACK
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8, color=ink)
    axes.set_xlabel("layer of the language model", fontsize=8)
    axes.set_ylabel("contexts", fontsize=8)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, label="cosine similarity")
    bar.ax.yaxis.label.set_fontsize(8)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
    save_figure(figure, path, title=titled("one word in two contexts"))
