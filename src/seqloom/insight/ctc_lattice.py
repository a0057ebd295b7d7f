"""The lattice of a CTC target: all of its paths at once, with the probability of each state at each frame.

The states are blank, token, blank, …, token, blank; a path starts in one of the first two and ends in one of the last
two (Graves et al. 2006). Posteriors come from the forward-backward algorithm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.formats import format_number
from seqloom.insight.plotting import BLACK, BLUE, FRAME, GRID, RED, SLATE, escape_dollars, save_figure
from seqloom.insight.token_names import show_whitespace
from seqloom.kernels.ctc.naive import blank_extended, predecessors

MAX_NODES = 700
"""States × frames that are drawn as nodes; larger lattices are drawn as a heat map."""
FAINT = 1e-3  # posterior below which a node is a dot, and an edge is not drawn
BLANK_NAME = "blank"

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class LatticeEdge:
    """A step from a state at one frame to a state at the next."""

    frame: int  # of the first state, from 0
    start: int
    end: int
    posterior: float  # probability that a path of the text takes it


@dataclass(frozen=True)
class CTCLattice:
    """All paths of a text together."""

    states: list[str]  # the token of each state; empty: the blank
    posteriors: list[list[float]]  # (states, frames); each frame sums to one
    edges: list[LatticeEdge]  # those that are not negligible
    best: list[int]  # the state at each frame of the most probable path
    log_probability: float  # of all paths together


def ctc_lattice(
    log_probs: NDArray[Any],  # (T, V)
    target: Sequence[int],
    *,
    names: Sequence[str],  # of the tokens of the target
    blank: int = 0,
) -> CTCLattice | None:
    """The lattice of a target; None if no path has a probability above zero."""
    frames = np.asarray(log_probs, dtype=np.float64)
    states = blank_extended(target, blank)
    arriving = [predecessors(states, at, blank) for at in range(len(states))]
    length = len(frames)
    if not length:
        return None
    emissions = frames[:, states]  # (T, S)
    forward, backward, best = (np.full((length, len(states)), -np.inf) for _ in range(3))
    forward[0, :2] = best[0, :2] = emissions[0, :2]
    backward[-1, -2:] = 0.0
    origin = np.zeros((length, len(states)), dtype=int)
    for frame in range(1, length):
        for at, before in enumerate(arriving):
            forward[frame, at] = np.logaddexp.reduce(forward[frame - 1, before]) + emissions[frame, at]
            origin[frame, at] = before[int(best[frame - 1, before].argmax())]
            best[frame, at] = best[frame - 1, origin[frame, at]] + emissions[frame, at]
    for frame in range(length - 2, -1, -1):
        following = backward[frame + 1] + emissions[frame + 1]
        for at, before in enumerate(arriving):
            backward[frame, before] = np.logaddexp(backward[frame, before], following[at])
    total = float(np.logaddexp.reduce(forward[-1, -2:]))
    if not math.isfinite(total):
        return None
    edges = [
        LatticeEdge(frame, before, at, float(np.exp(value)))
        for frame in range(length - 1)
        for at, sources in enumerate(arriving)
        for before in sources
        if (value := forward[frame, before] + emissions[frame + 1, at] + backward[frame + 1, at] - total)
        > math.log(FAINT)
    ]
    return CTCLattice(
        states=["", *(part for name in names for part in (name, ""))],
        posteriors=np.exp(forward + backward - total).T.tolist(),
        edges=edges,
        best=_best_path(best[-1], origin),
        log_probability=total,
    )


def _best_path(last: Matrix, origin: NDArray[Any]) -> list[int]:
    at = len(last) - 1 if len(last) == 1 or last[-1] >= last[-2] else len(last) - 2
    path = [at]
    for frame in range(len(origin) - 1, 0, -1):
        at = int(origin[frame, at])
        path.append(at)
    return path[::-1]


def draw_lattice(lattice: CTCLattice, path: str | Path, *, text: str = "", title: str = "") -> None:
    """Draw states from top to bottom and frames from left to right; darker nodes are more probable."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    posteriors = np.array(lattice.posteriors)
    count, length = posteriors.shape
    width = min(max(0.3 * length + 1.6, 5.0), 18.0)
    height = min(max(0.27 * count + 1.2, 2.4), 14.0)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    if count * length <= MAX_NODES:
        _draw_nodes(axes, lattice, posteriors)
    else:
        _draw_heat_map(figure, axes, lattice, posteriors)
    axes.set_xlim(-0.7, length - 0.3)
    axes.set_ylim(count - 0.4, -0.6)
    labels = [escape_dollars(show_whitespace(state)) if state else BLANK_NAME for state in lattice.states]
    axes.set_yticks(range(count), labels, fontsize=9 if count < 40 else 6)
    for label, state in zip(axes.get_yticklabels(), lattice.states, strict=True):
        label.set_fontweight("bold" if state else "normal")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=min(length, 20), integer=True))
    axes.tick_params(labelsize=9, length=2)
    axes.set_xlabel("frame", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    probability = format_number(math.exp(lattice.log_probability), 4)
    summary = f"p({text}) = {probability}, all paths together" if text else f"all paths together: {probability}"
    axes.set_title(escape_dollars(summary), loc="left", fontsize=9, color=SLATE)
    save_figure(figure, path, title=title)


def _draw_nodes(axes: Any, lattice: CTCLattice, posteriors: Matrix) -> None:
    from matplotlib.collections import LineCollection

    on_best = {(frame, *pair) for frame, pair in enumerate(zip(lattice.best, lattice.best[1:], strict=False))}
    for is_best, colour in ((False, BLUE), (True, RED)):
        edges = [edge for edge in lattice.edges if ((edge.frame, edge.start, edge.end) in on_best) is is_best]
        lines = [[(edge.frame, edge.start), (edge.frame + 1, edge.end)] for edge in edges]
        strength = [0.15 + 0.85 * edge.posterior for edge in edges]
        sizes = [0.6 + 1.8 * value for value in strength]
        axes.add_collection(LineCollection(lines, colors=colour, linewidths=sizes, alpha=strength, zorder=2))
    is_faint = posteriors < FAINT
    states, frames = is_faint.nonzero()
    axes.scatter(frames, states, s=3, color=FRAME, zorder=1, linewidths=0)
    states, frames = (~is_faint).nonzero()
    colours = [_tint(value) for value in posteriors[states, frames].tolist()]
    axes.scatter(frames, states, s=70, c=colours, edgecolors=SLATE, linewidths=0.7, zorder=3, clip_on=False)
    axes.plot([], [], color=RED, linewidth=2, label="most probable path")
    axes.plot([], [], color=BLUE, linewidth=1.2, label="other paths")
    axes.legend(loc="lower left", fontsize=8, frameon=False, labelcolor=BLACK)
    axes.grid(visible=True, color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)


def _tint(share: float) -> tuple[float, ...]:
    """Between white and blue."""
    from matplotlib.colors import to_rgb

    return tuple(1 - share * (1 - value) for value in to_rgb(BLUE))


def _draw_heat_map(figure: Any, axes: Any, lattice: CTCLattice, posteriors: Matrix) -> None:
    image = axes.imshow(posteriors, aspect="auto", cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    axes.plot(range(len(lattice.best)), lattice.best, color=RED, linewidth=1.0, label="most probable path")
    axes.legend(loc="lower left", fontsize=8, frameon=False, labelcolor=BLACK)
    bar = figure.colorbar(image, ax=axes, fraction=0.02, pad=0.01)
    bar.set_label("posterior", color=SLATE, fontsize=8)
    bar.ax.tick_params(labelsize=8, length=2)
    bar.outline.set_visible(False)
