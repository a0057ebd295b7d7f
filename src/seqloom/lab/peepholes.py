"""Whether peephole connections help a network to measure time (Gers, Schraudolph & Schmidhuber 2002).

Two tasks of that paper. *Measure*: two spikes are n, n + 1, … steps apart, and at the second one the network has to say
how many. *Generate*: after a single spike the input is silent, and the network has to produce a spike every n steps.
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
from seqloom.insight.plotting import panel_figure
from seqloom.lab.curves import collect_curves
from seqloom.lab.estimate import Estimate, conclude, seed_means
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import IGNORED, Network, accuracy, fit, one_hot_batch
from seqloom.lab.panels import draw_curves, legend_below, mark_level, set_log_steps, set_percent_axis, set_title
from seqloom.layers.build import recurrent
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Task = Literal["measure", "generate"]
TASKS: tuple[Task, ...] = get_args(Task)
CELLS = ("lstm", "peephole")
DISTANCES = 4
"""Different distances of the spikes that are to be distinguished."""
PERIODS = 4
"""Spikes that are to be generated."""
HELPFUL = 0.02
"""Peepholes help if they raise the accuracy by this much."""
CHANCE: dict[Task, float] = {"measure": 1 / DISTANCES, "generate": 2 / 3}


@dataclass(frozen=True)
class Outcome:
    """One network after training on one task."""

    cell: str
    task: Task
    interval: int  # steps between spikes
    seed: int
    accuracy: float


class Peepholes(Experiment):
    """Timing tasks for LSTMs with and without peepholes."""

    topic: ClassVar[str] = "Cells"
    question: ClassVar[str] = "Do peephole connections help an LSTM to measure time?"
    claim: ClassVar[str] = "With peepholes, an LSTM measures and generates intervals of time better than without."
    source: ClassVar[str] = "Gers, Schraudolph & Schmidhuber 2002; lectures on sequence modelling"
    rule: ClassVar[str] = (
        "The claim holds if peepholes raise the accuracy by more than 2 percentage points (mean over tasks and "
        "intervals, then over seeds) with the whole 95 % interval; it does not hold if the whole interval lies below."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "intervals": (3, 5), "hidden_size": 4, "updates": 5}
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 6, "intervals": (5, 10, 20)}
    row: ClassVar[type[Any]] = Outcome

    seeds: int = Field(5, ge=1, description="Repetitions, each with another random seed.")
    intervals: tuple[int, ...] = Field((10, 20), min_length=1, description="Steps between spikes.")
    hidden_size: int = Field(8, ge=1, description="Units of each network.")
    batch_size: int = Field(32, ge=1, description="Sequences per update.")
    updates: int = Field(600, ge=1, description="Updates of each training.")
    learning_rate: float = Field(1e-2, gt=0, description="Peak learning rate of Adam; it falls along a cosine.")

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{cell}, {task} {interval} steps, seed {seed}", partial(self._measure, cell, task, interval, seed))
            for seed in self.all_seeds
            for task in TASKS
            for interval in self.intervals
            for cell in CELLS
        ]

    def _measure(self, cell: str, task: Task, interval: int, seed: int) -> list[Outcome]:
        torch.manual_seed(seed)
        network = Network(recurrent(cell, 2, self.hidden_size), DISTANCES if task == "measure" else 2)
        draw = torch.Generator().manual_seed(seed)
        settings = TrainConfig(updates=self.updates, learning_rate=self.learning_rate)
        fit(network, lambda: spikes(task, interval, self.batch_size, draw), settings)
        return [Outcome(cell, task, interval, seed, accuracy(network, spikes(task, interval, 400, draw)))]

    def verdict(self, rows: Sequence[Outcome]) -> Verdict:
        estimates = {"both tasks": gain(rows)}
        estimates |= {str(task): gain([row for row in rows if row.task == task]) for task in TASKS}
        both, measure, generate = (estimate.format(percent=True) for estimate in estimates.values())
        without, with_peepholes = (fmean(row.accuracy for row in rows if row.cell == cell) for cell in CELLS)
        return Verdict(
            conclude(estimates["both tasks"].is_above(HELPFUL)),
            f"The mean accuracy is {with_peepholes:.1%} with peepholes and {without:.1%} without, a difference of "
            f"{both} ({measure} where intervals are measured, {generate} where they are generated).",
            estimates,
        )

    def table(self, rows: Sequence[Outcome]) -> Table:
        cases = list(dict.fromkeys((row.task, row.interval) for row in rows))
        cells = []
        for cell in CELLS:
            scores = [
                fmean(row.accuracy for row in rows if (row.cell, row.task, row.interval) == (cell, *case))
                for case in cases
            ]
            cells.append([cell, *(f"{score:.1%}" for score in scores)])
        return ["accuracy", *(f"{task} {interval}" for task, interval in cases)], cells

    def draw(self, rows: Sequence[Outcome]) -> "Figure":
        figure = panel_figure(len(TASKS), width=5.0, height=3.8)
        for axes, task in zip(figure.axes, TASKS, strict=True):
            draw_curves(
                axes, collect_curves((row.cell, row.interval, row.accuracy) for row in rows if row.task == task)
            )
            mark_level(axes, CHANCE[task], "chance")
            set_log_steps(axes, sorted({row.interval for row in rows}), label="steps between spikes")
            axes.set_ylim(0, 1.05)
            set_percent_axis(axes, "accuracy")
            set_title(axes, "Measure an interval" if task == "measure" else "Generate intervals")
        legend_below(figure, figure.axes[0])
        return figure


def spikes(task: Task, interval: int, batch: int, draw: torch.Generator) -> Batch:
    """Sequences of one task, all equal and thus only one if spikes are generated; inputs are 1 at a spike, else 0."""
    if task == "generate":
        return one_hot_batch(*_generate(interval), size=2)
    extra = torch.randint(DISTANCES, (batch,), generator=draw)
    tokens = torch.zeros(batch, interval + DISTANCES, dtype=torch.long)
    target = torch.full_like(tokens, IGNORED)
    rows = torch.arange(batch)
    tokens[:, 0] = 1
    tokens[rows, interval + extra] = 1
    target[rows, interval + extra] = extra
    return one_hot_batch(tokens, target, size=2)


def _generate(interval: int) -> tuple[Tensor, Tensor]:
    """A spike at the start only; the class is 1 every ``interval`` steps and 0 one step before and after that."""
    tokens = torch.zeros(1, PERIODS * interval + 2, dtype=torch.long)
    tokens[:, 0] = 1
    target = torch.full_like(tokens, IGNORED)
    for period in range(1, PERIODS + 1):
        target[:, period * interval - 1] = target[:, period * interval + 1] = 0
        target[:, period * interval] = 1
    return tokens, target


def gain(rows: Sequence[Outcome]) -> Estimate:
    """The accuracy with peepholes minus that without, mean over tasks and intervals, for each seed."""
    without, with_peepholes = (
        seed_means((row.seed, row.accuracy) for row in rows if row.cell == cell) for cell in CELLS
    )
    return Estimate.of_differences(with_peepholes, without)
