"""Whether stacked layers are better than one, and whether skip connections make deep stacks trainable.

Character language models of about the same number of parameters: recurrent stacks, and feed-forward stacks that read a
window of characters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import torch
from pydantic import Field

from seqloom.insight.plotting import panel_figure
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import Network, fit, widest
from seqloom.lab.panels import draw_dots, set_title
from seqloom.lab.texts import bits_per_character, load_text
from seqloom.layers.build import recurrent
from seqloom.layers.connection import CONNECTIONS
from seqloom.layers.convolution import Convolution
from seqloom.layers.layer import Layer, count_parameters
from seqloom.layers.stack import Stack
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind = Literal["recurrent", "feed-forward"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SKIPS = tuple(name for name in CONNECTIONS if name != "plain")
WINDOW = 5
"""Characters that the first layer of a feed-forward stack reads."""


@dataclass(frozen=True)
class Score:
    """One language model after training."""

    kind: Kind
    layers: int
    connection: str
    parameters: int  # of the layers
    seed: int
    bits: float  # per character of held-out text


class Depth(Experiment):
    """Language models with one, two and many layers."""

    topic: ClassVar[str] = "Stacks, directions and pooling"
    question: ClassVar[str] = "Are deep stacks better, and what makes them trainable?"
    claim: ClassVar[str] = (
        "Two stacked recurrent layers are better than a single one, and residual, highway or dense connections make "
        "deep stacks trainable, recurrent and feed-forward ones."
    )
    source: ClassVar[str] = (
        "Graves 2013; Srivastava, Greff & Schmidhuber 2015; He et al. 2016; Huang et al. 2017; lectures on sequence "
        "modelling"
    )
    rule: ClassVar[str] = (
        "All networks have about the same number of parameters. The claim holds if the bits per character of two LSTM "
        "layers divided by those of one are below 1, and so are those of deep stacks with each kind of connection "
        "divided by those of plain deep stacks (geometric means over seeds), all with the whole 95 % interval; it does "
        "not hold if one of the intervals lies above 1."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2,
        "recurrent_layers": 3,
        "feed_forward_layers": 3,
        "parameters": 2000,
        "length": 10,
        "updates": 4,
    }
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 4}
    row: ClassVar[type[Any]] = Score

    recurrent_layers: int = Field(8, ge=3, description="Layers of the deep recurrent stacks.")
    feed_forward_layers: int = Field(24, ge=3, description="Layers of the deep feed-forward stacks.")
    parameters: int = Field(30_000, ge=100, description="Approximate number of parameters of all layers together.")
    length: int = Field(50, ge=2, description="Characters of a training sequence.")
    batch_size: int = Field(16, ge=1, description="Sequences per update.")
    updates: int = Field(300, ge=1, description="Updates of each training.")
    learning_rate: float = Field(5e-3, gt=0, description="Peak learning rate of Adam; it falls along a cosine.")

    def cases(self) -> list[tuple[Kind, int, str]]:
        """Kind, layers and connection of all networks."""
        deep = [
            (kind, layers, connection)
            for kind, layers in zip(KINDS, (self.recurrent_layers, self.feed_forward_layers), strict=True)
            for connection in CONNECTIONS
        ]
        return [("recurrent", 1, "plain"), ("recurrent", 2, "plain"), *deep]

    def trials(self) -> list[Trial]:
        return [
            Trial(
                f"{kind}, {layers} layers, {connection}, seed {seed}",
                partial(self._measure, kind, layers, connection, seed),
            )
            for seed in self.all_seeds
            for kind, layers, connection in self.cases()
        ]

    def _measure(self, kind: Kind, layers: int, connection: str, seed: int) -> list[Score]:
        text = load_text("prose")
        torch.manual_seed(seed)
        build = partial(build_stack, kind, text.size, layers=layers, connection=connection)
        layer = build(hidden_size=widest(lambda width: build(hidden_size=width), self.parameters))
        network = Network(layer, text.size)
        settings = TrainConfig(updates=self.updates, learning_rate=self.learning_rate)
        fit(network, text.sampler(batch_size=self.batch_size, length=self.length, seed=seed), settings)
        bits = bits_per_character(network, text.dev_batch())
        return [Score(kind, layers, connection, count_parameters(layer), seed, bits)]

    def verdict(self, rows: Sequence[Score]) -> Verdict:
        single, double = (_bits(rows, "recurrent", layers, "plain") for layers in (1, 2))
        estimates = {"two layers / one": Estimate.of_ratios(double, single)}
        for kind in KINDS:
            layers = _deepest(rows, kind)
            plain = _bits(rows, kind, layers, "plain")
            for connection in SKIPS:
                estimates[f"{connection} / plain, {kind}"] = Estimate.of_ratios(
                    _bits(rows, kind, layers, connection), plain
                )
        texts = {name: estimate.format() for name, estimate in estimates.items()}
        skips = "; ".join(
            f"{_deepest(rows, kind)} {kind} layers need "
            + ", ".join(f"{texts[f'{connection} / plain, {kind}']} ({connection})" for connection in SKIPS)
            for kind in KINDS
        )
        return Verdict(
            conclude(*(estimate.is_below(1) for estimate in estimates.values())),
            f"Two LSTM layers need {texts['two layers / one']} times as many bits per character as a single one with "
            f"as many parameters. Compared with plain stacks, {skips} times as many bits.",
            estimates,
        )

    def table(self, rows: Sequence[Score]) -> Table:
        cases = list(dict.fromkeys((row.kind, row.layers, row.connection) for row in rows))
        cells = []
        for kind, layers, connection in cases:
            own = [row for row in rows if (row.kind, row.layers, row.connection) == (kind, layers, connection)]
            bits = Estimate.of_mean([row.bits for row in own])
            cells.append([kind, str(layers), connection, f"{own[0].parameters:,}", bits.format()])
        return ["stack", "layers", "connection", "parameters", "bits per character"], cells

    def draw(self, rows: Sequence[Score]) -> "Figure":
        figure = panel_figure(2, width=5.4, height=3.6)
        for axes, kind in zip(figure.axes, KINDS, strict=True):
            groups: dict[str, list[float]] = {}
            for row in rows:
                if row.kind == kind:
                    layers = f"{row.layers} layer{'s' if row.layers > 1 else ''}, {row.connection}"
                    groups.setdefault(layers, []).append(row.bits)
            draw_dots(axes, groups)
            axes.set_xlabel("bits per character of held-out text (lower is better)")
            set_title(axes, f"{kind.capitalize()} stacks of equal size")
        return figure


def build_stack(kind: Kind, input_size: int, *, hidden_size: int, layers: int, connection: str) -> Layer:
    """A stack of LSTM layers, or of feed-forward layers of which the first reads a window."""
    if kind == "recurrent":
        return recurrent("lstm", input_size, hidden_size, layers=layers, connection=connection)
    stack: list[Layer] = [Convolution(input_size, hidden_size, window=WINDOW, causal=True, activation="tanh")]
    for index in range(1, layers):
        size = input_size + index * hidden_size if connection == "dense" else hidden_size
        stack.append(Convolution(size, hidden_size, activation="tanh"))
    return Stack(stack, connection=connection)


def _bits(rows: Sequence[Score], kind: Kind, layers: int, connection: str) -> dict[int, float]:
    """The bits per character of each seed."""
    case = (kind, layers, connection)
    return {row.seed: row.bits for row in rows if (row.kind, row.layers, row.connection) == case}


def _deepest(rows: Sequence[Score], kind: Kind) -> int:
    return max(row.layers for row in rows if row.kind == kind)
