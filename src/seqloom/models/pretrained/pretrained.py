"""Vectors that were learnt elsewhere as input of a task: a run of a language model, or a file of words."""

import json
from collections.abc import Container, Iterable, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.config import ConfigSection, Document, parse
from seqloom.data.batch import pad
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.data.readers.word_vectors import read_vectors
from seqloom.data.text.tokenizers import TextConfig, Tokenizer, Unit
from seqloom.data.text.vocabulary import END, PAD, UNKNOWN, Vocabulary
from seqloom.models.character_encoder import CharacterInput
from seqloom.models.pretrained.bilm import BiLMConfig, BiLMVocabulary
from seqloom.models.pretrained.combined import (
    CombinedEmbedding,
    ContextualEmbedding,
    ContextualInput,
    PretrainedEmbedding,
)
from seqloom.run import Run

READER = "reader."
"""What the names of the weights that read begin with in a language model of both directions."""


class PretrainedBiLM(ConfigSection):
    """A language model in both directions, but for its weights, which are a part of the task's model."""

    anatomy: BiLMConfig
    known: BiLMVocabulary
    weights: Any = Field(None, exclude=True, repr=False)  # to begin with; None: they will be loaded

    def module(self, *, tune: bool, dropout: float) -> ContextualEmbedding:
        reader = self.anatomy.reader(self.known)
        if self.weights is not None:
            reader.load_state_dict(self.weights)
        return ContextualEmbedding(reader, tune=tune, dropout=dropout)

    def collate(self, rows: Sequence[Sequence[str]], places: Tensor) -> ContextualInput:
        """Rows of symbols as they are written in the text."""
        text, find = self.known.text, self.known.text.ids.get
        lower = text.lowercase and text.unit != "subwords"
        tokens = [[END, *(token.lower() if lower else token for token in row)] for row in rows]
        numbers = [[text.vocabulary.index(END), *(find(token, 1) for token in row[1:])] for row in tokens]
        words, mask = pad(numbers, dtype=np.int64)
        spelled = torch.from_numpy(self.known.spelled([token for row in rows for token in (END, *row)]))
        characters = spelled.new_zeros(*mask.shape, spelled.shape[1])
        characters[mask] = spelled
        return ContextualInput(CharacterInput(words, characters, mask), places)


class PretrainedWords(ConfigSection):
    """The words that a file of vectors has, as far as they are kept."""

    vocabulary: Vocabulary
    size: int  # of a vector
    vectors: Any = Field(None, exclude=True, repr=False)  # to begin with; None: they will be loaded

    def module(self, *, tune: bool, dropout: float) -> PretrainedEmbedding:
        static = PretrainedEmbedding(len(self.vocabulary), self.size, tune=tune, dropout=dropout)
        if self.vectors is not None:
            static.give(torch.from_numpy(self.vectors))
        return static

    def collate(self, rows: Sequence[Sequence[str]]) -> Tensor:  # (B, T)
        find = self.vocabulary.ids.get
        return pad([[find(word) or find(word.lower(), 1) for word in row] for row in rows], dtype=np.int64).values


class PretrainedInputs(ConfigSection):
    """What a task has taken from elsewhere."""

    language: PretrainedBiLM | None = None
    words: tuple[PretrainedWords, ...] = ()

    def collate(
        self,
        rows: Sequence[Sequence[str]],  # symbols as they are written in the text
        *,
        end: bool = False,  # each row ends with an element for its end
        reverse: bool = False,  # and is read backwards before it
    ) -> tuple[Any, ...]:
        """What the vectors from elsewhere are made of, one entry for each kind."""
        given: list[Any] = []
        if self.language is not None:
            places = [[*_ordered(range(1, len(row) + 1), reverse=reverse), *[0] * end] for row in rows]
            given.append(self.language.collate(rows, pad(places, dtype=np.int64).values))
        ordered = [[*_ordered(row, reverse=reverse), *[END] * end] for row in rows]
        return (*given, *(words.collate(ordered) for words in self.words))


def _ordered(row: Sequence[Any], *, reverse: bool) -> Iterable[Any]:
    return reversed(row) if reverse else row


class PretrainedConfig(ConfigSection):
    """Vectors from elsewhere that are read beside the task's own."""

    run: str = Field(
        "", description='Run of a language_model with direction = "both", whose layers are mixed; or of embed.'
    )
    file: str = Field("", description="File of vectors of words (word2vec, GloVe).")
    fine_tune: bool = Field(default=False, description="Train them, too; false: they stay as they are.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on them.")
    replace_own: bool = Field(default=False, description="The task has no vectors of symbols of its own beside them.")
    extra_words: int = Field(
        50_000, ge=0, description="Of words: so many are kept besides those of the training data, the first ones."
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.replace_own and not self:
            raise ValueError("alone is true, and there is neither a run nor a file: there would be no vectors at all")
        return self

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.run or self.file)

    def language(self, unit: Unit) -> PretrainedBiLM | None:
        """The language model, for a task that reads such symbols."""
        if not self.run:
            return None
        run, document = self._opened()
        name, direction = document.get("task.name"), document.get("task.direction")
        if name == "embed":
            return None
        if name != "language_model" or direction != "both":
            found = f"task {name}" + (f' with task.direction = "{direction}"' if direction else "")
            wanted = 'task.pretrained wants a language_model with direction = "both", or an embed'
            raise DataError(self.run, f"is a run of the {found}; {wanted}")
        known = BiLMVocabulary.model_validate_json(run.learned)
        if known.text.unit != unit:
            raise DataError(
                self.run, f"reads {known.text.unit}, and this task reads {unit}: its vectors would be of other symbols"
            )
        fields = {field: document.get(f"task.{field}") for field in BiLMConfig.model_fields}
        weights = run.load_best().model
        return PretrainedBiLM(
            anatomy=BiLMConfig.model_validate_json(json.dumps(fields)),
            known=known,
            weights={name.removeprefix(READER): weight for name, weight in weights.items() if name.startswith(READER)},
        )

    def fit(
        self, text: TextConfig, texts: Iterable[str], language: PretrainedBiLM | None, *, specials: Sequence[str] = ()
    ) -> Tokenizer:
        """The symbols of texts; subwords are those of the language model, since others would be cut otherwise."""
        if language is not None and text.unit == "subwords":
            return language.known.text
        return text.fit(texts, specials=specials)

    def take(self, symbols: Iterable[str], language: PretrainedBiLM | None) -> PretrainedInputs | None:
        """What there is, for symbols as they occur in the training data."""
        if not self:
            return None
        own = set(symbols)
        own |= {UNKNOWN, *(symbol.lower() for symbol in own)}
        words = []
        if self.run and language is None:
            words.append(_kept(self.run, *self._learnt(_Wanted(own, self.extra_words))))
        if self.file:
            words.append(_kept(self.file, *read_vectors(resolve(self.file), _Wanted(own, self.extra_words))))
        return PretrainedInputs(language=language, words=tuple(words))

    def _opened(self) -> tuple[Run, Document]:
        run = Run.open(resolve(self.run))
        return run, parse(run.config, str(run.path / "config.toml"))

    def _learnt(self, wanted: Container[str]) -> tuple[list[str], NDArray[np.float32]]:
        """The words and vectors of a run of embed."""
        run, _ = self._opened()
        weights = run.load_best().model
        if "vectors" not in weights:
            raise DataError(self.run, "has learnt no vectors")
        rows = {word: row for row, word in enumerate(json.loads(run.learned)["words"].split("\n")) if word in wanted}
        return list(rows), weights["vectors"][list(rows.values())].numpy()

    def join(self, taken: PretrainedInputs | None, own: nn.Module | None, *, size: int) -> tuple[nn.Module, int]:
        """The task's own vectors, which have this size, beside what was taken; and the size of both together."""
        if taken is None and own is not None:
            return own, size
        parts = (taken.language, *taken.words) if taken else ()
        given = [part.module(tune=self.fine_tune, dropout=self.dropout) for part in parts if part]
        joined = CombinedEmbedding(own, given, size=0 if own is None else size)
        return joined, joined.size


def _kept(place: str, names: list[str], vectors: NDArray[np.float32]) -> PretrainedWords:
    rows = {name: row for row, name in enumerate(names)}
    kept = [name for name in names if name not in (PAD, UNKNOWN)]
    if not kept:
        raise DataError(place, "has a vector for no word of the training data")
    table = np.zeros((len(kept) + 2, vectors.shape[1]), dtype=np.float32)
    table[2:] = vectors[[rows[name] for name in kept]]
    if UNKNOWN in rows:
        table[1] = vectors[rows[UNKNOWN]]
    return PretrainedWords(vocabulary=Vocabulary(symbols=(PAD, UNKNOWN, *kept)), size=table.shape[1], vectors=table)


class _Wanted(Container[str]):
    """Given words, and so many others as are asked for first."""

    def __init__(self, words: Container[str], others: int) -> None:
        self.words, self.others = words, others

    def __contains__(self, word: object) -> bool:
        if word in self.words:
            return True
        self.others -= 1
        return self.others >= 0
