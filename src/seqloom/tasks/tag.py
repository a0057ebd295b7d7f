"""Tagging: a label for each word of a sentence, or for each frame of a sequence of vectors."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import nn

from seqloom.config import ConfigSection
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.readers import tagged
from seqloom.data.readers.tagged import Column, Example, Scale, Sentence
from seqloom.data.readers.text_files import DataError
from seqloom.data.text.vocabulary import Labels, Vocabulary, count, ranked
from seqloom.insight.attention_maps import all_heads, mean_of_heads, self_attention
from seqloom.insight.explanation import Explanation, LabelChoice
from seqloom.metrics.confidence import MetricSums, bootstrap_f1, ratio_of_sums, wilson_interval
from seqloom.metrics.labels import accuracy, compare_spans, f1, per_label, per_type
from seqloom.models.character_encoder import LONGEST, CharacterConfig, CharacterEncoder, CharacterInput, to_characters
from seqloom.models.crf import CRF, allow_spans, fits
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.hmm import HMM, RARE, Clues, endings, shorten
from seqloom.models.pretrained.combined import CombinedInput
from seqloom.models.pretrained.pretrained import PretrainedConfig, PretrainedInputs
from seqloom.models.tagger import FrameVectors, Independent, Tagger, WordVectors
from seqloom.tasks.task import Loss, Predictions, Task, TextEncoding

NO_LABEL = -1


class WordEmbeddingConfig(ConfigSection):
    """Word embedding."""

    embedding_size: int = Field(100, ge=1, description="Size of a word's vector.")
    lowercase: bool = Field(
        default=True, description="Capitals are small letters here; characters are read as they are."
    )
    min_count: int = Field(1, ge=1, description="Words that occur less often are unknown.")
    unknown_dropout: float = Field(
        0.25, ge=0, description="a: in training, a word that occurs n times is unknown with probability a / (a + n)."
    )


class BidirectionalEncoder(RecurrenceConfig):
    """Recurrent layers, as a rule from both ends: a label may depend on what follows."""

    bidirectional: bool = Field(default=True, description="Read in both directions.")
    dropout: float = Field(0.3, ge=0, lt=1, description="Between layers and on the output.")


class Learned(ConfigSection):
    """Labels, words, scales of the training data."""

    labels: Labels
    pairs: tuple[tuple[str, str], ...]  # of spans: labels that follow each other; "" before the first, behind the last
    words: Vocabulary | None = None
    counts: tuple[int, ...] = ()  # of the words
    characters: Vocabulary | None = None
    endings: Vocabulary | None = None
    size: int  # of a word's vector, or of a frame
    mean: tuple[float, ...] = ()  # of the frames
    deviation: tuple[float, ...] = ()
    vectors: PretrainedInputs | None = None


@dataclass(frozen=True, slots=True)
class Tagged:
    """The labels of a sequence."""

    words: list[str]  # empty where frames are labelled
    labels: list[str]
    probabilities: list[float]  # of each label at its place

    def __str__(self) -> str:
        columns = zip(self.words, self.labels, strict=True) if self.words else zip(self.labels, strict=True)
        return "".join("\t".join(row) + "\n" for row in columns)


class Tag(Task):
    """Assign a label to each word or frame of a sequence."""

    recommended: ClassVar[Mapping[str, Any]] = {"task.train": "train.conllu", "task.dev": "dev.conllu"}
    option_fields: ClassVar[Mapping[str, str]] = {"format": "format", "encoding": "encoding"}

    name: Literal["tag"] = "tag"
    format: tagged.Format = Field(
        "auto", description="Of the files; auto: .conllu, .csv and .npz (vectors) by their names, others conll."
    )
    encoding: TextEncoding = Field("utf-8", description="Of texts, such as utf-8, latin-1, cp1252.")
    label_column: Column | None = Field(
        None, description="Of the label: number (-1: last) or name (upos); default last, upos."
    )
    word_column: Column | None = Field(None, description="Of the word: number from 0, or name; default first, form.")
    parallel: tuple[str, str] | None = Field(
        None, description='Labels in a file of their own: ["seq.in", "seq.out"] is what differs in the two names.'
    )
    model: Literal["recurrent", "hmm"] = Field("recurrent", description="hmm: counts of words and pairs of labels.")
    words: WordEmbeddingConfig = Field(default_factory=WordEmbeddingConfig, description="Word embedding.")
    characters: CharacterConfig = Field(
        default_factory=CharacterConfig,
        description="Character-level word vectors, from a recurrent layer over the characters of each word.",
    )
    pretrained: PretrainedConfig = Field(
        default_factory=PretrainedConfig, description="Pretrained vectors, in addition to the word embedding."
    )
    input_dropout: float = Field(0.3, ge=0, lt=1, description="Dropout on what the encoder reads of its own.")
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the encoder."
    )
    encoder: BidirectionalEncoder = Field(default_factory=BidirectionalEncoder, description="Encoder.")
    output: Literal["linear", "crf"] = Field("linear", description="crf: labels are chosen together, as a chain.")
    crf_constraints: Literal["never", "prediction", "always"] = Field(
        "prediction", description="crf: when spans (B-x, I-x) have to be well formed; always: in training, too."
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="linear: label smoothing.")
    learned: Learned | None = Field(None, exclude=True)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.model == "hmm" and self.pretrained:
            raise ValueError('kind is "hmm", which counts words, and vectors are given: leave one of them out')
        return self

    @property
    def no_bptt_reason(self) -> str:
        return "task.pretrained.run reads whole sentences, from both ends" if self.pretrained.run else ""

    @property
    def main_metric(self) -> str:
        return "span_f1" if self.learned is not None and self._spans else "accuracy"

    @property
    def fitted(self) -> Learned:
        if self.learned is None:
            raise ValueError("the task has not seen its training data: call fit first")
        return self.learned

    @property
    def _spans(self) -> bool:
        return tagged.are_spans(self.fitted.labels.names)

    def read(self, source: Path | Sequence[Any]) -> Iterator[Example]:
        return tagged.Reader(
            format=self.format,
            encoding=self.encoding,
            words=self.word_column,
            labels=self.label_column,
            parallel=self.parallel,
            frames=self.learned is not None and self.learned.words is None,
        ).read(source)

    def fit(self, examples: Iterable[Example]) -> Self:
        pairs: Counter[tuple[str, str]] = Counter()
        words: Counter[str] = Counter()
        scale = Scale()
        for example in examples:
            if example.labels is None:
                raise DataError(example.location, "there are no labels, and training needs them")
            if "" in example.labels:
                raise DataError(example.location, "a label is empty")
            pairs.update(pairwise(("", *example.labels, "")))
            if isinstance(example, Sentence):
                words.update(example.words)
            else:
                scale.add(example)
        labels = Labels.of(label for pair in pairs for label in pair if label)
        if not labels.names:
            raise DataError(self.train, "there is nothing to learn from")
        if words and scale.count:
            raise DataError(self.train, "found words and vectors; one of them is wanted")
        common: dict[str, Any] = {
            "labels": labels,
            "pairs": tuple(sorted(pairs)) if tagged.are_spans(labels.names) else (),
        }
        if not words and self.pretrained:
            raise DataError(self.train, "found vectors; task.pretrained is for words")
        if not words:
            learned = Learned(**common, size=len(scale.sum), mean=scale.mean, deviation=scale.deviation)
        else:
            learned = self._fit_words(common, words)
        return self.model_copy(update={"learned": learned})

    def _fit_words(self, common: dict[str, Any], spelled: Counter[str]) -> Learned:
        words: Counter[str] = Counter()
        characters: Counter[str] = Counter()
        for word, times in spelled.items():
            words[self._key(word)] += times
            characters.update(dict.fromkeys(word, times))
        vocabulary = ranked(words, size=0, minimum=self.words.min_count, specials=())
        rare = (ending for word, times in spelled.items() if times <= RARE for ending in endings(word))
        return Learned(
            **common,
            words=vocabulary,
            counts=tuple(words[symbol] for symbol in vocabulary.symbols),
            characters=ranked(characters, size=1 << 15, minimum=1, specials=()),
            endings=count(rare, minimum=2) if self.model == "hmm" else None,
            size=self.words.embedding_size,
            vectors=self.pretrained.take(spelled, self.pretrained.language("words")),
        )

    def _key(self, word: str) -> str:
        return word.lower() if self.words.lowercase and self.model == "recurrent" else word

    def collate(self, examples: Sequence[Example]) -> Batch:
        learned = self.fitted
        inputs = self._words(examples) if learned.words is not None else self._frames(examples)
        target, items = None, 0
        if all(example.labels is not None for example in examples):
            numbers = learned.labels.numbers
            rows = [[numbers.get(label, NO_LABEL) for label in example.labels or ()] for example in examples]
            # A sequence with a label that was not there in training has no loss; it is judged, but not learnt from.
            rows = [[NO_LABEL] * len(row) if NO_LABEL in row else row for row in rows]
            target = pad(rows, fill=NO_LABEL, dtype=np.int64).values
            items = int((target >= 0).sum())
        return Batch(inputs, target, items, examples=tuple(examples))

    def _words(self, examples: Sequence[Example]) -> CharacterInput | Clues | CombinedInput:
        learned = self.fitted
        sentences = [example for example in examples if isinstance(example, Sentence)]
        if len(sentences) < len(examples):
            raise DataError(examples[0].location, "found vectors; this model reads words")
        assert learned.words is not None  # noqa: S101  fitted to words
        assert learned.characters is not None  # noqa: S101
        rows = [learned.words.encode(map(self._key, sentence.words)) for sentence in sentences]
        words, mask = pad(rows, dtype=np.int64)
        flat = [word for sentence in sentences for word in sentence.words]
        if learned.endings is not None:
            found, known = torch.zeros_like(words), learned.endings.numbers
            number = {word: next((n for one in endings(word) if (n := known.get(one))), 1) for word in set(flat)}
            found[mask] = torch.tensor([number[word] for word in flat], dtype=torch.long)
            return Clues(words, found, mask)
        characters = torch.zeros(*words.shape, LONGEST if self.characters.layers else 0, dtype=torch.int16)
        if self.characters.layers:
            characters[mask] = torch.from_numpy(to_characters(flat, learned.characters.symbols))
        own = CharacterInput(words, characters, mask)
        if learned.vectors is None:
            return own
        return CombinedInput(own, learned.vectors.collate([sentence.words for sentence in sentences]), mask)

    def _frames(self, examples: Sequence[Example]) -> Padded:
        learned = self.fitted
        rows = []
        for example in examples:
            if isinstance(example, Sentence) or example.values.shape[1] != learned.size:
                found = "words" if isinstance(example, Sentence) else f"vectors of {example.values.shape[1]}"
                raise DataError(example.location, f"found {found} numbers; this model reads vectors of {learned.size}")
            rows.append((example.values - np.array(learned.mean)) / np.array(learned.deviation))
        return pad(rows, dtype=np.float32)

    def build_model(self) -> nn.Module:
        learned, labels = self.fitted, len(self.fitted.labels)
        if self.model == "hmm":
            if learned.words is None or learned.endings is None:
                raise ValueError('task.model is "hmm": it counts words, and these are vectors')
            shorter = [learned.endings.index(shorten(ending)) for ending in learned.endings.symbols]
            return HMM(len(learned.words), labels, parents=shorter, collate=self.collate)
        embed, size = self._embed()
        layer = build_stack(self.prenet, self.encoder, size, causal=not self.encoder.bidirectional)
        dropout, variational = self.encoder.dropout, self.encoder.variational_dropout
        return Tagger(Encoder(embed, layer, dropout=dropout, variational=variational), labels, self._output())

    def _embed(self) -> tuple[nn.Module, int]:
        """What makes vectors of the input, and their size."""
        learned = self.fitted
        if learned.words is None:
            return FrameVectors(learned.size, dropout=self.input_dropout), learned.size
        spelled = self.characters.layers and learned.characters is not None
        own = WordVectors(
            torch.tensor(learned.counts),
            0 if self.pretrained.replace_own else learned.size,
            characters=CharacterEncoder(len(learned.characters or ()), self.characters) if spelled else None,
            unknown=self.words.unknown_dropout,
            dropout=self.input_dropout,
        )
        return self.pretrained.join(learned.vectors, own if own.size else None, size=own.size)

    def _output(self) -> CRF | Independent:
        names = self.fitted.labels.names
        if self.output == "linear":
            return Independent(smoothing=self.label_smoothing)
        if self.crf_constraints == "never" or not self._spans:
            return CRF(len(names))
        allowed = allow_spans(names)
        orderly = fits(allowed, names, self.fitted.pairs)
        return CRF(len(names), allowed=allowed if orderly else None, strict=self.crf_constraints == "always")

    def loss(self, model: Any, batch: Batch) -> Loss:
        emissions, state = model(batch.inputs, batch.state)
        labelled = batch.inputs.mask & (batch.target >= 0)
        return Loss(model.loss(emissions, labelled, batch.target), batch.items, self._passed(state))

    def _passed(self, state: Any) -> Any:
        return None if self.encoder.bidirectional else state

    def predict(self, model: Any, batch: Batch) -> Predictions:
        mask = batch.inputs.mask
        emissions, state = model(batch.inputs, batch.state)
        best = model.decode(emissions, mask)
        probabilities = model.marginals(emissions, mask).gather(2, best.unsqueeze(2)).squeeze(2)
        names = self.fitted.labels.names
        rows = zip(mask.sum(dim=1).tolist(), best.tolist(), probabilities.tolist(), strict=True)
        answers = [([names[label] for label in row[:length]], some[:length]) for length, row, some in rows]
        words = [list(example.words) if isinstance(example, Sentence) else [] for example in batch.examples]
        words = words or [[]] * len(answers)
        found = [Tagged(own, *answer) for own, answer in zip(words, answers, strict=True)]
        return Predictions(found, self._passed(state))

    @property
    def custom_layer_field(self) -> str:
        return "encoder" if self.model == "recurrent" else ""

    def score(self, predictions: Sequence[Tagged], examples: Sequence[Example]) -> dict[str, Any]:
        for example, answer in zip(examples, predictions, strict=True):
            if example.labels is None:
                raise DataError(example.location, "there are no labels to compare with")
            if len(answer.labels) != len(example.labels):
                raise ValueError("the sequences were joined: tagging needs train.bptt_steps = 0")
        wanted = [label for example in examples for label in example.labels or ()]
        found = [label for answer in predictions for label in answer.labels]
        right = sum(left == label for left, label in zip(wanted, found, strict=True))
        numbers: dict[str, Any] = {"accuracy": accuracy(wanted, found)}
        details: dict[str, Any] = {"accuracy_interval": list(wilson_interval(right, len(wanted)))}
        if self._spans:
            spans = compare_spans(
                [example.labels or () for example in examples], [answer.labels for answer in predictions]
            )
            numbers = {"span_f1": spans.sentences.f1, **numbers}
            details = {"span_f1_interval": list(bootstrap_f1(*spans.sentences)), **details, "per_type": per_type(spans)}
        else:
            details["per_label"] = per_label(wanted, found)
        numbers |= self._by_knowledge(wanted, found, examples)
        unseen = sum(label not in self.fitted.labels for label in wanted)
        return {**numbers, "elements": len(wanted), "unseen_labels": unseen, **details}

    def metric_sums(self, predictions: Sequence[Tagged], examples: Sequence[Example]) -> MetricSums:
        wanted, found = [each.labels or () for each in examples], [each.labels for each in predictions]
        if self._spans:
            counts = np.stack(compare_spans(wanted, found).sentences, axis=1)
            return MetricSums(counts.astype(np.float64), lambda sums: float(f1(*sums)))
        right = [sum(map(str.__eq__, *pair)) for pair in zip(wanted, found, strict=True)]
        return ratio_of_sums(right, [len(labels) for labels in wanted])

    def _by_knowledge(self, wanted: list[str], found: list[str], examples: Sequence[Example]) -> dict[str, float]:
        """Accuracy of words that occur in the training data, and of the others."""
        learned = self.fitted
        if learned.words is None:
            return {}
        seen = {symbol for symbol, times in zip(learned.words.symbols, learned.counts, strict=True) if times}
        known = [self._key(word) in seen for example in examples for word in getattr(example, "words", ())]
        sides = {}
        for name, side in (("known_accuracy", True), ("unknown_accuracy", False)):
            chosen = [index for index, one in enumerate(known) if one is side]
            sides[name] = accuracy([wanted[index] for index in chosen], [found[index] for index in chosen])
        return {**sides, "unknown_words": known.count(False)}

    @property
    def inputs_are_files(self) -> bool:
        return self.fitted.words is None

    def input_tokens(self, example: Example) -> list[str]:
        return list(example.words) if isinstance(example, Sentence) else []

    def explain(self, model: Any, example: Example, *, beam: bool = False, heads: bool = False) -> Explanation:  # noqa: ARG002
        """The probability of each label, the most probable alternative, and the self-attention of Transformers."""
        batch = self.collate([example])
        predictions, layers, _ = self_attention(model, lambda: self.predict(model, batch))
        (prediction,) = predictions.answers
        words = prediction.words or [str(number) for number in range(1, len(prediction.labels) + 1)]
        emissions, _ = model(batch.inputs, None)
        marginals = model.marginals(emissions, batch.inputs.mask)[0].tolist()
        choices = []
        for word, label, probability, row in zip(
            words, prediction.labels, prediction.probabilities, marginals, strict=False
        ):
            others = [(value, name) for name, value in zip(self.fitted.labels.names, row, strict=True) if name != label]
            value, alternative = max(others, default=(0.0, ""))
            choices.append(LabelChoice(word, label, probability, alternative, value))
        return Explanation(
            task=self.name,
            source=" ".join(prediction.words),
            prediction=prediction,
            attention=mean_of_heads(layers, words, words),
            heads=all_heads(layers, words, words) if heads else [],
            label_choices=choices,
        )
