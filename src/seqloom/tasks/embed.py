"""Word vectors learned from plain text (word2vec): neighbours, analogies, similarity (Mikolov et al. 2013)."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.config import ConfigSection, Document
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.preview import DataPreview
from seqloom.data.readers.tables import JSON_SUFFIXES, is_binary, suffix
from seqloom.data.readers.text_files import DataError
from seqloom.data.readers.text_tables import detect_column, is_text_table, texts
from seqloom.data.readers.word_questions import Question, detect, read_questions, read_test
from seqloom.data.text.passages import Passage, passages
from seqloom.data.text.word_counts import PhraseSettings, WordIndex, count_words
from seqloom.insight.embedding_map import embedding_map
from seqloom.insight.explanation import Explanation
from seqloom.metrics.confidence import MetricSums, ratio_of_sums, wilson_interval
from seqloom.metrics.regression import spearman
from seqloom.models.word2vec import OneHot, Word2Vec, WordVectorModel
from seqloom.tasks.task import Predictions, Task, TextEncoding, require_fitted

FIRST_WORD_ID = 2  # id of the first word in a batch: 0 is padding, 1 an unknown word

EPOCHS = (5, 25)
WORDS = 25_000_000
"""Words to be read in training: small texts are read as often as EPOCHS allows."""


class QuestionInputs(NamedTuple):
    """A batch of questions."""

    words: Tensor  # (B, T), ids from FIRST_WORD_ID on
    signs: Tensor  # (B, T), 1: add the word, -1: subtract it
    mask: Tensor  # (B, T), True where real


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question about words."""

    kind: str
    words: list[str] = field(default_factory=list)  # neighbours, the nearest first; or the odd one out
    scores: list[float] = field(default_factory=list)  # cosine similarity of each neighbour, the pair, or each word
    unknown: list[str] = field(default_factory=list)  # words of the question that have no vector
    similar: list[str] = field(default_factory=list)  # for each of them, a known word with similar spelling, or ""

    def __str__(self) -> str:
        if self.unknown:
            pairs = zip(self.unknown, self.similar, strict=True)
            return "; ".join(f"unknown: {word}" + (f" (known: {near})" if near else "") for word, near in pairs)
        if self.kind == "unclear":
            return "not understood: expected one or more words, or a sum such as king - man + woman"
        if self.kind == "similarity":
            return f"{self.scores[0]:.4f}"
        if self.kind == "odd":
            return self.words[0]
        return "  ".join(f"{word} {score:.4f}" for word, score in zip(self.words, self.scores, strict=True))


class PhrasesConfig(ConfigSection):
    """Join word pairs that occur more often than by chance into one token, such as new_york (Mikolov et al. 2013)."""

    threshold: float = Field(
        0.0,
        ge=0,
        description="Join pairs with (count - discount) × words / (count1 × count2) above this, such as 100 (0: none).",
    )
    discount: int = Field(
        5, ge=0, description="Subtracted from the count of a pair, so that rare pairs are not joined."
    )


class Learned(ConfigSection):
    """The words of the text from the most to the least frequent, stored compactly."""

    words: str  # separated by line feeds
    counts: tuple[tuple[int, int], ...]  # run-length encoded: (occurrences, number of words with as many)
    pairs: tuple[tuple[int, int, int], ...]  # phrases: ids of the first word, the second word, the phrase
    passages: int = Field(ge=0)
    length: int = Field(ge=0)  # approximate number of words in the text

    @model_validator(mode="after")
    def _check(self) -> Self:
        words = len(self.vocabulary)
        if any(min(run) < 1 for run in self.counts) or sum(number for _, number in self.counts) != words:
            raise ValueError(f"counts: expected the occurrences of {words:,} words")
        return self

    @cached_property
    def vocabulary(self) -> WordIndex:
        return WordIndex(self.words, pairs=self.pairs)

    @cached_property
    def frequencies(self) -> NDArray[np.int64]:
        return np.repeat(*np.array(self.counts, np.int64).reshape(-1, 2).T)


class Embed(Task):
    """Learn word vectors from plain text (word2vec)."""

    explained_together: ClassVar[bool] = True
    example_files: ClassVar[tuple[str, str]] = ("train.txt", "")
    depends_on_data: ClassVar[Mapping[str, str]] = {
        "train.epochs": "5 to 25, so that small texts are read until 25 million words have been seen"
    }
    option_fields: ClassVar[Mapping[str, str]] = {"encoding": "encoding"}

    name: Literal["embed"] = "embed"
    dev: str = Field(
        "",
        description="Dev file of analogies or word similarities, which selects the best checkpoint (empty: none).",
    )
    can_hold_out: ClassVar[bool] = False
    dev_fraction: float = Field(0.0, ge=0, le=0, description="Always 0: plain text cannot be held out for evaluation.")
    model: Literal["skipgram", "cbow", "one_hot"] = Field(
        "skipgram",
        description="skipgram: predict each word of the window; cbow: predict a word from the mean of its window; "
        "one_hot: a baseline without learned vectors.",
    )
    encoding: TextEncoding = Field("utf-8", description="Text encoding of the files, such as utf-8, latin-1, cp1252.")
    text_column: int | str = Field(
        "",
        description="Column with the texts of a table (CSV, JSON lines, Parquet …): name, or index from 0, negative "
        "from the end (empty: by name and content).",
    )
    lowercase: bool = Field(default=False, description="Convert the text to lowercase.")
    min_count: int = Field(5, ge=1, description="Skip words that occur less often than this.")
    max_words: int = Field(0, ge=0, description="Keep only this many of the most frequent words (0: all).")
    phrases: PhrasesConfig = Field(
        default_factory=PhrasesConfig, description="Joining of frequent word pairs into phrases."
    )
    vector_size: int = Field(100, ge=1, description="Size of the word vectors.")
    window: int = Field(
        5, ge=1, description="Largest distance of a context word; the distance is drawn from 1 to this for each word."
    )
    negative: int = Field(
        5, ge=0, description="Negative samples for each pair of words (0: hierarchical softmax instead)."
    )
    subsample: float = Field(
        1e-3,
        ge=0,
        description="Relative frequency above which occurrences of a word are skipped at random (0: never skip).",
    )
    neighbours: int = Field(10, ge=1, description="Number of nearest words in an answer.")
    top_words: int = Field(
        0, ge=0, description="Evaluate and predict with this many of the most frequent words only (0: all)."
    )
    learned: Learned | None = Field(None, exclude=True)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        words = data.examples * data.mean_length if data else 0.0
        epochs = round(min(max(WORDS / words, EPOCHS[0]), EPOCHS[1])) if words else EPOCHS[0]
        values = {"train.epochs": epochs, "train.learning_rate": 0.025, "train.schedule": "linear"}
        if document.get("train.schedule") in (None, "linear"):
            values["train.decay"] = 0.0001
        return values

    @property
    def is_counting_model(self) -> bool:
        return self.model == "one_hot"

    @property
    def is_self_trained(self) -> bool:
        return True

    @property
    def no_max_length_reason(self) -> str:
        return "text is read in parts of some ten thousand words, however long its lines are"

    @property
    def main_metric(self) -> str:
        return "score"

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    @property
    def _word_limit(self) -> int:
        """The number of words that questions and answers are restricted to."""
        words = len(self.fitted.vocabulary)
        return min(self.top_words or words, words)

    def with_top_words(self, count: int) -> Self:
        return self.model_copy(update={"top_words": count})

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        if not self._is_table(source):
            return self, ()
        settings, notes = detect_column(source, column=self.text_column, encoding=self.encoding)
        return self.model_copy(update=settings), notes

    def read(self, source: Path | Sequence[Any]) -> Iterator[Passage | Question]:
        if self._is_table(source):
            rows = texts(source, column=self.text_column, encoding=self.encoding)
            return passages([text for _, text in rows], lowercase=self.lowercase)
        if detect(source, encoding=self.encoding) == "text":
            return passages(source, encoding=self.encoding, lowercase=self.lowercase)
        return read_test(source, encoding=self.encoding)

    def _is_table(self, source: Path | Sequence[Any]) -> bool:
        """Whether a source is a table with a column of texts, and not one of analogies or word pairs."""
        if not is_text_table(source):
            return False
        if not isinstance(source, Path) or is_binary(source) or suffix(source) in JSON_SUFFIXES:
            return True
        return detect(source, encoding=self.encoding) == "text"

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[Question]:
        return read_questions(source, encoding=self.encoding)

    def input_text(self, example: Question) -> str:
        return example.text

    def is_empty_input(self, example: Question) -> bool:
        return not example.text.strip()

    def example_texts(self, example: Question) -> tuple[str, str]:
        return example.text, example.truth or ("" if example.human is None else str(example.human))

    def answer_text(self, prediction: Answer) -> str:
        is_word = prediction.kind == "analogy" and not prediction.unknown
        return prediction.words[0] if is_word and prediction.words else super().answer_text(prediction)

    def fit(self, examples: Iterable[Any]) -> Self:
        phrases = PhraseSettings(self.phrases.threshold, self.phrases.discount) if self.phrases.threshold else None
        counted = count_words(
            map(self._check_text, examples),
            min_count=self.min_count,
            max_words=self.max_words,
            threads=torch.get_num_threads(),
            phrases=phrases,
        )
        if len(counted.words) < 2:
            number = "only one word" if counted.words else "no word"
            threshold = f" at least {self.min_count} times (task.min_count)" if counted.length else ""
            raise DataError(self.train, f"{number} occurs{threshold}; training needs at least two")
        values, starts = np.unique(-counted.counts, return_index=True)
        runs = np.diff([*starts.tolist(), len(counted.counts)])
        learned = Learned(
            words="\n".join(counted.words),
            counts=tuple(zip((-values).tolist(), runs.tolist(), strict=True)),
            pairs=tuple(counted.pairs),
            passages=counted.passages,
            length=counted.length,
        )
        return self.model_copy(update={"learned": learned})

    def _check_text(self, example: Any) -> Passage:
        if not isinstance(example, Passage):
            raise DataError(example.location, "found a question with its answer; task.train needs plain text")
        return example

    def summarize_example(self, example: Passage | Question) -> ExampleSummary:
        return ExampleSummary(content="\t".join(example.words).encode() if isinstance(example, Question) else b"")

    def collate(self, examples: Sequence[Any]) -> Batch:
        find = self.fitted.vocabulary.find
        rows = [
            [find(word) + FIRST_WORD_ID for word in example.words]
            if isinstance(example, Question)
            else [find(word) + FIRST_WORD_ID for word in example.data.decode().split()]
            for example in examples
        ]
        words: Padded = pad([np.array(row, np.int64) for row in rows])
        signs = pad(
            [
                np.array(getattr(example, "signs", [0] * len(row)), np.int64)
                for example, row in zip(examples, rows, strict=True)
            ]
        )
        return Batch(QuestionInputs(words.values, signs.values, words.mask), None, len(rows), examples=tuple(examples))

    def build_model(self) -> nn.Module:
        learned = self.fitted
        if self.model == "one_hot":
            return OneHot(len(learned.vocabulary))
        return Word2Vec(
            learned.vocabulary,
            learned.frequencies,
            size=self.vector_size,
            window=self.window,
            negative=self.negative,
            mean=self.model == "cbow",
            sample=self.subsample,
            examples=learned.passages,
            length=learned.length,
        )

    def predict(self, model: WordVectorModel, batch: Batch) -> Predictions:  # type: ignore[override]
        """Answer all questions with one matrix product."""
        words, signs, mask = batch.inputs
        known = (mask & (words >= FIRST_WORD_ID) & (words < self._word_limit + FIRST_WORD_ID)) | ~mask
        answerable = known.all(dim=1) & mask.any(dim=1)
        ids, weights = (words - FIRST_WORD_ID).clamp(0, self._word_limit - 1), (signs * mask).float()
        questions = batch.examples
        for row, question in enumerate(questions):
            if isinstance(question, Passage):
                raise DataError(question.location, "found plain text, expected analogies or pairs of words")
            if question.kind == "similarity":  # compare the first word with the second
                weights[row] = 0.0
                weights[row, 0] = 1.0
        cosines = model.member_cosines(ids, weights)
        searched = [row for row, question in enumerate(questions) if question.kind in ("neighbours", "analogy")]
        rows = torch.tensor([row for row in searched if answerable[row]], dtype=torch.int64)
        best, nearest = model.nearest(ids[rows], weights[rows], among=self._word_limit, count=self.neighbours)
        position = {row: index for index, row in enumerate(rows.tolist())}
        answers = []
        for row, question in enumerate(questions):
            if not answerable[row] or question.kind == "unclear":
                unknown = [
                    word for word, is_known in zip(question.words, known[row].tolist(), strict=False) if not is_known
                ]
                misspelt = [] if question.truth or question.human is not None else unknown
                similar = [self.fitted.vocabulary.nearest(word) for word in misspelt] or [""] * len(unknown)
                answers.append(Answer(question.kind, unknown=unknown, similar=similar))
            elif row in position:
                index = position[row]
                names = [self.fitted.vocabulary[number] for number in nearest[index].tolist()]
                pairs = zip(names, best[index].tolist(), strict=True)
                kept = [(name, value) for name, value in pairs if value > -math.inf]  # without the question's words
                answers.append(Answer(question.kind, [name for name, _ in kept], [value for _, value in kept]))
            else:
                values = cosines[row, : len(question)].tolist()
                odd = question.words[int(np.argmin(values))]
                scores, names = ([values[1]], []) if question.kind == "similarity" else (values, [odd])
                answers.append(Answer(question.kind, names, scores))
        return Predictions(answers)

    def export(self, model: Any, path: Path) -> None:
        """Write the vectors in the text or binary format of word2vec."""
        if self.model == "one_hot":
            raise TypeError(f'{path}: there are no vectors to export, since task.model is "one_hot"')
        if not path.name.endswith((".txt", ".vec", ".bin")):
            raise ValueError(f"{path}: word vectors are exported as .txt, .vec or .bin")
        model.write(path)

    def score(self, predictions: Sequence[Answer], examples: Sequence[Question]) -> dict[str, Any]:
        vocabulary = self.fitted.vocabulary
        groups: dict[str, list[bool]] = defaultdict(list)
        human: list[float] = []
        predicted: list[float] = []
        for answer, question in zip(predictions, examples, strict=True):
            if question.human is not None and not answer.unknown:
                human.append(question.human)
                predicted.append(answer.scores[0])
            elif question.truth:
                reference = vocabulary.find(question.truth)
                if not answer.unknown and 0 <= reference < self._word_limit:
                    groups[question.group].append(answer.words[:1] == [vocabulary[reference]])
        correct, total = sum(map(sum, groups.values())), sum(map(len, groups.values()))
        questions = sum(bool(question.truth) for question in examples)
        pairs = sum(question.human is not None for question in examples)
        accuracy, correlation = correct / max(total, 1), spearman(human, predicted)
        scores: dict[str, Any] = {"score": accuracy if _mostly_analogies(examples) else correlation}
        if questions:
            scores |= {"accuracy": accuracy, "accuracy_interval": list(wilson_interval(correct, total))}
            scores |= {"questions": questions, "answerable": total}
        if pairs:
            scores |= {"spearman": correlation, "pairs": pairs, "known_pairs": len(human)}
        for name, hits in groups.items():
            scores[name or "without a group"] = sum(hits) / len(hits)
        return scores

    def metric_sums(self, predictions: Sequence[Answer], examples: Sequence[Question]) -> MetricSums | None:
        """Correct answers to answerable analogies; a rank correlation cannot be computed from sums."""
        if not _mostly_analogies(examples):
            return None
        vocabulary = self.fitted.vocabulary
        rows = []
        for answer, question in zip(predictions, examples, strict=True):
            reference = vocabulary.find(question.truth) if question.truth and not answer.unknown else -1
            counted = 0 <= reference < self._word_limit
            rows.append((counted and answer.words[:1] == [vocabulary[reference]], counted))
        return ratio_of_sums(*zip(*rows, strict=True))

    def explain_together(self, model: Any, examples: Sequence[Question]) -> Explanation:
        """A map of all words of the questions, by their first two principal components.

        Analogies such as "king - man + woman" become arrows, with their answer; of a single word, its neighbours are
        shown.
        """
        vocabulary = self.fitted.vocabulary
        words = list(dict.fromkeys(word for question in examples for word in question.words))
        indices = [vocabulary.find(word) for word in words]
        if unknown := [word for word, index in zip(words, indices, strict=True) if index < 0]:
            near = vocabulary.nearest(unknown[0])
            reason = f"words that occur at least {self.min_count} times have one (task.min_count)"
            advice = f"did you mean {near!r}?" if near else reason
            raise ValueError(f"the word {unknown[0]!r} has no vector; {advice}")
        if self.model == "one_hot":
            raise ValueError('task.model is "one_hot": there are no learned vectors to draw')
        answers = self.predict(model, self.collate(examples)).answers
        analogies = [
            (*_corners(question), answer.words[0])
            for question, answer in zip(examples, answers, strict=True)
            if _corners(question) and answer.words
        ]
        centre = words[0] if len(words) == 1 else ""
        words = list(dict.fromkeys([*words, *(each[3] for each in analogies), *(answers[0].words if centre else [])]))
        if len(words) < 2:
            raise ValueError("a map needs at least two different words")
        indices = [vocabulary.find(word) for word in words]
        return Explanation(
            task=self.name,
            source=" ".join(words),
            prediction="",
            embedding_map=embedding_map(words, model.vectors[indices].numpy(), analogies=analogies, centre=centre),
        )


def _corners(question: Question) -> tuple[str, str, str] | tuple[()]:
    """The words of an analogy that are added, subtracted and added again; empty for other questions."""
    added = [word for word, sign in zip(question.words, question.signs, strict=True) if sign > 0]
    subtracted = [word for word, sign in zip(question.words, question.signs, strict=True) if sign < 0]
    if question.kind != "analogy" or len(added) != 2 or len(subtracted) != 1:
        return ()
    return added[0], subtracted[0], added[1]


def _mostly_analogies(examples: Sequence[Question]) -> bool:
    """Whether there are at least as many analogies as pairs with human similarity ratings."""
    analogies = sum(bool(question.truth) for question in examples)
    return analogies >= sum(question.human is not None for question in examples)
