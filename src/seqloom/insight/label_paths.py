"""The CTC paths of a text: alignments that collapse to it, with their probabilities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.formats import format_number
from seqloom.insight.ctc_lattice import CTCLattice, ctc_lattice
from seqloom.insight.ctc_plot import BLANK_SIGN
from seqloom.insight.token_names import display_token, show_whitespace
from seqloom.kernels.ctc.paths import target_paths
from seqloom.layers.embedding import PADDING as BLANK

MAX_PATHS = 20
"""Paths that are listed by default."""


@dataclass(frozen=True)
class LabelPath:
    """A token in each frame; empty: the blank."""

    tokens: list[str]
    probability: float


@dataclass(frozen=True)
class LabelPaths:
    """The paths of a text, the most probable first."""

    label: str
    count: int  # of all paths; more than are listed in ``paths``
    probability: float  # of all paths together
    log_probability: float
    paths: list[LabelPath]
    lattice: CTCLattice | None = None  # all of them, with the probability of each state; None: there are none


def label_paths(
    log_probs: NDArray[np.floating],  # (T, V)
    target: Sequence[int],
    encoding: Tokenizer,
    *,
    label: str,
    limit: int,  # paths that are listed
) -> LabelPaths:
    """The most probable paths of a text."""
    if limit < 1:
        raise ValueError(f"the number of paths to list is {limit}, expected at least 1")
    all_paths = target_paths(log_probs.astype(np.float64), target, blank=BLANK, limit=limit)
    names = encoding.vocabulary.tokens
    paths = [
        LabelPath(["" if token == BLANK else display_token(encoding, names[token]) for token in path], math.exp(score))
        for score, path in all_paths.best
    ]
    shown = [display_token(encoding, names[token]) for token in target]
    lattice = ctc_lattice(log_probs, target, names=shown, blank=BLANK)
    return LabelPaths(label, all_paths.count, math.exp(all_paths.log_prob), all_paths.log_prob, paths, lattice)


def path_lines(paths: LabelPaths) -> list[str]:
    """The paths as text: one per line, with its probability and its share of the whole."""
    cells = [[show_whitespace(token) or BLANK_SIGN for token in path.tokens] for path in paths.paths]
    gap = " " if any(len(cell) > 1 for row in cells for cell in row) else ""
    lines = [
        f"{gap.join(row)}  {format_number(path.probability, 4)}  {path.probability / paths.probability:.1%}"
        for row, path in zip(cells, paths.paths, strict=True)
        if paths.probability
    ]
    listed = math.fsum(path.probability for path in paths.paths)
    total = f"{format_number(paths.probability, 4)} (log-probability {paths.log_probability:.4f})"
    if paths.count > len(paths.paths):
        more = paths.count - len(paths.paths)
        number = f"{more:,}" if more < 10**9 else f"about {float(more):.1e}" if more < 10**300 else "countless"
        lines.append(f"({number} more paths with a probability of {format_number(paths.probability - listed, 4)})")
    return [*lines, f"All paths together: {total}"]
