"""Which language model predicts text best: counts of n-grams, a network with a fixed window, or a recurrent one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import log
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from seqloom.insight.plotting import COLOURS, panel_figure
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import Network, fit
from seqloom.lab.panels import draw_curves, legend_below, set_title
from seqloom.lab.texts import Text, TextName, bits_per_character, load_text
from seqloom.layers.build import recurrent
from seqloom.layers.convolution import Convolution
from seqloom.layers.layer import Layer, count_parameters
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram import MISSING
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NGRAM, WINDOW, ELMAN, LSTM = "n-grams", "window", "Elman", "LSTM"
ORDER = (NGRAM, WINDOW, ELMAN, LSTM)
"""The models from worst to best, as the claim has it."""
SPARSE = 0.5
"""n-grams are sparse if more than this share of those in new text does not occur in the training text."""


@dataclass(frozen=True)
class Score:
    """One language model."""

    model: str
    context: int | None  # characters before the one to predict; None: all
    seed: int | None  # None: counts depend on no seed
    bits: float  # per character of the dev text
    parameters: int  # or n-grams with a probability of their own
    ngrams: int  # n-grams of the dev text, context and predicted character
    unseen: int  # those that do not occur in the training text; 0 of 0 for a network


class LanguageModels(Experiment):
    """Character language models of the same text."""

    topic: ClassVar[str] = "Language models and word vectors"
    question: ClassVar[str] = "Which language model predicts text best?"
    claim: ClassVar[str] = (
        "n-grams are sparse and predict text worst; a feed-forward network with a window is better, a recurrent "
        "network better still, and an LSTM the best."
    )
    source: ClassVar[str] = (
        "Kneser & Ney 1995; Bengio et al. 2003 (window); Mikolov et al. 2010 (recurrent); Sundermeyer, Schlüter & Ney "
        "2012 (LSTM); lectures on sequence modelling"
    )
    rule: ClassVar[str] = (
        "Of the n-gram models and of the windows, the best length counts. The claim holds if each of the three steps "
        "of the order (n-grams, window, Elman network, LSTM) lowers the bits per character of held-out text (ratio of "
        "the bits below 1 with the whole 95 % interval of the geometric mean over seeds), and if more than half of the "
        "longest n-grams of this text do not occur in the training text; it does not hold if one of them fails."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2,
        "orders": (2, 3),
        "windows": (2,),
        "hidden_size": 8,
        "length": 10,
        "updates": 6,
    }
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 4, "updates": 1000}
    row: ClassVar[type[Any]] = Score

    text: TextName = Field("prose", description="Text: English prose, or Python code.")
    orders: tuple[int, ...] = Field(
        (2, 3, 4, 5, 6, 8, 10), min_length=1, description="Lengths of n-grams, the predicted character included."
    )
    windows: tuple[int, ...] = Field((2, 4, 8), min_length=1, description="Characters that a window network reads.")
    hidden_size: int = Field(64, ge=1, description="Units of each network.")
    length: int = Field(50, ge=2, description="Characters of a training sequence.")
    batch_size: int = Field(16, ge=1, description="Sequences per update.")
    updates: int = Field(800, ge=1, description="Updates of each network.")
    learning_rate: float = Field(1e-2, gt=0, description="Peak learning rate of Adam; it falls along a cosine.")

    def trials(self) -> list[Trial]:
        return [
            *(Trial(f"{order}-grams", partial(self._count, order)) for order in sorted(self.orders)),
            *(
                Trial(f"{model}{f' of {context}' if context else ''}, seed {seed}", partial(self._train, *case, seed))
                for seed in self.all_seeds
                for case in (*((WINDOW, size) for size in self.windows), (ELMAN, None), (LSTM, None))
                for model, context in (case,)
            ),
        ]

    def _count(self, order: int) -> list[Score]:
        text = load_text(self.text)
        windows = _dev_windows(text)
        size = text.size
        model = estimate([text.train.tolist()], order=order, start=size, end=size + 1, vocabulary=size + 2)
        contexts, words = ngram_cases(windows, order)
        total = -model.log_probability(words, contexts).sum() / log(2)
        seen = {tuple(row) for row in text.train.unfold(0, order, 1).unique(dim=0).tolist()}
        new = windows.unfold(1, order, 1).flatten(0, 1).tolist()
        unseen = sum(tuple(row) not in seen for row in new)
        own = sum(len(values) for values in model.log_probabilities)
        return [Score(NGRAM, order - 1, None, float(total) / len(words), own, len(new), unseen)]

    def build(self, model: str, context: int | None, size: int) -> Network:
        layer: Layer
        if context is not None:
            layer = Convolution(size, self.hidden_size, window=context, activation="tanh", causal=True)
        else:
            layer = recurrent(model.lower(), size, self.hidden_size)
        return Network(layer, size)

    def _train(self, model: str, context: int | None, seed: int) -> list[Score]:
        text = load_text(self.text)
        torch.manual_seed(seed)
        network = self.build(model, context, text.size)
        settings = TrainConfig(updates=self.updates, learning_rate=self.learning_rate)
        fit(network, text.sampler(batch_size=self.batch_size, length=self.length, seed=seed), settings)
        parameters = count_parameters(network)
        return [Score(model, context, seed, bits_per_character(network, text.dev_batch()), parameters, 0, 0)]

    def verdict(self, rows: Sequence[Score]) -> Verdict:
        best = {model: best_scores(rows, model) for model in ORDER}
        ratios = {
            f"{better} / {worse}": Estimate.of_geometric_mean(bit_ratios(best[worse][1], best[better][1]))
            for worse, better in pairwise(ORDER)
        }
        longest = max((row for row in rows if row.model == NGRAM), key=lambda row: row.context or 0)
        unseen = Estimate.of_share(longest.unseen, longest.ngrams)
        bits = ", ".join(
            f"{model}{f' ({context} characters of context)' if context else ''} {fmean(scores.values()):.2f}"
            for model, (context, scores) in best.items()
        )
        steps = ", ".join(f"{name} {ratio.format()}" for name, ratio in ratios.items())
        return Verdict(
            conclude(*(ratio.is_below(1) for ratio in ratios.values()), unseen.is_above(SPARSE)),
            f"Bits per character of held-out text: {bits}. Ratios: {steps}. {unseen.format(percent=True)} of its "
            f"{(longest.context or 0) + 1}-grams do not occur in the training text.",
            {**ratios, "unseen n-grams": unseen},
        )

    def table(self, rows: Sequence[Score]) -> Table:
        cells = []
        for model, context in dict.fromkeys((row.model, row.context) for row in rows):
            own = [row for row in rows if (row.model, row.context) == (model, context)]
            value = f"{own[0].bits:.3g}" if model == NGRAM else Estimate.of_mean([row.bits for row in own]).format()
            unseen = f"{own[0].unseen / own[0].ngrams:.0%}" if own[0].ngrams else ""
            name = f"{context + 1}-grams" if model == NGRAM and context is not None else model
            cells.append([name, str(context or "all"), f"{own[0].parameters:,}", value, unseen])
        return ["model", "context", "parameters", "bits per character", "unseen"], cells

    def draw(self, rows: Sequence[Score]) -> "Figure":
        figure = panel_figure(2, width=5.4, height=4.1)
        bits_panel, sparse_panel = figure.axes
        longest = max(row.context or 0 for row in rows)
        curves: dict[str, dict[int, list[float]]] = {model: {} for model in ORDER}
        unseen: dict[str, dict[int, list[float]]] = {NGRAM: {}}
        for row in rows:
            # A recurrent network has no limit: a level line.
            for context in (row.context,) if row.context else (1, longest):
                curves[row.model].setdefault(context, []).append(row.bits)
            if row.context and row.ngrams:
                unseen[NGRAM].setdefault(row.context, []).append(100 * row.unseen / row.ngrams)
        draw_curves(bits_panel, curves, styles={ELMAN: {"marker": ""}, LSTM: {"marker": ""}})
        bits_panel.set(xlabel="characters of context (recurrent networks: all)", ylabel="bits per character, held out")
        set_title(bits_panel, f"Language models of {self.text}")
        draw_curves(sparse_panel, unseen, colours=COLOURS)
        sparse_panel.set(xlabel="characters of context", ylabel="n-grams not in the training text, %", ylim=(0, 100))
        set_title(sparse_panel, "How sparse are n-grams?")
        legend_below(figure, bits_panel)
        return figure


def ngram_cases(
    windows: Tensor,  # (B, T + 1)
    order: int,
) -> tuple[Any, Any]:  # contexts (B T, order - 1), the latest character last; characters to predict (B T,)
    """Each character but the first of a window, and those before it in the window: what a network sees as well."""
    padded = np.pad(windows.numpy(), ((0, 0), (max(order - 2, 0), 0)), constant_values=MISSING)
    cases = np.lib.stride_tricks.sliding_window_view(padded, max(order, 2), axis=1).reshape(-1, max(order, 2))
    return np.ascontiguousarray(cases[:, max(order, 2) - order : -1]), cases[:, -1]


def _dev_windows(text: Text) -> Tensor:  # (B, T + 1)
    """The characters of the windows on which networks are scored."""
    batch = text.dev_batch()
    first = batch.inputs.values[:, :1].argmax(dim=-1)
    return torch.cat([first, batch.target], dim=1)


def best_scores(rows: Sequence[Score], model: str) -> tuple[int | None, dict[int | None, float]]:
    """The context with the fewest bits on average, and the bits by seed."""
    by_context: dict[int | None, dict[int | None, float]] = {}
    for row in rows:
        if row.model == model:
            by_context.setdefault(row.context, {})[row.seed] = row.bits
    return min(by_context.items(), key=lambda item: fmean(item[1].values()))


def bit_ratios(worse: Mapping[int | None, float], better: Mapping[int | None, float]) -> list[float]:
    """The bits of one model divided by those of another with the same seed; counts have one value for all seeds."""
    return [bits / (worse[None] if None in worse else worse[seed]) for seed, bits in better.items()]
