"""A confusion matrix: how often each label was taken for another one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.insight.plotting import BLACK, FRAME, SLATE, escape_dollars, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_LABELS = 40
"""All of these many labels are drawn; of more, those that are confused most often."""
MAX_CONFUSED = 25
MAX_NAME = 24  # characters of a label


def confusion_matrix(
    confusions: Sequence[Mapping[str, Any]],  # label, predicted, count
    scores: Mapping[str, Mapping[str, float]],  # recall and support of each label; empty: the diagonal is not known
) -> tuple[list[str], NDArray[np.int64]]:
    """The labels to draw and their counts, with true labels as rows."""
    involved: Counter[str] = Counter()
    for row in confusions:
        involved.update({row["label"]: row["count"], row["predicted"]: row["count"]})
    names = list(scores) or sorted(involved)
    if len(names) > MAX_LABELS:
        names = [name for name, _ in involved.most_common(MAX_CONFUSED)]
    index = {name: position for position, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    for row in confusions:
        if row["label"] in index and row["predicted"] in index:
            counts[index[row["label"]], index[row["predicted"]]] = row["count"]
    for name in names:
        if name in scores:
            counts[index[name], index[name]] = round(scores[name]["recall"] * scores[name]["support"])
    return names, counts


def draw_confusion(
    confusions: Sequence[Mapping[str, Any]],
    scores: Mapping[str, Mapping[str, float]],
    path: str | Path,
    *,
    title: str = "",
) -> "Figure":
    """Draw the counts, shaded by their share of each true label, or of the largest count if only errors are known."""
    from matplotlib.figure import Figure

    names, counts = confusion_matrix(confusions, scores)
    total = len(scores) or len({row[side] for row in confusions for side in ("label", "predicted")})
    size = max(3.6, 0.32 * len(names) + 2.4)
    figure = Figure(figsize=(size, size * 0.92), layout="constrained")
    axes = figure.add_subplot()
    totals = counts.sum(axis=1, keepdims=True) if scores else counts.max(initial=0)
    shares = counts / np.maximum(totals, 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    shown = [escape_dollars(name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…") for name in names]
    axes.set_xticks(range(len(names)), shown, rotation=90 if len(names) > 4 else 0, fontsize=8, color=SLATE)
    axes.set_yticks(range(len(names)), shown, fontsize=8, color=SLATE)
    axes.set_xlabel("predicted", color=SLATE)
    axes.set_ylabel("true label", color=SLATE)
    heading = title or "Confusion matrix"
    if not scores:
        heading += ", errors only"
    if len(names) < total:
        heading += f": {len(names)} of {total:,} labels, those confused most often"
    axes.set_title(escape_dollars(heading), loc="left", fontsize=10, fontweight="bold", color=BLACK, wrap=True)
    axes.spines[:].set_color(FRAME)
    for row, column in np.argwhere(counts):
        colour = "white" if shares[row, column] > 0.6 else BLACK
        text = f"{counts[row, column]:,}" if counts[row, column] < 10_000 else f"{counts[row, column]:.1e}"
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    save_figure(figure, path)
    return figure
