"""Whether an encoder-decoder without attention translates better if it reads the source backwards.

Read backwards, the first words of the source are the last that the encoder reads, next to the first words of the
translation: a few short dependencies, with which training can begin. The mean distance stays the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from seqloom.insight.plotting import panel_figure
from seqloom.lab.curves import collect_curves, curve_table
from seqloom.lab.estimate import Estimate, conclude, seed_means
from seqloom.lab.experiment import Table, Trial, Verdict
from seqloom.lab.panels import draw_curves, legend_below, set_title
from seqloom.lab.translation import TranslationExperiment, right_by_position, translate, word_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORWARD, REVERSED = "source as it is", "source reversed"


@dataclass(frozen=True)
class Score:
    """A model on sentences of one length."""

    reading: str
    seed: int
    length: int  # words of the source
    accuracy: float  # of the words of new translations, by edit distance
    positions: tuple[float, ...]  # share of sentences with the right word at each position of the translation


class SourceReversal(TranslationExperiment):
    """Encoder-decoders without attention that read the source forwards or backwards."""

    question: ClassVar[str] = "Does it help to read the source backwards?"
    claim: ClassVar[str] = "Without attention, translations are better if the source is read backwards."
    source: ClassVar[str] = "Sutskever, Vinyals & Le 2014; lectures on sequence modelling"
    rule: ClassVar[str] = (
        "The claim holds if the share of words translated right, averaged over lengths, is higher with the source "
        "reversed (difference above 0 with the whole 95 % interval over seeds); it does not hold if the whole interval "
        "lies at or below 0."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2,
        "lengths": (2, 4),
        "hidden_size": 8,
        "updates": 5,
        "batch_size": 4,
        "sentences": 5,
    }
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 8, "sentences": 200}
    row: ClassVar[type[Any]] = Score

    seeds: int = Field(6, ge=1, description="Repetitions, each with another random seed.")
    lengths: tuple[int, ...] = Field((4, 6, 8, 10), min_length=1, description="Words of the translated sentences.")

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{reading}, seed {seed}", partial(self._measure, reading, seed))
            for seed in self.all_seeds
            for reading in (FORWARD, REVERSED)
        ]

    def _measure(self, reading: str, seed: int) -> list[Score]:
        reverse = reading == REVERSED
        network, draw = self.train_translator(seed, lengths=range(2, max(self.lengths) + 1), reverse=reverse)
        rows = []
        for length in sorted(self.lengths):
            pairs = self.new_pairs(length, draw)
            outputs = translate(network, pairs, reverse=reverse)
            rows.append(
                Score(reading, seed, length, word_accuracy(outputs, pairs), right_by_position(outputs, pairs, length))
            )
        return rows

    def verdict(self, rows: Sequence[Score]) -> Verdict:
        means = {reading: accuracies(rows, reading) for reading in (FORWARD, REVERSED)}
        gain = Estimate.of_differences(means[REVERSED], means[FORWARD])
        longest = max(row.length for row in rows)
        first, last = (
            {reading: _position_mean(rows, reading, longest, at) for reading in (FORWARD, REVERSED)} for at in (0, -1)
        )
        return Verdict(
            conclude(gain.is_above(0)),
            f"With the source reversed, {fmean(means[REVERSED].values()):.1%} of the words are right, otherwise "
            f"{fmean(means[FORWARD].values()):.1%}: a difference of {gain.format_points()} percentage "
            f"points. In sentences of {longest} words, the first word is right in {first[REVERSED]:.0%} (otherwise "
            f"{first[FORWARD]:.0%}), the last in {last[REVERSED]:.0%} (otherwise {last[FORWARD]:.0%}).",
            {"gain of reversal": gain},
        )

    def table(self, rows: Sequence[Score]) -> Table:
        curves = collect_curves((row.reading, row.length, row.accuracy) for row in rows)
        return curve_table("words right, sentences of length", curves, form=".1%")

    def draw(self, rows: Sequence[Score]) -> "Figure":
        figure = panel_figure(2, width=5.2, height=3.9)
        length_panel, position_panel = figure.axes
        longest = max(row.length for row in rows)
        by_position = collect_curves(
            (row.reading, position, 100 * share)
            for row in rows
            if row.length == longest
            for position, share in enumerate(row.positions, start=1)
        )
        draw_curves(length_panel, collect_curves((row.reading, row.length, 100 * row.accuracy) for row in rows))
        length_panel.set(ylim=(0, 103), xlabel="words of the sentence", ylabel="words translated right, %")
        set_title(length_panel, "Translation by length")
        draw_curves(position_panel, by_position)
        position_panel.set(ylim=(0, 103), xlabel="position in the translation", ylabel="right words, %")
        set_title(position_panel, f"By position, sentences of {longest} words")
        legend_below(figure, length_panel)
        return figure


def accuracies(rows: Sequence[Score], reading: str) -> dict[int, float]:
    """The accuracy averaged over lengths, by seed."""
    return seed_means((row.seed, row.accuracy) for row in rows if row.reading == reading)


def _position_mean(rows: Sequence[Score], reading: str, length: int, at: int) -> float:
    return fmean(row.positions[at] for row in rows if (row.reading, row.length) == (reading, length))
