"""A beam search as a tree: which hypotheses it followed and why each branch ended; as text and as a plot."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END
from seqloom.decoding.tokens.search_record import SearchRecord
from seqloom.insight.plotting import BLACK, BLUE, RED, escape_dollars, save_figure
from seqloom.insight.token_names import display_token, show_whitespace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_BRANCHES = 60
"""Branches that are shown; more cannot be read."""
TREE_NOTE = "the best hypothesis at the left margin, the others indented; each ends with its score and outcome"
"""How the tree is read."""
LIGHT_GREY = "#9aa5b1"

PRUNED = {
    "suppressed": "pruned: suppressed token",
    "not_allowed": "pruned: not an allowed output",
    "not_in_lexicon": "pruned: not in the lexicon",
    "too_short": "pruned: shorter than the minimum length",
    "repeated": "pruned: repeated n-gram",
    "per_node": "pruned: per-node limit",
    "outside_beam": "pruned: outside the beam",
    "other_group": "pruned: chosen by another group",
    "below_threshold": "pruned: below the score threshold",
    "not_sampled": "not sampled",
}
"""Why a candidate was not kept."""
ENDED = {
    "extended": "no continuation",
    "cannot_win": "stopped: cannot reach the n-best",
    "not_in_nbest": "finished, not in the n-best",
    "duplicate": "finished, duplicate of another group",
    "truncated": "stopped: maximum length reached",
    "in_nbest": "in the n-best",
}
"""What became of a hypothesis that was kept."""
LEFT = {
    "left_beam": "pruned: outside the beam",
    "left_threshold": "pruned: below the score threshold",
    "left_histories": "pruned: limit of histories",
}
"""Why a CTC prefix that was kept for some frames left the beam."""
KEPT = ENDED | LEFT


@dataclass(frozen=True)
class BeamNode:
    """A candidate of a beam search: its parent, extended by a token."""

    number: int
    parent: int  # number of the parent; -1: none
    token: str
    length: int  # tokens so far
    log_probability: float  # of the token; of a CTC prefix: when it entered the beam
    score: float  # the sum of log-probabilities; with penalties once it is finished; of a CTC prefix: when last kept
    status: str  # whether it was kept, and why not: a name of NodeStatus in lowercase


@dataclass
class Branch:
    """A hypothesis that was kept, and its continuations, the best one first."""

    node: BeamNode
    children: list["Branch"] = field(default_factory=list)
    outcome: str = ""  # why it has no continuation; empty if it has one
    rank: int = 0  # in the n-best, from 1; 0: not among them
    best: tuple[bool, float] = (False, 0.0)  # of all its continuations: whether one is in the n-best, and its score

    @property
    def leaves(self) -> int:
        return sum(child.leaves for child in self.children) or 1


def beam_nodes(record: SearchRecord, encoding: Tokenizer) -> list[BeamNode]:
    """The nodes that a search has recorded for the first row of the batch, parents before their children."""
    nodes = []
    for number, parent, _, token_id, length, log_probability, score, status in record.nodes(0):
        token = display_token(encoding, encoding.vocabulary.tokens[token_id]) if token_id >= 0 else ""
        nodes.append(BeamNode(number, parent, token, length, log_probability, score, status.name.lower()))
    return nodes


def build_tree(nodes: Sequence[BeamNode], *, max_branches: int = MAX_BRANCHES) -> tuple[Branch, int]:
    """The root of the tree of hypotheses, and how many of the worst leaves were removed."""
    best_pruned: dict[int, BeamNode] = {}  # of each parent the pruned child with the best score
    branches: dict[int, Branch] = {}
    for node in nodes:
        if node.status in KEPT:
            branches[node.number] = Branch(node)
        elif node.parent not in best_pruned or node.score > best_pruned[node.parent].score:
            best_pruned[node.parent] = node
    nbest = sorted((node for node in nodes if node.status == "in_nbest"), key=_search_order)
    for rank, node in enumerate(nbest, start=1):
        branches[node.number].rank = rank
    root = next(branch for branch in branches.values() if branch.node.parent < 0)
    for branch in reversed(branches.values()):  # children before their parents
        if not branch.children:
            pruned = best_pruned.get(branch.node.number) if branch.node.status == "extended" else None
            reason = PRUNED[pruned.status] if pruned else KEPT[branch.node.status]
            cut_off = "" if branch.node.token == END else ", maximum length reached"
            branch.outcome = f"n-best #{branch.rank}{cut_off}" if branch.rank else reason
            branch.best = (branch.rank > 0, -branch.rank if branch.rank else branch.node.score)
        else:
            branch.children.sort(key=lambda child: child.best, reverse=True)
            branch.best = branch.children[0].best
        if branch is not root:
            branches[branch.node.parent].children.append(branch)
    leaves = sorted((branch.best, number) for number, branch in branches.items() if not branch.children)
    removed = leaves[: max(len(leaves) - max_branches, 0)]
    for _, number in removed:
        _remove(branches, branches[number])
    return root, len(removed)


def _search_order(node: BeamNode) -> tuple[bool, float]:
    """The order of the n-best, as searches return them: those that ended come first, then by score."""
    return node.token != END, -node.score


def _remove(branches: dict[int, Branch], branch: Branch) -> None:
    """Remove a branch up to where it forked off."""
    while (parent := branches.get(branch.node.parent)) is not None:
        parent.children.remove(branch)
        if parent.children:
            return
        branch = parent


def beam_lines(nodes: Sequence[BeamNode], *, max_branches: int = MAX_BRANCHES) -> list[str]:
    """A line for each stretch between two forks; the best hypothesis stays at the margin, others are indented."""
    root, removed = build_tree(nodes, max_branches=max_branches)
    joined = are_joined([node.token for node in nodes])
    rows = list(_rows(root, "", joined=joined))
    width = max((len(text) for text, branch in rows if branch.outcome), default=0)
    lines = [
        f"{text:{width}}  {branch.node.score:z8.3f}  {branch.outcome}" if branch.outcome else text
        for text, branch in rows
    ]
    return [*lines, *([f"({removed} more branches)"] if removed else [])]


def _rows(branch: Branch, prefix: str, *, joined: bool) -> Iterator[tuple[str, Branch]]:
    straight = prefix.replace("├─", "│ ").replace("└─", "  ")
    while True:
        tokens = [branch.node.token] if branch.node.token else []
        while len(branch.children) == 1:
            (branch,) = branch.children
            tokens.append(branch.node.token)
        if tokens:
            yield prefix + join_tokens(tokens, joined=joined), branch
            prefix = straight
        if not branch.children:
            return
        for child in branch.children[1:]:
            yield from _rows(child, f"{straight}├─ ", joined=joined)
        branch = branch.children[0]


def are_joined(tokens: Sequence[str]) -> bool:
    """Whether the tokens of a tree are characters or subwords; a few of one letter may be words."""
    words = [token for token in tokens if token and not token.startswith("<")]
    return all(len(word) == 1 for word in words) or any(" " in word for word in words)


def join_tokens(tokens: Sequence[str], *, joined: bool) -> str:
    """Tokens as one text: characters and subwords joined, words separated by spaces."""
    return ("" if joined else " ").join(map(show_whitespace, tokens))


def draw_beam(
    nodes: Sequence[BeamNode],
    path: str | Path,
    *,
    title: str = "",
    max_branches: int = MAX_BRANCHES,
) -> None:
    """Draw the tree, time from left to right, a row for each branch: the n-best in blue, with the score and outcome."""
    from matplotlib.figure import Figure

    root, removed = build_tree(nodes, max_branches=max_branches)
    edges = [1.0]  # right edge of each step, in characters
    rows = _layout(root, edges)
    longest = max(len(branch.outcome) for branch, _ in rows)
    width, height = edges[-1] + 9 + 0.85 * longest, root.leaves
    size = (max(5.0, 0.098 * width + 0.3), 0.28 * height + 0.35 + (0.35 if title else 0))
    figure = Figure(figsize=size)
    top = 1 - (0.45 if title else 0.1) / size[1]
    axes = figure.add_axes((0.1 / size[0], 0.1 / size[1], 1 - 0.2 / size[0], top - 0.1 / size[1]))
    axes.set_xlim(0, width)
    axes.set_ylim(height + (0.5 if removed else -0.4), -0.75)
    axes.axis("off")
    row_of = {id(branch): row for branch, row in rows}
    for branch, row in rows:
        x = edges[branch.node.length]
        _draw_children(axes, branch, x, row, row_of=row_of, edges=edges)
        if branch.node.length:
            left, colour = edges[branch.node.length - 1], BLACK if branch.best[0] else "#5d6875"
            label = escape_dollars(show_whitespace(branch.node.token))
            axes.text((left + x) / 2 + 0.3, row - 0.12, label, ha="center", va="bottom", fontsize=9, color=colour)
        if branch.outcome:
            text = f"{branch.node.score:z.3f}  {branch.outcome}"
            axes.plot([x], [row], "o" if branch.rank else "x", color=BLUE if branch.rank else RED, markersize=5)
            weight = "bold" if branch.rank else "normal"
            ink = BLUE if branch.rank else "#7a8490"
            axes.text(x + 1, row, text, va="center", fontsize=8.5, color=ink, fontweight=weight)
    if removed:
        axes.text(1, height - 0.2, f"and {removed} more branches", fontsize=8.5, color=LIGHT_GREY)
    if title:
        figure.text(0.15 / size[0], 1 - 0.28 / size[1], escape_dollars(title), fontweight="bold", color=BLACK)
    save_figure(figure, path)


def _layout(root: Branch, edges: list[float]) -> list[tuple[Branch, int]]:
    """Every branch with its row; the right edge of each step is appended to ``edges``."""
    rows, waiting = [], [(root, 0)]
    widths: dict[int, float] = {}
    while waiting:
        branch, row = waiting.pop()
        rows.append((branch, row))
        if branch.node.length:
            label = len(show_whitespace(branch.node.token))
            widths[branch.node.length] = max(widths.get(branch.node.length, 0), label + 1.8)
        for child in branch.children:
            waiting.append((child, row))
            row += child.leaves
    for length in sorted(widths):
        edges.append(edges[-1] + widths[length])
    return rows


def _draw_children(
    axes: "Axes", branch: Branch, x: float, row: int, *, row_of: dict[int, int], edges: Sequence[float]
) -> None:
    for child in branch.children:
        below = row_of[id(child)]
        end = edges[child.node.length]
        colour, width = (BLUE, 1.8) if child.best[0] else (LIGHT_GREY, 1.1)
        turn = x + 0.35
        axes.plot([x, turn, turn, end], [row, row, below, below], color=colour, linewidth=width, zorder=width)
