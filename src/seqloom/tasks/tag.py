"""Tagging: a label for each word of a sentence, or for each frame of a sequence of vectors."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom import html
from seqloom.config import ConfigSection, Document
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.feature_statistics import RunningSums
from seqloom.data.length_limit import TooLong
from seqloom.data.preview import DataPreview
from seqloom.data.readers import tagged
from seqloom.data.readers.tagged import Column, Sentence, TaggedSequence, cut_sequence
from seqloom.data.readers.text_files import DataError
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.data.text.vocabulary import Labels, Vocabulary, build_vocabulary, labels_problem, vocabulary_from_counts
from seqloom.insight.attention_maps import all_heads, mean_of_heads, self_attention
from seqloom.insight.attribution import Attribution, attribute
from seqloom.insight.explanation import Explanation, LabelChoice
from seqloom.metrics.confidence import MetricSums, bootstrap_f1, ratio_of_sums, wilson_interval
from seqloom.metrics.labels import accuracy, compare_spans, confusions, f1, per_label, per_type
from seqloom.metrics.learning import constant_answer
from seqloom.models.baseline import Baseline, most_frequent
from seqloom.models.character_encoder import (
    MAX_CHARACTERS,
    CharacterConfig,
    CharacterEncoder,
    CharacterInput,
    to_characters,
)
from seqloom.models.crf import CRF, allowed_transitions, is_allowed
from seqloom.models.encoder import BidirectionalEncoder, Encoder, PrenetConfig, build_stack
from seqloom.models.hmm import HMM, RARE, HMMInput, shorten, suffixes
from seqloom.models.pretrained.combined import CombinedInput
from seqloom.models.pretrained.pretrained import PretrainedConfig, PretrainedInputs
from seqloom.models.tagger import FrameEmbedding, SoftmaxOutput, Tagger, WordEmbedding
from seqloom.tasks.task import Loss, Predictions, Task, TextEncoding, require_fitted

NO_LABEL = -1  # padding, and sequences without a loss
CONSTANT = 1e-6  # relative standard deviation up to which a feature counts as constant


class WordEmbeddingConfig(ConfigSection):
    """Word embedding."""

    embedding_size: int = Field(100, ge=1, description="Size of the word embeddings.")
    lowercase: bool = Field(
        default=True, description="Look up words in lowercase; the character encoder always sees the original case."
    )
    min_count: int = Field(1, ge=1, description="Words that occur less often than this become <unk>.")
    unknown_dropout: float = Field(
        0.25,
        ge=0,
        description="In training, replace a word that occurs n times by <unk> with probability a / (a + n), where a "
        "is this value (0: never).",
    )


class TaggingEncoder(BidirectionalEncoder):
    """Encoder; bidirectional by default, because a label may depend on the words that follow."""

    dropout: float = Field(0.3, ge=0, lt=1, description="Dropout between layers and on the output.")


class Learned(ConfigSection):
    """Labels, vocabularies and scales of the training data."""

    labels: Labels
    pairs: tuple[tuple[str, str], ...]  # span labels: all neighbours that occur; "" stands for the start and the end
    words: Vocabulary | None = None  # None: the inputs are frames
    counts: tuple[int, ...] = ()  # occurrences of each word of the vocabulary
    characters: Vocabulary | None = None
    suffixes: Vocabulary | None = None  # of words, for the HMM
    size: int  # width of a word embedding or of a frame
    mean: tuple[float, ...] = ()  # one per feature of a frame
    deviation: tuple[float, ...] = ()
    vectors: PretrainedInputs | None = None


@dataclass(frozen=True, slots=True)
class TagPrediction:
    """The predicted labels of a sequence."""

    words: list[str]  # empty for frames
    labels: list[str]
    probabilities: list[float]  # probability of each predicted label

    def __str__(self) -> str:
        columns = zip(self.words, self.labels, strict=True) if self.words else zip(self.labels, strict=True)
        return "".join("\t".join(row) + "\n" for row in columns)

    def _repr_html_(self) -> str:
        words = self.words or [str(number) for number in range(1, len(self.labels) + 1)]
        return html.labelled_words(words, self.labels)


class Tag(Task):
    """Assign a label to each word or frame of a sequence."""

    input_name: ClassVar[str] = "word or frame"
    example_files: ClassVar[tuple[str, str]] = ("train.conllu", "dev.conllu")
    depends_on_data: ClassVar[Mapping[str, str]] = DEPENDS_ON_SIZE | {
        "task.output": "crf if the labels are spans (B-, I-), otherwise linear"
    }
    too_long: ClassVar[tuple[TooLong, ...]] = ("split", "truncate", "skip")
    option_fields: ClassVar[Mapping[str, str]] = {"format": "format", "encoding": "encoding"}

    name: Literal["tag"] = "tag"
    format: tagged.Format = Field(
        "auto",
        description="File format: conll (a word and its label per line), conllu, lines (a sentence per line, to "
        "predict), table (words in a CSV, JSON, Excel or Parquet file), vectors (frames in .csv or .npz), long (frames "
        "with a column that names their sequence); auto: by suffix and first lines, otherwise conll.",
    )
    encoding: TextEncoding = Field("utf-8", description="Text encoding of the files, such as utf-8, latin-1, cp1252.")
    label_column: Column | None = Field(
        None,
        description="Column with the labels: index from 0 (-1: last) or name. Default: the last; upos in CoNLL-U.",
    )
    word_column: Column | None = Field(
        None,
        description="Column with the words: index from 0 or name. Default: the first; form in CoNLL-U.",
    )
    group_column: Column | None = Field(
        None, description="table and long: column that names the sentence or sequence of each row. Default: by name."
    )
    time_column: Column | None = Field(
        None, description="long: column with the time, which is not part of the vectors. Default: by name."
    )
    check_labels: bool = Field(
        default=True,
        description="Refuse training data with a single label, or in which most labels occur only once.",
    )
    parallel: tuple[str, str] | None = Field(
        None,
        description='For labels in a separate file: the parts in which the two file names differ, such as ["seq.in", '
        '"seq.out"].',
    )
    model: Literal["neural", "hmm"] = Field(
        "neural",
        description="neural: recurrent or Transformer layers; hmm: a hidden Markov model, a fast baseline.",
    )
    words: WordEmbeddingConfig = Field(default_factory=WordEmbeddingConfig, description="Word embedding.")
    characters: CharacterConfig = Field(
        default_factory=CharacterConfig,
        description="Character-level word vectors, from a recurrent layer over the characters of each word.",
    )
    pretrained: PretrainedConfig = Field(
        default_factory=PretrainedConfig, description="Pretrained vectors, in addition to the word embedding."
    )
    input_dropout: float = Field(
        0.3, ge=0, lt=1, description="Dropout on the input vectors (pretrained vectors have their own dropout)."
    )
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the encoder."
    )
    encoder: TaggingEncoder = Field(
        default_factory=TaggingEncoder, description="Encoder: recurrent or Transformer layers."
    )
    output: Literal["linear", "crf"] = Field(
        "linear", description="linear: choose each label on its own; crf: choose all labels of a sequence jointly."
    )
    crf_constraints: Literal["never", "prediction", "always"] = Field(
        "prediction",
        description="CRF only: when to exclude malformed spans, such as I-x after O; always: in training, too.",
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="Linear output only: probability mass spread over all labels (0 disables it)."
    )
    learned: Learned | None = Field(None, exclude=True)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        if document.get("task.model") == "hmm":
            return {}
        values: dict[str, Any] = {}
        if data:
            spans = tagged.are_spans(label for example in data.head for label in example.labels or ())
            values["task.output"] = "crf" if spans else "linear"
        return values | training_defaults(document, data.examples if data else None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.model == "hmm" and self.pretrained:
            raise ValueError('model is "hmm", which cannot use pretrained vectors: remove task.pretrained')
        return self

    @property
    def no_bptt_reason(self) -> str:
        return "the language model of task.pretrained.run reads whole sentences" if self.pretrained.run else ""

    @property
    def is_counting_model(self) -> bool:
        return self.model == "hmm"

    @property
    def main_metric(self) -> str:
        return "span_f1" if self.learned is not None and self._has_spans else "accuracy"

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    @property
    def _has_spans(self) -> bool:
        return tagged.are_spans(self.fitted.labels.names)

    def read(self, source: Path | Sequence[Any]) -> Iterator[TaggedSequence]:
        return self._reader().read(source)

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        settings, note = self._reader().inspect(source)
        return self.model_copy(update=settings), (note,) if note else ()

    def _reader(self) -> tagged.TaggedReader:
        return tagged.TaggedReader(
            format=self.format,
            encoding=self.encoding,
            words=self.word_column,
            labels=self.label_column,
            group=self.group_column,
            time=self.time_column,
            parallel=self.parallel,
            frames=self.learned is not None and self.learned.words is None,
        )

    def fit(self, examples: Iterable[TaggedSequence]) -> Self:
        pairs: Counter[tuple[str, str]] = Counter()
        words: Counter[str] = Counter()
        statistics = RunningSums()
        for example in examples:
            if example.labels is None:
                raise self._missing_target(example, "training")
            if "" in example.labels:
                raise DataError(example.location, "empty label")
            pairs.update(pairwise(("", *example.labels, "")))
            if isinstance(example, Sentence):
                words.update(example.words)
            else:
                size = example.values.shape[1]
                if statistics.count and size != statistics.size:
                    raise DataError(
                        example.location,
                        f"expected {statistics.size} features as in the first sequence, found {size}",
                    )
                statistics.add(example.values)
        labels = Labels.of(label for pair in pairs for label in pair if label)
        if not labels.names:
            raise self._no_examples()
        counts = Counter({label: sum(pairs[pair] for pair in pairs if pair[1] == label) for label in labels.names})
        if self.check_labels and (problem := labels_problem(counts, noun="word" if words else "frame")):
            raise DataError(
                self.train,
                f"{problem}; is task.label_column right? task.check_labels = false trains nevertheless",
            )
        if words and statistics.count:
            raise DataError(self.train, "found both words and vectors; expected one of them")
        common: dict[str, Any] = {
            "labels": labels,
            "pairs": tuple(sorted(pairs)) if tagged.are_spans(labels.names) else (),
        }
        if not words and self.pretrained:
            raise DataError(self.train, "found vectors; task.pretrained works with words only")
        if not words:
            mean, deviation = statistics.means(), statistics.deviations(tolerance=CONSTANT)
            learned = Learned(**common, size=statistics.size, mean=mean, deviation=deviation)
        else:
            learned = self._fit_words(common, words)
        return self.model_copy(update={"learned": learned})

    def summarize_example(self, example: TaggedSequence) -> ExampleSummary:
        if isinstance(example, Sentence):
            return ExampleSummary(
                content="\t".join(example.words).encode(),
                target="\t".join(example.labels or ()),
                labelled=example.labels is not None,
                labels=example.labels or (),
                label_lines=example.lines,
                invalid_labels=tagged.invalid_transitions([example]),
            )
        labels = (example.label,) if example.labels is None and example.label is not None else example.labels
        return ExampleSummary(
            content=example.values.tobytes(),
            target="\t".join(labels or ()),
            labelled=labels is not None,
            labels=labels or (),
            values=example.values,
        )

    def shorten(self, example: TaggedSequence, length: int, action: TooLong) -> Iterator[TaggedSequence]:
        parts = cut_sequence(example, length)
        return islice(parts, 1) if action == "truncate" else parts

    def _fit_words(self, common: dict[str, Any], surface: Counter[str]) -> Learned:
        words: Counter[str] = Counter()
        characters: Counter[str] = Counter()
        for word, times in surface.items():
            words[self._key(word)] += times
            characters.update(dict.fromkeys(word, times))
        vocabulary = vocabulary_from_counts(words, min_count=self.words.min_count)
        rare = (suffix for word, times in surface.items() if times <= RARE for suffix in suffixes(word))
        return Learned(
            **common,
            words=vocabulary,
            counts=tuple(words[token] for token in vocabulary.tokens),
            characters=vocabulary_from_counts(characters, size=1 << 15),
            suffixes=build_vocabulary(rare, min_count=2) if self.model == "hmm" else None,
            size=self.words.embedding_size,
            vectors=self.pretrained.load(surface, self.pretrained.language("words")),
        )

    def _key(self, word: str) -> str:
        """The form in which a word is looked up in the vocabulary."""
        return word.lower() if self.words.lowercase and self.model == "neural" else word

    def collate(self, examples: Sequence[TaggedSequence]) -> Batch:
        learned = self.fitted
        inputs = self._words(examples) if learned.words is not None else self._frames(examples)
        target, items = None, 0
        if all(example.labels is not None for example in examples):
            ids = learned.labels.ids
            rows = [[ids.get(label, NO_LABEL) for label in example.labels or ()] for example in examples]
            # A sequence with a label unseen in training counts in the scores but has no loss.
            rows = [[NO_LABEL] * len(row) if NO_LABEL in row else row for row in rows]
            target = pad(rows, fill=NO_LABEL, dtype=np.int64).values
            items = int((target >= 0).sum())
        return Batch(inputs, target, items, examples=tuple(examples))

    def _words(self, examples: Sequence[TaggedSequence]) -> CharacterInput | HMMInput | CombinedInput:
        learned = self.fitted
        sentences = [example for example in examples if isinstance(example, Sentence)]
        if len(sentences) < len(examples):
            raise DataError(examples[0].location, "found vectors; the model was trained on words")
        assert learned.words is not None  # noqa: S101  fitted to words
        assert learned.characters is not None  # noqa: S101
        rows = [learned.words.encode(map(self._key, sentence.words)) for sentence in sentences]
        words, mask = pad(rows, dtype=np.int64)
        flat = [word for sentence in sentences for word in sentence.words]
        if learned.suffixes is not None:
            ids, known = torch.zeros_like(words), learned.suffixes.ids
            longest = {
                word: next((known[suffix] for suffix in suffixes(word) if known.get(suffix)), 1) for word in set(flat)
            }
            ids[mask] = torch.tensor([longest[word] for word in flat], dtype=torch.long)
            return HMMInput(words, ids, mask)
        characters = torch.zeros(*words.shape, MAX_CHARACTERS if self.characters.layers else 0, dtype=torch.int16)
        if self.characters.layers:
            characters[mask] = torch.from_numpy(to_characters(flat, learned.characters.tokens))
        inputs = CharacterInput(words, characters, mask)
        if learned.vectors is None:
            return inputs
        return CombinedInput(inputs, learned.vectors.collate([sentence.words for sentence in sentences]), mask)

    def _frames(self, examples: Sequence[TaggedSequence]) -> Padded:
        learned = self.fitted
        rows = []
        for example in examples:
            if isinstance(example, Sentence) or example.values.shape[1] != learned.size:
                actual = "words" if isinstance(example, Sentence) else f"{example.values.shape[1]} features"
                raise DataError(example.location, f"expected frames of {learned.size} features, found {actual}")
            rows.append((example.values - np.array(learned.mean)) / np.array(learned.deviation))
        return pad(rows, dtype=np.float32)

    def build_model(self) -> nn.Module:
        learned, labels = self.fitted, len(self.fitted.labels)
        if self.model == "hmm":
            if learned.words is None or learned.suffixes is None:
                raise ValueError('task.model is "hmm", which needs words, but the data are vectors')
            shorter = [learned.suffixes.index(shorten(suffix)) for suffix in learned.suffixes.tokens]
            return HMM(len(learned.words), labels, parents=shorter, collate=self.collate)
        embed, size = self._embed()
        layer = build_stack(self.prenet, self.encoder, size, causal=not self.encoder.bidirectional)
        dropout, variational = self.encoder.dropout, self.encoder.variational_dropout
        return Tagger(Encoder(embed, layer, dropout=dropout, variational=variational), labels, self._output())

    def _embed(self) -> tuple[nn.Module, int]:
        """The input layer and the width of its output."""
        learned = self.fitted
        if learned.words is None:
            return FrameEmbedding(learned.size, dropout=self.input_dropout), learned.size
        with_characters = self.characters.layers and learned.characters is not None
        embedding = WordEmbedding(
            torch.tensor(learned.counts),
            0 if self.pretrained.replace_embeddings else learned.size,
            characters=CharacterEncoder(len(learned.characters or ()), self.characters) if with_characters else None,
            unknown=self.words.unknown_dropout,
            dropout=self.input_dropout,
        )
        return self.pretrained.build_embedding(
            learned.vectors, embedding if embedding.size else None, size=embedding.size
        )

    def _output(self) -> CRF | SoftmaxOutput:
        names = self.fitted.labels.names
        if self.output == "linear":
            return SoftmaxOutput(smoothing=self.label_smoothing)
        if self.crf_constraints == "never" or not self._has_spans:
            return CRF(len(names))
        allowed = allowed_transitions(names)
        well_formed = is_allowed(allowed, names, self.fitted.pairs)
        return CRF(len(names), allowed=allowed if well_formed else None, strict=self.crf_constraints == "always")

    def loss(self, model: Any, batch: Batch) -> Loss:
        emissions, state = model(batch.inputs, batch.state)
        labelled = batch.inputs.mask & (batch.target >= 0)
        return Loss(model.loss(emissions, labelled, batch.target), batch.items, self._carried(state))

    def _carried(self, state: Any) -> Any:
        """The state for a batch that continues this one; a bidirectional encoder has none."""
        return None if self.encoder.bidirectional else state

    def predict(self, model: Any, batch: Batch) -> Predictions:
        mask = batch.inputs.mask
        emissions, state = model(batch.inputs, batch.state)
        best = model.decode(emissions, mask)
        probabilities = model.marginals(emissions, mask).gather(2, best.unsqueeze(2)).squeeze(2)
        names = self.fitted.labels.names
        lengths = mask.sum(dim=1).tolist()
        words = [list(example.words) if isinstance(example, Sentence) else [] for example in batch.examples]
        rows = zip(words or [[]] * len(lengths), best.tolist(), probabilities.tolist(), lengths, strict=True)
        answers = [
            TagPrediction(sentence, [names[label] for label in labels[:length]], values[:length])
            for sentence, labels, values, length in rows
        ]
        return Predictions(answers, self._carried(state))

    @property
    def custom_layer_field(self) -> str:
        return "encoder" if self.model == "neural" else ""

    def score(self, predictions: Sequence[TagPrediction], examples: Sequence[TaggedSequence]) -> dict[str, Any]:
        for example, answer in zip(examples, predictions, strict=True):
            if example.labels is None:
                raise self._missing_target(example, "evaluation")
            if len(answer.labels) != len(example.labels):
                raise ValueError("the sequences were concatenated: tagging needs train.bptt_steps = 0")
        reference = [label for example in examples for label in example.labels or ()]
        predicted = [label for answer in predictions for label in answer.labels]
        correct = sum(left == right for left, right in zip(reference, predicted, strict=True))
        scores: dict[str, Any] = {"accuracy": accuracy(reference, predicted)}
        details: dict[str, Any] = {"accuracy_interval": list(wilson_interval(correct, len(reference)))}
        if self._has_spans:
            spans = compare_spans(
                [example.labels or () for example in examples], [answer.labels for answer in predictions]
            )
            scores = {"span_f1": spans.sentences.f1, **scores}
            details = {"span_f1_interval": list(bootstrap_f1(*spans.sentences)), **details, "per_type": per_type(spans)}
        else:
            details["per_label"] = per_label(reference, predicted)
        details["confusions"] = confusions(reference, predicted)
        scores |= self._known_and_unknown(reference, predicted, examples)
        unseen = sum(label not in self.fitted.labels for label in reference)
        return {**scores, "elements": len(reference), "unseen_labels": unseen, **details}

    def degenerate_predictions(self, predictions: Sequence[TagPrediction], examples: Sequence[TaggedSequence]) -> str:
        label = constant_answer(
            [label for answer in predictions for label in answer.labels],
            [label for example in examples for label in example.labels or ()],
        )
        return "" if label is None else f"Every prediction is the label {label!r}"

    def baseline_targets(self, example: TaggedSequence) -> Iterable[tuple[str, str]]:
        words = example.words if isinstance(example, Sentence) else ("",) * len(example.labels or ())
        return zip(words, example.labels or (), strict=False)

    def fit_baseline(self, counts: Counter[tuple[str, str]], examples: Sequence[TaggedSequence]) -> Baseline | None:  # noqa: ARG002
        labels: Counter[str] = Counter()
        by_word: dict[str, Counter[str]] = defaultdict(Counter)
        for (word, label), times in counts.items():
            labels[label] += times
            by_word[word][label] += times
        if not labels:
            return None
        usual = most_frequent(labels)
        answers = {word: most_frequent(each) for word, each in by_word.items()}
        answers = {word: label for word, label in answers.items() if label != usual}
        name = f"most frequent label{' of each word' if self.fitted.words is not None else ''}"
        return Baseline(name=f"{name}, {usual!r} for {'others' if answers else 'all'}", answer=usual, answers=answers)

    def score_baseline(self, baseline: Baseline, examples: Sequence[TaggedSequence]) -> dict[str, float]:
        answers = []
        for example in examples:
            words = example.words if isinstance(example, Sentence) else ("",) * len(example.labels or ())
            labels = [baseline.answers.get(word, baseline.answer) for word in words]
            answers.append(TagPrediction([], labels, []))
        scores = self.score(answers, examples)
        return {name: scores[name] for name in (self.main_metric, "accuracy")}

    def share_learned(self, other: Self) -> Self:
        """The labels are those of the new data."""
        own = {name: getattr(self.fitted, name) for name in ("labels", "pairs")}
        return self.model_copy(update={"learned": other.fitted.model_copy(update=own)})

    def check_targets(self, examples: Sequence[TaggedSequence]) -> None:
        self.fitted.labels.check_known(
            [(example.location, label) for example in examples for label in example.labels or ()]
        )

    @property
    def answers_each_line(self) -> bool:
        return self.fitted.words is not None

    def metric_sums(self, predictions: Sequence[TagPrediction], examples: Sequence[TaggedSequence]) -> MetricSums:
        reference = [example.labels or () for example in examples]
        predicted = [answer.labels for answer in predictions]
        if self._has_spans:
            counts = np.stack(compare_spans(reference, predicted).sentences, axis=1)
            return MetricSums(counts.astype(np.float64), lambda sums: float(f1(*sums)))
        correct = [sum(map(str.__eq__, *pair)) for pair in zip(reference, predicted, strict=True)]
        return ratio_of_sums(correct, [len(labels) for labels in reference])

    def _known_and_unknown(
        self, reference: list[str], predicted: list[str], examples: Sequence[TaggedSequence]
    ) -> dict[str, float]:
        """The accuracy on words of the training data and on all others."""
        learned = self.fitted
        if learned.words is None:
            return {}
        seen = {word for word, times in zip(learned.words.tokens, learned.counts, strict=True) if times}
        known = [self._key(word) in seen for example in examples for word in getattr(example, "words", ())]
        scores = {}
        for name, group in (("known_accuracy", True), ("unknown_accuracy", False)):
            indices = [index for index, is_known in enumerate(known) if is_known is group]
            scores[name] = accuracy([reference[index] for index in indices], [predicted[index] for index in indices])
        return {**scores, "unknown_words": known.count(False)}

    @property
    def inputs_are_files(self) -> bool:
        return self.fitted.words is None

    def input_tokens(self, example: TaggedSequence) -> list[str]:
        return list(example.words) if isinstance(example, Sentence) else []

    def explain(self, model: Any, example: TaggedSequence, *, beam: bool = False, heads: bool = False) -> Explanation:  # noqa: ARG002
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

    @property
    def can_attribute(self) -> bool:
        return self.model == "neural"

    def attribute(
        self,
        model: Any,
        example: TaggedSequence,
        *,
        prediction: TagPrediction,
        method: str,
        target: str = "",
        word: str | int = "",
    ) -> Attribution:
        """How much each word raises or lowers the log-odds of a label of one of them, by default the least certain."""
        if not self.can_attribute:
            raise ValueError(f'which words mattered needs task.model = "neural", found "{self.model}"')
        names = prediction.words or [str(number) for number in range(1, len(prediction.labels) + 1)]
        position = _position(names, word) if word != "" else int(np.argmin(prediction.probabilities))
        label = target or prediction.labels[position]
        index = self.fitted.labels.index(label, location="target")
        inputs = self.collate([example]).inputs

        def score(vectors: Tensor) -> Tensor:
            mask = inputs.mask.expand(len(vectors), -1)
            emissions = model.emissions(model.encoder.encode(vectors, mask))
            scores: Tensor = model.log_odds(emissions, mask, position=position, label=index)
            return scores

        return attribute(
            score,
            model.encoder.embed(inputs)[0],
            method=method,
            target=label,
            tokens=names,
            signal=None if isinstance(example, Sentence) else example.values,
            word=names[position],
            position=position + 1,
        )


def _position(words: Sequence[str], chosen: str | int) -> int:
    """The index of a word that is given as text, or by its position from 1."""
    if isinstance(chosen, str):
        matches = [index for index, word in enumerate(words) if word == chosen]
        matches = matches or [index for index, word in enumerate(words) if word.lower() == chosen.lower()]
        if len(matches) > 1:
            places = ", ".join(str(index + 1) for index in matches)
            raise ValueError(f"word: {chosen!r} occurs {len(matches)} times; give one of its positions: {places}")
        if matches:
            return matches[0]
    if str(chosen).isdecimal() and 1 <= int(chosen) <= len(words):
        return int(chosen) - 1
    raise ValueError(f"word: {chosen!r} is neither a word of the input nor a position from 1 to {len(words)}")
