"""What experiments that compare a cell with the LSTM have in common: character language models of equal width.

A narrower LSTM with as many parameters as the cell is the yardstick: a cell that saves parameters has to lose less than
leaving out units does.
"""

from collections.abc import Mapping, Sequence
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
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EVALUATIONS = 8
MARGIN = 0.02
"""A cell is as good as the LSTM if it needs at most this share of bits more."""
REFERENCE, NARROW = "lstm", "narrow lstm"


@dataclass(frozen=True)
class Score:
    """A language model at one moment of its training."""

    cell: str
    text: str
    seed: int
    update: int
    bits: float  # per character of the dev text
    parameters: int  # of the recurrent layer


class CellComparison(Experiment):
    """Language models whose recurrent layers differ in their cell only."""

    topic: ClassVar[str] = "Cells"
    cell: ClassVar[str]  # that is compared with the LSTM
    title: ClassVar[str]  # what it is called in sentences
    rule: ClassVar[str] = (
        "Both cells have the same number of units and see the same batches; a narrower LSTM has as many parameters as "
        "the cell. Measured are bits per character of held-out text at the end of training, as ratios (geometric mean "
        "over texts and seeds). The claim holds if the cell needs at most 1.02 times as many bits as the LSTM of its "
        "width, and fewer than the narrow LSTM, both with the whole 95 % interval; it does not hold if one of the "
        "intervals lies on the other side."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2,
        "texts": ("prose",),
        "hidden_size": 8,
        "length": 10,
        "updates": 8,
    }
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 4}
    row: ClassVar[type[Any]] = Score

    texts: tuple[TextName, ...] = Field(
        ("prose", "code"), min_length=1, description="Texts: English prose, Python code."
    )
    hidden_size: int = Field(64, ge=1, description="Units of each layer.")
    length: int = Field(50, ge=2, description="Characters of a training sequence.")
    batch_size: int = Field(16, ge=1, description="Sequences per update.")
    updates: int = Field(800, ge=EVALUATIONS, description="Updates of each training.")
    learning_rate: float = Field(1e-2, gt=0, description="Peak learning rate of Adam; it falls along a cosine.")

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{cell}, {text}, seed {seed}", partial(self._measure, cell, text, seed))
            for seed in self.all_seeds
            for text in self.texts
            for cell in self.networks
        ]

    @property
    def networks(self) -> tuple[str, str, str]:
        return (REFERENCE, self.cell, NARROW)

    def build(self, cell: str, size: int) -> Layer:
        """The recurrent layer for inputs of a size; the narrow LSTM has at most as many parameters as the cell."""
        if cell != NARROW:
            return recurrent(cell, size, self.hidden_size)
        with torch.device("meta"):
            parameters = count_parameters(recurrent(self.cell, size, self.hidden_size))
        return recurrent(REFERENCE, size, widest(lambda width: recurrent(REFERENCE, size, width), parameters))

    def _measure(self, cell: str, name: TextName, seed: int) -> list[Score]:
        text = load_text(name)
        torch.manual_seed(seed)
        network = Network(self.build(cell, text.size), text.size)
        parameters = count_parameters(network.layer)
        settings = TrainConfig(updates=self.updates, learning_rate=self.learning_rate)
        sample = text.sampler(batch_size=self.batch_size, length=self.length, seed=seed)
        dev = text.dev_batch()
        evaluated = evaluation_updates(self.updates, EVALUATIONS)
        return [
            Score(cell, name, seed, event.update, bits_per_character(network, dev), parameters)
            for event in train(network, sample, settings)
            if event.update in evaluated
        ]

    def verdict(self, rows: Sequence[Score]) -> Verdict:
        wide, narrow = (
            Estimate.of_ratios(final_bits(rows, self.cell), final_bits(rows, other)) for other in (REFERENCE, NARROW)
        )
        own, other = ({row.parameters for row in rows if row.cell == cell} for cell in (self.cell, REFERENCE))
        share = max(own) / max(other)
        bits = {cell: format_number(fmean(final_bits(rows, cell).values()), 3) for cell in self.networks}
        return Verdict(
            conclude(wide.is_below(1 + MARGIN), narrow.is_below(1)),
            f"With {share:.0%} of the parameters, the {self.title} needs {wide.format()} times as many bits per "
            f"character as the LSTM of its width, and {narrow.format()} times as many as an LSTM with as few "
            f"parameters ({bits[self.cell]}, {bits[REFERENCE]} and {bits[NARROW]} bits on average).",
            {"ratio to the LSTM of this width": wide, "ratio to the narrow LSTM": narrow},
        )

    def table(self, rows: Sequence[Score]) -> Table:
        texts = list(dict.fromkeys(row.text for row in rows))
        cells = []
        for cell in self.networks:
            bits = {
                text: [value for (own, _), value in final_bits(rows, cell).items() if own == text] for text in texts
            }
            parameters = max(row.parameters for row in rows if row.cell == cell)
            cells.append([cell, f"{parameters:,}", *(Estimate.of_mean(bits[text]).format() for text in texts)])
        return ["cell", "parameters", *(f"bits per character, {text}" for text in texts)], cells

    def draw(self, rows: Sequence[Score]) -> "Figure":
        texts = list(dict.fromkeys(row.text for row in rows))
        figure = panel_figure(len(texts), width=5.2, height=3.9)
        for axes, text in zip(figure.axes, texts, strict=True):
            curves = collect_curves(
                (f"{row.cell}, {row.parameters:,} parameters", row.update, row.bits) for row in rows if row.text == text
            )
            draw_curves(axes, curves)
            axes.set(xlabel="updates", ylabel="bits per character of held-out text")
            set_title(axes, f"Language model of {text}")
        legend_below(figure, figure.axes[0])
        return figure


def final_bits(rows: Sequence[Score], cell: str) -> dict[tuple[str, int], float]:
    """The bits per character after the last update, by text and seed."""
    last = max(row.update for row in rows)
    return {(row.text, row.seed): row.bits for row in rows if row.cell == cell and row.update == last}
