"""Pretrained inputs of a task: the language model of a run, or a file of word vectors."""

import json
from collections.abc import Container, Iterable, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator
from torch import Tensor, nn

from seqloom.checkpoint import parse_json
from seqloom.config import ConfigSection, Document, parse
from seqloom.data.batch import pad
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.data.readers.word_vectors import read_vectors
from seqloom.data.text.tokenizers import TextConfig, Tokenizer, Unit
from seqloom.data.text.vocabulary import END, PAD, UNKNOWN, Vocabulary
from seqloom.models.character_encoder import CharacterInput
from seqloom.models.pretrained.bilm import BiLMConfig
from seqloom.models.pretrained.combined import (
    CombinedEmbedding,
    ContextualEmbedding,
    ContextualInput,
    FeatureEmbedding,
    PretrainedEmbedding,
)
from seqloom.models.pretrained.contextual import LMVocabulary
from seqloom.models.pretrained.masked_lm import MaskedLMConfig
from seqloom.models.stored_weights import build_with_weights, first_line
from seqloom.run import Run, RunError

ENCODER = "encoder."
"""Prefix of the encoder's weights in a language model whose layers are word vectors."""


class PretrainedLM(ConfigSection):
    """A bidirectional or masked language model without its weights, which are part of the task's model."""

    config: BiLMConfig | MaskedLMConfig
    vocabulary: LMVocabulary
    weights: Any = Field(None, exclude=True, repr=False)  # initial weights; None: they will be loaded

    def build(self, *, fine_tune: bool, dropout: float, layer_decay: float = 1.0) -> ContextualEmbedding:
        encoder: Any
        if self.weights is None:
            encoder = self.config.build_encoder(self.vocabulary)
        else:
            origin = "the pretrained language model"
            encoder = build_with_weights(lambda: self.config.build_encoder(self.vocabulary), self.weights, origin)
        return ContextualEmbedding(encoder, fine_tune=fine_tune, dropout=dropout, layer_decay=layer_decay)

    def collate(self, rows: Sequence[Sequence[str]], positions: Tensor) -> ContextualInput:
        """The inputs for rows of tokens as written in the text."""
        text, find = self.vocabulary.text, self.vocabulary.text.ids.get
        lower = text.lowercase and text.unit != "subwords"
        tokens = [[END, *(token.lower() if lower else token for token in row)] for row in rows]
        ids = [[text.vocabulary.index(END), *(find(token, 1) for token in row[1:])] for row in tokens]
        words, mask = pad(ids, dtype=np.int64)
        spelled = torch.from_numpy(self.vocabulary.to_characters([token for row in rows for token in (END, *row)]))
        characters = spelled.new_zeros(*mask.shape, spelled.shape[1])
        characters[mask] = spelled
        return ContextualInput(CharacterInput(words, characters, mask), positions)


class PretrainedWords(ConfigSection):
    """The words kept of a file of word vectors."""

    vocabulary: Vocabulary
    size: int  # of a vector
    vectors: Any = Field(None, exclude=True, repr=False)  # initial vectors; None: they will be loaded

    def build(self, *, fine_tune: bool, dropout: float) -> PretrainedEmbedding:
        embedding = PretrainedEmbedding(len(self.vocabulary), self.size, fine_tune=fine_tune, dropout=dropout)
        if self.vectors is not None:
            embedding.set_vectors(torch.from_numpy(self.vectors))
        return embedding

    def collate(self, rows: Sequence[Sequence[str]]) -> Tensor:  # (B, T)
        find = self.vocabulary.ids.get
        return pad([[find(word) or find(word.lower(), 1) for word in row] for row in rows], dtype=np.int64).values


class PretrainedInputs(ConfigSection):
    """The pretrained inputs of a task."""

    language: PretrainedLM | None = None
    words: tuple[PretrainedWords, ...] = ()

    def collate(
        self,
        rows: Sequence[Sequence[str]],  # tokens as written in the text
        *,
        end: bool = False,  # append an end token to each row
        reverse: bool = False,  # reverse each row before it
    ) -> tuple[Any, ...]:
        """The inputs of the pretrained embeddings, one entry for each."""
        inputs: list[Any] = []
        if self.language is not None:
            positions = [[*_ordered(range(1, len(row) + 1), reverse=reverse), *[0] * end] for row in rows]
            inputs.append(self.language.collate(rows, pad(positions, dtype=np.int64).values))
        ordered = [[*_ordered(row, reverse=reverse), *[END] * end] for row in rows]
        return (*inputs, *(words.collate(ordered) for words in self.words))


def _ordered(row: Sequence[Any], *, reverse: bool) -> Iterable[Any]:
    return reversed(row) if reverse else row


class PretrainedConfig(ConfigSection):
    """Pretrained vectors, appended to the task's own embeddings."""

    run: str = Field(
        "",
        description='Run of a language_model with direction = "both" or objective = "masked" (its layers are mixed), '
        "or of embed.",
    )
    file: str = Field("", description="File of word vectors (word2vec or GloVe format).")
    fine_tune: bool = Field(
        default=False, description="Train the pretrained weights as well (false: keep them frozen)."
    )
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Fine-tuning a language model: learning rate of each of its layers relative to that of the layer "
        "above; of the highest, relative to the rest of the model (1: the same for all).",
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on the pretrained vectors.")
    replace_embeddings: bool = Field(
        default=False, description="Use the pretrained vectors instead of the task's own token embeddings."
    )
    extra_words: int = Field(
        50_000, ge=0, description="Words to keep from the top of the file, besides those in the training data."
    )

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if self.replace_embeddings and not self:
            raise ValueError("replace_embeddings is true, but there are no pretrained vectors: set run or file")
        if self.layer_decay != 1 and not (self.fine_tune and self.run):
            raise ValueError(f"layer_decay is {self.layer_decay}, which needs fine_tune = true and run")
        return self

    def __bool__(self) -> bool:
        """Whether any pretrained vectors are configured."""
        return bool(self.run or self.file)

    def language(self, unit: Unit) -> PretrainedLM | None:
        """The language model of the run, for a task with tokens of this unit."""
        if not self.run:
            return None
        run, document = self._open_run()
        name, direction = document.get("task.name"), document.get("task.direction")
        if name == "embed":
            if self.layer_decay != 1:
                raise DataError(self.run, f"layer_decay is {self.layer_decay}, but a run of embed has no layers")
            return None
        masked = document.get("task.objective") == "masked"
        if name != "language_model" or not (direction == "both" or masked):
            actual = f"the task {name}" + (f' with task.direction = "{direction}"' if direction else "")
            expected = 'expected a run of language_model with direction = "both" or objective = "masked", or of embed'
            raise DataError(self.run, f"{expected}, found a run of {actual}")
        kind = MaskedLMConfig if masked else BiLMConfig
        fields = {field: document.get(f"task.{field}") for field in kind.model_fields}
        try:
            vocabulary = LMVocabulary.model_validate_json(run.learned)
            config = kind.model_validate_json(json.dumps(fields))
        except ValidationError as error:
            raise RunError(f"{run.path}: damaged: {first_line(error)}") from error
        if vocabulary.text.unit != unit:
            raise DataError(
                self.run, f"expected a language model of {unit}, as in this task, found {vocabulary.text.unit}"
            )
        weights = run.load_best().model
        return PretrainedLM(
            config=config,
            vocabulary=vocabulary,
            weights={
                name.removeprefix(ENCODER): weight for name, weight in weights.items() if name.startswith(ENCODER)
            },
        )

    def fit(
        self, text: TextConfig, texts: Iterable[str], language: PretrainedLM | None, *, specials: Sequence[str] = ()
    ) -> Tokenizer:
        """The tokenizer of the texts; subwords are those of the language model."""
        if language is not None and text.unit == "subwords":
            return language.vocabulary.text
        return text.fit(texts, specials=specials)

    def load(self, tokens: Iterable[str], language: PretrainedLM | None) -> PretrainedInputs | None:
        """The pretrained inputs for the tokens of the training data; None if there are none."""
        if not self:
            return None
        known = set(tokens)
        known |= {UNKNOWN, *(token.lower() for token in known)}
        words = []
        if self.run and language is None:
            words.append(_to_words(self.run, *self._embed_vectors(_WordFilter(known, self.extra_words))))
        if self.file:
            words.append(_to_words(self.file, *read_vectors(resolve(self.file), _WordFilter(known, self.extra_words))))
        return PretrainedInputs(language=language, words=tuple(words))

    def _open_run(self) -> tuple[Run, Document]:
        run = Run.open(resolve(self.run, may_be_run=True))
        return run, parse(run.config, str(run.path / "config.toml"))

    def _embed_vectors(self, words: Container[str]) -> tuple[list[str], NDArray[np.float32]]:
        """The words and vectors of a run of embed."""
        run, _ = self._open_run()
        weights = run.load_best().model
        if "vectors" not in weights:
            raise DataError(self.run, "the run has no word vectors")
        vectors, names = weights["vectors"], parse_json(run.learned, run.path / "learned.json").get("words")
        known = names.split("\n") if isinstance(names, str) else []
        if vectors.ndim != 2 or vectors.dtype != torch.float32 or len(vectors) < len(known):
            raise RunError(f"{run.path}: damaged: {len(known):,} words, but vectors of shape {tuple(vectors.shape)}")
        rows = {word: row for row, word in enumerate(known) if word in words}
        return list(rows), vectors[list(rows.values())].numpy()

    def build_embedding(
        self,
        pretrained: PretrainedInputs | None,
        own: nn.Module | None,
        *,
        size: int,
        features: Sequence[FeatureEmbedding] = (),
    ) -> tuple[nn.Module, int]:
        """The task's own embedding of this size together with the others, and their total size."""
        if pretrained is None and own is not None and not features:
            return own, size
        options: dict[str, Any] = {"fine_tune": self.fine_tune, "dropout": self.dropout}
        language = pretrained.language if pretrained else None
        embeddings: list[ContextualEmbedding | PretrainedEmbedding] = []
        embeddings += [language.build(**options, layer_decay=self.layer_decay)] if language else []
        embeddings += [words.build(**options) for words in (pretrained.words if pretrained else ())]
        combined = CombinedEmbedding(own, [*embeddings, *features], size=0 if own is None else size)
        return combined, combined.size


def _to_words(source: str, names: list[str], vectors: NDArray[np.float32]) -> PretrainedWords:
    rows = {name: row for row, name in enumerate(names)}
    kept = [name for name in names if name not in (PAD, UNKNOWN)]
    if not kept:
        raise DataError(source, "contains no vector for a word of the training data")
    table = np.zeros((len(kept) + 2, vectors.shape[1]), dtype=np.float32)
    table[2:] = vectors[[rows[name] for name in kept]]
    if UNKNOWN in rows:
        table[1] = vectors[rows[UNKNOWN]]
    return PretrainedWords(vocabulary=Vocabulary(tokens=(PAD, UNKNOWN, *kept)), size=table.shape[1], vectors=table)


class _WordFilter(Container[str]):
    """The given words, and the first ``others`` other ones that are looked up."""

    def __init__(self, words: Container[str], others: int) -> None:
        self.words, self.others = words, others

    def __contains__(self, word: object) -> bool:
        if word in self.words:
            return True
        self.others -= 1
        return self.others >= 0
