"""Whether attention keeps translations of long sentences as good as those of short ones, where a fixed vector does not.

Without attention, all that the decoder learns of the source is the last state of the encoder, whatever the length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from seqloom.insight.plotting import GREY, panel_figure
from seqloom.lab.curves import collect_curves, curve_table
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Table, Trial, Verdict
from seqloom.lab.panels import draw_curves, legend_below, set_title
from seqloom.lab.translation import TranslationExperiment, translate, word_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ATTENTION, VECTOR = "attention", "fixed vector"
SHORT, ALL = "short", "all"
TITLES = {SHORT: "Trained on short sentences", ALL: "Trained on sentences of all lengths"}
KEPT = 0.9
"""Long sentences are translated as well as short ones if this share of the accuracy is kept."""
LEAST = 1e-3
"""Accuracies below count as this much, so that ratios exist."""


@dataclass(frozen=True)
class Score:
    """A model on sentences of one length."""

    model: str
    training: str  # on which lengths: short or all
    seed: int
    length: int  # words of the source
    accuracy: float  # of the words of new translations


class LongSentences(TranslationExperiment):
    """Encoder-decoders with and without attention, by length of the sentence."""

    question: ClassVar[str] = "Does attention help on long sentences?"
    claim: ClassVar[str] = (
        "With attention, long sentences are translated as well as short ones, even if training had short ones only; "
        "with a fixed vector they are not."
    )
    source: ClassVar[str] = "Cho et al. 2014; Bahdanau, Cho & Bengio 2015; lectures on sequence modelling"
    rule: ClassVar[str] = (
        "What a model keeps is its accuracy on the longest sentences divided by that on the shortest (geometric mean "
        "over seeds). The claim holds if, trained on short sentences and trained on all, attention keeps more than 0.9 "
        "and the fixed vector less, each with the whole 95 % interval; it does not hold if one of the intervals lies "
        "on the other side."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2,
        "lengths": (2, 6),
        "short": 3,
        "hidden_size": 8,
        "updates": 4,
        "batch_size": 4,
        "sentences": 4,
    }
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 4, "sentences": 200}
    row: ClassVar[type[Any]] = Score

    lengths: tuple[int, ...] = Field(
        (4, 7, 10, 15, 20, 30), min_length=2, description="Words of the sentences that are translated."
    )
    short: int = Field(15, ge=2, description="Longest sentence of the training on short ones.")
    updates: int = Field(600, ge=1, description="Updates of each training.")

    def trials(self) -> list[Trial]:
        return [
            Trial(
                f"{model}, trained on {training} sentences, seed {seed}", partial(self._measure, model, training, seed)
            )
            for seed in self.all_seeds
            for training in (SHORT, ALL)
            for model in (VECTOR, ATTENTION)
        ]

    def _measure(self, model: str, training: str, seed: int) -> list[Score]:
        longest = self.short if training == SHORT else max(self.lengths)
        network, draw = self.train_translator(
            seed,
            lengths=range(2, longest + 1),
            attention="soft" if model == ATTENTION else "none",
            bidirectional=True,
        )
        rows = []
        for length in sorted(self.lengths):
            pairs = self.new_pairs(length, draw)
            rows.append(Score(model, training, seed, length, word_accuracy(translate(network, pairs), pairs)))
        return rows

    def verdict(self, rows: Sequence[Score]) -> Verdict:
        kept = {
            (model, training): Estimate.of_geometric_mean(kept_shares(rows, model, training))
            for training in (ALL, SHORT)
            for model in (ATTENTION, VECTOR)
        }
        answers = [
            estimate.is_above(KEPT) if model == ATTENTION else estimate.is_below(KEPT)
            for (model, _), estimate in kept.items()
        ]
        shortest, longest = (choose(row.length for row in rows) for choose in (min, max))
        return Verdict(
            conclude(*answers),
            f"From {shortest} to {longest} words, a model trained on all lengths keeps {kept[ATTENTION, ALL].format()} "
            f"of its accuracy with attention and {kept[VECTOR, ALL].format()} with a fixed vector. Trained on at most "
            f"{self.short} words, it keeps {kept[ATTENTION, SHORT].format()} and {kept[VECTOR, SHORT].format()}.",
            {f"kept with {model}, trained on {training}": estimate for (model, training), estimate in kept.items()},
        )

    def table(self, rows: Sequence[Score]) -> Table:
        curves = collect_curves((f"{row.model}, trained on {row.training}", row.length, row.accuracy) for row in rows)
        return curve_table("words right, sentences of length", curves)

    def draw(self, rows: Sequence[Score]) -> "Figure":
        figure = panel_figure(2, width=5.2, height=3.9)
        for axes, training in zip(figure.axes, (SHORT, ALL), strict=True):
            ordered = sorted((row for row in rows if row.training == training), key=lambda row: row.model != ATTENTION)
            draw_curves(axes, collect_curves((row.model, row.length, 100 * row.accuracy) for row in ordered))
            axes.set(ylim=(0, 103), xlabel="words of the sentence", ylabel="words translated right, %")
            set_title(axes, TITLES[training])
            if training == SHORT:
                axes.axvspan(0, self.short, color=GREY, alpha=0.12, linewidth=0)
                axes.annotate(
                    "lengths seen in training", (self.short, 1), xytext=(-3, 3), textcoords="offset points",
                    ha="right", color=GREY, fontsize=8,
                )  # fmt: skip
            axes.set_xlim(0, max(row.length for row in rows) + 1)
        legend_below(figure, figure.axes[0])
        return figure


def kept_shares(rows: Sequence[Score], model: str, training: str) -> list[float]:
    """The accuracy on the longest sentences divided by that on the shortest, by seed."""
    own = [row for row in rows if (row.model, row.training) == (model, training)]
    shortest, longest = min(row.length for row in own), max(row.length for row in own)
    values = {(row.seed, row.length): max(row.accuracy, LEAST) for row in own}
    return [values[seed, longest] / values[seed, shortest] for seed in dict.fromkeys(row.seed for row in own)]
