"""Language models: the probability of what comes next, of a whole text, and texts drawn from it."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.config import parse
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.readers.text_files import DataError, Location, lines, resolve
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.data.text.vocabulary import END, PAD, START, UNKNOWN, Vocabulary, ranked
from seqloom.decoding.tokens.sample import Sample
from seqloom.insight.attention_maps import all_heads, mean_of_heads, self_attention
from seqloom.insight.explanation import Explanation, TokenValues
from seqloom.insight.gate_trace import LabelledTrace, trace_function
from seqloom.insight.token_names import text_tokens
from seqloom.insight.word_contexts import compare_contexts
from seqloom.layers.embedding import Embedding
from seqloom.layers.sampled_softmax import sampled_cross_entropy
from seqloom.metrics.confidence import MetricSums
from seqloom.models.character_encoder import CharacterConfig, CharacterInput
from seqloom.models.decoder import Decoder
from seqloom.models.encoder import TRANSFORMER, PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.generation import generate_text
from seqloom.models.ngram.arpa import Layout, characters, read_words
from seqloom.models.ngram.ngram_decoder import NGramDecoder
from seqloom.models.pretrained.bilm import BiLM, BiLMConfig, BiLMVocabulary
from seqloom.models.transcription.search_guide import LoadedLanguageModel
from seqloom.run import Run
from seqloom.tasks.task import Loss, Predictions, Task, TextEncoding

COMPARED_AT_ONCE = 64  # texts in a batch when words are compared
CONTEXT = 128
"""How far back a transformer sees if nothing is said: a text that is carried on from piece to piece has no end."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text."""

    location: Location
    text: str
    symbols: int  # about how many, for buckets

    def __len__(self) -> int:
        return self.symbols


@dataclass(frozen=True, slots=True)
class Scored:
    """The probability of a text by the chain rule."""

    log_probability: float  # natural logarithm, of all symbols together
    perplexity: float  # per symbol
    log_probabilities: list[float]  # of each symbol given those before; the last one is the end of the line

    def __str__(self) -> str:
        return f"{self.log_probability:.4f}\t{self.perplexity:.4g}"


@dataclass(frozen=True, slots=True)
class ScoredBothWays(Scored):
    """The probability of a text, read from both ends: of its logarithm the mean of the two."""

    backward: list[float]  # of the line's beginning and of each symbol, given what comes behind it


@dataclass(frozen=True, slots=True)
class Represented:
    """The words of a text in their context."""

    words: list[str]
    vectors: list[list[list[float]]]  # of each word, by each layer; the lowest is out of context

    def __str__(self) -> str:
        rows = zip(self.words, self.vectors, strict=True)
        return "".join(f"{word} {' '.join(f'{value:.6g}' for value in layers[-1])}\n" for word, layers in rows)


class Learned(BiLMVocabulary):
    """The symbols of the training text."""


class LanguageModel(Task):
    """Predict the next character, word or subword of a text."""

    higher_is_better: ClassVar[bool] = False
    sequential: ClassVar[bool] = True
    recommended: ClassVar[Mapping[str, Any]] = {
        "task.train": "train.txt",
        "task.text.min_count": 2,
        "task.dev": "valid.txt",
        "task.embedding_size": 256,
        "task.input_dropout": 0.2,
        "task.decoder.hidden_size": 256,
        "task.decoder.dropout": 0.3,
        "train.bptt_steps": 35,
        "train.batch_size": 20,
        "train.learning_rate": 0.002,
        "train.schedule": "plateau",
        "train.patience": 5,
    }
    option_fields: ClassVar[Mapping[str, str]] = {"encoding": "encoding"}

    name: Literal["language_model"] = "language_model"
    model: Literal["recurrent", "window", "ngram"] = Field(
        "recurrent",
        description="recurrent; window: a feed-forward network over the last words; ngram: counts of words.",
    )
    direction: Literal["forward", "both"] = Field(
        "forward",
        description="both: each symbol also from those behind it; its layers serve other tasks (task.pretrained).",
    )
    encoding: TextEncoding = Field("utf-8", description="Of the files, such as utf-8, latin-1, cp1252.")
    arpa: str = Field(
        "",
        description="ngram: an ARPA file whose model is taken as it is; there is nothing to count, nor need of train.",
    )
    order: int = Field(5, ge=1, description="window, ngram: words that a probability is about, the next one included.")
    text: TextConfig = Field(default_factory=TextConfig, description="Tokenization.")
    embedding_size: int = Field(128, ge=1, description="Size of a symbol's vector.")
    tie_embeddings: bool = Field(default=True, description="The vectors of the input are also those of the output.")
    input_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on the vectors of the symbols.")
    sampled_softmax: int = Field(
        0, ge=0, description="Symbols that the softmax of the training is over, besides those of the batch; 0: all."
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="Label smoothing: probability spread over all symbols.")
    characters: CharacterConfig = Field(
        default_factory=partial(CharacterConfig, layers=0),
        description="Character-level word vectors (direction both).",
    )
    prenet: PrenetConfig = Field(
        default_factory=PrenetConfig, description="Feed-forward or convolutional layers before the decoder."
    )
    decoder: RecurrenceConfig = Field(default_factory=RecurrenceConfig, description="Decoder.")
    learned: Learned | None = Field(None, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _without_text(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("arpa") and not values.get("train"):
            return {**values, "train": values["arpa"], "dev_share": 0.0}
        return values

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.arpa and self.model != "ngram":
            raise ValueError(f'arpa is a model of kind "ngram", and kind is "{self.model}"')
        if self.arpa and self.text.unit == "subwords":
            raise ValueError('an ARPA file does not tell how words are cut: text.unit must be "words" or "characters"')
        if self.direction == "both" and self.model != "recurrent":
            raise ValueError(f'direction is "both", and kind is "{self.model}": that looks back only')
        if self.characters.layers and (self.direction != "both" or self.text.unit != "words"):
            found = f'direction is "{self.direction}" and text.unit "{self.text.unit}"'
            raise ValueError(
                f"characters.layers is {self.characters.layers}: that is for words in both ways, and {found}"
            )
        return self

    @property
    def no_bptt_reason(self) -> str:
        if self.direction == "forward":
            return ""
        return 'task.direction is "both", and what is read from the end cannot be carried on: whole lines are needed'

    @property
    def main_metric(self) -> str:
        return "perplexity"

    @property
    def known(self) -> Learned:
        if self.learned is None:
            raise ValueError("the task has not seen its training data: call fit first")
        return self.learned

    @property
    def symbols(self) -> Tokenizer:
        return self.known.text

    def read(self, source: Path | Sequence[Any]) -> Iterator[Line]:
        words = self.text.unit == "words"
        for location, text in lines(source, encoding=self.encoding):
            yield Line(location, text, (text.count(" ") if words else len(text)) + 1)

    def fit(self, examples: Iterable[Line]) -> Self:
        if self.arpa:
            return self.model_copy(update={"learned": Learned(text=self._foreign(resolve(self.arpa)))})
        letters: Counter[str] | None = Counter() if self.characters.layers else None
        encoding = self.text.fit(_texts(examples, letters), specials=(END,))
        if len(encoding.vocabulary) <= 3:
            raise DataError(self.train, "there is no text to learn from")
        characters = None if letters is None else ranked(letters, size=1 << 15, minimum=1, specials=(END,))
        return self.model_copy(update={"learned": Learned(text=encoding, characters=characters)})

    def _foreign(self, path: Path) -> Tokenizer:
        """The words of an ARPA file as symbols."""
        found = list(Layout.of(read_words(path)).names[3:])
        if self.text.unit == "characters":
            found = characters(found)
            if long := [name for name in found if len(name) > 1]:
                raise DataError(str(path), f"found {long[0]!r}; task.text.unit says that its words are characters")
        if PAD in found:
            raise DataError(str(path), f"the word {PAD} has a meaning of its own here; give it another name")
        vocabulary = Vocabulary(symbols=(PAD, UNKNOWN, END, *found))
        return Tokenizer(unit=self.text.unit, lowercase=self.text.lowercase, vocabulary=vocabulary, specials=(END,))

    def collate(self, examples: Sequence[Line]) -> Batch:
        end = [self.symbols.vocabulary.index(END)]
        texts = [end + self.symbols.encode(example.text) + end for example in examples]
        inputs = pad([np.array(text[:-1]) for text in texts])
        target = pad([np.array(text[1:]) for text in texts]).values
        if self.direction == "forward":
            return Batch(inputs, target, int(inputs.mask.sum()))
        words = [word for example in examples for word in (END, *self.symbols.written(example.text))]
        spelled = torch.from_numpy(self.known.spelled(words))
        characters = spelled.new_zeros(*inputs.mask.shape, spelled.shape[1])
        characters[inputs.mask] = spelled
        read = CharacterInput(inputs.values, characters, inputs.mask)
        return Batch(read, target, int(inputs.mask.sum()), examples=tuple(examples))

    def build_model(self) -> nn.Module:
        vocabulary = self.symbols.vocabulary
        if self.direction == "both":
            return BiLMConfig(**{name: getattr(self, name) for name in BiLMConfig.model_fields}).model(self.known)
        if self.model == "ngram":
            end = vocabulary.index(END)
            return NGramDecoder(self._encode, vocabulary.symbols, order=self.order, end=end, arpa=self.arpa)
        if self.decoder.bidirectional:
            raise ValueError("task.decoder.bidirectional is true: a language model must not see what it predicts")
        front, recurrence = self.prenet, self.decoder
        if TRANSFORMER in recurrence.kinds:
            recurrence = recurrence.model_copy(update={"options": {"context": CONTEXT, **recurrence.options}})
        if self.model == "window":
            front = PrenetConfig(
                layers=recurrence.layers, size=recurrence.hidden_size, window=max(self.order - 1, 1), activation="tanh"
            )
            recurrence = recurrence.model_copy(update={"layers": 0})
        layer = build_stack(front, recurrence, self.embedding_size, causal=True)
        embed = Embedding(len(vocabulary), self.embedding_size, dropout=self.input_dropout)
        return Decoder(
            embed,
            layer,
            tied=self.tie_embeddings,
            dropout=recurrence.dropout,
            variational=recurrence.variational_dropout,
        )

    def _encode(self, example: Line) -> list[int]:
        return self.symbols.encode(example.text)

    def loss(self, model: Any, batch: Batch) -> Loss:
        state = None
        if isinstance(model, BiLM):
            features, target = model.features(batch.inputs)
        else:
            features, target, state = _features(model, batch)
        if self.sampled_softmax and model.training:
            weight, bias = model.output.weight, model.output.bias
            total = sampled_cross_entropy(
                features, weight, bias, target, samples=self.sampled_softmax, smoothing=self.label_smoothing
            )
        else:
            total = model.loss(features, target, smoothing=self.label_smoothing)
        return Loss(total, batch.items, state)

    def predict(self, model: Any, batch: Batch) -> Predictions:
        inputs: Padded = batch.inputs
        if isinstance(model, NGramDecoder):
            rows = model.log_probabilities(batch.target, inputs.mask)
            return Predictions([_scored(row) for row in rows])
        if isinstance(model, BiLM):
            lengths = inputs.mask.sum(dim=1).tolist()
            ahead, back = (found.split(lengths) for found in model.log_probabilities(batch.inputs))
            return Predictions([_scored_both(*map(Tensor.tolist, rows)) for rows in zip(ahead, back, strict=True)])
        features, target, state = _features(model, batch)
        found = model.log_probabilities(features, target)
        return Predictions([_scored(row.tolist()) for row in found.split(inputs.lengths.tolist())], state)

    @property
    def custom_layer_field(self) -> str:
        return "decoder" if self.model == "recurrent" else ""

    def generate(self, model: nn.Module, prompt: str, *, length: int, sample: Sample) -> Iterator[str]:
        return generate_text(model, self.symbols, prompt, length=length, sample=sample)

    def export(self, model: Any, path: Path) -> None:
        """An n-gram model as an ARPA file."""
        if self.model != "ngram":
            raise TypeError(f'{path}: only n-gram language models can be exported, and task.model is "{self.model}"')
        if not path.name.endswith((".arpa", ".arpa.gz")):
            raise ValueError(f"{path}: an n-gram model is exported as .arpa or .arpa.gz")
        model.write(path)

    def embed(self, model: Any, batch: Batch) -> list[Represented]:
        if self.direction != "both":
            raise TypeError(
                f'only a language model with task.direction = "both" gives contextual word vectors, '
                f'and its direction is "{self.direction}"'
            )
        levels = model.reader.levels(batch.inputs)
        found = []
        for row, example in enumerate(batch.examples):
            words = self.symbols.written(example.text)
            layers = [level[row, 1 : len(words) + 1].tolist() for level in levels]
            found.append(Represented(words, [list(each) for each in zip(*layers, strict=True)]))
        return found

    def score(self, predictions: Sequence[Scored], examples: Sequence[Line]) -> dict[str, Any]:
        both = [answer for answer in predictions if isinstance(answer, ScoredBothWays)]
        total = -math.fsum(answer.log_probability for answer in predictions)
        ways = {
            "perplexity_forward": _perplexity([value for answer in both for value in answer.log_probabilities]),
            "perplexity_backward": _perplexity([value for answer in both for value in answer.backward]),
        }
        symbols = sum(len(answer.log_probabilities) for answer in predictions)
        characters = sum(len(example.text) + 1 for example in examples)
        unknown = self.symbols.vocabulary.index(UNKNOWN)
        return {
            "perplexity": _exponential(total, symbols),
            "loss": total / max(symbols, 1),
            **(ways if both else {}),
            "bits_per_character": total / math.log(2) / max(characters, 1),
            "symbols": symbols,
            "unknown": sum(self.symbols.encode(example.text).count(unknown) for example in examples),
        }

    def metric_sums(self, predictions: Sequence[Scored], examples: Sequence[Line]) -> MetricSums:
        """The surprise and the number of the symbols of each line, also where lines were joined."""
        values = [np.array(answer.log_probabilities) for answer in predictions]
        for row, answer in enumerate(predictions):
            if isinstance(answer, ScoredBothWays):
                values[row] = (values[row] + answer.backward) / 2
        lengths = np.array([len(self.symbols.encode(example.text)) + 1 for example in examples])
        surprise = -np.add.reduceat(np.concatenate(values), np.cumsum(lengths) - lengths)
        return MetricSums(np.stack([surprise, lengths], axis=1), lambda sums: _exponential(*sums.tolist()))

    def input_tokens(self, example: Line) -> list[str]:
        return [START, *text_tokens(self.symbols, example.text, [])]

    def trace_gates(self, model: nn.Module, example: Line) -> list[LabelledTrace]:
        batch, tokens = self.collate([example]), self.input_tokens(example)
        backwards = [*tokens[:1], *tokens[:0:-1]]  # what the layers of the backward direction read

        def labels(name: str) -> list[str]:
            return backwards if name.startswith("reader.back") else tokens

        return trace_function(model, lambda: self.predict(model, batch), labels=labels)

    def explain(self, model: nn.Module, example: Line, *, beam: bool = False, heads: bool = False) -> Explanation:  # noqa: ARG002
        """The surprisal of each token, and the self-attention of Transformers."""
        batch = self.collate([example])
        predictions, layers, _ = self_attention(model, lambda: self.predict(model, batch))
        (prediction,) = predictions.answers
        notes: list[str] = []
        tokens = text_tokens(self.symbols, example.text, notes)
        surprisal = [-value / math.log(2) for value in prediction.log_probabilities]
        rows, columns = [*tokens, END], [START, *tokens]
        perplexity = f"perplexity {prediction.perplexity:.4g}"
        return Explanation(
            task=self.name,
            source=example.text,
            prediction=prediction,
            headline=f"log-probability {prediction.log_probability:.4f}, {perplexity}",
            title=perplexity,
            attention=mean_of_heads(layers, rows, columns),
            heads=all_heads(layers, rows, columns) if heads else [],
            token_values=TokenValues("surprisal in bits", rows, surprisal, 0.0),
            notes=notes,
        )

    def explain_together(self, model: nn.Module, examples: Sequence[Line]) -> Explanation | None:
        """Of a model in both directions: how similar the vectors of a word are that occurs more than once."""
        if self.direction != "both":
            return None
        waiting, texts = iter(examples), []
        while some := list(islice(waiting, COMPARED_AT_ONCE)):
            texts += self.embed(model, self.collate(some))
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
    """The language model of a run, for the search of another task."""
    run = Run.open(path)
    document = parse(run.config, str(run.path / "config.toml"))
    if (name := document.get("task.name")) != "language_model":
        raise TypeError(f"{path}: is a run of the task {name}, expected a language_model")
    built = replace(document, values={"task": document.values["task"]}).build(task=LanguageModel)
    task = cast(LanguageModel, built["task"]).with_learned(run)
    module = task.build_model()
    module.load_state_dict(run.load_best().model)
    return LoadedLanguageModel(task.symbols, module.eval())


def _exponential(total: float, symbols: float) -> float:
    return math.exp(min(total / max(symbols, 1), 700.0))


def _features(model: Decoder, batch: Batch) -> tuple[Tensor, Tensor, Any]:
    """What the softmax reads (N, D) and should answer (N,), of the real elements only, and the state."""
    values, mask = batch.inputs
    whole = bool(mask.all())
    features, state = model.features(values, batch.state, mask=None if whole else mask)
    if whole:
        return features.flatten(0, 1), batch.target.flatten(), state
    return features[mask], batch.target[mask], state


def _texts(examples: Iterable[Line], letters: Counter[str] | None) -> Iterator[str]:
    """The texts; on the way their characters are counted, blanks left out."""
    for example in examples:
        if letters is not None:
            letters.update("".join(example.text.split()))
        yield example.text


def _perplexity(log_probabilities: Sequence[float]) -> float:
    return math.exp(min(-math.fsum(log_probabilities) / max(len(log_probabilities), 1), 700.0))


def _scored(log_probabilities: list[float]) -> Scored:
    return Scored(math.fsum(log_probabilities), _perplexity(log_probabilities), log_probabilities)


def _scored_both(ahead: list[float], back: list[float]) -> ScoredBothWays:
    total = math.fsum([*ahead, *back]) / 2
    return ScoredBothWays(total, _perplexity([*ahead, *back]), ahead, back[::-1])
