"""Whether beam search translates better than greedy search, and whether wider beams are better still.

Some translations in the training data are cut off, as they are in texts from the web. A model that learns from them
gives an early end a small probability. Greedy search hardly ever takes it. A wide beam finds it: since every further
word costs probability, a short translation can be the most probable one (Stahlberg & Byrne 2019).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from pydantic import Field

from seqloom.decoding.tokens.beam import Beam
from seqloom.insight.plotting import panel_figure
from seqloom.lab.curves import collect_curves
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Table, Trial, Verdict
from seqloom.lab.panels import draw_curves, legend_below, mark_level, set_log_steps, set_title
from seqloom.lab.translation import Pair, TranslationExperiment, translate, word_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Ranking = Literal["none", "length"]
TITLES: Mapping[Ranking, str] = {"none": "by probability", "length": "by probability per word"}
"""How hypotheses are ranked, by the search's ``length_penalty``."""


@dataclass(frozen=True)
class Score:
    """One model with one search."""

    ranking: Ranking
    size: int  # of the beam; 1 is greedy search
    seed: int
    accuracy: float  # of the words of new translations
    length: float  # words of the outputs divided by those of the translations


class BeamSearch(TranslationExperiment):
    """The same translation model, which has no attention, with beams of several sizes."""

    question: ClassVar[str] = "Does beam search translate better than greedy search?"
    claim: ClassVar[str] = (
        "A small beam translates better than greedy search; a wide one is worse again if hypotheses are ranked by "
        "their probability alone."
    )
    source: ClassVar[str] = (
        "Sutskever, Vinyals & Le 2014; Koehn & Knowles 2017; Stahlberg & Byrne 2019; lectures on sequence modelling"
    )
    rule: ClassVar[str] = (
        "The small beam is the one of small_size, the wide one the largest; both rank hypotheses by their probability. "
        "The claim holds if the small beam has a higher share of right words than greedy search, and the wide one a "
        "lower share than the small one (differences over seeds, with the whole 95 % interval); it does not hold if "
        "one of the intervals lies on the other side. Ranking by probability per word is shown beside it."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2,
        "sizes": (1, 2, 4),
        "small_size": 2,
        "hidden_size": 8,
        "updates": 4,
        "batch_size": 4,
        "max_length": 4,
        "sentences": 4,
    }
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 8}
    row: ClassVar[type[Any]] = Score

    seeds: int = Field(6, ge=1, description="Repetitions, each with another random seed.")
    sizes: tuple[int, ...] = Field(
        (1, 2, 4, 8, 16, 64), min_length=3, description="Beam sizes; 1, which is greedy search, is one of them."
    )
    small_size: int = Field(4, ge=2, description="Size of the small beam, one of sizes.")
    cut_off: float = Field(0.02, ge=0, le=1, description="Share of the training translations that are cut off.")
    max_length: int = Field(8, ge=2, description="Largest number of words of a sentence.")
    sentences: int = Field(200, ge=1, description="New sentences that are translated.")

    def trials(self) -> list[Trial]:
        return [Trial(f"seed {seed}", partial(self._measure, seed)) for seed in self.all_seeds]

    def _measure(self, seed: int) -> list[Score]:
        lengths = range(2, self.max_length + 1)
        network, draw = self.train_translator(
            seed, lengths=lengths, change=lambda pairs, draw: cut(pairs, self.cut_off, draw)
        )
        pairs = self.language.pairs(self.sentences, lengths=lengths, draw=draw)
        expected = sum(len(target) for _, target in pairs)
        rows = []
        for ranking in TITLES:
            for size in sorted({1, self.small_size, *self.sizes}):
                outputs = translate(network, pairs, search=Beam(size=size, length_penalty=ranking))
                ratio = sum(map(len, outputs)) / expected
                rows.append(Score(ranking, size, seed, word_accuracy(outputs, pairs), ratio))
        return rows

    def verdict(self, rows: Sequence[Score]) -> Verdict:
        wide = max(row.size for row in rows)
        gain, wide_gain = (
            {ranking: Estimate.of_mean(differences(rows, (ranking, better), (ranking, worse))) for ranking in TITLES}
            for better, worse in ((self.small_size, 1), (wide, self.small_size))
        )
        words = fmean(row.length for row in rows if (row.ranking, row.size) == ("none", wide))
        return Verdict(
            conclude(gain["none"].is_above(0), wide_gain["none"].is_below(0)),
            f"Ranked by probability, the share of right words changes by {gain['none'].format_points()} percentage "
            f"points from greedy search to a beam of {self.small_size}, and by {wide_gain['none'].format_points()} "
            f"from there to {wide}, whose outputs have {words:.0%} of the words. Ranked by probability per word, it "
            f"changes by {gain['length'].format_points()} and {wide_gain['length'].format_points()}.",
            {
                **{f"gain of a small beam, {TITLES[ranking]}": estimate for ranking, estimate in gain.items()},
                **{f"gain of a wide beam, {TITLES[ranking]}": estimate for ranking, estimate in wide_gain.items()},
            },
        )

    def table(self, rows: Sequence[Score]) -> Table:
        sizes = sorted({row.size for row in rows})
        cells = []
        for ranking, title in TITLES.items():
            own = {size: [row for row in rows if (row.ranking, row.size) == (ranking, size)] for size in sizes}
            cells.append([f"right words, {title}", *(f"{fmean(r.accuracy for r in own[s]):.1%}" for s in sizes)])
            cells.append([f"length, {title}", *(f"{fmean(r.length for r in own[s]):.2f}" for s in sizes)])
        return ["beam size", *map(str, sizes)], cells

    def draw(self, rows: Sequence[Score]) -> "Figure":
        figure = panel_figure(2, width=5.2, height=3.9)
        accuracy_panel, length_panel = figure.axes
        names = {ranking: f"ranked {title}" for ranking, title in TITLES.items()}
        draw_curves(accuracy_panel, collect_curves((names[row.ranking], row.size, 100 * row.accuracy) for row in rows))
        accuracy_panel.set_ylabel("words translated right, %")
        set_title(accuracy_panel, "Quality by beam size")
        draw_curves(length_panel, collect_curves((names[row.ranking], row.size, 100 * row.length) for row in rows))
        mark_level(length_panel, 100, "right length")
        length_panel.set(ylabel="words of the outputs, % of the translations", ylim=(0, 115))
        set_title(length_panel, "Wide beams find short outputs")
        for axes in figure.axes:
            set_log_steps(axes, sorted({row.size for row in rows}), label="beam size (1: greedy)")
        legend_below(figure, accuracy_panel)
        return figure


def cut(pairs: Sequence[Pair], share: float, draw: torch.Generator) -> list[Pair]:
    """Cut off a share of the translations, each at a random place."""
    chosen, places = torch.rand(2, len(pairs), generator=draw).tolist()
    return [
        (source, target[: int(place * len(target))] if value < share else target)
        for (source, target), value, place in zip(pairs, chosen, places, strict=True)
    ]


def differences(rows: Sequence[Score], better: tuple[Ranking, int], worse: tuple[Ranking, int]) -> list[float]:
    """The accuracy of one search minus that of another, by seed."""
    values = {(row.ranking, row.size, row.seed): row.accuracy for row in rows}
    return [values[*better, seed] - values[*worse, seed] for seed in dict.fromkeys(row.seed for row in rows)]
