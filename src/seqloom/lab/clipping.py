"""Whether clipping the gradient keeps trainings alive whose gradients explode.

A character language model with a simple recurrent layer is trained by plain gradient descent, with and without a limit
on the norm of the gradient. Its recurrent matrix starts with a largest singular value above 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import Field

from seqloom.cells import Elman
from seqloom.insight.plotting import panel_figure
from seqloom.lab.curves import collect_curves, curve_table
from seqloom.lab.estimate import Estimate, conclude, seed_means
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import Network, train
from seqloom.lab.panels import draw_curves, legend_below, mark_level, set_title
from seqloom.lab.texts import bits_per_character, load_text
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.training.config import TrainConfig
from seqloom.training.divergence import Diverged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLIPPED, UNCLIPPED = "clipped", "not clipped"
NORMS = 40
"""Gradient norms that are kept of a whole training, each the largest of consecutive updates."""


@dataclass(frozen=True)
class Outcome:
    """One training."""

    clipping: str  # CLIPPED or UNCLIPPED
    learning_rate: float
    seed: int
    bits: float  # per character of held-out text; those of uniform guessing if the weights are not finite
    chance: float  # bits of uniform guessing
    diverged: bool  # the gradient or the weights were not finite in the end
    norms: tuple[float, ...]  # the largest gradient norms before clipping, in the order of the updates


class Clipping(Experiment):
    """Language models with exploding gradients, trained with and without clipping."""

    topic: ClassVar[str] = "Memory and gradients"
    question: ClassVar[str] = "Does clipping the gradient tame its explosion?"
    claim: ClassVar[str] = (
        "With clipping, recurrent networks learn at learning rates at which exploding gradients ruin them otherwise."
    )
    source: ClassVar[str] = "Mikolov 2012; Pascanu, Mikolov & Bengio 2013; lectures on sequence modelling"
    rule: ClassVar[str] = (
        "A training succeeds if it ends with fewer bits per character than three quarters of uniform guessing. The "
        "claim holds if the share of learning rates at which trainings succeed is larger with clipping than without "
        "(mean difference over seeds), with the whole 95 % interval; it does not hold if the interval lies below 0."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2,
        "learning_rates": (0.1, 10.0),
        "hidden_size": 8,
        "length": 10,
        "updates": 10,
    }
    thorough: ClassVar[Mapping[str, Any]] = {
        "seeds": 8,
        "learning_rates": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
    }
    row: ClassVar[type[Any]] = Outcome

    seeds: int = Field(3, ge=1, description="Repetitions, each with another random seed.")
    learning_rates: tuple[float, ...] = Field(
        (0.03, 0.1, 0.3, 1.0, 3.0), min_length=1, description="Learning rates of stochastic gradient descent."
    )
    clip_norm: float = Field(1.0, gt=0, description="Maximum norm of the gradient in the trainings with clipping.")
    singular_value: float = Field(1.5, gt=0, description="Largest singular value of the initial recurrent matrix.")
    hidden_size: int = Field(64, ge=1, description="Units of the network.")
    length: int = Field(50, ge=2, description="Characters of a training sequence.")
    batch_size: int = Field(16, ge=1, description="Sequences per update.")
    updates: int = Field(300, ge=1, description="Updates of each training.")

    @property
    def updates_per_norm(self) -> int:
        return math.ceil(self.updates / NORMS)

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{clipping}, learning rate {rate:g}, seed {seed}", partial(self._measure, clipping, rate, seed))
            for seed in self.all_seeds
            for rate in self.learning_rates
            for clipping in (UNCLIPPED, CLIPPED)
        ]

    def _measure(self, clipping: str, rate: float, seed: int) -> list[Outcome]:
        text = load_text("prose")
        torch.manual_seed(seed)
        cell = Elman(text.size, self.hidden_size, activation="relu")
        with torch.no_grad():
            cell.recurrent.weight *= self.singular_value
        network = Network(Recurrent(cell), text.size)
        settings = TrainConfig(
            updates=self.updates,
            optimizer="sgd",
            learning_rate=rate,
            schedule="constant",
            clip_norm=self.clip_norm if clipping == CLIPPED else 0,
        )
        sample = text.sampler(batch_size=self.batch_size, length=self.length, seed=seed)
        norms: list[float] = []
        diverged = False
        try:
            norms.extend(event.gradient_norm or 0.0 for event in train(network, sample, settings))
        except Diverged:
            diverged = True
        chance = math.log2(text.size)
        bits = bits_per_character(network, text.dev_batch())
        finite = math.isfinite(bits)
        return [
            Outcome(
                clipping,
                rate,
                seed,
                bits if finite else chance,
                chance,
                diverged or not finite,
                largest(norms, self.updates_per_norm),
            )
        ]

    def verdict(self, rows: Sequence[Outcome]) -> Verdict:
        shares = {
            clipping: seed_means((row.seed, succeeded(row)) for row in rows if row.clipping == clipping)
            for clipping in (CLIPPED, UNCLIPPED)
        }
        difference = Estimate.of_differences(shares[CLIPPED], shares[UNCLIPPED])
        clipped, unclipped = (fmean(shares[clipping].values()) for clipping in (CLIPPED, UNCLIPPED))
        diverged = {
            clipping: sum(row.diverged for row in rows if row.clipping == clipping) for clipping in (CLIPPED, UNCLIPPED)
        }
        norm = max(norm for row in rows for norm in row.norms)
        return Verdict(
            conclude(difference.is_above(0)),
            f"Trainings succeed at {clipped:.0%} of the learning rates with clipping and at {unclipped:.0%} without, a "
            f"difference of {difference.format(percent=True)}. Gradients or weights became infinite in "
            f"{diverged[CLIPPED]} of {len(rows) // 2} trainings with clipping and in {diverged[UNCLIPPED]} without; "
            f"the largest finite norm of a gradient was {norm:.0e}.",
            {"difference of the shares of successful trainings": difference},
        )

    def table(self, rows: Sequence[Outcome]) -> Table:
        curves = collect_curves((row.clipping, row.learning_rate, row.bits) for row in clipped_first(rows))
        return curve_table("bits per character at a learning rate of", curves, form=".2f")

    def draw(self, rows: Sequence[Outcome]) -> "Figure":
        figure = panel_figure(2, width=5.2, height=3.9)
        bits_panel, norm_panel = figure.axes
        ordered = clipped_first(rows)
        curves = collect_curves((row.clipping, row.learning_rate, min(row.bits, 1.5 * row.chance)) for row in ordered)
        draw_curves(bits_panel, curves)
        bits_panel.set(xscale="log", xlabel="learning rate", ylabel="bits per character of held-out text")
        mark_level(bits_panel, rows[0].chance, "uniform guessing")
        set_title(bits_panel, "Result of training")
        rate = _most_instructive_rate(rows)
        norms = collect_curves(
            (row.clipping, number * self.updates_per_norm, norm)
            for row in ordered
            for number, norm in enumerate(row.norms, start=1)
            if row.learning_rate == rate and norm  # a curve ends where gradients are not finite
        )
        draw_curves(norm_panel, norms, styles={name: {"marker": "."} for name in norms})
        norm_panel.set(yscale="log", xlabel="updates", ylabel="norm of the gradient before clipping")
        mark_level(norm_panel, self.clip_norm, "limit of clipping")
        set_title(norm_panel, f"Gradients at a learning rate of {rate:g}")
        legend_below(figure, bits_panel)
        return figure


def clipped_first(rows: Sequence[Outcome]) -> list[Outcome]:
    """The trainings with clipping before the others."""
    return sorted(rows, key=lambda row: row.clipping != CLIPPED)


def succeeded(row: Outcome) -> bool:
    """Whether a training has learned something."""
    return not row.diverged and row.bits < 0.75 * row.chance


def largest(norms: Sequence[float], size: int) -> tuple[float, ...]:
    """The largest finite norm of each group of ``size`` consecutive updates; 0 where there is none."""
    groups = [norms[start : start + size] for start in range(0, len(norms), size)]
    return tuple(max((norm for norm in group if math.isfinite(norm)), default=0.0) for group in groups) or (0.0,)


def _most_instructive_rate(rows: Sequence[Outcome]) -> float:
    """The learning rate at which clipping makes the largest difference."""

    def gain(rate: float) -> float:
        bits = {
            clipping: fmean(row.bits for row in rows if (row.clipping, row.learning_rate) == (clipping, rate))
            for clipping in (CLIPPED, UNCLIPPED)
        }
        return bits[UNCLIPPED] - bits[CLIPPED]

    return max(sorted({row.learning_rate for row in rows}), key=gain)
