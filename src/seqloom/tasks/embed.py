"""Words as vectors, learnt from the words around them: neighbours, analogies, similarity (Mikolov et al. 2013)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.readers.text_files import DataError
from seqloom.data.readers.word_questions import Question, asked, kind_of, labelled
from seqloom.data.text.passages import Passage, passages
from seqloom.data.text.word_counts import PhraseSettings, WordIndex, count
from seqloom.insight.embedding_map import embedding_map
from seqloom.insight.explanation import Explanation
from seqloom.metrics.confidence import MetricSums, ratio_of_sums, wilson_interval
from seqloom.metrics.rank_correlation import spearman
from seqloom.models.word2vec import OneHot, Vectors, Word2Vec
from seqloom.tasks.task import Loss, Predictions, Task, TextEncoding

FIRST = 2  # number of the first word in a batch: 0 is padding, 1 a word that is not known


class QueryInputs(NamedTuple):
    """Questions side by side."""

    words: Tensor  # (B, T), numbers from FIRST on
    signs: Tensor  # (B, T), 1 or -1
    mask: Tensor  # (B, T), True where real


@dataclass(frozen=True, slots=True)
class Answer:
    """What vectors say to a question."""

    kind: str
    words: list[str] = field(default_factory=list)  # neighbours, the nearest first; or the odd one
    scores: list[float] = field(default_factory=list)  # cosines: of the neighbours, of the pair, of each word asked for
    unknown: list[str] = field(default_factory=list)  # words of the question that have no vector
    similar: list[str] = field(default_factory=list)  # known words that are spelt like them; empty: none

    def __str__(self) -> str:
        if self.unknown:
            pairs = zip(self.unknown, self.similar, strict=True)
            return "; ".join(f"unknown: {word}" + (f" (known: {near})" if near else "") for word, near in pairs)
        if self.kind == "unclear":
            return "not clear: wanted a word, or two, or more, or a sum such as king - man + woman"
        if self.kind == "similarity":
            return f"{self.scores[0]:.4f}"
        if self.kind == "odd":
            return self.words[0]
        return "  ".join(f"{word} {score:.4f}" for word, score in zip(self.words, self.scores, strict=True))


class PhrasesConfig(ConfigSection):
    """Words that stand side by side more often than by chance become one, such as new_york (Mikolov et al. 2013)."""

    threshold: float = Field(0.0, ge=0, description="Of (n - discount) × words / (n1 × n2), such as 100; 0: none do.")
    discount: int = Field(5, ge=0, description="Keeps pairs of rare words apart.")


class Learned(ConfigSection):
    """The words of the text, from the most to the least frequent; a million of them take little memory."""

    words: str  # separated by line feeds
    counts: tuple[tuple[int, int], ...]  # how often, and how many words one behind the other occur so often
    pairs: tuple[tuple[int, int, int], ...]  # that became one: first, second, the one
    passages: int
    length: int  # words of the text, about

    @cached_property
    def known(self) -> WordIndex:
        return WordIndex(self.words, pairs=self.pairs)

    @cached_property
    def frequencies(self) -> NDArray[np.int64]:
        return np.repeat(*np.array(self.counts, np.int64).reshape(-1, 2).T)


class Embed(Task):
    """Learn word vectors from plain text (word2vec)."""

    explained_together: ClassVar[bool] = True
    recommended: ClassVar[Mapping[str, Any]] = {
        "task.train": "train.txt",
        "train.epochs": 5,
        "train.learning_rate": 0.025,
        "train.schedule": "linear",
        "train.decay": 0.0001,
    }
    option_fields: ClassVar[Mapping[str, str]] = {"encoding": "encoding"}

    name: Literal["embed"] = "embed"
    dev: str = Field("", description="File of analogies or of similar words to choose the best model by; empty: none.")
    dev_fraction: float = Field(0.0, ge=0, le=0, description="Nothing is held out.")
    model: Literal["skipgram", "cbow", "one_hot"] = Field(
        "skipgram",
        description="skipgram: from each word of the window; cbow: from their mean; one_hot: none is alike.",
    )
    encoding: TextEncoding = Field("utf-8", description="Of the files, such as utf-8, latin-1, cp1252.")
    lowercase: bool = Field(default=False, description="Whether capital letters are made small.")
    min_count: int = Field(5, ge=1, description="How often a word occurs at least; rarer ones are passed over.")
    max_words: int = Field(0, ge=0, description="Keep so many of the most frequent words; 0: all.")
    phrases: PhrasesConfig = Field(
        default_factory=PhrasesConfig, description="Joining of frequent word pairs into phrases."
    )
    vector_size: int = Field(100, ge=1, description="Of a vector.")
    window: int = Field(5, ge=1, description="Words before and behind that are looked at, at most; drawn for each.")
    negative: int = Field(5, ge=0, description="Words that are not meant, drawn for each; 0: hierarchical softmax.")
    subsample: float = Field(1e-3, ge=0, description="Share of the text from which on a word is passed over; 0: never.")
    neighbours: int = Field(10, ge=1, description="Words that answer a question.")
    top_words: int = Field(0, ge=0, description="Ask and answer with so many of the most frequent words; 0: all.")
    learned: Learned | None = Field(None, exclude=True)

    @property
    def main_metric(self) -> str:
        return "score"

    @property
    def fitted(self) -> Learned:
        if self.learned is None:
            raise ValueError("the task has not seen its training data: call fit first")
        return self.learned

    @property
    def among(self) -> int:
        """How many words may be asked for, and answer."""
        return min(self.top_words or len(self.fitted.known), len(self.fitted.known))

    def with_top_words(self, count: int) -> Self:
        return self.model_copy(update={"restrict": count})

    def read(self, source: Path | Sequence[Any]) -> Iterator[Passage | Question]:
        if kind_of(source, encoding=self.encoding) == "text":
            return passages(source, encoding=self.encoding, lower=self.lowercase)
        return labelled(source, encoding=self.encoding)

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[Question]:
        return asked(source, encoding=self.encoding)

    def fit(self, examples: Iterable[Any]) -> Self:
        phrases = PhraseSettings(self.phrases.threshold, self.phrases.discount) if self.phrases.threshold else None
        found = count(
            map(self._text, examples),
            minimum=self.min_count,
            size=self.max_words,
            threads=torch.get_num_threads(),
            phrases=phrases,
        )
        if len(found.words) < 2:
            several = "only one word" if found.words else "no word"
            rarer = f" at least {self.min_count} times (task.min_count)" if found.length else ""
            raise DataError(self.train, f"{several} occurs{rarer}; two are needed to learn anything")
        values, starts = np.unique(-found.counts, return_index=True)
        runs = np.diff([*starts.tolist(), len(found.counts)])
        learned = Learned(
            words="\n".join(found.words),
            counts=tuple(zip((-values).tolist(), runs.tolist(), strict=True)),
            pairs=tuple(found.pairs),
            passages=found.passages,
            length=found.length,
        )
        return self.model_copy(update={"learned": learned})

    def _text(self, example: Any) -> Passage:
        if not isinstance(example, Passage):
            raise DataError(example.location, "found a question with its answer; task.train wants a text")
        return example

    def collate(self, examples: Sequence[Any]) -> Batch:
        known = self.fitted.known
        rows = [
            [known.find(word) + FIRST for word in example.words]
            if isinstance(example, Question)
            else [known.find(word) + FIRST for word in example.data.decode().split()]
            for example in examples
        ]
        words: Padded = pad([np.array(row, np.int64) for row in rows])
        signs = pad(
            [
                np.array(getattr(example, "signs", [0] * len(row)), np.int64)
                for example, row in zip(examples, rows, strict=True)
            ]
        )
        return Batch(QueryInputs(words.values, signs.values, words.mask), None, len(rows), examples=tuple(examples))

    def build_model(self) -> nn.Module:
        found = self.fitted
        if self.model == "one_hot":
            return OneHot(len(found.known))
        return Word2Vec(
            found.known,
            found.frequencies,
            size=self.vector_size,
            window=self.window,
            negative=self.negative,
            mean=self.model == "cbow",
            sample=self.subsample,
            examples=found.passages,
            length=found.length,
        )

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        raise NotImplementedError("word vectors are self-trained: see Word2Vec.update")

    def predict(self, model: Vectors, batch: Batch) -> Predictions:  # type: ignore[override]
        """All questions by one product with the vectors."""
        words, signs, mask = batch.inputs
        known = (mask & (words >= FIRST) & (words < self.among + FIRST)) | ~mask
        clear = known.all(dim=1) & mask.any(dim=1)
        numbers, weights = (words - FIRST).clamp(0, self.among - 1), signs * mask
        one = torch.zeros_like(weights).float()
        one[:, 0] = 1.0  # of a pair, the first is compared with the second
        questions = batch.examples
        for row, question in enumerate(questions):
            if isinstance(question, Passage):
                raise DataError(question.location, "found a text; questions are wanted: analogies, or pairs of words")
            one[row] = one[row] if question.kind == "similarity" else weights[row].float()
        own = model.between(numbers, one)
        searched = [row for row, question in enumerate(questions) if question.kind in ("neighbours", "analogy")]
        chosen = torch.tensor([row for row in searched if clear[row]], dtype=torch.int64)
        best, nearest = model.nearest(numbers[chosen], one[chosen], among=self.among, count=self.neighbours)
        places = {row: place for place, row in enumerate(chosen.tolist())}
        answers = []
        for row, question in enumerate(questions):
            if not clear[row] or question.kind == "unclear":
                unknown = [
                    word for word, is_known in zip(question.words, known[row].tolist(), strict=False) if not is_known
                ]
                similar = [] if question.truth or question.human is not None else unknown
                spelt = [self.fitted.known.nearest(word) for word in similar] or [""] * len(unknown)
                answers.append(Answer(question.kind, unknown=unknown, similar=spelt))
            elif row in places:
                place = places[row]
                names = [self.fitted.known[number] for number in nearest[place].tolist()]
                kept = [(name, value) for name, value in zip(names, best[place].tolist(), strict=True) if value > -2]
                answers.append(Answer(question.kind, [name for name, _ in kept], [value for _, value in kept]))
            else:
                values = own[row, : len(question)].tolist()
                odd = question.words[int(np.argmin(values))]
                scores, names = ([values[1]], []) if question.kind == "similarity" else (values, [odd])
                answers.append(Answer(question.kind, names, scores))
        return Predictions(answers)

    def export(self, model: Any, path: Path) -> None:
        """The vectors in the text or binary format of word2vec."""
        if self.model == "one_hot":
            raise TypeError(f'{path}: there are no vectors to export, since task.model is "one_hot"')
        if not path.name.endswith((".txt", ".vec", ".bin")):
            raise ValueError(f"{path}: word vectors are exported as .txt, .vec or .bin")
        model.write(path)

    def score(self, predictions: Sequence[Answer], examples: Sequence[Question]) -> dict[str, Any]:
        known = self.fitted.known
        groups: dict[str, list[bool]] = defaultdict(list)
        people: list[float] = []
        said: list[float] = []
        for answer, question in zip(predictions, examples, strict=True):
            if question.human is not None and not answer.unknown:
                people.append(question.human)
                said.append(answer.scores[0])
            elif question.truth:
                wanted = known.find(question.truth)
                if not answer.unknown and 0 <= wanted < self.among:
                    groups[question.group].append(answer.words[:1] == [known[wanted]])
        right, total = sum(map(sum, groups.values())), sum(map(len, groups.values()))
        asked = sum(bool(question.truth) for question in examples)
        pairs = sum(question.human is not None for question in examples)
        accuracy, correlation = right / max(total, 1), spearman(people, said)
        found: dict[str, Any] = {"score": accuracy if _mostly_analogies(examples) else correlation}
        if asked:
            found |= {"accuracy": accuracy, "accuracy_interval": list(wilson_interval(right, total))}
            found |= {"questions": asked, "answerable": total}
        if pairs:
            found |= {"spearman": correlation, "pairs": pairs, "known pairs": len(people)}
        for name, rights in groups.items():
            found[name or "without a group"] = sum(rights) / len(rights)
        return found

    def metric_sums(self, predictions: Sequence[Answer], examples: Sequence[Question]) -> MetricSums | None:
        """Right answers among the analogies that can be answered; a correlation is no function of sums."""
        if not _mostly_analogies(examples):
            return None
        known = self.fitted.known
        rows = []
        for answer, question in zip(predictions, examples, strict=True):
            wanted = known.find(question.truth) if question.truth and not answer.unknown else -1
            counted = 0 <= wanted < self.among
            rows.append((counted and answer.words[:1] == [known[wanted]], counted))
        return ratio_of_sums(*zip(*rows, strict=True))

    def explain_together(self, model: Any, examples: Sequence[Question]) -> Explanation:
        """A map of all words of the questions: the plane of their first two principal components."""
        known = self.fitted.known
        words = list(dict.fromkeys(word for question in examples for word in question.words))
        indices = [known.find(word) for word in words]
        if unknown := [word for word, index in zip(words, indices, strict=True) if index < 0]:
            near = known.nearest(unknown[0])
            raise ValueError(f"the word {unknown[0]!r} has no vector" + (f"; did you mean {near!r}?" if near else ""))
        if self.model == "one_hot":
            raise ValueError('task.model is "one_hot": there are no learned vectors to draw')
        if len(words) < 2:
            raise ValueError("a map needs at least two different words")
        return Explanation(
            task=self.name,
            source=" ".join(words),
            prediction="",
            embedding_map=embedding_map(words, model.vectors[indices].numpy()),
        )


def _mostly_analogies(examples: Sequence[Question]) -> bool:
    """Whether a score is that of analogies, and not of pairs of similar words."""
    asked = sum(bool(question.truth) for question in examples)
    return asked >= sum(question.human is not None for question in examples)
