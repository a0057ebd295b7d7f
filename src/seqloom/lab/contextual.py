"""Whether contextual vectors tell the senses of a word apart: "stick" beside a dog, and "stick" beside glue.

A bidirectional language model reads generated sentences in which words of two senses occur among the words of one of
them. Nothing tells it the sense. The training is long enough for it to learn which nouns belong together: its loss
falls from 1.4 nats a word, where nouns are guessed alike, to about 1. Its layers give each occurrence of a word a
vector of its own (ELMo); the vectors of its lowest layer depend on the word only.
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
from torch.nn import functional

from seqloom.data.batch import Batch, pad
from seqloom.insight.plotting import COLOURS, panel_figure
from seqloom.insight.word_contexts import layer_names
from seqloom.lab.curves import collect_curves
from seqloom.lab.estimate import Estimate, conclude, seed_means
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import fit
from seqloom.lab.panels import draw_curves, legend_below, mark_level, plane_of, set_title
from seqloom.layers.build import recurrent
from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import Embedding
from seqloom.models.character_encoder import CharacterInput
from seqloom.models.pretrained.bilm import BiLM, BiLMEncoder
from seqloom.tasks.task import Loss
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SENSES: Mapping[str, tuple[str, str]] = {
    "stick": ("dog branch forest fire tree knife", "glue tape stamp envelope label poster"),
    "bank": ("river boat water fish reeds bridge", "money loan account cash clerk credit"),
    "bat": ("cave night wings moth owl roof", "ball pitcher team field player glove"),
    "spring": ("april flowers rain birds meadow sun", "coil steel mattress clock watch wire"),
    "light": ("feather bag load cotton basket scale", "lamp candle window bulb switch room"),
    "seal": ("ice sea whiskers flipper beach herring", "wax letter ring document king paper"),
}
"""Words of two senses, and the words among which they have each of them."""
TEMPLATES = (
    "the {a} is near the {w} and the {b}",
    "a {b} with the {w} , and a {a} too",
    "the {w} of the {a} has a {b}",
    "they saw the {a} , the {b} and the {w}",
    "one {w} , one {a} , one {b}",
)
SHOWN = "stick"
RELIABLE = 0.9
BOUNDARY = 2
"""The token before each sentence; 0 and 1 are padding and unknown words."""
WORDS = sorted(
    {word for template in TEMPLATES for word in template.split() if "{" not in word}
    | {word for parts in SENSES.values() for part in parts for word in part.split()}
    | set(SENSES)
)
NUMBERS = {word: index for index, word in enumerate(WORDS, start=BOUNDARY + 1)}


@dataclass(frozen=True)
class Occurrence:
    """A sentence with a word of two senses."""

    sentence: list[str]
    word: str
    sense: int
    context: frozenset[str]  # the two words that make the sense
    form: int  # the template


@dataclass(frozen=True)
class Outcome:
    """One layer of one language model."""

    layer: int  # 0: vectors without context
    seed: int
    word: str
    accuracy: float  # share of occurrences whose nearest one has the same sense
    same_form: float  # the same among sentences of the same form
    points: tuple[tuple[float, float, int], ...] = ()  # place in a plane and sense; the highest layer of one word


class Contextual(Experiment):
    """Nearest occurrences of words with two senses, by layer of a bidirectional language model."""

    topic: ClassVar[str] = "Language models and word vectors"
    question: ClassVar[str] = "Is “stick” the same in every sentence?"
    claim: ClassVar[str] = (
        "The contextual vectors of a bidirectional language model tell the senses of a word apart, which a vector per "
        "word cannot."
    )
    source: ClassVar[str] = "Peters et al. 2018; lectures on sequence modelling"
    rule: ClassVar[str] = (
        "For each occurrence of a word with two senses in new sentences, the nearest other occurrence (cosine) is "
        "looked for among those that share no word of the context with it; as many have the same sense as the other "
        "one, and equally near ones count in part. The claim holds if the share with the same sense is above 90 % in "
        "the highest layer (mean over words, then over seeds) with the whole 95 % interval, and at most 60 % for the "
        "vectors without context; it does not hold if one of the intervals lies on the other side. The share among "
        "sentences of the same form is shown beside it."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2, "hidden_size": 4, "updates": 2, "batch_size": 4, "occurrences": 4,
    }  # fmt: skip
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 5}
    row: ClassVar[type[Any]] = Outcome

    seeds: int = Field(3, ge=1, description="Repetitions, each with other sentences and weights.")
    layers: int = Field(2, ge=1, description="LSTM layers in each direction.")
    hidden_size: int = Field(64, ge=1, description="Size of the word vectors and units of each layer and direction.")
    batch_size: int = Field(64, ge=1, description="Sentences per update.")
    updates: int = Field(800, ge=1, description="Updates of each training.")
    learning_rate: float = Field(2e-2, gt=0, description="Peak learning rate of Adam; it falls along a cosine.")
    occurrences: int = Field(100, ge=2, description="New occurrences of each sense.")

    def trials(self) -> list[Trial]:
        return [Trial(f"seed {seed}", partial(self._measure, seed)) for seed in self.all_seeds]

    def build(self) -> BiLM:
        layers = [recurrent("lstm", self.hidden_size, self.hidden_size, layers=self.layers) for _ in range(2)]
        encoder = BiLMEncoder(Embedding(len(WORDS) + BOUNDARY + 1, self.hidden_size), *layers)
        return BiLM(encoder, len(WORDS) + BOUNDARY + 1, tied=False, dropout=Dropout(0.0))

    def _measure(self, seed: int) -> list[Outcome]:
        torch.manual_seed(seed)
        model = self.build()
        random = Random(seed)  # noqa: S311  no secret

        def sample() -> Batch:
            sentences = [training_sentence(random) for _ in range(self.batch_size)]
            text = to_input(sentences)
            return Batch(text, None, items=2 * int(text.mask.sum()))

        settings = TrainConfig(updates=self.updates, learning_rate=self.learning_rate)
        fit(model, sample, settings, loss=_bilm_loss)
        model.eval()
        rows = []
        for word in SENSES:
            occurrences = [occurrence(random, word, sense) for sense in (0, 1) for _ in range(self.occurrences)]
            for layer, vectors in enumerate(vectors_of(model, occurrences)):
                shown = layer == self.layers and word == SHOWN
                places = plane_of(without_form(vectors, occurrences)).tolist() if shown else []
                points = tuple((x, y, one.sense) for (x, y), one in zip(places, occurrences, strict=shown))
                any_form, same_form = (same_sense(vectors, occurrences, same_form=same) for same in (False, True))
                rows.append(Outcome(layer, seed, word, any_form, same_form, points))
        return rows

    def verdict(self, rows: Sequence[Outcome]) -> Verdict:
        estimates = {
            name: Estimate.of_mean(shares(rows, layer)) for layer, name in enumerate(layer_names(self.layers + 1))
        }
        lowest, *_, highest = estimates.values()
        same_form = Estimate.of_mean(shares(rows, self.layers, same_form=True))
        listed = ", ".join(f"{estimate.format(percent=True)} ({name})" for name, estimate in estimates.items())
        return Verdict(
            conclude(highest.is_above(RELIABLE), lowest.is_below(1.5 - RELIABLE)),
            f"The nearest occurrence of a word in another context has the same sense in this share of the cases, by "
            f"layer: {listed}; 50 % by guessing. Among sentences of the same form, it does so in "
            f"{same_form.format(percent=True)} in the highest layer.",
            {**estimates, "highest layer, same form": same_form},
        )

    def table(self, rows: Sequence[Outcome]) -> Table:
        names = layer_names(self.layers + 1)
        cells = [
            [word]
            + [
                f"{fmean(row.accuracy for row in rows if (row.word, row.layer) == (word, layer)):.0%}"
                for layer in range(len(names))
            ]
            for word in SENSES
        ]
        return ["nearest occurrence has the same sense", *names], cells

    def draw(self, rows: Sequence[Outcome]) -> "Figure":
        figure = panel_figure(2, width=5.4, height=4.1)
        map_panel, layer_panel = figure.axes
        points = next(row.points for row in rows if row.points)
        for sense, context in enumerate(SENSES[SHOWN]):
            places = [(x, y) for x, y, own in points if own == sense]
            first = ", ".join(context.split()[:3])
            map_panel.scatter(
                [x for x, _ in places], [y for _, y in places], s=26, alpha=0.65, linewidths=0,
                color=COLOURS[sense], marker="os"[sense], label=f"beside {first} …",
            )  # fmt: skip
        map_panel.set(xlabel="first principal component", ylabel="second principal component")
        map_panel.legend(frameon=False, fontsize=9)
        set_title(map_panel, f"“{SHOWN}” in the highest layer, less the mean of each form")
        curves = collect_curves(
            ("among sentences of the same form" if same_form else "among all sentences", layer, 100 * share)
            for same_form in (False, True)
            for layer in range(self.layers + 1)
            for share in shares(rows, layer, same_form=same_form)
        )
        draw_curves(layer_panel, curves, colours=COLOURS[2:])
        mark_level(layer_panel, 50, "guessing")
        names = layer_names(self.layers + 1)
        layer_panel.set_xticks(range(len(names)), names)
        layer_panel.set(ylim=(0, 103), ylabel="nearest occurrence has the same sense, %")
        set_title(layer_panel, "Senses told apart, by layer")
        legend_below(figure, layer_panel)
        return figure


def occurrence(random: Random, word: str, sense: int) -> Occurrence:
    """A sentence with the word among words of one of its senses."""
    a, b = random.sample(SENSES[word][sense].split(), 2)
    form = random.randrange(len(TEMPLATES))
    return Occurrence(TEMPLATES[form].format(w=word, a=a, b=b).split(), word, sense, frozenset((a, b)), form)


def training_sentence(random: Random) -> list[str]:
    """A sentence with a word of two senses, or with three words of one sense."""
    word, sense = random.choice(list(SENSES)), random.randrange(2)
    if random.random() < 0.5:
        return occurrence(random, word, sense).sentence
    a, b, other = random.sample(SENSES[word][sense].split(), 3)
    return random.choice(TEMPLATES).format(w=other, a=a, b=b).split()


def to_input(sentences: Sequence[Sequence[str]]) -> CharacterInput:
    """Sentences after the boundary, padded."""
    words, mask = pad([[BOUNDARY, *(NUMBERS[word] for word in sentence)] for sentence in sentences])
    return CharacterInput(words, torch.zeros(*words.shape, 0, dtype=torch.int16), mask)


@torch.no_grad()
def vectors_of(model: BiLM, occurrences: Sequence[Occurrence]) -> list[Tensor]:  # (N, D) for each layer
    """The vector of the word in each sentence, layer by layer."""
    levels = model.encoder.levels(to_input([one.sentence for one in occurrences]))
    rows = torch.arange(len(occurrences))
    places = torch.tensor([one.sentence.index(one.word) + 1 for one in occurrences])
    return [values[rows, places] for values in levels]


def without_form(vectors: Tensor, occurrences: Sequence[Occurrence]) -> Tensor:  # (N, D)
    """The vectors minus the mean of those in sentences of the same form."""
    forms = torch.tensor([one.form for one in occurrences])
    same = (forms.unsqueeze(1) == forms).to(vectors.dtype)
    return vectors - same @ vectors / same.sum(dim=1, keepdim=True)


def same_sense(vectors: Tensor, occurrences: Sequence[Occurrence], *, same_form: bool = False) -> float:
    """The share of occurrences whose nearest one without a common context word has the same sense.

    ``same_form``: it has to be in a sentence of the same form. As many occurrences of both senses are compared, so that
    chance is one half; of equally near ones, the share with the same sense counts.
    """
    units = functional.normalize(vectors.double(), dim=1)
    cosines = units @ units.T
    shares = []
    for row, one in enumerate(occurrences):
        apart: tuple[list[int], list[int]] = ([], [])  # of the same sense, and of the other one
        for index, other in enumerate(occurrences):
            if not one.context & other.context and (one.form == other.form or not same_form):
                apart[one.sense != other.sense].append(index)
        count = min(map(len, apart))
        if count:
            same, different = (cosines[row, indices[:count]] for indices in apart)
            limit = max(same.max(), different.max()) - 1e-9  # rounding
            nearest = [int((values >= limit).sum()) for values in (same, different)]
            shares.append(nearest[0] / sum(nearest))
    return fmean(shares) if shares else 0.5


def shares(rows: Sequence[Outcome], layer: int, *, same_form: bool = False) -> list[float]:
    """The share of occurrences whose nearest one has the same sense, over all words, for each seed."""
    own = ((row.seed, row.same_form if same_form else row.accuracy) for row in rows if row.layer == layer)
    return list(seed_means(own).values())


def _bilm_loss(model: Any, batch: Batch) -> Loss:
    """The next and the previous word of each word."""
    return Loss(model.loss(*model.features(batch.inputs)), batch.items)
