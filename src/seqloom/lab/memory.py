"""How far back a recurrent network can remember.

The network sees a symbol at the first step, then distractors, and has to name the symbol at the end. The gradient that
trains it has to travel the same distance back.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import Field
from torch import nn

from seqloom.cells import LSTM, Cell, Elman
from seqloom.data.batch import Batch
from seqloom.insight.plotting import COLOURS, GREY, panel_figure
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import IGNORED, Network, accuracy, classification_loss, one_hot_batch, train
from seqloom.lab.panels import draw_curves, draw_dots, legend_below, set_log_steps, set_title
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REMEMBERED = 0.9
"""Minimum accuracy of a network that remembers the symbol."""
NEW_SEQUENCES = 512
"""Sequences of an evaluation; training ends if there is no error in them."""
ELMAN_STEPS, LSTM_STEPS = (7 / math.sqrt(2), 10 * math.sqrt(2)), 100 / math.sqrt(2)
"""What the claim says, up to a factor of √2, by which neighbouring lengths differ."""
NO_FORGETTING = 20.0
"""A bias with which a forget gate is always 1: σ(20) = 1 - 2e-9, as in the LSTM of 1997, which had no such gate."""

ELMAN, ELMAN_ORTHOGONAL = "Elman, small random weights", "Elman, orthogonal start"
LSTM_1997, LSTM_PLAIN = "LSTM without forget gate (1997)", "LSTM, forget gate half open"
LSTM_OPEN = "LSTM, forget gate open"
NETWORKS = (ELMAN, ELMAN_ORTHOGONAL, LSTM_1997, LSTM_PLAIN, LSTM_OPEN)


@dataclass(frozen=True)
class Outcome:
    """One network at one length."""

    network: str
    seed: int
    length: int  # distractors between the symbol and the answer
    accuracy: float | None  # on new sequences after training; None: it failed at a shorter length already
    updates: int
    gradient: float  # norm of d loss / d first input before training, mean over a batch


class Memory(Experiment):
    """The first symbol of a sequence is to be named at its end."""

    topic: ClassVar[str] = "Memory and gradients"
    question: ClassVar[str] = "Over how many steps can a recurrent network learn to remember?"
    claim: ClassVar[str] = (
        "An Elman network learns to use what it saw 7 to 10 steps ago, an LSTM what it saw 100 steps ago."
    )
    source: ClassVar[str] = (
        "Hochreiter 1991; Bengio, Simard & Frasconi 1994; Hochreiter & Schmidhuber 1997; lectures on sequence modelling"
    )
    rule: ClassVar[str] = (
        "A network remembers a length if it names the symbol in 90 % of new sequences of this length and of every "
        "shorter one that was tried. The claim holds if, with the initial weights of the time, the geometric mean over "
        "seeds agrees with its numbers up to a factor of √2: 5 to 14 steps for the Elman network, and at least 71 for "
        "the LSTM of 1997, both with the whole 95 % interval; it does not hold if one of the intervals lies outside."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "lengths": (2, 5), "updates": 10, "hidden_size": 8}
    thorough: ClassVar[Mapping[str, Any]] = {
        "seeds": 8,
        "updates": 600,
        "lengths": (5, 7, 10, 14, 20, 28, 40, 57, 80, 113, 160),
    }
    row: ClassVar[type[Any]] = Outcome

    seeds: int = Field(3, ge=1, description="Repetitions, each with another random seed.")
    lengths: tuple[int, ...] = Field(
        (5, 7, 10, 14, 20, 40, 80, 160), min_length=1, description="Steps between the symbol and the answer."
    )
    symbols: int = Field(4, ge=2, description="Different symbols to remember; chance is one in this many.")
    distractors: int = Field(4, ge=1, description="Different distractors.")
    hidden_size: int = Field(32, ge=1, description="Units of each network.")
    batch_size: int = Field(64, ge=1, description="Sequences per update.")
    updates: int = Field(300, ge=1, description="Maximum number of updates at each length.")
    learning_rate: float = Field(3e-3, gt=0, description="Learning rate of Adam.")
    forget_bias: float = Field(3.0, description="Initial bias of the open forget gate; 3 keeps 95 % at each step.")

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{network}, seed {seed}", partial(self._measure, network, seed))
            for seed in self.all_seeds
            for network in NETWORKS
        ]

    def _measure(self, network: str, seed: int) -> list[Outcome]:
        """Train at growing lengths until the network fails."""
        rows: list[Outcome] = []
        failed = False
        for length in sorted(self.lengths):
            model = self._build(network, seed)
            draw = torch.Generator().manual_seed(seed)
            gradient = _input_gradient(model, self._draw(length, self.batch_size, draw))
            score, updates = (None, 0) if failed else self._train(model, length, draw)
            failed = failed or score is None or score < REMEMBERED
            rows.append(Outcome(network, seed, length, score, updates, gradient))
        return rows

    def _build(self, network: str, seed: int) -> Network:
        torch.manual_seed(seed)
        size = self.symbols + self.distractors
        cells: dict[str, Callable[[], Cell]] = {
            ELMAN: lambda: Elman(size, self.hidden_size),
            ELMAN_ORTHOGONAL: lambda: Elman(size, self.hidden_size),
            LSTM_1997: lambda: LSTM(size, self.hidden_size),
            LSTM_PLAIN: lambda: LSTM(size, self.hidden_size),
            LSTM_OPEN: lambda: LSTM(size, self.hidden_size, forget_bias=self.forget_bias),
        }
        cell = cells[network]()
        if network in (ELMAN, LSTM_1997, LSTM_PLAIN):
            _set_plain_weights(cell, forget_bias=NO_FORGETTING if network == LSTM_1997 else None)
        return Network(Recurrent(cell), self.symbols)

    def _train(self, model: Network, length: int, draw: torch.Generator) -> tuple[float, int]:
        """Train until there are no errors; the accuracy on new sequences, and the updates."""
        settings = TrainConfig(updates=self.updates, learning_rate=self.learning_rate, schedule="constant", clip_norm=1)
        updates = 0
        for event in train(model, lambda: self._draw(length, self.batch_size, draw), settings):
            updates = event.update
            new = self._draw(length, NEW_SEQUENCES, draw) if updates % 10 == 0 else None
            if new is not None and accuracy(model, new) == 1:
                break
        return accuracy(model, self._draw(length, NEW_SEQUENCES, draw)), updates

    def _draw(self, length: int, batch: int, draw: torch.Generator) -> Batch:
        """Sequences of a symbol and ``length`` distractors; the symbol is the class of the last step."""
        symbol = torch.randint(self.symbols, (batch, 1), generator=draw)
        others = torch.randint(self.symbols, self.symbols + self.distractors, (batch, length), generator=draw)
        tokens = torch.cat([symbol, others], dim=1)
        target = torch.full_like(tokens, IGNORED)
        target[:, -1] = symbol[:, 0]
        return one_hot_batch(tokens, target, size=self.symbols + self.distractors)

    def verdict(self, rows: Sequence[Outcome]) -> Verdict:
        estimates = {
            network: Estimate.of_geometric_mean([max(span, 1) for span in spans(rows, network)]) for network in NETWORKS
        }
        longest = max(row.length for row in rows)
        status = conclude(estimates[ELMAN].is_within(*ELMAN_STEPS), estimates[LSTM_1997].is_above(LSTM_STEPS))
        texts = {name: f"{estimate.format()} steps" for name, estimate in estimates.items()}
        return Verdict(
            status,
            f"With the initial weights of the time, the Elman network remembers {texts[ELMAN]}, the LSTM of 1997 "
            f"{texts[LSTM_1997]} (lengths up to {longest} were tried). Other initial weights change that: the Elman "
            f"network remembers {texts[ELMAN_ORTHOGONAL]} with an orthogonal matrix, the LSTM with a forget gate "
            f"{texts[LSTM_PLAIN]} if the gate is half open at first, and {texts[LSTM_OPEN]} if it is open.",
            estimates,
        )

    def table(self, rows: Sequence[Outcome]) -> Table:
        lengths = sorted({row.length for row in rows})
        cells = [
            [
                network,
                *(
                    _share([row for row in rows if (row.network, row.length) == (network, length)])
                    for length in lengths
                ),
            ]
            for network in NETWORKS
        ]
        return ["seeds that remember over this many steps", *map(str, lengths)], cells

    def draw(self, rows: Sequence[Outcome]) -> "Figure":
        figure = panel_figure(2, width=5.6, height=3.9)
        span_panel, gradient_panel = figure.axes
        for low, high, name in ((7, 10, "Elman"), (90, 110, "LSTM")):
            span_panel.axvspan(low, high, color=GREY, alpha=0.25, linewidth=0)
            span_panel.annotate(
                name, (high, 0.98), xycoords=("data", "axes fraction"), xytext=(3, 0), textcoords="offset points",
                va="top", color=GREY, fontsize=8,
            )  # fmt: skip
        remembered = {network: [max(span, 1) for span in spans(rows, network)] for network in NETWORKS}
        draw_dots(span_panel, remembered, mean=geometric_mean)
        lengths = sorted({row.length for row in rows})
        set_log_steps(span_panel, lengths, label="steps remembered (grey: the literature)")
        span_panel.set_xlim(min(lengths) * 0.8, max(lengths) * 1.3)
        set_title(span_panel, "How far back does it remember?")
        curves = {
            network: {
                length: [row.gradient for row in rows if (row.network, row.length) == (network, length)]
                for length in lengths
            }
            for network in NETWORKS
        }
        draw_curves(gradient_panel, curves, colours=COLOURS)
        gradient_panel.set(yscale="log", ylim=(1e-12, None), ylabel="‖∂ loss / ∂ x₁‖ before training")
        set_log_steps(gradient_panel, lengths, label="steps between symbol and answer")
        set_title(gradient_panel, "How much gradient reaches the symbol?")
        legend_below(figure, gradient_panel, columns=3)
        return figure


def _set_plain_weights(cell: Cell, *, forget_bias: float | None) -> None:
    """Weights as networks of the 1990s, and torch.nn today, have them: uniform within ± 1 / √units."""
    bound = cell.hidden_size**-0.5
    for parameter in cell.parameters():
        nn.init.uniform_(parameter, -bound, bound)
    if forget_bias is not None:
        assert isinstance(cell.input, nn.Linear)  # noqa: S101  the LSTM's
        nn.init.constant_(cell.input.bias[cell.hidden_size : 2 * cell.hidden_size], forget_bias)


def _input_gradient(model: Network, batch: Batch) -> float:
    """The norm of d loss / d first input, mean over the sequences."""
    x = batch.inputs.values.clone().requires_grad_()
    loss = classification_loss(model, batch._replace(inputs=batch.inputs._replace(values=x))).total
    (gradient,) = torch.autograd.grad(loss, x)
    return float(gradient[:, 0].norm(dim=-1).mean())


def spans(rows: Sequence[Outcome], network: str) -> list[int]:
    """For each seed, the largest length up to which the network remembers every length; 0 if there is none."""
    furthest: dict[int, int] = {}
    failed: set[int] = set()
    for row in sorted((row for row in rows if row.network == network), key=lambda row: row.length):
        furthest.setdefault(row.seed, 0)
        if row.accuracy is None or row.accuracy < REMEMBERED:
            failed.add(row.seed)
        if row.seed not in failed:
            furthest[row.seed] = row.length
    return list(furthest.values())


def _share(rows: Sequence[Outcome]) -> str:
    remembered = sum(row.accuracy is not None and row.accuracy >= REMEMBERED for row in rows)
    return f"{remembered}/{len(rows)}"
