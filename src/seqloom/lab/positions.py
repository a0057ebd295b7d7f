"""Whether self-attention is blind to order without positions, and which kinds of positions carry over to longer inputs.

The network reads a sequence of symbols with two marks, A and B, once each. At a symbol it has to name the element
before it; at a mark it has to say whether the other mark comes before it. Both are questions about order: the sum that
self-attention computes over all elements is the same in any order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from seqloom.data.batch import Batch
from seqloom.insight.plotting import GREY, panel_figure
from seqloom.lab.curves import collect_curves, curve_table
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import IGNORED, Network, fit, one_hot_batch
from seqloom.lab.panels import draw_curves, legend_below, mark_level, set_log_steps, set_title
from seqloom.layers.transformer.block import transformer
from seqloom.layers.transformer.positions import Kind
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NONE: Kind = "none"
ABSOLUTE: tuple[Kind, ...] = ("counts", "normalized_counts", "binary", "sinusoidal", "learned")
RELATIVE: Kind = "relative"
NAMES: Mapping[str, str] = {NONE: "no positions", "normalized_counts": "normalised counts"}
BLIND = 0.05
"""A network is blind to order if its answers about A and B are right as often as those of guessing, up to this much."""
RIGHT = 0.9
"""Share of right answers of a network that knows the order."""
HEADS, BLOCKS = 4, 2


@dataclass(frozen=True)
class Score:
    """One network on new sequences of one length."""

    kind: str
    seed: int
    length: int
    previous: float  # share of symbols for which the element before is named
    order: float  # share of marks for which it is known whether the other one comes before

    @property
    def mean(self) -> float:
        return (self.previous + self.order) / 2


class Positions(Experiment):
    """Transformers that differ in their positions only, by length of the input."""

    topic: ClassVar[str] = "Attention and positions"
    question: ClassVar[str] = "Does self-attention need positions, and which of them work in longer sequences?"
    claim: ClassVar[str] = (
        "Self-attention is blind to order without positions; every kind of them cures that, but only relative "
        "positions carry over to longer sequences."
    )
    source: ClassVar[str] = (
        "Vaswani et al. 2017; Shaw, Uszkoreit & Vaswani 2018; Press, Smith & Lewis 2022; lectures on sequence modelling"
    )
    rule: ClassVar[str] = (
        "Without positions, the share of right answers about the order of A and B in the longest training sequences "
        "has to lie within 5 percentage points of guessing, 50 %. With counts, normalised counts, binary, sinusoidal, "
        "learned and relative positions, the mean of both shares has to be above 90 % there. In the longest new "
        "sequences, it has to be above 90 % with relative positions and below 90 % with each of the others. The claim "
        "holds if all this is so (means over seeds, with the whole 95 % interval); it does not hold if one of the "
        "intervals lies on the other side. Rotary positions are shown beside these."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2, "train_length": 6, "lengths": (6, 12), "size": 8, "updates": 2, "batch_size": 2, "sequences": 4,
    }  # fmt: skip
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 4, "updates": 1200}
    row: ClassVar[type[Any]] = Score

    train_length: int = Field(20, ge=3, description="Longest sequence of the training; the shortest has 3 elements.")
    lengths: tuple[int, ...] = Field(
        (10, 20, 30, 40, 80), min_length=2, description="Lengths of the new sequences; train_length is added."
    )
    other_kinds: tuple[Kind, ...] = Field(("rotary",), description="Further kinds of positions to show.")
    symbols: int = Field(6, ge=2, description="Different symbols besides A and B.")
    size: int = Field(32, ge=8, multiple_of=8, description="Width of the two Transformer blocks with four heads.")
    batch_size: int = Field(32, ge=1, description="Sequences per update.")
    updates: int = Field(600, ge=1, description="Updates of each training.")
    learning_rate: float = Field(3e-3, gt=0, description="Peak learning rate of Adam; it falls along a cosine.")
    sequences: int = Field(200, ge=1, description="New sequences of each length.")

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(dict.fromkeys((NONE, *ABSOLUTE, RELATIVE, *self.other_kinds)))

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{NAMES.get(kind, kind)}, seed {seed}", partial(self._measure, kind, seed))
            for seed in self.all_seeds
            for kind in self.kinds
        ]

    def build(self, kind: Kind) -> Network:
        """A network that reads the whole sequence; positions that are limited reach to the longest new sequence."""
        elements = self.symbols + 2
        longest = max(*self.lengths, self.train_length)
        layer = transformer(
            elements, self.size, layers=BLOCKS, heads=HEADS, positions=kind, max_positions=longest, causal=False
        )
        return Network(layer, elements + 2)

    def _measure(self, kind: Kind, seed: int) -> list[Score]:
        torch.manual_seed(seed)
        network = self.build(kind)
        draw = torch.Generator().manual_seed(seed)

        def sample() -> Batch:
            length = int(torch.randint(3, self.train_length + 1, (), generator=draw))
            return self.sequences_of(length, self.batch_size, draw)

        settings = TrainConfig(updates=self.updates, learning_rate=self.learning_rate)
        fit(network, sample, settings)
        network.eval()
        return [
            Score(kind, seed, length, *self.right_answers(network, self.sequences_of(length, self.sequences, draw)))
            for length in sorted({*self.lengths, self.train_length})
        ]

    def sequences_of(self, length: int, count: int, draw: torch.Generator) -> Batch:
        """Random symbols with A and B at two random places, and the answers at each element."""
        first_mark = self.symbols
        tokens = torch.randint(self.symbols, (count, length), generator=draw)
        places = torch.rand(count, length, generator=draw).topk(2).indices
        rows = torch.arange(count)
        tokens[rows, places[:, 0]], tokens[rows, places[:, 1]] = first_mark, first_mark + 1
        target = torch.cat([torch.full((count, 1), IGNORED), tokens[:, :-1]], dim=1)
        a_first = (places[:, 0] < places[:, 1]).long()
        target[rows, places[:, 0]] = self.symbols + 2 + (1 - a_first)
        target[rows, places[:, 1]] = self.symbols + 2 + a_first
        return one_hot_batch(tokens, target, size=self.symbols + 2)

    @torch.no_grad()
    def right_answers(self, network: Network, batch: Batch) -> tuple[float, float]:
        """The shares of right answers about the element before, and about the order of the marks."""
        where = batch.target != IGNORED
        right: Tensor = (network(batch.inputs, where).argmax(-1) == batch.target[where]).double()
        marks = batch.target[where] >= self.symbols + 2
        return right[~marks].mean().item(), right[marks].mean().item()

    def verdict(self, rows: Sequence[Score]) -> Verdict:
        longest = max(row.length for row in rows)
        blind = Estimate.of_mean([row.order for row in rows if (row.kind, row.length) == (NONE, self.train_length)])
        inside, beyond = (
            {kind: Estimate.of_mean(means(rows, kind, length)) for kind in (*ABSOLUTE, RELATIVE)}
            for length in (self.train_length, longest)
        )
        answers = [
            blind.is_within(0.5 - BLIND, 0.5 + BLIND),
            *(inside[kind].is_above(RIGHT) for kind in inside),
            beyond[RELATIVE].is_above(RIGHT),
            *(beyond[kind].is_below(RIGHT) for kind in ABSOLUTE),
        ]
        listed = ", ".join(
            f"{NAMES.get(kind, kind)} {inside[kind].value:.0%} and {beyond[kind].format(digits=2, percent=True)}"
            for kind in inside
        )
        return Verdict(
            conclude(*answers),
            f"Without positions, {blind.format(percent=True)} of the answers about the order of A and B are right "
            f"(50 % by guessing). Right answers to both questions in sequences of {self.train_length} elements, as in "
            f"training, and of {longest}: {listed}.",
            {
                "order without positions": blind,
                **{f"{kind}, {self.train_length} elements": value for kind, value in inside.items()},
                **{f"{kind}, {longest} elements": value for kind, value in beyond.items()},
            },
        )

    def table(self, rows: Sequence[Score]) -> Table:
        curves = collect_curves((NAMES.get(row.kind, row.kind), row.length, row.mean) for row in rows)
        return curve_table("right answers at a length of", curves)

    def draw(self, rows: Sequence[Score]) -> "Figure":
        figure = panel_figure(2, width=5.4, height=4.1)
        lengths = sorted({row.length for row in rows})
        titles = {"previous": "Which element comes before?", "order": "Does the other mark come before?"}
        chance = {"previous": 1 / (self.symbols + 2), "order": 0.5}
        for axes, (aspect, title) in zip(figure.axes, titles.items(), strict=True):
            curves = collect_curves(
                (NAMES.get(row.kind, row.kind), row.length, 100 * getattr(row, aspect)) for row in rows
            )
            axes.axvspan(lengths[0] * 0.9, self.train_length, color=GREY, alpha=0.12, linewidth=0)
            draw_curves(axes, curves, styles={NAMES[NONE]: {"color": GREY, "linestyle": "--"}})
            mark_level(axes, 100 * chance[aspect], "guessing")
            set_log_steps(axes, lengths, label="elements of the sequence (grey: seen in training)")
            axes.set(ylim=(0, 103), ylabel="right answers, %", xlim=(lengths[0] * 0.9, lengths[-1] * 1.1))
            set_title(axes, title)
        legend_below(figure, figure.axes[0], columns=4)
        return figure


def means(rows: Sequence[Score], kind: str, length: int) -> list[float]:
    """The mean share of right answers to both questions, by seed."""
    return [row.mean for row in rows if (row.kind, row.length) == (kind, length)]
