"""Learning curves of an Elman network, an LSTM, a GRU and a Transformer with about the same number of parameters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import Field

from seqloom.formats import format_number
from seqloom.insight.plotting import panel_figure
from seqloom.lab.curves import collect_curves
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import Network, evaluation_updates, train, widest
from seqloom.lab.panels import draw_curves, legend_below, set_title
from seqloom.lab.texts import TextName, bits_per_character, load_text
from seqloom.layers.build import recurrent
from seqloom.layers.layer import Layer, count_parameters
from seqloom.layers.transformer.block import transformer
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ELMAN, LSTM, GRU, TRANSFORMER = "Elman", "LSTM", "GRU", "Transformer"
NETWORKS = (ELMAN, GRU, LSTM, TRANSFORMER)
RECURRENT = (ELMAN, GRU, LSTM)
EVALUATIONS = 12
HEADS, BLOCKS = 4, 2
"""Of the Transformer."""


@dataclass(frozen=True)
class Score:
    """A language model at one moment of its training."""

    network: str
    rate: float
    seed: int
    update: int
    bits: float  # per character of the dev text
    parameters: int


class Convergence(Experiment):
    """Character language models of equal size, each with its best learning rate."""

    topic: ClassVar[str] = "Learning"
    question: ClassVar[str] = "Which network learns fastest?"
    claim: ClassVar[str] = (
        "With as many parameters and updates, LSTM and GRU reach a lower loss than an Elman network, and a Transformer "
        "a lower one than all of them."
    )
    source: ClassVar[str] = "Chung et al. 2014; Vaswani et al. 2017; lectures on sequence modelling"
    rule: ClassVar[str] = (
        "All networks have about the same number of parameters and see the same batches; each is trained with every "
        "learning rate, and the rate with the lowest mean counts. Measured are bits per character of held-out text "
        "after the last update, as ratios for each seed. The claim holds if the ratios of LSTM to Elman, of GRU to "
        "Elman, and of the Transformer to each of the three (geometric means over seeds) are below 1 with the whole "
        "95 % interval; it does not hold if one of these intervals lies above 1."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2, "rates": (0.01,), "parameters": 3000, "length": 8, "batch_size": 2, "updates": 12,
    }  # fmt: skip
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 3, "rates": (2e-3, 5e-3, 1e-2), "updates": 400}
    row: ClassVar[type[Any]] = Score

    text: TextName = Field("prose", description="Text: English prose or Python code.")
    parameters: int = Field(30_000, ge=1000, description="Parameters of each network, approximately.")
    rates: tuple[float, ...] = Field((3e-3, 1e-2), min_length=1, description="Peak learning rates of Adam.")
    length: int = Field(50, ge=2, description="Characters of a training sequence.")
    batch_size: int = Field(16, ge=1, description="Sequences per update.")
    updates: int = Field(300, ge=EVALUATIONS, description="Updates of each training.")

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{network}, learning rate {rate:g}, seed {seed}", partial(self._measure, network, rate, seed))
            for seed in self.all_seeds
            for rate in self.rates
            for network in NETWORKS
        ]

    def _measure(self, name: str, rate: float, seed: int) -> list[Score]:
        text = load_text(self.text)
        torch.manual_seed(seed)
        network = self._build(name, text.size)
        parameters = count_parameters(network)
        sample = text.sampler(batch_size=self.batch_size, length=self.length, seed=seed)
        dev = text.dev_batch(length=self.length)
        evaluated = evaluation_updates(self.updates, EVALUATIONS)
        return [
            Score(name, rate, seed, event.update, bits_per_character(network, dev), parameters)
            for event in train(network, sample, TrainConfig(updates=self.updates, learning_rate=rate))
            if event.update in evaluated
        ]

    def _build(self, name: str, size: int) -> Network:
        """The widest network that has at most ``parameters``."""
        makers: dict[str, Callable[[int], Layer]] = {
            ELMAN: lambda width: recurrent("elman", size, width),
            LSTM: lambda width: recurrent("lstm", size, width),
            GRU: lambda width: recurrent("gru", size, width),
            TRANSFORMER: lambda width: transformer(size, width, layers=BLOCKS, heads=HEADS),
        }
        step = 2 * HEADS if name == TRANSFORMER else 1
        width = widest(lambda width: Network(makers[name](width), size), self.parameters, step=step)
        return Network(makers[name](width), size)

    def verdict(self, rows: Sequence[Score]) -> Verdict:
        final = {network: final_bits(rows, network) for network in NETWORKS}
        pairs = [(LSTM, ELMAN), (GRU, ELMAN), *((TRANSFORMER, other) for other in RECURRENT)]
        estimates = {f"{one} to {other}": Estimate.of_ratios(final[one], final[other]) for one, other in pairs}
        bits = ", ".join(f"{network} {format_number(fmean(final[network].values()), 3)}" for network in NETWORKS)
        ratios = ", ".join(f"{name} {estimate.format()}" for name, estimate in estimates.items())
        last = max(row.update for row in rows)
        return Verdict(
            conclude(*(estimate.is_below(1) for estimate in estimates.values())),
            f"After {last} updates, the networks need these bits per character: {bits}. Ratios: {ratios}.",
            estimates,
        )

    def table(self, rows: Sequence[Score]) -> Table:
        cells = []
        for network in NETWORKS:
            parameters = next(row.parameters for row in rows if row.network == network)
            bits = Estimate.of_mean(list(final_bits(rows, network).values()))
            cells.append([network, f"{parameters:,}", f"{best_rate(rows, network):g}", bits.format()])
        return ["network", "parameters", "best rate", "bits per character"], cells

    def draw(self, rows: Sequence[Score]) -> "Figure":
        figure = panel_figure(2, width=5.2, height=4.0)
        learning, rates = figure.axes
        ordered = sorted(rows, key=lambda row: NETWORKS.index(row.network))
        best = {network: best_rate(rows, network) for network in NETWORKS}
        draw_curves(
            learning,
            collect_curves((row.network, row.update, row.bits) for row in ordered if row.rate == best[row.network]),
        )
        learning.set(xlabel="updates", ylabel="bits per character of held-out text")
        set_title(learning, "Each with its best learning rate")
        last = max(row.update for row in rows)
        draw_curves(rates, collect_curves((row.network, row.rate, row.bits) for row in ordered if row.update == last))
        values = sorted({row.rate for row in rows})
        rates.set_xscale("log")
        rates.set_xticks(values, [f"{value:g}" for value in values], minor=False)
        rates.set_xticks([], minor=True)
        rates.set(xlabel="peak learning rate", ylabel="bits after the last update")
        set_title(rates, "How much the learning rate matters")
        legend_below(figure, learning)
        return figure


def best_rate(rows: Sequence[Score], network: str) -> float:
    """The learning rate with the lowest mean bits after the last update."""
    last = max(row.update for row in rows)
    final = [row for row in rows if row.network == network and row.update == last]
    return min({row.rate for row in final}, key=lambda rate: fmean(row.bits for row in final if row.rate == rate))


def final_bits(rows: Sequence[Score], network: str) -> dict[int, float]:
    """The bits per character after the last update with the best learning rate, by seed."""
    last, best = max(row.update for row in rows), best_rate(rows, network)
    return {row.seed: row.bits for row in rows if (row.network, row.rate, row.update) == (network, best, last)}
