"""A beam search as a tree: what it followed, and why each branch ended; as text, and as a picture (matplotlib)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from seqloom.insight.alignment import literal, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 60
"""Branches that are shown; more cannot be read."""
BLUE, RED, GREY, BLACK = "#1f6fb4", "#d1495b", "#9aa5b1", "#2b2f36"

WHY = {
    "never": "only symbols that are never said would follow",
    "tree": "nothing that is allowed would follow",
    "short": "too short to end",
    "repeated": "would repeat itself",
    "per_node": "its parent has enough better children",
    "beam": "enough others are more probable",
    "group": "other groups say the same",
    "threshold": "too far below the best",
    "undrawn": "another symbol was drawn",
}
"""Why a candidate was never followed."""
ENDS = {
    "extended": "nothing follows",
    "hopeless": "could not win any more",
    "worse": "complete, and not among the best",
    "duplicate": "found by another group before",
    "cut": "too long",
    "best": "an answer",
}
"""What became of one that was."""


@dataclass(frozen=True)
class Branch:
    """A candidate of a beam search: another one, extended by a symbol."""

    number: int
    parent: int  # number of the other one; -1: there is none
    symbol: str
    length: int  # symbols so far
    log_probability: float  # of the symbol
    score: float  # the sum of log-probabilities; of complete ones with penalties
    fate: str  # what became of it: a word of decoding.record.Fate


@dataclass
class Twig:
    """A hypothesis that was alive or complete, and those that it became; the best one is the first."""

    branch: Branch
    children: list["Twig"] = field(default_factory=list)
    why: str = ""  # it went no further; empty where it did
    rank: int = 0  # of an answer, from 1
    best: tuple[bool, float] = (False, 0.0)  # of all that it became: whether one is an answer, and the score

    @property
    def leaves(self) -> int:
        return sum(child.leaves for child in self.children) or 1


def grow(branches: Sequence[Branch], *, most: int = MOST) -> tuple[Twig, int]:
    """The tree of what was alive, and how many of its ends were left out, the worst ones."""
    lost: dict[int, Branch] = {}  # of each parent the child that came nearest to living on
    twigs: dict[int, Twig] = {}
    for branch in branches:
        if branch.fate in ENDS:
            twigs[branch.number] = Twig(branch)
        elif branch.parent not in lost or branch.score > lost[branch.parent].score:
            lost[branch.parent] = branch
    answers = sorted((each for each in branches if each.fate == "best"), key=lambda branch: -branch.score)
    for rank, branch in enumerate(answers, start=1):
        twigs[branch.number].rank = rank
    root = next(twig for twig in twigs.values() if twig.branch.parent < 0)
    for twig in reversed(twigs.values()):  # children before their parents
        if not twig.children:
            nearest = lost.get(twig.branch.number) if twig.branch.fate == "extended" else None
            reason = WHY[nearest.fate] if nearest else ENDS[twig.branch.fate]
            twig.why = f"answer {twig.rank}" if twig.rank else reason
            twig.best = (twig.rank > 0, -twig.rank if twig.rank else twig.branch.score)
        else:
            twig.children.sort(key=lambda child: child.best, reverse=True)
            twig.best = twig.children[0].best
        if twig is not root:
            twigs[twig.branch.parent].children.append(twig)
    ends = sorted((twig.best, number) for number, twig in twigs.items() if not twig.children)
    left_out = ends[: max(len(ends) - most, 0)]
    for _, number in left_out:
        _cut(twigs, twigs[number])
    return root, len(left_out)


def _cut(twigs: dict[int, Twig], twig: Twig) -> None:
    """Take a branch away up to where it left another."""
    while (parent := twigs.get(twig.branch.parent)) is not None:
        parent.children.remove(twig)
        if parent.children:
            return
        twig = parent


def beam_lines(branches: Sequence[Branch], *, most: int = MOST) -> list[str]:
    """A line for each piece between two forks; what goes on best goes straight down, the others leave to the right."""
    root, left_out = grow(branches, most=most)
    rows = list(_rows(root, ""))
    width = max((len(text) for text, twig in rows if twig.why), default=0)
    lines = [f"{text:{width}}  {twig.branch.score:8.3f}  {twig.why}" if twig.why else text for text, twig in rows]
    return [*lines, *([f"({left_out} more branches)"] if left_out else [])]


def _rows(twig: Twig, prefix: str) -> Iterator[tuple[str, Twig]]:
    straight = prefix.replace("├─", "│ ").replace("└─", "  ")
    while True:
        symbols = [twig.branch.symbol] if twig.branch.symbol else []
        while len(twig.children) == 1:
            (twig,) = twig.children
            symbols.append(twig.branch.symbol)
        if symbols:
            yield prefix + spell(symbols), twig
            prefix = straight
        if not twig.children:
            return
        for child in twig.children[1:]:
            yield from _rows(child, f"{straight}├─ ")
        twig = twig.children[0]


def spell(symbols: Sequence[str]) -> str:
    """Symbols as one text: characters and pieces of words joined, words with blanks between them."""
    words = [symbol for symbol in symbols if not symbol.startswith("<")]
    joined = all(len(word) == 1 for word in words) or any(" " in word for word in words)
    return ("" if joined else " ").join(map(visible, symbols))


def draw_beam(
    branches: Sequence[Branch],
    path: str | Path,
    *,
    title: str = "",
    most: int = MOST,
) -> None:
    """Time from left to right, a row for each branch: blue what is an answer, and behind each other why it ended."""
    from matplotlib.figure import Figure

    root, left_out = grow(branches, most=most)
    ends = [1.0]  # where the labels of each step end, in widths of a letter
    places = _places(root, ends)
    reasons = max(len(twig.why) for twig, _ in places)
    width, height = ends[-1] + 9 + 0.85 * reasons, root.leaves
    size = (max(5.0, 0.098 * width + 0.3), 0.28 * height + 0.35 + (0.35 if title else 0))
    figure = Figure(figsize=size)
    top = 1 - (0.45 if title else 0.1) / size[1]
    axes = figure.add_axes((0.1 / size[0], 0.1 / size[1], 1 - 0.2 / size[0], top - 0.1 / size[1]))
    axes.set_xlim(0, width)
    axes.set_ylim(height + (0.5 if left_out else -0.4), -0.75)
    axes.axis("off")
    rows = {id(twig): row for twig, row in places}
    for twig, row in places:
        start = ends[twig.branch.length]
        if twig.children or twig.why:
            _lead(axes, twig, start, row, rows=rows, ends=ends)
        if twig.branch.length:
            left, colour = ends[twig.branch.length - 1], BLACK if twig.best[0] else "#5d6875"
            label = literal(visible(twig.branch.symbol))
            axes.text((left + start) / 2 + 0.3, row - 0.12, label, ha="center", va="bottom", fontsize=9, color=colour)
        if twig.why:
            reason = f"{twig.branch.score:.3f}  {twig.why}"
            colour = BLUE if twig.rank else RED
            axes.plot([start], [row], "o" if twig.rank else "x", color=colour, markersize=5)
            weight = "bold" if twig.rank else "normal"
            ink = BLUE if twig.rank else "#7a8490"
            axes.text(start + 1, row, reason, va="center", fontsize=8.5, color=ink, fontweight=weight)
    if left_out:
        axes.text(1, height - 0.2, f"and {left_out} more branches", fontsize=8.5, color=GREY)
    if title:
        figure.text(0.15 / size[0], 1 - 0.28 / size[1], literal(title), fontweight="bold", color=BLACK)
    chosen = Path(path)
    chosen.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(chosen, dpi=150)


def _places(root: Twig, ends: list[float]) -> list[tuple[Twig, int]]:
    """Every twig with its row; the width of each step is noted on the way."""
    places, waiting = [], [(root, 0)]
    widths: dict[int, float] = {}
    while waiting:
        twig, own = waiting.pop()
        places.append((twig, own))
        if twig.branch.length:
            label = len(visible(twig.branch.symbol))
            widths[twig.branch.length] = max(widths.get(twig.branch.length, 0), label + 1.8)
        first = own
        for child in twig.children:
            waiting.append((child, first))
            first += child.leaves
    for length in sorted(widths):
        ends.append(ends[-1] + widths[length])
    return places


def _lead(axes: "Axes", twig: Twig, start: float, row: int, *, rows: dict[int, int], ends: Sequence[float]) -> None:
    for child in twig.children:
        below = rows[id(child)]
        end = ends[child.branch.length]
        colour, width = (BLUE, 1.8) if child.best[0] else (GREY, 1.1)
        turn = start + 0.35
        axes.plot([start, turn, turn, end], [row, row, below, below], color=colour, linewidth=width, zorder=width)
