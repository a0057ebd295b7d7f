"""Whether king - man + woman is queen: whether differences of word vectors stand for relations of words.

The text is generated: words in the same role of a pair (king and man, queen and woman) share some of their contexts,
and so do the two words of a pair. word2vec knows nothing but these contexts.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from seqloom.data.builtin import datasets
from seqloom.data.readers.text_files import Location
from seqloom.data.text.passages import Passage
from seqloom.data.text.word_counts import WordIndex, count_words
from seqloom.insight.plotting import BLACK, COLOURS, GREY, panel_figure
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.panels import draw_dots, plane_of, set_title
from seqloom.models.word2vec import Word2Vec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OFFSET, WITH_QUESTION, BASE_ONLY = "a - b + c", "a - b + c, question words allowed", "c alone"
METHODS = (OFFSET, WITH_QUESTION, BASE_ONLY)
HALF = 0.5
SHOWN = (("man", "woman"), ("king", "queen"), ("prince", "princess"), ("father", "mother"), ("actor", "actress"))
"""Pairs of words in the figure."""
FINAL_RATE = 1e-4
"""Learning rate at the end, as a share of the first one."""


@dataclass(frozen=True)
class Outcome:
    """One way to answer all questions with the vectors of one training."""

    method: str
    seed: int
    questions: int
    right: int
    map: tuple[tuple[float, float], ...] = ()  # the words of SHOWN in the plane; only with the first method


Question = tuple[str, str, str, str]
"""b is to a as c is to the answer: b, a, c, answer."""


class Analogies(Experiment):
    """Analogies answered with word vectors."""

    topic: ClassVar[str] = "Language models and word vectors"
    question: ClassVar[str] = "Is king - man + woman = queen?"
    claim: ClassVar[str] = (
        "Relations of words are differences of their vectors: king - man + woman is nearest to queen."
    )
    source: ClassVar[str] = (
        "Mikolov, Yih & Zweig 2013; Mikolov et al. 2013; doubts: Linzen 2016; Rogers, Drozd & Li 2017; lectures on "
        "sequence modelling"
    )
    rule: ClassVar[str] = (
        "The answer to b : a = c : ? is the word nearest to a - b + c by cosine, where a, b and c themselves do not "
        "count, as in the literature. The claim holds if more than half of the answers are right, and more than with "
        "the word nearest to c alone (mean and mean difference over seeds, both with the whole 95 % interval); it does "
        "not hold if one of the intervals lies on the other side. How often the answer is right if a, b and c may be "
        "answers, too, is shown beside it."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "epochs": 1, "vector_size": 8}
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 16}
    row: ClassVar[type[Any]] = Outcome

    seeds: int = Field(8, ge=1, description="Repetitions, each with another random seed.")
    model: Literal["skipgram", "cbow"] = Field("skipgram", description="Model of word2vec.")
    vector_size: int = Field(32, ge=2, description="Size of the word vectors.")
    window: int = Field(5, ge=1, description="Largest distance of a context word.")
    negative: int = Field(5, ge=1, description="Negative samples for each pair of words.")
    epochs: int = Field(20, ge=1, description="How often the text is read.")
    learning_rate: float = Field(0.05, gt=0, description="Initial learning rate; it falls linearly.")

    def trials(self) -> list[Trial]:
        return [Trial(f"seed {seed}", partial(self._measure, seed)) for seed in self.all_seeds]

    def _measure(self, seed: int) -> list[Outcome]:
        torch.manual_seed(seed)
        text, questions = load_analogies()
        model = self._train(text, seed)
        names = list(model.words)
        vectors = functional.normalize(model.vectors.detach(), dim=1)
        ids = torch.tensor([[names.index(word) for word in question] for question in questions])
        plane = plane_of(vectors[[names.index(word) for pair in SHOWN for word in pair]])
        return [
            Outcome(
                method,
                seed,
                len(questions),
                int((answers(vectors, ids[:, :3], method) == ids[:, 3]).sum()),
                tuple((x, y) for x, y in plane.tolist()) if method == OFFSET else (),
            )
            for method in METHODS
        ]

    def _train(self, text: Passage, seed: int) -> Word2Vec:
        counted = count_words([text], min_count=5)
        model = Word2Vec(
            WordIndex("\n".join(counted.words)),
            counted.counts,
            size=self.vector_size,
            window=self.window,
            negative=self.negative,
            mean=self.model == "cbow",
            sample=0.0,
            examples=1,
            length=counted.length,
        )
        for epoch in range(self.epochs):
            shares = [1 - (1 - FINAL_RATE) * (epoch + step) / self.epochs for step in (0, 1)]
            rates = (self.learning_rate * shares[0], self.learning_rate * shares[1])
            model.update([text], rates=rates, seed=(seed, epoch))
        return model

    def verdict(self, rows: Sequence[Outcome]) -> Verdict:
        shares = {method: _shares(rows, method) for method in METHODS}
        accuracy = Estimate.of_mean(list(shares[OFFSET].values()))
        lead = Estimate.of_differences(shares[OFFSET], shares[BASE_ONLY])
        allowed, alone = (Estimate.of_mean(list(shares[method].values())) for method in METHODS[1:])
        return Verdict(
            conclude(accuracy.is_above(HALF), lead.is_above(0)),
            f"{accuracy.format(percent=True)} of the {rows[0].questions} analogies are right; the word nearest to c "
            f"alone is right in {alone.format(percent=True)}, a difference of {lead.format_points()} percentage "
            f"points. If the words of the question may be answers, {allowed.format(percent=True)} are right.",
            {OFFSET: accuracy, WITH_QUESTION: allowed, BASE_ONLY: alone, "difference": lead},
        )

    def table(self, rows: Sequence[Outcome]) -> Table:
        cells = [
            [method, Estimate.of_mean(list(_shares(rows, method).values())).format(percent=True)] for method in METHODS
        ]
        return ["nearest word to", "right answers"], cells

    def draw(self, rows: Sequence[Outcome]) -> "Figure":
        figure = panel_figure(2, width=5.6, height=4.1)
        map_panel, share_panel = figure.axes
        draw_arrows(map_panel, next(row.map for row in rows if row.map))
        set_title(map_panel, "Arrows from one word of a pair to the other")
        draw_dots(
            share_panel,
            {
                method.replace(", ", ",\n"): [100 * share for share in _shares(rows, method).values()]
                for method in METHODS
            },
        )
        share_panel.set_xlabel("right answers, %")
        share_panel.set_xlim(-3, 103)
        set_title(share_panel, "Analogies answered by the nearest word to …")
        return figure


def draw_arrows(axes: Any, points: Sequence[tuple[float, float]]) -> None:
    """Words in a plane, with an arrow between the words of each pair."""
    words = [word for pair in SHOWN for word in pair]
    for index in range(len(SHOWN)):
        (x, y), end = points[2 * index], points[2 * index + 1]
        arrow = {"arrowstyle": "->", "color": COLOURS[index], "linewidth": 1.8, "shrinkA": 4, "shrinkB": 4}
        axes.annotate("", end, (x, y), arrowprops=arrow)
    for word, (x, y) in zip(words, points, strict=True):
        axes.plot([x], [y], marker="o", markersize=4, color=GREY)
        axes.annotate(word, (x, y), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=9, color=BLACK)
    axes.margins(0.15)
    axes.set(xlabel="first principal component", ylabel="second principal component")


@cache
def load_analogies() -> tuple[Passage, list[Question]]:
    """The generated text, and the questions that were not used to choose anything."""
    with tempfile.TemporaryDirectory() as folder:
        files = datasets.build("analogies", Path(folder) / "analogies")
        text = files.train.read_text(encoding="utf-8")
        lines = files.test.read_text(encoding="utf-8").splitlines()
    words = [line.split() for line in lines if not line.startswith(":")]
    passage = Passage(Location("analogies", 1), text.encode(), len(text.split()))
    return passage, [(first, second, third, fourth) for first, second, third, fourth in words]


def answers(
    vectors: Tensor,  # (V, D), of length 1
    questions: Tensor,  # (N, 3): b, a, c
    method: str,
) -> Tensor:  # (N,)
    """The word whose vector is nearest to a - b + c, or to c alone."""
    b, a, c = vectors[questions].unbind(dim=1)
    cosines = (c if method == BASE_ONLY else a - b + c) @ vectors.T
    if method != WITH_QUESTION:
        cosines = cosines.scatter(1, questions, -torch.inf)
    return cosines.argmax(dim=1)


def _shares(rows: Sequence[Outcome], method: str) -> dict[int, float]:
    """The share of right answers by seed."""
    return {row.seed: row.right / row.questions for row in rows if row.method == method}
