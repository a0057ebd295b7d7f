"""Whether soft and hard attention look at the same places.

Soft attention reads a mean of all source words; hard attention reads one that it draws, and is trained by REINFORCE.
Both are trained on the same sentences of a made-up language pair, in which the source word of each word is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import torch
from pydantic import Field

from seqloom.insight.attention_capture import capture_attention
from seqloom.insight.plotting import COLOURS, panel_figure
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Table, Trial, Verdict
from seqloom.lab.panels import draw_dots, set_title
from seqloom.lab.translation import END, Pair, TranslationExperiment, collate, translate, word_accuracy
from seqloom.models.encoder_decoder import EncoderDecoder
from seqloom.models.generation import shift_right

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind = Literal["soft", "hard"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SAME = 0.8
"""Share of words for which both attend most to the same source word."""
SENTENCES_SEED = 1000
"""All models translate the same new sentences, so that what they look at can be compared."""
EXAMPLE = 6
"""Words of the sentence in the figure."""


@dataclass(frozen=True)
class Outcome:
    """One model on the new sentences."""

    kind: str
    seed: int
    accuracy: float  # of the words of translations by greedy search
    places: tuple[int, ...]  # the source word with the largest weight for each word of the references
    aligned: tuple[int, ...]  # the source word that it translates
    example: tuple[tuple[float, ...], ...] = ()  # weights of the first sentence: target words × source words


class HardAttention(TranslationExperiment):
    """Encoder-decoders with soft and with hard attention."""

    topic: ClassVar[str] = "Attention and positions"
    question: ClassVar[str] = "Do soft and hard attention look at the same places?"
    claim: ClassVar[str] = "Soft and hard attention look at the same places."
    source: ClassVar[str] = "Xu et al. 2015; lectures on sequence modelling"
    rule: ClassVar[str] = (
        "For each word of new translations (the decoder reads the right words before it), the source word with the "
        "largest weight of soft attention is compared with the one that hard attention chooses, for models of the same "
        "seed. The claim holds if they are the same for more than 80 % of the words (mean over seeds) with the whole "
        "95 % interval; it does not hold if the whole interval lies below. How often two soft attentions of different "
        "seeds agree, and how often each looks at the word that is translated, is shown beside it."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2, "max_length": 6, "hidden_size": 8, "updates": 3, "batch_size": 4, "sentences": 4,
    }  # fmt: skip
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 5, "sentences": 200}
    row: ClassVar[type[Any]] = Outcome

    seeds: int = Field(3, ge=1, description="Repetitions, each with another random seed.")
    max_length: int = Field(6, ge=EXAMPLE, description="Largest number of words of a sentence.")
    updates: int = Field(1200, ge=1, description="Updates of each training.")

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{kind}, seed {seed}", partial(self._measure, kind, seed))
            for seed in self.all_seeds
            for kind in KINDS
        ]

    def new_sentences(self) -> list[Pair]:
        """The first one has as many words as the example of the figure."""
        draw = torch.Generator().manual_seed(SENTENCES_SEED)
        lengths = range(2, self.max_length + 1)
        first = self.language.pairs(1, lengths=[EXAMPLE], draw=draw)
        return first + self.language.pairs(self.sentences - 1, lengths=lengths, draw=draw)

    def _measure(self, kind: Kind, seed: int) -> list[Outcome]:
        model, _ = self.train_translator(
            seed, lengths=range(2, self.max_length + 1), attention=kind, bidirectional=True
        )
        pairs = self.new_sentences()
        weights = attention_weights(model, pairs)
        places = tuple(max(range(len(row)), key=row.__getitem__) for sentence in weights for row in sentence)
        aligned = tuple(place for source, _ in pairs for place in self.language.alignment(source))
        example = tuple(tuple(round(weight, 3) for weight in row) for row in weights[0])
        return [Outcome(kind, seed, word_accuracy(translate(model, pairs), pairs), places, aligned, example)]

    def verdict(self, rows: Sequence[Outcome]) -> Verdict:
        by_case = {(row.kind, row.seed): row for row in rows}
        seeds = sorted({row.seed for row in rows})
        same = Estimate.of_mean([agreement(by_case["soft", seed], by_case["hard", seed]) for seed in seeds])
        yardstick = fmean(soft_agreements(rows)) if len(seeds) > 1 else float("nan")
        right = {kind: fmean(hits(by_case[kind, seed]) for seed in seeds) for kind in KINDS}
        words = {kind: fmean(by_case[kind, seed].accuracy for seed in seeds) for kind in KINDS}
        return Verdict(
            conclude(same.is_above(SAME)),
            f"Soft and hard attention look at the same source word for {same.format(percent=True)} of the words; two "
            f"soft attentions of different seeds do so for {yardstick:.1%}. Soft attention looks at the word that is "
            f"translated in {right['soft']:.1%}, hard attention in {right['hard']:.1%} of the cases; "
            f"{words['soft']:.1%} and {words['hard']:.1%} of the words are translated right.",
            {"same place": same},
        )

    def table(self, rows: Sequence[Outcome]) -> Table:
        cells = []
        for kind in KINDS:
            own = [row for row in rows if row.kind == kind]
            shares = ([row.accuracy for row in own], [hits(row) for row in own])
            cells.append([kind, *(Estimate.of_mean(values).format(percent=True) for values in shares)])
        return ["attention", "words translated right", "looks at the translated word"], cells

    def draw(self, rows: Sequence[Outcome]) -> "Figure":
        figure = panel_figure(2, width=5.4, height=4.1)
        map_panel, share_panel = figure.axes
        soft, hard = (next(row for row in rows if row.kind == kind) for kind in KINDS)
        draw_example(map_panel, soft, hard)
        by_case = {(row.kind, row.seed): row for row in rows}
        seeds = sorted({row.seed for row in rows})
        shares = {
            "soft and hard agree": [agreement(by_case["soft", seed], by_case["hard", seed]) for seed in seeds],
            "two soft ones agree": soft_agreements(rows),
            "soft looks at the\ntranslated word": [hits(by_case["soft", seed]) for seed in seeds],
            "hard looks at the\ntranslated word": [hits(by_case["hard", seed]) for seed in seeds],
        }
        draw_dots(share_panel, {name: [100 * value for value in values] for name, values in shares.items() if values})
        share_panel.set_xlabel("words, %")
        share_panel.set_xlim(-3, 103)
        set_title(share_panel, "Where attention is largest")
        return figure


def draw_example(axes: Any, soft: Outcome, hard: Outcome) -> None:
    """The weights of soft attention as shades, the choices of hard attention as circles."""
    weights = soft.example
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    places = [max(range(len(row)), key=row.__getitem__) for row in hard.example]
    axes.scatter(
        places, range(len(places)), s=170, facecolors="none", edgecolors=COLOURS[1], linewidths=2, label="hard"
    )
    axes.scatter(
        soft.aligned[: len(weights)], range(len(weights)), s=22, color=COLOURS[4], label="translated word", zorder=3
    )
    axes.grid(visible=False)
    sources = [*(str(number) for number in range(1, len(weights[0]))), "end"]
    axes.set_xticks(range(len(sources)), sources)
    axes.set_yticks(range(len(weights)), [str(number) for number in range(1, len(weights) + 1)])
    axes.set(xlabel="word of the source", ylabel="word of the translation")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    set_title(axes, "Soft (blue) and hard attention in one sentence")


@torch.no_grad()
def attention_weights(model: EncoderDecoder, pairs: Sequence[Pair]) -> list[list[list[float]]]:
    """The weights of all source words, the end included, for each word of the references, sentence by sentence."""
    batch = collate(pairs)
    state = model.start(*batch.inputs)
    tokens = shift_right(batch.target, END)
    _, captured = capture_attention(model.decoder, tokens, state)
    (maps,) = captured
    weights = maps.weights[:, 0]
    return [weights[row, : len(target), : len(source) + 1].tolist() for row, (source, target) in enumerate(pairs)]


def agreement(one: Outcome, other: Outcome) -> float:
    """The share of words for which two models attend most to the same source word."""
    return fmean(first == second for first, second in zip(one.places, other.places, strict=True))


def soft_agreements(rows: Sequence[Outcome]) -> list[float]:
    """The agreement of the soft attentions of successive seeds."""
    soft = sorted((row for row in rows if row.kind == "soft"), key=lambda row: row.seed)
    return [agreement(one, other) for one, other in pairwise(soft)]


def hits(row: Outcome) -> float:
    """The share of words for which the source word that they translate has the largest weight."""
    return fmean(place == right for place, right in zip(row.places, row.aligned, strict=True))
