"""Language models: the probability of what comes next, of a whole text, and texts drawn from it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import nn

from seqloom.config import Part
from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.formats import BadData, Place, lines, resolve
from seqloom.data.tokenizers import Encoding, Text
from seqloom.data.vocabulary import END, PAD, UNKNOWN, Vocabulary
from seqloom.layers.embedding import Embedding
from seqloom.models.arpa import Layout, characters, read_words
from seqloom.models.decoder import Decoder
from seqloom.models.encoder import TRANSFORMER, Front, Recurrence, stack
from seqloom.models.ngram_decoder import NGramDecoder
from seqloom.tasks.task import Loss, Predictions, Task, TextEncoding

CONTEXT = 128
"""How far back a transformer sees if nothing is said: a text that is carried on from piece to piece has no end."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text."""

    place: Place
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


class Learned(Part):
    """The symbols of the training text."""

    text: Encoding


class LanguageModel(Task):
    """Predicts each symbol of a text from those before it; the end of a line is a symbol, too."""

    higher_is_better: ClassVar[bool] = False
    sequential: ClassVar[bool] = True
    recommended: ClassVar[Mapping[str, Any]] = {
        "task.train": "train.txt",
        "task.text.minimum": 2,
        "task.dev": "valid.txt",
        "task.embedding": 256,
        "task.input_dropout": 0.2,
        "task.decoder.hidden": 256,
        "task.decoder.dropout": 0.3,
        "train.steps": 35,
        "train.batch": 20,
        "train.rate": 0.002,
        "train.schedule": "plateau",
        "train.patience": 5,
    }

    name: Literal["language_model"] = "language_model"
    kind: Literal["recurrent", "window", "ngram"] = Field(
        "recurrent",
        description="recurrent; window: a feed-forward network over the last words; ngram: counts of words.",
    )
    encoding: TextEncoding = Field("utf-8", description="Of the files, such as utf-8, latin-1, cp1252.")
    arpa: str = Field(
        "",
        description="ngram: an ARPA file whose model is taken as it is; there is nothing to count, nor need of train.",
    )
    order: int = Field(5, ge=1, description="window, ngram: words that a probability is about, the next one included.")
    text: Text = Field(default_factory=Text, description="Symbols.")
    embedding: int = Field(128, ge=1, description="Size of a symbol's vector.")
    tied: bool = Field(default=True, description="The vectors of the input are also those of the output.")
    input_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on the vectors of the symbols.")
    smoothing: float = Field(0.0, ge=0, lt=1, description="Label smoothing: probability spread over all symbols.")
    front: Front = Field(default_factory=Front, description="Feed-forward layers before the recurrence.")
    decoder: Recurrence = Field(default_factory=Recurrence, description="The recurrence.")
    learned: Learned | None = Field(None, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _without_text(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("arpa") and not values.get("train"):
            return {**values, "train": values["arpa"], "dev_share": 0.0}
        return values

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.arpa and self.kind != "ngram":
            raise ValueError(f'arpa is a model of kind "ngram", and kind is "{self.kind}"')
        if self.arpa and self.text.unit == "subwords":
            raise ValueError('an ARPA file does not tell how words are cut: text.unit must be "words" or "characters"')
        return self

    @property
    def metric(self) -> str:
        return "perplexity"

    @property
    def symbols(self) -> Encoding:
        if self.learned is None:
            raise ValueError("the task has not seen its training data: call fit first")
        return self.learned.text

    def read(self, source: Path | Sequence[Any]) -> Iterator[Line]:
        words = self.text.unit == "words"
        for place, text in lines(source, encoding=self.encoding):
            yield Line(place, text, (text.count(" ") if words else len(text)) + 1)

    def fit(self, examples: Iterable[Line]) -> Self:
        if self.arpa:
            return self.model_copy(update={"learned": Learned(text=self._foreign(resolve(self.arpa)))})
        encoding = self.text.fit((example.text for example in examples), specials=(END,))
        if len(encoding.vocabulary) <= 3:
            raise BadData(self.train, "there is no text to learn from")
        return self.model_copy(update={"learned": Learned(text=encoding)})

    def _foreign(self, path: Path) -> Encoding:
        """The words of an ARPA file as symbols."""
        found = list(Layout.of(read_words(path)).names[3:])
        if self.text.unit == "characters":
            found = characters(found)
            if long := [name for name in found if len(name) > 1]:
                raise BadData(str(path), f"found {long[0]!r}; task.text.unit says that its words are characters")
        if PAD in found:
            raise BadData(str(path), f"the word {PAD} has a meaning of its own here; give it another name")
        vocabulary = Vocabulary(symbols=(PAD, UNKNOWN, END, *found))
        return Encoding(unit=self.text.unit, lower=self.text.lower, vocabulary=vocabulary, specials=(END,))

    def collate(self, examples: Sequence[Line]) -> Batch:
        end = [self.symbols.vocabulary.index(END)]
        texts = [end + self.symbols.encode(example.text) + end for example in examples]
        inputs = pad([np.array(text[:-1]) for text in texts])
        target = pad([np.array(text[1:]) for text in texts])
        return Batch(inputs, target.values, int(inputs.mask.sum()))

    def model(self) -> nn.Module:
        vocabulary = self.symbols.vocabulary
        if self.kind == "ngram":
            end = vocabulary.index(END)
            return NGramDecoder(self._encode, vocabulary.symbols, order=self.order, end=end, arpa=self.arpa)
        if self.decoder.bidirectional:
            raise ValueError("task.decoder.bidirectional is true: a language model must not see what it predicts")
        front, recurrence = self.front, self.decoder
        if TRANSFORMER in recurrence.kinds:
            recurrence = recurrence.model_copy(update={"options": {"context": CONTEXT, **recurrence.options}})
        if self.kind == "window":
            front = Front(
                layers=recurrence.layers, size=recurrence.hidden, window=max(self.order - 1, 1), activation="tanh"
            )
            recurrence = recurrence.model_copy(update={"layers": 0})
        layer = stack(front, recurrence, self.embedding, causal=True)
        embed = Embedding(len(vocabulary), self.embedding, dropout=self.input_dropout)
        return Decoder(embed, layer, tied=self.tied, dropout=recurrence.dropout, variational=recurrence.variational)

    def _encode(self, example: Line) -> list[int]:
        return self.symbols.encode(example.text)

    def loss(self, model: Any, batch: Batch) -> Loss:
        features, target, state = _features(model, batch)
        total = model.loss(features, target, smoothing=self.smoothing)
        return Loss(total, batch.items, state)

    def predict(self, model: Any, batch: Batch) -> Predictions:
        inputs: Padded = batch.inputs
        if isinstance(model, NGramDecoder):
            rows = model.log_probabilities(batch.target, inputs.mask)
            return Predictions([_scored(row) for row in rows])
        features, target, state = _features(model, batch)
        found = model.log_probabilities(features, target)
        return Predictions([_scored(row.tolist()) for row in found.split(inputs.lengths.tolist())], state)

    def score(self, predictions: Sequence[Scored], examples: Sequence[Line]) -> dict[str, Any]:
        total = -math.fsum(value for answer in predictions for value in answer.log_probabilities)
        symbols = sum(len(answer.log_probabilities) for answer in predictions)
        characters = sum(len(example.text) + 1 for example in examples)
        loss = total / max(symbols, 1)
        unknown = self.symbols.vocabulary.index(UNKNOWN)
        return {
            "perplexity": math.exp(min(loss, 700.0)),
            "loss": loss,
            "bits_per_character": total / math.log(2) / max(characters, 1),
            "symbols": symbols,
            "unknown": sum(self.symbols.encode(example.text).count(unknown) for example in examples),
        }


def _features(model: Decoder, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, Any]:
    """What the softmax reads (N, D) and should answer (N,), of the real elements only, and the state."""
    values, mask = batch.inputs
    whole = bool(mask.all())
    features, state = model.features(values, batch.state, mask=None if whole else mask)
    if whole:
        return features.flatten(0, 1), batch.target.flatten(), state
    return features[mask], batch.target[mask], state


def _scored(log_probabilities: list[float]) -> Scored:
    total = math.fsum(log_probabilities)
    return Scored(total, math.exp(min(-total / max(len(log_probabilities), 1), 700.0)), log_probabilities)
