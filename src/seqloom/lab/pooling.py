"""Which pooling turns the outputs of a recurrent layer into the best vector of a sequence, at which length.

Two tasks ask for different things. In *find*, the class is the symbol after a marker, once in a long sequence: the rest
is noise. In *count*, the class is the symbol that occurs most often: every step counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from seqloom.data.batch import Batch, Padded
from seqloom.insight.plotting import panel_figure
from seqloom.lab.curves import collect_curves
from seqloom.lab.estimate import Estimate, conclude, seed_means
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import accuracy, fit
from seqloom.lab.panels import draw_curves, legend_below, set_log_steps, set_title
from seqloom.layers.build import recurrent
from seqloom.layers.layer import Layer, Memory
from seqloom.models.pooling import POOLINGS
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Task = Literal["find", "count"]
ORDER = ("last", "mean", "max", "attention")
"""The poolings from worst to best, as the claim has it."""
NEW_SEQUENCES = 500


@dataclass(frozen=True)
class Score:
    """A network with one pooling at one length."""

    pooling: str
    task: str
    length: int
    seed: int
    accuracy: float  # on new sequences


class PooledNetwork(nn.Module):
    """A layer, a pooling of its outputs, and a linear map to classes."""

    def __init__(self, layer: Layer, pooling: str, classes: int) -> None:
        super().__init__()
        self.layer = layer
        self.pooling = POOLINGS[pooling](layer.output_size)
        self.output = nn.Linear(layer.output_size, classes)

    def forward(
        self,
        inputs: Padded,  # (B, T, D)
        where: Tensor,  # (B,), True at the N sequences that are to be classified
    ) -> Tensor:  # (N, classes)
        values, state = self.layer(inputs.values, inputs.mask)
        logits: Tensor = self.output(self.pooling(Memory(values, inputs.mask, state))[where])
        return logits


class Pooling(Experiment):
    """Classifiers that differ in their pooling only."""

    topic: ClassVar[str] = "Stacks, directions and pooling"
    question: ClassVar[str] = "Which pooling makes the best vector of a sequence?"
    claim: ClassVar[str] = (
        "For the class of a sequence, the last state is the worst summary, the mean of all states is better, their "
        "maximum better still, and attention the best."
    )
    source: ClassVar[str] = (
        "Yang et al. 2016 (attention); Conneau et al. 2017 (maximum above mean); Lin et al. 2017; lectures on sequence "
        "modelling"
    )
    rule: ClassVar[str] = (
        "Each network is trained on sequences of all lengths. Its accuracy on new sequences is averaged over tasks and "
        "lengths. The claim holds if each of the three steps of the order (last, mean, max, attention) is a gain above "
        "0 with the whole 95 % interval over seeds; it does not hold if one of the intervals lies at or below 0."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "lengths": (5, 10), "hidden_size": 8, "updates": 4}
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 6, "updates": 600}
    row: ClassVar[type[Any]] = Score

    tasks: tuple[Task, ...] = Field(
        ("find", "count"),
        min_length=1,
        description="Tasks: find the symbol after the marker, or count which symbol occurs most often.",
    )
    lengths: tuple[int, ...] = Field((10, 20, 40, 80), min_length=1, description="Steps of the sequences.")
    symbols: int = Field(4, ge=2, description="Different symbols, which are the classes.")
    cell: str = Field("lstm", description="Cell of the recurrent layer.")
    hidden_size: int = Field(32, ge=1, description="Units of the recurrent layer.")
    batch_size: int = Field(32, ge=1, description="Sequences per update.")
    updates: int = Field(500, ge=1, description="Updates of each training.")
    learning_rate: float = Field(5e-3, gt=0, description="Peak learning rate of Adam; it falls along a cosine.")

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{pooling}, {task}, seed {seed}", partial(self._measure, pooling, task, seed))
            for seed in self.all_seeds
            for task in self.tasks
            for pooling in ORDER
        ]

    def _measure(self, pooling: str, task: Task, seed: int) -> list[Score]:
        torch.manual_seed(seed)
        network = PooledNetwork(recurrent(self.cell, self.symbols + 1, self.hidden_size), pooling, self.symbols)
        draw = torch.Generator().manual_seed(seed)

        def sample() -> Batch:
            length = self.lengths[int(torch.randint(len(self.lengths), (), generator=draw))]
            return self.sequences(task, length, self.batch_size, draw)

        settings = TrainConfig(updates=self.updates, learning_rate=self.learning_rate)
        fit(network, sample, settings)
        return [
            Score(pooling, task, length, seed, accuracy(network, self.sequences(task, length, NEW_SEQUENCES, draw)))
            for length in self.lengths
        ]

    def sequences(self, task: Task, length: int, batch: int, draw: torch.Generator) -> Batch:
        """Random symbols with their classes; the marker is the last of the one-hot inputs."""
        if task == "count":
            # One symbol is twice as probable as the others; where another one is more frequent, that is the class.
            chosen = torch.randint(self.symbols, (batch,), generator=draw)
            weights = 1 + functional.one_hot(chosen, self.symbols)
            tokens = torch.multinomial(weights.float(), length, replacement=True, generator=draw)
            target = functional.one_hot(tokens, self.symbols).sum(dim=1).argmax(dim=1)
        else:
            tokens = torch.randint(self.symbols, (batch, length), generator=draw)
            at, rows = torch.randint(length - 1, (batch,), generator=draw), torch.arange(batch)
            tokens[rows, at] = self.symbols
            target = tokens[rows, at + 1]
        x = functional.one_hot(tokens, self.symbols + 1).float()
        return Batch(Padded(x, torch.ones_like(tokens, dtype=torch.bool)), target, items=batch)

    def verdict(self, rows: Sequence[Score]) -> Verdict:
        means = {pooling: accuracies(rows, pooling) for pooling in ORDER}
        gains = {
            f"{better} - {worse}": Estimate.of_differences(means[better], means[worse])
            for worse, better in pairwise(ORDER)
        }
        totals = {pooling: Estimate.of_mean(list(means[pooling].values())) for pooling in ORDER}
        listed = ", ".join(f"{pooling} {estimate.format(percent=True)}" for pooling, estimate in totals.items())
        steps = ", ".join(
            f"{100 * gain.value:+.1f} from {worse} to {better}"
            for (worse, better), gain in zip(pairwise(ORDER), gains.values(), strict=True)
        )
        winners = "; ".join(
            f"{_best(rows, task)} is best at {task}" for task in dict.fromkeys(row.task for row in rows)
        )
        return Verdict(
            conclude(*(gain.is_above(0) for gain in gains.values())),
            f"Accuracy over tasks and lengths: {listed}. The steps in percentage points: {steps}. By task, {winners}.",
            gains | totals,
        )

    def table(self, rows: Sequence[Score]) -> Table:
        cases = list(dict.fromkeys((row.task, row.length) for row in rows))
        means = {
            case: fmean(row.accuracy for row in rows if (row.pooling, row.task, row.length) == case)
            for case in dict.fromkeys((row.pooling, row.task, row.length) for row in rows)
        }
        cells = [[pooling, *(f"{means[pooling, *case]:.0%}" for case in cases)] for pooling in ORDER]
        return ["accuracy", *(f"{task} {length}" for task, length in cases)], cells

    def draw(self, rows: Sequence[Score]) -> "Figure":
        tasks = list(dict.fromkeys(row.task for row in rows))
        titles = {"find": "Find the symbol after the marker", "count": "Which symbol is the most frequent?"}
        figure = panel_figure(len(tasks), width=5.2, height=3.9)
        lengths = sorted({row.length for row in rows})
        lowest = max(0.0, 100 * min(row.accuracy for row in rows) - 3)
        for axes, task in zip(figure.axes, tasks, strict=True):
            ordered = sorted((row for row in rows if row.task == task), key=lambda row: ORDER.index(row.pooling))
            draw_curves(axes, collect_curves((row.pooling, row.length, 100 * row.accuracy) for row in ordered))
            set_log_steps(axes, lengths, label="steps of the sequence")
            axes.set(ylim=(lowest, 101), ylabel=f"accuracy, % (chance: {100 / self.symbols:.0f} %)")
            set_title(axes, titles[task])
        legend_below(figure, figure.axes[0])
        return figure


def accuracies(rows: Sequence[Score], pooling: str) -> dict[int, float]:
    """The accuracy over all tasks and lengths, by seed."""
    return seed_means((row.seed, row.accuracy) for row in rows if row.pooling == pooling)


def _best(rows: Sequence[Score], task: str) -> str:
    return max(
        ORDER, key=lambda pooling: fmean(row.accuracy for row in rows if (row.pooling, row.task) == (pooling, task))
    )
