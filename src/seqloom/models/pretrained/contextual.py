"""What language models whose layers are word vectors have in common: vocabulary, embedding, the layers as vectors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import UNKNOWN, Vocabulary
from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Layer
from seqloom.layers.stack import Stack
from seqloom.layers.transformer.block import Norm
from seqloom.layers.transformer.positions import Positions
from seqloom.models.character_encoder import CharacterConfig, CharacterEncoder, CharacterInput, to_characters


@dataclass(frozen=True, slots=True)
class ContextualVectors:
    """Contextual vectors of the words of a text."""

    words: list[str]
    vectors: list[list[list[float]]]  # (words, layers, size); the lowest layer does not depend on the context

    def __str__(self) -> str:
        rows = zip(self.words, self.vectors, strict=True)
        return "".join(f"{word} {' '.join(f'{value:.6g}' for value in layers[-1])}\n" for word, layers in rows)


class LMVocabulary(ConfigSection):
    """The vocabulary of a language model."""

    text: Tokenizer
    characters: Vocabulary | None = None  # of a character encoder

    def to_characters(self, tokens: Sequence[str]) -> NDArray[np.int16]:  # (N, MAX_CHARACTERS), or (N, 0)
        """The character ids of words; the unknown and the special tokens have a character of their own."""
        if self.characters is None:
            return np.zeros((len(tokens), 0), dtype=np.int16)
        rows = to_characters(tokens, self.characters.tokens)
        for index, token in enumerate(tokens):
            if token == UNKNOWN or token in self.text.specials:
                rows[index] = 0
                rows[index, 0] = self.characters.index(token)
        return rows

    def build_embedding(
        self, size: int, characters: CharacterConfig, *, dropout: float
    ) -> "Embedding | CharacterEmbedding":
        """Embeddings of the tokens, computed from their characters if there is a character encoder."""
        tokens = self.text.vocabulary.tokens
        if self.characters is None:
            return Embedding(len(tokens), size, dropout=dropout)
        table = torch.from_numpy(self.to_characters(tokens))
        encoder = CharacterEncoder(len(self.characters), characters)
        return CharacterEmbedding(encoder, size, table=table, dropout=dropout)


class CharacterEmbedding(nn.Module):
    """Word vectors from characters."""

    table: Tensor

    def __init__(
        self,
        characters: CharacterEncoder,
        size: int,
        *,
        table: Tensor,  # (V, MAX_CHARACTERS), the characters of the vocabulary's words
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.characters = characters
        self.output = nn.Linear(characters.size, size)
        self.dropout = Dropout(dropout)
        self.register_buffer("table", table, persistent=False)
        self.embedding_dim = size

    def forward(self, characters: Tensor) -> Tensor:  # (B, T, MAX_CHARACTERS) → (B, T, size)
        vectors: Tensor = self.dropout(self.output(self.characters(characters)))
        return vectors


def embed_tokens(embed: Embedding | CharacterEmbedding, text: CharacterInput) -> Tensor:  # (B, T, D)
    """The word vectors without context."""
    vectors: Tensor = embed(text.characters if isinstance(embed, CharacterEmbedding) else text.words)
    return vectors


def level_parameters(layer: Layer) -> list[list[nn.Parameter]]:
    """The parameters of each layer whose output ``layer_levels`` returns, the lowest first."""
    levels: list[list[nn.Parameter]] = []
    before: list[nn.Parameter] = []  # of positions, which belong to the layer above them
    for module, connection in _leaves(layer):
        own = [*module.parameters(), *(connection.parameters() if connection is not None else ())]
        if isinstance(module, Norm) and levels:
            levels[-1] += own
        elif isinstance(module, Positions):
            before += own
        else:
            levels.append([*before, *own])
            before = []
    return levels


def _leaves(layer: Layer) -> Iterator[tuple[nn.Module, nn.Module | None]]:
    """The layers of nested stacks in order, each with the connection that follows it."""
    if not isinstance(layer, Stack):
        yield layer, None
        return
    for inner, connection in zip(layer.layers, layer.connections, strict=True):
        *lower, (last, own) = _leaves(cast(Layer, inner))
        yield from lower
        yield last, nn.ModuleList([part for part in (own, connection) if part is not None])


def layer_levels(layer: Layer, x: Tensor, mask: Tensor | None) -> list[Tensor]:
    """The output of each layer; positions do not count as one, and a norm belongs to the layer below it."""
    if not isinstance(layer, Stack):
        return [layer(x, mask)[0]]
    outputs: list[Tensor] = []
    for module, values in layer.layer_outputs(x, mask)[0]:
        if isinstance(module, Norm) and outputs:
            outputs[-1] = values
        elif not isinstance(module, Positions):
            outputs.append(values)
    return outputs
