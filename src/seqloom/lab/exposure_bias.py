"""Whether a decoder trained by teacher forcing suffers from its own errors, and whether scheduled sampling helps.

In teacher forcing a decoder always reads the right tokens before the one it predicts. Running freely, it reads its own,
and after an error it is in a situation that it has never seen (exposure bias). With scheduled sampling it reads some of
its own tokens in training, more and more of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import Field

from seqloom.insight.plotting import COLOURS, panel_figure
from seqloom.lab.curves import collect_curves
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Table, Trial, Verdict
from seqloom.lab.panels import draw_curves, draw_dots, legend_below, set_title
from seqloom.lab.translation import END, Pair, TranslationExperiment, collate, right_by_position, translate
from seqloom.models.encoder_decoder import EncoderDecoder
from seqloom.models.generation import teacher_forced_scores
from seqloom.models.scheduled_sampling import ScheduledSampling

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORCED, SAMPLED = "teacher forcing", "scheduled sampling"
TRAININGS = (FORCED, SAMPLED)


@dataclass(frozen=True)
class Score:
    """One model on new sentences of the longest length, by position in the translation."""

    training: str
    seed: int
    reference: tuple[float, ...]  # share of right words if the model reads the right words before
    own: tuple[float, ...]  # if it reads its own

    @property
    def gap(self) -> float:
        return fmean(self.reference) - fmean(self.own)


class ExposureBias(TranslationExperiment):
    """Encoder-decoders without attention, trained with and without their own tokens."""

    question: ClassVar[str] = "Does a decoder stumble over its own errors?"
    claim: ClassVar[str] = (
        "A decoder trained by teacher forcing is less accurate if it has to read its own words, and scheduled sampling "
        "makes it more accurate then."
    )
    source: ClassVar[str] = (
        "Bengio et al. 2015; Ranzato et al. 2016; doubts: Huszár 2015; He et al. 2021; lectures on sequence modelling"
    )
    rule: ClassVar[str] = (
        "Measured is the share of right words at each position of new translations, once if the decoder reads the "
        "right words before, once if it reads its own (greedy search). The claim holds if, after teacher forcing, the "
        "first share is larger than the second, and if the second is larger after scheduled sampling than after "
        "teacher forcing (means over positions, differences over seeds, both with the whole 95 % interval above 0); it "
        "does not hold if one of the intervals lies at or below 0."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2, "length": 4, "hidden_size": 8, "updates": 4, "batch_size": 4, "sentences": 5,
    }  # fmt: skip
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 5, "sentences": 400}
    row: ClassVar[type[Any]] = Score

    seeds: int = Field(3, ge=1, description="Repetitions, each with another random seed.")
    length: int = Field(8, ge=2, description="Words of the longest sentences, which are translated.")
    updates: int = Field(1200, ge=1, description="Updates of each training.")
    sentences: int = Field(200, ge=1, description="New sentences that are translated.")
    final_probability: float = Field(
        0.25, ge=0, le=1, description="Scheduled sampling: probability of the right word in the end; it falls linearly."
    )

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{training}, seed {seed}", partial(self._measure, training, seed))
            for seed in self.all_seeds
            for training in TRAININGS
        ]

    def _measure(self, training: str, seed: int) -> list[Score]:
        sampling = None if training == FORCED else self.scheduled_sampling()
        model, draw = self.train_translator(seed, lengths=range(2, self.length + 1), scheduled_sampling=sampling)
        pairs = self.new_pairs(self.length, draw)
        own = right_by_position(translate(model, pairs), pairs, self.length)
        return [Score(training, seed, right_after_reference(model, pairs, self.length), own)]

    def scheduled_sampling(self) -> ScheduledSampling:
        """From the right word always to the final probability at the last update."""
        slope = (1 - self.final_probability) / self.updates
        return ScheduledSampling(schedule="linear", slope=slope, floor=self.final_probability)

    def verdict(self, rows: Sequence[Score]) -> Verdict:
        by_case = {(row.training, row.seed): row for row in rows}
        seeds = sorted({row.seed for row in rows})
        gaps = {training: Estimate.of_mean([by_case[training, seed].gap for seed in seeds]) for training in TRAININGS}
        gain = Estimate.of_mean(
            [fmean(by_case[SAMPLED, seed].own) - fmean(by_case[FORCED, seed].own) for seed in seeds]
        )
        shares = {training: fmean(fmean(by_case[training, seed].own) for seed in seeds) for training in TRAININGS}
        return Verdict(
            conclude(gaps[FORCED].is_above(0), gain.is_above(0)),
            f"After teacher forcing, the share of right words is {gaps[FORCED].format_points()} percentage points "
            f"higher if the decoder reads the right words before instead of its own; after scheduled sampling, "
            f"{gaps[SAMPLED].format_points()}. Reading its own, {shares[SAMPLED]:.1%} of the words are right after "
            f"scheduled sampling and {shares[FORCED]:.1%} after teacher forcing, a difference of "
            f"{gain.format_points()}.",
            {**{f"gap after {training}": gap for training, gap in gaps.items()}, "gain of scheduled sampling": gain},
        )

    def table(self, rows: Sequence[Score]) -> Table:
        cells = []
        for training in TRAININGS:
            own = [row for row in rows if row.training == training]
            shares = [[fmean(row.reference) for row in own], [fmean(row.own) for row in own], [row.gap for row in own]]
            cells.append([training, *(Estimate.of_mean(values).format(percent=True) for values in shares)])
        return ["right words after training by", "reading right words", "reading its own", "gap"], cells

    def draw(self, rows: Sequence[Score]) -> "Figure":
        figure = panel_figure(2, width=5.2, height=3.9)
        position_panel, gap_panel = figure.axes
        curves = collect_curves(
            (f"{row.training}, {name}", position, 100 * share)
            for name in ("reads right words", "reads its own")
            for row in rows
            for position, share in enumerate(row.reference if name == "reads right words" else row.own, start=1)
        )
        styles = {
            name: {"color": COLOURS[TRAININGS.index(name.split(",")[0])], "linestyle": "-" if "own" in name else "--"}
            for name in curves
        }
        draw_curves(position_panel, curves, styles=styles)
        position_panel.set(xlabel="position in the translation", ylabel="right words, %")
        position_panel.set_ylim(None, 102)
        set_title(position_panel, f"Sentences of {self.length} words")
        draw_dots(gap_panel, {name: [100 * row.gap for row in rows if row.training == name] for name in TRAININGS})
        gap_panel.set_xlabel("right words lost by reading its own, percentage points")
        gap_panel.set_xlim(min(0, gap_panel.get_xlim()[0]), None)
        set_title(gap_panel, "Gap of each seed")
        legend_below(figure, position_panel, columns=2)
        return figure


@torch.no_grad()
def right_after_reference(model: EncoderDecoder, pairs: Sequence[Pair], length: int) -> tuple[float, ...]:
    """The share of sentences of a length with the right word at each position, if the decoder reads the right ones."""
    batch = collate(pairs)
    scores = teacher_forced_scores(model.decoder, model.encoder(*batch.inputs), batch.target, end=END)
    return tuple(fmean(correct[at] for _, correct in scores) for at in range(length))
