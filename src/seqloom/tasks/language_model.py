"""Language modelling: the probability of the next token and of whole texts, and text generation."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import nn

from seqloom.config import Document, parse
from seqloom.data.batch import Batch, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.length_limit import TooLong
from seqloom.data.preview import DataPreview
from seqloom.data.readers.text_files import DataError, Location, resolve
from seqloom.data.readers.text_tables import detect_column, texts
from seqloom.data.size_defaults import DEPENDS_ON_SIZE, training_defaults
from seqloom.data.text.detection import SPLIT_DEFAULT, TextSample
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import END, PAD, START, UNKNOWN, Vocabulary, vocabulary_from_counts
from seqloom.decoding.tokens.sample import Sample
from seqloom.insight.attention_maps import all_heads, mean_of_heads, self_attention
from seqloom.insight.explanation import Explanation, TokenValues
from seqloom.insight.gates import LabelledTrace, trace_function
from seqloom.insight.token_names import text_tokens
from seqloom.insight.word_contexts import compare_contexts
from seqloom.layers.embedding import Embedding
from seqloom.layers.softmax_loss import sampled_cross_entropy
from seqloom.metrics.confidence import MetricSums
from seqloom.models.baseline import Baseline
from seqloom.models.character_encoder import CharacterConfig, CharacterInput
from seqloom.models.decoder import Decoder
from seqloom.models.encoder import TRANSFORMER, DecoderConfig, PrenetConfig, build_stack
from seqloom.models.generation import GeneratedToken, generate_tokens
from seqloom.models.ngram.arpa import ArpaVocabulary, from_arpa_words, read_words
from seqloom.models.ngram.ngram_decoder import NGramDecoder
from seqloom.models.pretrained.bilm import BiLMConfig, BiLMVocabulary, ContextualVectors
from seqloom.models.text_scores import BidirectionalTextScore, TextScore, perplexity, perplexity_of
from seqloom.models.transcription.search_guide import LoadedLanguageModel
from seqloom.run import Run
from seqloom.tasks.task import Loss, Predictions, Task, TextEncoding, require_fitted

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel

COMPARED_AT_ONCE = 64  # texts in a batch when words are compared
SMALL_TEXT = 2_000_000  # characters of a text up to which characters are better tokens than words
CONTEXT = 128
"""Default context of a Transformer in tokens: under truncated BPTT a text has no beginning that would limit it."""


MAX_UNIGRAM_TOKENS = 1_000_000
"""Tokens that the baseline counts."""


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line of text."""

    location: Location
    text: str
    tokens: int  # approximate number, for bucketing

    def __len__(self) -> int:
        return self.tokens


class Learned(BiLMVocabulary):
    """The vocabulary of the training text."""


class LanguageModel(Task):
    """Predict the next character, word or subword of a text."""

    higher_is_better: ClassVar[bool] = False
    sequential: ClassVar[bool] = True
    example_files: ClassVar[tuple[str, str]] = ("train.txt", "valid.txt")
    depends_on_data: ClassVar[Mapping[str, str]] = DEPENDS_ON_SIZE | {
        "task.text.unit": "characters for single words and for texts below 2 million characters, otherwise words, "
        'and always words for model = "ngram" and direction = "both"',
        "task.text.split": SPLIT_DEFAULT,
        "task.text.min_count": "2 for words, otherwise 1",
        "task.embedding_size": "256, for characters 64",
        "task.tie_embeddings": "true, for characters false",
        "task.input_dropout": "0.2, for characters 0",
        "task.decoder.dropout": "0.3, for characters 0.2",
        "train.bptt_steps": "35, for characters 64",
    }
    option_fields: ClassVar[Mapping[str, str]] = {"encoding": "encoding"}
    too_long: ClassVar[tuple[TooLong, ...]] = ("split", "truncate", "skip")

    name: Literal["language_model"] = "language_model"
    model: Literal["neural", "window", "ngram"] = Field(
        "neural",
        description="neural: recurrent or Transformer layers; window: a feed-forward network over the last tokens; "
        "ngram: Kneser-Ney n-gram counts.",
    )
    direction: Literal["forward", "both"] = Field(
        "forward",
        description="forward: predict the next token; both: also the previous one, which gives contextual word "
        "vectors for other tasks (task.pretrained).",
    )
    encoding: TextEncoding = Field("utf-8", description="Text encoding of the files, such as utf-8, latin-1, cp1252.")
    text_column: int | str = Field(
        "",
        description="Column with the texts of a table (CSV, JSON lines, Parquet …): name, or index from 0, negative "
        "from the end (empty: by name and content).",
    )
    arpa: str = Field(
        "", description="n-gram models only: ARPA file to import instead of training on task.train (empty: train)."
    )
    order: int = Field(
        5, ge=1, description="window and ngram models: n-gram length, that is the predicted token and its context."
    )
    text: TextConfig = Field(default_factory=TextConfig, description="Tokenisation.")
    embedding_size: int = Field(256, ge=1, description="Size of the token embeddings.")
    tie_embeddings: bool = Field(default=True, description="Use the embedding matrix as the output matrix, too.")
    input_dropout: float = Field(0.2, ge=0, lt=1, description="Dropout on the token embeddings.")
    sampled_softmax: int = Field(
        0,
        ge=0,
        description="Tokens sampled for the softmax in training, in addition to those of the batch (0: full softmax).",
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="Probability mass spread over all tokens (0 disables label smoothing)."
    )
    characters: CharacterConfig = Field(
        default_factory=partial(CharacterConfig, layers=0),
        description='Character-level word vectors, for direction = "both" only.',
    )
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the decoder."
    )
    decoder: DecoderConfig = Field(
        default_factory=DecoderConfig, description="Decoder: recurrent or Transformer layers."
    )
    learned: Learned | None = Field(None, exclude=True)

    @classmethod
    def defaults(cls, document: Document, data: DataPreview | None) -> dict[str, Any]:
        sample = TextSample.of(line.text for line in data.head) if data else None
        share = data.examples / max(len(data.head), 1) if data else 0.0
        unit = document.get("task.text.unit")
        values: dict[str, Any] = {}
        wordwise = document.get("task.model") == "ngram" or document.get("task.direction") == "both"
        if unit is None and sample:
            small = sample.characters * share < SMALL_TEXT and not wordwise
            unit = values["task.text.unit"] = "characters" if sample.single_words or small else "words"
        if unit in (None, "words"):
            values["task.text.min_count"] = 2
            if sample:
                values["task.text.split"] = sample.split
        if document.get("task.model") == "ngram":
            return values
        characters = unit == "characters"
        values |= {"task.embedding_size": 64} if characters else {}
        values |= {"task.tie_embeddings": False} if characters else {}
        values |= {"task.input_dropout": 0.0 if characters else 0.2}
        values |= {"task.decoder.hidden_size": 256, "task.decoder.dropout": 0.2 if characters else 0.3}
        steps = document.get("train.bptt_steps")
        if steps is None and document.get("task.direction") != "both":
            steps = values["train.bptt_steps"] = 64 if characters else 35
        units = None
        if data and sample:
            tokens = share * ((sample.characters if characters else sample.words) + sample.texts)
            units = tokens / steps if isinstance(steps, int) and steps > 0 else data.examples
        return values | training_defaults(document, units, batch_size=32 if characters else 20, layers="task.decoder")

    @model_validator(mode="before")
    @classmethod
    def _import_arpa(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("arpa") and not values.get("train"):
            return {**values, "train": values["arpa"], "dev_fraction": 0.0}
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.arpa and self.model != "ngram":
            raise ValueError(f'arpa needs model = "ngram", but model is "{self.model}"')
        if self.arpa and self.text.unit == "subwords":
            raise ValueError('arpa needs text.unit = "words" or "characters": an ARPA file has no subword tokenizer')
        if self.direction == "both" and self.model != "neural":
            raise ValueError(f'direction = "both" needs model = "neural", but model is "{self.model}"')
        if self.characters.layers and (self.direction != "both" or self.text.unit != "words"):
            raise ValueError(
                f'characters.layers is {self.characters.layers}, which needs direction = "both" and text.unit = '
                f'"words", but they are "{self.direction}" and "{self.text.unit}"'
            )
        return self

    @property
    def no_bptt_reason(self) -> str:
        if self.direction == "forward":
            return ""
        return 'task.direction is "both": the backward direction needs whole lines'

    @property
    def is_counting_model(self) -> bool:
        return self.model == "ngram"

    @property
    def main_metric(self) -> str:
        return "perplexity"

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.fitted.text

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        if self.arpa:
            return self, ()
        settings, notes = detect_column(source, column=self.text_column, encoding=self.encoding)
        return self.model_copy(update=settings), notes

    def read(self, source: Path | Sequence[Any]) -> Iterator[TextLine]:
        for location, text in texts(source, column=self.text_column, encoding=self.encoding):
            yield TextLine(location, text, self._count_tokens(text))

    def _count_tokens(self, text: str) -> int:
        """The approximate number of tokens."""
        return max(text.count(" "), self.text.measure(text) - 1) + 1 if self._wordwise else len(text) + 1

    @property
    def length_unit(self) -> str:
        return "tokens"

    @property
    def _wordwise(self) -> bool:
        return self.text.unit != "characters"

    def shorten(self, example: TextLine, length: int, action: TooLong) -> Iterator[TextLine]:
        parts = self.text.cut(example.text, length if self._wordwise else max(length - 1, 1))
        for part in islice(parts, 1) if action == "truncate" else parts:
            yield replace(example, text=part, tokens=self._count_tokens(part))

    def fit(self, examples: Iterable[TextLine]) -> Self:
        if self.arpa:
            return self.model_copy(update={"learned": Learned(text=self._arpa_tokenizer(resolve(self.arpa)))})
        counts: Counter[str] | None = Counter() if self.characters.layers else None
        tokenizer = self.text.fit(_texts(examples, counts), specials=(END,))
        if len(tokenizer.vocabulary) <= 3:
            raise DataError(self.train, "found no text to train on")
        characters = None if counts is None else vocabulary_from_counts(counts, size=1 << 15, specials=(END,))
        return self.model_copy(update={"learned": Learned(text=tokenizer, characters=characters)})

    def input_text(self, example: TextLine) -> str:
        return example.text

    def input_warning(self, example: TextLine) -> str:
        return self.tokenizer.describe_unknown(example.text)

    def summarize_example(self, example: TextLine) -> ExampleSummary:
        return ExampleSummary(content=example.text.encode())

    def _arpa_tokenizer(self, path: Path) -> Tokenizer:
        """A tokenizer with the vocabulary of an ARPA file."""
        words = list(ArpaVocabulary.from_words(read_words(path)).names[3:])
        if self.text.unit == "characters":
            words = from_arpa_words(words)
            if long := [word for word in words if len(word) > 1]:
                raise DataError(str(path), f"found {long[0]!r}, expected single characters (task.text.unit)")
        if PAD in words:
            raise DataError(str(path), f"contains the word {PAD}, which is reserved: rename it")
        vocabulary = Vocabulary(tokens=(PAD, UNKNOWN, END, *words))
        return Tokenizer(unit=self.text.unit, lowercase=self.text.lowercase, vocabulary=vocabulary, specials=(END,))

    def collate(self, examples: Sequence[TextLine]) -> Batch:
        end = [self.tokenizer.vocabulary.index(END)]
        texts = [end + self.tokenizer.encode(example.text) + end for example in examples]
        inputs = pad([np.array(text[:-1]) for text in texts])
        target = pad([np.array(text[1:]) for text in texts]).values
        if self.direction == "forward":
            return Batch(inputs, target, int(inputs.mask.sum()))
        words = [word for example in examples for word in (END, *self.tokenizer.cased_tokens(example.text))]
        rows = torch.from_numpy(self.fitted.to_characters(words))  # (words, characters)
        spelled = rows.new_zeros(*inputs.mask.shape, rows.shape[1])
        spelled[inputs.mask] = rows
        both = CharacterInput(inputs.values, spelled, inputs.mask)
        return Batch(both, target, int(inputs.mask.sum()), examples=tuple(examples))

    def build_model(self) -> nn.Module:
        vocabulary = self.tokenizer.vocabulary
        if self.direction == "both":
            return BiLMConfig(**{name: getattr(self, name) for name in BiLMConfig.model_fields}).build(self.fitted)
        if self.model == "ngram":
            end = vocabulary.index(END)
            return NGramDecoder(self._encode, vocabulary.tokens, order=self.order, end=end, arpa=self.arpa)
        if self.decoder.bidirectional:
            raise ValueError('task.decoder.bidirectional is true; for both directions set task.direction = "both"')
        prenet, recurrence = self.prenet, self.decoder
        if TRANSFORMER in recurrence.kinds and recurrence.options.get("attention") != "linear":
            recurrence = recurrence.model_copy(update={"options": {"context": CONTEXT, **recurrence.options}})
        if self.model == "window":
            prenet = PrenetConfig(
                layers=recurrence.layers, size=recurrence.hidden_size, window=max(self.order - 1, 1), activation="tanh"
            )
            recurrence = recurrence.model_copy(update={"layers": 0})
        layer = build_stack(prenet, recurrence, self.embedding_size, causal=True)
        embed = Embedding(len(vocabulary), self.embedding_size, dropout=self.input_dropout)
        return Decoder(
            embed,
            layer,
            tied=self.tie_embeddings,
            dropout=recurrence.dropout,
            variational=recurrence.variational_dropout,
        )

    def _encode(self, example: TextLine) -> list[int]:
        return self.tokenizer.encode(example.text)

    def loss(self, model: Any, batch: Batch) -> Loss:
        features, target, state = model.softmax_inputs(batch)
        if self.sampled_softmax and model.training:
            weight, bias = model.output.weight, model.output.bias
            total = sampled_cross_entropy(
                features, weight, bias, target, samples=self.sampled_softmax, smoothing=self.label_smoothing
            )
        else:
            total = model.loss(features, target, smoothing=self.label_smoothing)
        return Loss(total, batch.items, state)

    def predict(self, model: Any, batch: Batch) -> Predictions:
        forward, backward, state = model.score_texts(batch)
        if backward is None:
            return Predictions([TextScore.of(row) for row in forward], state)
        pairs = zip(forward, backward, strict=True)
        return Predictions([BidirectionalTextScore.of_both(*pair) for pair in pairs], state)

    @property
    def custom_layer_field(self) -> str:
        return "decoder" if self.model == "neural" else ""

    def generate(
        self, model: nn.Module, prompt: str, *, length: int, sample: Sample, alternatives: int = 0
    ) -> Iterator[GeneratedToken]:
        return generate_tokens(model, self.tokenizer, prompt, length=length, sample=sample, alternatives=alternatives)

    def export(self, model: Any, path: Path) -> None:
        """Write an n-gram model as an ARPA file."""
        if self.model != "ngram":
            raise ValueError(f"{path}: only n-gram models are exported in this format; this one is exported as .onnx")
        if not path.name.endswith((".arpa", ".arpa.gz")):
            raise ValueError(f"{path}: an n-gram model is exported as .arpa or .arpa.gz")
        model.write(path)

    def onnx_model(self, model: Any) -> "OnnxModel":
        """The decoder, which scores texts and generates them token by token."""
        from seqloom.onnx.exported import OnnxModel
        from seqloom.onnx.models import language_model

        if self.model == "ngram" or self.direction == "both":
            kind = "an n-gram model: export it as .arpa" if self.model == "ngram" else 'of task.direction = "both"'
            raise TypeError(f"this language model cannot be exported to ONNX: it is {kind}")
        graph, ports = language_model(model)

        def feed(examples: Sequence[TextLine]) -> dict[str, Any]:
            values, mask = self.collate(examples).inputs
            return {"tokens": values.numpy(), "lengths": mask.sum(dim=1).numpy(), **ports.start(len(values))}

        def expected(examples: Sequence[TextLine]) -> dict[str, Any]:
            values, mask = self.collate(examples).inputs
            logits, _ = model(values, mask=mask)
            return {"log_probabilities": logits.detach().log_softmax(dim=-1).numpy()}

        description = {
            "task": self.name,
            "input": {"kind": "text", "tokenizer": self.tokenizer.model_dump(mode="json")},
            "output": {
                "kind": "next_token",
                "end": self.tokenizer.vocabulary.index(END),
                "states": ports.description(),
            },
        }
        return OnnxModel(graph, description, feed, expected)

    def embed(self, model: Any, batch: Batch) -> list[ContextualVectors]:
        if self.direction != "both":
            raise TypeError(
                f'only a language model with task.direction = "both" gives contextual word vectors, '
                f'but its direction is "{self.direction}"'
            )
        levels = model.encoder.levels(batch.inputs)
        answers = []
        for row, example in enumerate(batch.examples):
            words = self.tokenizer.cased_tokens(example.text)
            layers = [level[row, 1 : len(words) + 1].tolist() for level in levels]
            answers.append(ContextualVectors(words, [list(vectors) for vectors in zip(*layers, strict=True)]))
        return answers

    def score(self, predictions: Sequence[TextScore], examples: Sequence[TextLine]) -> dict[str, Any]:
        both = [answer for answer in predictions if isinstance(answer, BidirectionalTextScore)]
        total = -math.fsum(answer.log_probability for answer in predictions)
        directions = {
            "perplexity_forward": perplexity_of([value for answer in both for value in answer.log_probabilities]),
            "perplexity_backward": perplexity_of([value for answer in both for value in answer.backward]),
        }
        tokens = sum(len(answer.log_probabilities) for answer in predictions)
        characters = sum(len(example.text) + 1 for example in examples)
        unknown = self.tokenizer.vocabulary.index(UNKNOWN)
        return {
            "perplexity": perplexity(total, tokens),
            "loss": total / max(tokens, 1),
            **(directions if both else {}),
            "bits_per_character": total / math.log(2) / max(characters, 1),
            "tokens": tokens,
            "unknown": sum(self.tokenizer.encode(example.text).count(unknown) for example in examples),
        }

    def baseline_targets(self, example: TextLine) -> Iterable[str]:
        return (example.text,)

    def fit_baseline(self, counts: Counter[str], examples: Sequence[TextLine]) -> Baseline | None:  # noqa: ARG002
        """Unigram frequencies of the first million tokens, with one added to each."""
        tokens: Counter[int] = Counter()
        for text, times in counts.items():
            if tokens.total() > MAX_UNIGRAM_TOKENS:
                break
            for token in (*self.tokenizer.encode(text), self.tokenizer.vocabulary.index(END)):
                tokens[token] += times
        if not tokens:
            return None
        names, total = self.tokenizer.vocabulary.tokens, tokens.total() + len(self.tokenizer.vocabulary)
        probabilities = {names[token]: (times + 1) / total for token, times in tokens.items()}
        return Baseline(name="unigram frequencies", probabilities={**probabilities, "": 1 / total})

    def score_baseline(self, baseline: Baseline, examples: Sequence[TextLine]) -> dict[str, float]:
        vocabulary, rest = self.tokenizer.vocabulary, baseline.probabilities[""]
        logs = np.log([baseline.probabilities.get(token, rest) for token in vocabulary.tokens])
        end = vocabulary.index(END)
        rows = [logs[[*self.tokenizer.encode(example.text), end]] for example in examples]
        total, tokens = -math.fsum(row.sum() for row in rows), sum(map(len, rows))
        characters = sum(len(example.text) + 1 for example in examples)
        return {
            "perplexity": perplexity(total, tokens),
            "loss": total / max(tokens, 1),
            "bits_per_character": total / math.log(2) / max(characters, 1),
        }

    def metric_sums(self, predictions: Sequence[TextScore], examples: Sequence[TextLine]) -> MetricSums:
        """Negative log-probability and number of tokens of each line, also if lines were concatenated."""
        values = [np.array(answer.log_probabilities) for answer in predictions]
        for row, answer in enumerate(predictions):
            if isinstance(answer, BidirectionalTextScore):
                values[row] = (values[row] + answer.backward) / 2
        lengths = np.array([len(self.tokenizer.encode(example.text)) + 1 for example in examples])
        losses = -np.add.reduceat(np.concatenate(values), np.cumsum(lengths) - lengths)
        return MetricSums(np.stack([losses, lengths], axis=1), lambda sums: perplexity(*sums.tolist()))

    def input_tokens(self, example: TextLine) -> list[str]:
        return [START, *text_tokens(self.tokenizer, example.text, [])]

    def trace_gates(self, model: nn.Module, example: TextLine) -> list[LabelledTrace]:
        batch, tokens = self.collate([example]), self.input_tokens(example)
        backwards = [*tokens[:1], *tokens[:0:-1]]  # the order in which the backward layers read

        def labels(name: str) -> list[str]:
            return backwards if name.startswith("encoder.backward_layer") else tokens

        return trace_function(model, lambda: self.predict(model, batch), labels=labels)

    def explain(self, model: nn.Module, example: TextLine, *, beam: bool = False, heads: bool = False) -> Explanation:  # noqa: ARG002
        """The surprisal of each token, and the self-attention of Transformers."""
        batch = self.collate([example])
        predictions, layers, _ = self_attention(model, lambda: self.predict(model, batch))
        (prediction,) = predictions.answers
        notes: list[str] = []
        tokens = text_tokens(self.tokenizer, example.text, notes)
        surprisal = [-value / math.log(2) for value in prediction.log_probabilities]
        rows, columns = [*tokens, END], [START, *tokens]
        title = f"perplexity {prediction.perplexity:.4g}"
        return Explanation(
            task=self.name,
            source=example.text,
            prediction=prediction,
            headline=f"log-probability {prediction.log_probability:.4f}, {title}",
            title=title,
            attention=mean_of_heads(layers, rows, columns),
            heads=all_heads(layers, rows, columns) if heads else [],
            token_values=TokenValues("surprisal in bits", rows, surprisal, 0.0),
            notes=notes,
        )

    def explain_together(self, model: nn.Module, examples: Sequence[TextLine]) -> Explanation | None:
        """For direction "both": how similar the vectors of a word are in different contexts."""
        if self.direction != "both":
            return None
        remaining, texts = iter(examples), []
        while batch := list(islice(remaining, COMPARED_AT_ONCE)):
            texts += self.embed(model, self.collate(batch))
        pairs = compare_contexts(texts)
        if not pairs and len(examples) == 1:
            return None
        headline = "Words that occur more than once: cosine similarity of their vectors, layer by layer"
        note = "no word occurs twice: give several texts that share a word to compare its vectors"
        return Explanation(
            task=self.name,
            source=" | ".join(example.text for example in examples),
            prediction="",
            headline=headline if pairs else "",
            contexts=pairs,
            notes=[] if pairs else [note],
        )


def load_language_model(path: Path) -> LoadedLanguageModel:
    """Load the language model of a run for the search of another task."""
    run = Run.open(path)
    document = parse(run.config, str(run.path / "config.toml"))
    if (name := document.get("task.name")) != "language_model":
        raise TypeError(f"{path}: is a run of the task {name}, expected a language_model")
    built = replace(document, values={"task": document.values["task"]}).build(task=LanguageModel)
    task = cast(LanguageModel, built["task"]).with_learned(run)
    module: Any = task.load_model(run.load_best().model, run.path)
    return LoadedLanguageModel(task.tokenizer, module.eval())


def _texts(examples: Iterable[TextLine], characters: Counter[str] | None) -> Iterator[str]:
    """Yield the texts; count their characters on the way, except whitespace."""
    for example in examples:
        if characters is not None:
            characters.update("".join(example.text.split()))
        yield example.text
