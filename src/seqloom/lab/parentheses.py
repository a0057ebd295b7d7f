"""Balanced brackets by depth and length: the network has to say which bracket must be closed next.

Sequences consist of brackets of several kinds, properly nested. Whenever a bracket has just been closed, the network
has to name the kind of the innermost one that is still open. It saw that bracket some time ago, and has to remember the
others that enclose it as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import torch
from pydantic import Field
from torch import Tensor

from seqloom.data.batch import Batch
from seqloom.insight.plotting import GREY, panel_figure
from seqloom.lab.curves import collect_curves
from seqloom.lab.estimate import Estimate, conclude, seed_means
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import IGNORED, Network, fit, one_hot_batch
from seqloom.lab.panels import draw_curves, legend_below, mark_level, set_percent_axis, set_title
from seqloom.layers.build import recurrent
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = Literal["elman", "gru", "coupled", "peephole"]
Aspect = Literal["depth", "length"]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
SOLVED = 0.95
"""Accuracy of a network that balances brackets."""
OPENING = 0.55
"""Probability of an opening bracket where both are possible."""
TEST_SEQUENCES = 300


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of one network at one depth, or at one length."""

    cell: str
    seed: int
    aspect: Aspect
    value: int  # brackets that are open, or brackets of the sequences
    accuracy: float


class Parentheses(Experiment):
    """Networks that have to name the innermost open bracket."""

    topic: ClassVar[str] = "Memory and gradients"
    question: ClassVar[str] = "Can a recurrent network balance parentheses?"
    claim: ClassVar[str] = (
        "An LSTM learns to balance brackets of several kinds and does so in longer sequences, too, but not at greater "
        "depth than it was trained on."
    )
    source: ClassVar[str] = (
        "Gers & Schmidhuber 2001; Sennhauser & Berwick 2018; Bernardy 2018; lectures on sequence modelling"
    )
    rule: ClassVar[str] = (
        "A network balances brackets if it names 95 % of them. The claim holds if the LSTM does so in new sequences "
        "like those of the training and in the longest ones, but not at depths beyond those of the training (mean over "
        "these depths, then over seeds), each with the whole 95 % interval."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2,
        "hidden_size": 8,
        "length": 10,
        "updates": 8,
        "depth": 2,
        "test_depth": 4,
        "test_lengths": (20,),
    }
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 4}
    row: ClassVar[type[Any]] = Accuracy

    other_cells: tuple[Cell, ...] = Field(("elman", "gru"), description="Cells that are shown beside the LSTM.")
    bracket_types: int = Field(2, ge=2, description="Types of brackets; chance is one in this many.")
    depth: int = Field(4, ge=1, description="Maximum depth in training.")
    length: int = Field(40, ge=2, description="Brackets of a training sequence.")
    test_depth: int = Field(8, ge=2, description="Maximum depth in the test by depth.")
    test_lengths: tuple[int, ...] = Field((80, 160, 320), min_length=1, description="Lengths in the test by length.")
    hidden_size: int = Field(32, ge=1, description="Units of each network.")
    batch_size: int = Field(32, ge=1, description="Sequences per update.")
    updates: int = Field(700, ge=1, description="Updates of each training.")
    learning_rate: float = Field(1e-2, gt=0, description="Peak learning rate of Adam; it falls along a cosine.")

    @property
    def all_lengths(self) -> list[int]:
        return sorted({self.length, *self.test_lengths})

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{cell}, seed {seed}", partial(self._measure, cell, seed))
            for seed in self.all_seeds
            for cell in ("lstm", *self.other_cells)
        ]

    def _measure(self, cell: str, seed: int) -> list[Accuracy]:
        torch.manual_seed(seed)
        network = Network(recurrent(cell, 2 * self.bracket_types, self.hidden_size), self.bracket_types)
        draw = torch.Generator().manual_seed(seed)
        settings = TrainConfig(updates=self.updates, learning_rate=self.learning_rate)

        def sample() -> Batch:
            tokens, target, _ = brackets(
                self.batch_size, self.length, kinds=self.bracket_types, max_depth=self.depth, draw=draw
            )
            return one_hot_batch(tokens, target, size=2 * self.bracket_types)

        fit(network, sample, settings)
        tests = [
            ("depth", self.length, self.test_depth),
            *(("length", length, self.depth) for length in self.all_lengths),
        ]
        rows = []
        for aspect, length, max_depth in tests:
            tokens, target, depths = brackets(
                TEST_SEQUENCES, length, kinds=self.bracket_types, max_depth=max_depth, draw=draw
            )
            where = target != IGNORED
            with torch.no_grad():
                right = (
                    network(one_hot_batch(tokens, target, size=2 * self.bracket_types).inputs, where).argmax(-1)
                    == target[where]
                )
            if aspect == "length":
                rows.append(Accuracy(cell, seed, "length", length, right.double().mean().item()))
            else:
                rows += [
                    Accuracy(cell, seed, "depth", depth, right[depths[where] == depth].double().mean().item())
                    for depth in sorted(set(depths[where].tolist()))
                ]
        return rows

    def verdict(self, rows: Sequence[Accuracy]) -> Verdict:
        lstm = [row for row in rows if row.cell == "lstm"]
        deepest, longest = (max(row.value for row in lstm if row.aspect == aspect) for aspect in ASPECTS)
        deeper_rows = [row for row in lstm if row.aspect == "depth" and row.value > self.depth]
        by_seed = seed_means((row.seed, row.accuracy) for row in deeper_rows)
        estimates = {
            "as in training": Estimate.of_mean(accuracies(lstm, "lstm", "length", self.length)),
            "longest sequences": Estimate.of_mean(accuracies(lstm, "lstm", "length", longest)),
            "greater depth": Estimate.of_mean(list(by_seed.values())),
        }
        inside, longer, deeper = estimates.values()
        return Verdict(
            conclude(inside.is_above(SOLVED), longer.is_above(SOLVED), deeper.is_below(SOLVED)),
            f"The LSTM names {inside.format(percent=True)} of the brackets in new sequences of {self.length} brackets, "
            f"at most {self.depth} of them open, as in training; {longer.format(percent=True)} in sequences of "
            f"{longest} brackets; and {deeper.format(percent=True)} where {self.depth + 1} to {deepest} brackets are "
            f"open (chance is {1 / self.bracket_types:.0%}).",
            estimates,
        )

    def table(self, rows: Sequence[Accuracy]) -> Table:
        values = [
            (aspect, value) for aspect in ASPECTS for value in sorted({r.value for r in rows if r.aspect == aspect})
        ]
        cells = [
            [cell, *(f"{fmean(accuracies(rows, cell, *case)):.0%}" for case in values)]
            for cell in dict.fromkeys(row.cell for row in rows)
        ]
        return ["accuracy at", *(f"{aspect} {value}" for aspect, value in values)], cells

    def draw(self, rows: Sequence[Accuracy]) -> "Figure":
        figure = panel_figure(2, width=5.2, height=3.9)
        for axes, aspect, trained in zip(figure.axes, ASPECTS, (self.depth, self.length), strict=True):
            draw_curves(
                axes, collect_curves((row.cell, row.value, row.accuracy) for row in rows if row.aspect == aspect)
            )
            left, right = axes.get_xlim()
            axes.axvspan(left, trained, color=GREY, alpha=0.15, linewidth=0, zorder=0)
            axes.set_xlim(left, right)
            mark_level(axes, 1 / self.bracket_types, "chance")
            axes.set_ylim(0.4, 1.03)
            set_percent_axis(axes, "brackets named correctly")
            values = sorted({row.value for row in rows if row.aspect == aspect})
            axes.set_xticks(values, [str(value) for value in values])
            axes.set_xlabel("open brackets" if aspect == "depth" else "brackets of a sequence")
            nested = f", nested up to {self.test_depth} deep" if aspect == "depth" else ""
            set_title(axes, f"By {aspect}{nested} (grey: seen in training)")
        legend_below(figure, figure.axes[0])
        return figure


def brackets(
    batch: int, length: int, *, kinds: int, max_depth: int, draw: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:  # (B, T) each
    """Properly nested brackets, the kind of the innermost open one just after a bracket was closed, and the depth.

    A bracket of kind k is opened by the token k and closed by ``kinds`` + k. The depth is that after the token.
    """
    length -= length % 2
    rows = torch.arange(batch)
    stack = torch.zeros(batch, max_depth + 1, dtype=torch.long)
    depth = torch.zeros(batch, dtype=torch.long)
    tokens, targets, depths = [], [], []
    for step in range(length):
        opens = torch.rand(batch, generator=draw) < OPENING
        opens = (opens | (depth == 0)) & (depth < max_depth) & (depth < length - step)
        kind = torch.randint(kinds, (batch,), generator=draw)
        top = stack[rows, (depth - 1).clamp(min=0)]
        tokens.append(torch.where(opens, kind, kinds + top))
        stack[rows, depth] = torch.where(opens, kind, stack[rows, depth])
        depth = depth + torch.where(opens, 1, -1)
        inner = stack[rows, (depth - 1).clamp(min=0)]
        targets.append(torch.where(opens | (depth == 0), IGNORED, inner))
        depths.append(depth)
    return torch.stack(tokens, dim=1), torch.stack(targets, dim=1), torch.stack(depths, dim=1)


def accuracies(rows: Sequence[Accuracy], cell: str, aspect: Aspect, value: int) -> list[float]:
    """The accuracy of each seed."""
    return [row.accuracy for row in rows if (row.cell, row.aspect, row.value) == (cell, aspect, value)]
