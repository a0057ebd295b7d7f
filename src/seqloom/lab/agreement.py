"""Whether a language model lets a verb agree with its subject over a distance.

"The flights the airline was cancelling were full": the verb is plural because of a noun that stands far before it, and
a noun of the other number stands between them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from seqloom.data.batch import Batch
from seqloom.insight.plotting import panel_figure
from seqloom.lab.curves import collect_curves, curve_table
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import IGNORED, Network, fit, one_hot_batch
from seqloom.lab.panels import draw_curves, legend_below, mark_level, set_percent_axis, set_title
from seqloom.layers.build import recurrent
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = {"elman": "Elman network", "lstm": "LSTM"}
NOUNS = (
    ("flight", "airline", "pilot", "airport", "ticket", "guest"),
    ("flights", "airlines", "pilots", "airports", "tickets", "guests"),
)
VERBS = ("was", "were")
PARTICIPLES = ("cancelling", "watching", "calling", "booking")
PREPOSITIONS = ("near", "behind", "of")
ADJECTIVES = ("full", "late", "ready")
WORDS = ("the", *NOUNS[0], *NOUNS[1], *VERBS, *PARTICIPLES, *PREPOSITIONS, *ADJECTIVES, ".")
NUMBERS = {word: index for index, word in enumerate(WORDS)}
LONGER = 2
"""Phrases more than in training, up to which is measured."""
SENTENCES = 300
"""New sentences for each distance."""
RELIABLE, BETTER = 0.9, 0.05
"""An accuracy of the LSTM, and its lead over the Elman network."""


@dataclass(frozen=True)
class Outcome:
    """One language model after training, at one distance between subject and verb."""

    cell: str
    seed: int
    phrases: int  # between subject and verb
    accuracy: float  # share of sentences in which the right form of the verb is more probable


class Agreement(Experiment):
    """Word language models of generated sentences, in which all nouns before the verb but its subject mislead."""

    topic: ClassVar[str] = "Language models and word vectors"
    question: ClassVar[str] = "Does a language model let a verb agree with a distant subject?"
    claim: ClassVar[str] = (
        "An LSTM lets a verb agree with its subject across nouns of the other number, better than an Elman network."
    )
    source: ClassVar[str] = "Linzen, Dupoux & Goldberg 2016; Jurafsky & Martin 2023; lectures on sequence modelling"
    rule: ClassVar[str] = (
        "Both networks have the same number of units and see the same sentences. Measured is the share of new "
        "sentences in which the right one of was and were is more probable, with as many phrases between subject and "
        "verb as the longest sentences of training have, and all their nouns of the other number. The claim holds if "
        "this share (mean over seeds) is above 90 % for the LSTM and more than 5 percentage points above that of the "
        "Elman network, both with the whole 95 % interval."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "phrases": 1, "hidden_size": 4, "updates": 5}
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 20}
    row: ClassVar[type[Any]] = Outcome

    seeds: int = Field(5, ge=1, description="Repetitions, each with another random seed.")
    phrases: int = Field(4, ge=1, description="Maximum number of phrases between subject and verb in training.")
    hidden_size: int = Field(32, ge=1, description="Units of each network.")
    batch_size: int = Field(32, ge=1, description="Sentences per update.")
    updates: int = Field(500, ge=1, description="Updates of each training.")
    learning_rate: float = Field(1e-2, gt=0, description="Peak learning rate of Adam; it falls along a cosine.")

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{cell}, seed {seed}", partial(self._measure, cell, seed))
            for seed in self.all_seeds
            for cell in CELLS
        ]

    def _measure(self, cell: str, seed: int) -> list[Outcome]:
        torch.manual_seed(seed)
        network = Network(recurrent(cell, len(WORDS), self.hidden_size), len(WORDS))
        random = Random(seed)  # noqa: S311  no secret

        def draw() -> Batch:
            sentences = [sentence(random, random.randint(0, self.phrases)) for _ in range(self.batch_size)]
            return batch_of(sentences)

        fit(network, draw, TrainConfig(updates=self.updates, learning_rate=self.learning_rate))
        return [
            Outcome(cell, seed, phrases, agreement(network, phrases, random))
            for phrases in range(self.phrases + LONGER + 1)
        ]

    def verdict(self, rows: Sequence[Outcome]) -> Verdict:
        trained = max(row.phrases for row in rows) - LONGER
        scores = {cell: _by_seed(rows, cell, trained) for cell in CELLS}
        estimates = {CELLS[cell]: Estimate.of_mean(list(scores[cell].values())) for cell in CELLS}
        lead = Estimate.of_differences(scores["lstm"], scores["elman"])
        longer = {cell: fmean(_by_seed(rows, cell, trained + LONGER).values()) for cell in CELLS}
        elman, lstm = (estimate.format(percent=True) for estimate in estimates.values())
        return Verdict(
            conclude(estimates[CELLS["lstm"]].is_above(RELIABLE), lead.is_above(BETTER)),
            f"Across {trained} phrases with nouns of the other number, the right form of the verb is more probable in "
            f"{lstm} of the sentences for the LSTM and in {elman} for the Elman network, a difference of "
            f"{lead.format(percent=True)}. Across {trained + LONGER}, more than in training, it is "
            f"{longer['lstm']:.1%} and {longer['elman']:.1%}.",
            {**estimates, "difference": lead},
        )

    def table(self, rows: Sequence[Outcome]) -> Table:
        curves = collect_curves((CELLS[row.cell], row.phrases, row.accuracy) for row in rows)
        return curve_table("right verbs by phrases between", curves, form=".1%")

    def draw(self, rows: Sequence[Outcome]) -> "Figure":
        figure = panel_figure(1, width=7.0, height=4.0)
        (axes,) = figure.axes
        counts = sorted({row.phrases for row in rows})
        curves = collect_curves((CELLS[row.cell], row.phrases, row.accuracy) for row in rows)
        trained = max(counts) - LONGER
        axes.axvspan(trained + 0.5, max(counts) + 0.3, color="#eeeeee", zorder=0)
        axes.annotate("longer than in training", (max(counts) + 0.25, 0.03), ha="right", fontsize=8, color="#666666")
        draw_curves(axes, curves)
        mark_level(axes, 0.5, "guessing")
        axes.set(
            xlabel="phrases between subject and verb, all with a noun of the other number",
            ylim=(0, 1.05),
            xticks=counts,
        )
        axes.set_xlim(-0.3, max(counts) + 0.3)
        set_percent_axis(axes, "right form of the verb preferred")
        set_title(axes, "The flights the airline was cancelling … were full")
        legend_below(figure, axes)
        return figure


def sentence(random: Random, phrases: int, *, misleading: bool = False) -> list[str]:
    """A subject, phrases with further nouns, and a verb that agrees with the subject.

    Misleading: all further nouns have the other number, or else a random one.
    """
    number = random.randrange(2)
    words = ["the", random.choice(NOUNS[number])]
    for _ in range(phrases):
        other = 1 - number if misleading else random.randrange(2)
        noun = ["the", random.choice(NOUNS[other])]
        if random.random() < 0.5:
            words += [random.choice(PREPOSITIONS), *noun]
        else:
            words += [*noun, VERBS[other], random.choice(PARTICIPLES)]
    return [*words, VERBS[number], random.choice(ADJECTIVES), "."]


def batch_of(sentences: Sequence[Sequence[str]]) -> Batch:
    """Each word is to be predicted from those before it; short sentences are padded with full stops."""
    longest = max(map(len, sentences))
    numbers = torch.full((len(sentences), longest), NUMBERS["."])
    real = torch.zeros_like(numbers, dtype=torch.bool)
    for row, words in enumerate(sentences):
        numbers[row, : len(words)] = torch.tensor([NUMBERS[word] for word in words])
        real[row, : len(words)] = True
    target = numbers[:, 1:].masked_fill(~real[:, 1:], IGNORED)
    return one_hot_batch(numbers[:, :-1], target, size=len(WORDS))


@torch.no_grad()
def agreement(network: Network, phrases: int, random: Random) -> float:
    """The share of misleading sentences in which the right form of the main verb is more probable than the other."""
    sentences = [sentence(random, phrases, misleading=True) for _ in range(SENTENCES)]
    batch = batch_of(sentences)
    where = torch.zeros_like(batch.target, dtype=torch.bool)
    where[torch.arange(len(sentences)), torch.tensor([len(words) - 4 for words in sentences])] = True
    logits = network(batch.inputs, where)
    prefers_plural: Tensor = logits[:, NUMBERS["were"]] > logits[:, NUMBERS["was"]]
    is_plural: Tensor = batch.target[where] == NUMBERS["were"]
    return (prefers_plural == is_plural).double().mean().item()


def _by_seed(rows: Sequence[Outcome], cell: str, phrases: int) -> dict[int, float]:
    return {row.seed: row.accuracy for row in rows if (row.cell, row.phrases) == (cell, phrases)}
