"""A language model in both directions; its layers are vectors of words in context (ELMo, Peters et al. 2018)."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END, UNKNOWN, Vocabulary
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Layer
from seqloom.layers.linear import Linear
from seqloom.layers.softmax_loss import cross_entropy, log_probabilities
from seqloom.layers.stack import Stack
from seqloom.layers.transformer.block import Norm
from seqloom.layers.transformer.positions import Positions
from seqloom.models.character_encoder import CharacterConfig, CharacterEncoder, CharacterInput, to_characters
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig, build_stack


class BiLMVocabulary(ConfigSection):
    """The symbols of a language model."""

    text: Tokenizer
    characters: Vocabulary | None = None  # of words that are read letter by letter

    def spelled(self, tokens: Sequence[str]) -> NDArray[np.int16]:  # (N, LONGEST), or (N, 0) where nothing is spelled
        """The characters of words; the border of a text, and what is unknown, have a character of their own."""
        if self.characters is None:
            return np.zeros((len(tokens), 0), dtype=np.int16)
        rows = to_characters(tokens, self.characters.symbols)
        for index, token in enumerate(tokens):
            if token in (END, UNKNOWN):
                rows[index] = 0
                rows[index, 0] = self.characters.index(token)
        return rows


class BiLMConfig(ConfigSection):
    """What a language model in both directions is made of: fields of the task, as they are called there."""

    embedding_size: int
    tie_embeddings: bool
    input_dropout: float
    characters: CharacterConfig
    prenet: PrenetConfig = Field(default_factory=PrenetConfig)
    decoder: RecurrenceConfig

    def reader(self, known: BiLMVocabulary) -> "BiLMEncoder":
        """The part that reads, with fresh weights."""
        if self.decoder.bidirectional:
            raise ValueError("task.decoder.bidirectional is true: a language model must not see what it predicts")
        symbols = known.text.vocabulary.symbols
        embed: Embedding | CharacterEmbedding
        if known.characters is None:
            embed = Embedding(len(symbols), self.embedding_size, dropout=self.input_dropout)
        else:
            table = torch.from_numpy(known.spelled(symbols))
            encoder = CharacterEncoder(len(known.characters), self.characters)
            embed = CharacterEmbedding(encoder, self.embedding_size, table=table, dropout=self.input_dropout)
        ahead, back = (build_stack(self.prenet, self.decoder, self.embedding_size, causal=True) for _ in range(2))
        return BiLMEncoder(embed, ahead, back)

    def model(self, known: BiLMVocabulary) -> "BiLM":
        """The language model, with fresh weights."""
        dropout: nn.Module
        dropout = (
            VariationalDropout(self.decoder.dropout)
            if self.decoder.variational_dropout
            else Dropout(self.decoder.dropout)
        )
        return BiLM(self.reader(known), len(known.text.vocabulary), tied=self.tie_embeddings, dropout=dropout)


class CharacterEmbedding(nn.Module):
    """Words as vectors made of their characters."""

    table: Tensor

    def __init__(
        self,
        characters: CharacterEncoder,
        size: int,
        *,
        table: Tensor,  # (V, LONGEST), the characters of the words that have a number
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.characters = characters
        self.output = nn.Linear(characters.size, size)
        self.dropout = Dropout(dropout)
        self.register_buffer("table", table, persistent=False)
        self.embedding_dim = size

    def forward(self, spelled: Tensor) -> Tensor:  # (B, T, LONGEST) → (B, T, size)
        vectors: Tensor = self.dropout(self.output(self.characters(spelled)))
        return vectors


class BiLMEncoder(nn.Module):
    """The same vectors of words read by two layers, each of which sees what it has read only.

    A text is the border symbol and the words behind it; from the other end, too, the border comes first.
    """

    def __init__(self, embed: Embedding | CharacterEmbedding, ahead: Layer, back: Layer) -> None:
        super().__init__()
        self.embed = embed
        self.ahead = ahead
        self.back = back

    @property
    def sizes(self) -> list[int]:
        """The widths of what ``levels`` gives."""
        with torch.no_grad():
            like = next(self.ahead.parameters())
            found = _levels(self.ahead, like.new_zeros(1, 1, self.ahead.input_size), None)
        upper = [2 * level.shape[2] for level in found]
        return [upper[-1] if self.doubled else self.embed.embedding_dim, *upper]

    @property
    def doubled(self) -> bool:
        return self.embed.embedding_dim == self.ahead.output_size

    def vectors(self, text: CharacterInput) -> Tensor:  # (B, T, D)
        """The words out of context."""
        vectors: Tensor = self.embed(text.characters if isinstance(self.embed, CharacterEmbedding) else text.words)
        return vectors

    def levels(self, text: CharacterInput) -> list[Tensor]:  # each (B, T, its size)
        """The words by each layer: out of context, then both directions side by side."""
        vectors = self.vectors(text)
        ahead = _levels(self.ahead, vectors, text.mask)
        back = _levels(self.back, reverse_padded(vectors, text.mask), text.mask)
        lowest = torch.cat([vectors, vectors], dim=2) if self.doubled else vectors
        both = (
            torch.cat([left, reverse_padded(right, text.mask)], dim=2) for left, right in zip(ahead, back, strict=True)
        )
        return [lowest, *both]

    def forward(self, text: CharacterInput) -> tuple[Tensor, Tensor]:  # (B, T, D), each
        """What the upper layers give, of each direction in the order of its reading."""
        vectors = self.vectors(text)
        return self.ahead(vectors, text.mask)[0], self.back(reverse_padded(vectors, text.mask), text.mask)[0]


class BiLM(nn.Module):
    """A reader, and one softmax for both directions: the next word, and the one before.

    ``tied``: the vectors of the words are also the rows of the output's matrix, if there are such vectors.
    """

    def __init__(self, reader: BiLMEncoder, symbols: int, *, tied: bool, dropout: nn.Module) -> None:
        super().__init__()
        self.reader = reader
        self.dropout = dropout
        tied = tied and isinstance(reader.embed, Embedding)
        width = reader.ahead.output_size
        narrow = tied and width != reader.embed.embedding_dim
        self.bridges = nn.ModuleList(
            nn.Linear(width, reader.embed.embedding_dim) if narrow else nn.Identity() for _ in range(2)
        )
        self.output = Linear(reader.embed.embedding_dim if tied else width, symbols)
        nn.init.uniform_(self.output.weight, -0.1, 0.1)
        nn.init.zeros_(self.output.bias)
        if tied:
            self.output.weight = cast(Embedding, reader.embed).weight

    def features(self, text: CharacterInput) -> tuple[Tensor, Tensor]:  # (2 N, D), (2 N,)
        """What the softmax reads and should answer: of all real elements ahead, then of all back."""
        mask = text.mask
        found = [
            bridge(self.dropout(values))[mask] for bridge, values in zip(self.bridges, self.reader(text), strict=True)
        ]
        return torch.cat(found), torch.cat([_next(text.words, mask), _next(reverse_padded(text.words, mask), mask)])

    def loss(
        self,
        features: Tensor,  # (2 N, D), as `features` gives them
        target: Tensor,  # (2 N,)
        *,
        smoothing: float = 0.0,
    ) -> Tensor:  # ()
        """The sum of the negative log-probabilities of both directions."""
        return cross_entropy(features, self.output.weight, self.output.bias, target, smoothing=smoothing)

    def log_probabilities(self, text: CharacterInput) -> tuple[Tensor, Tensor]:  # (N,), (N,)
        """Of each real element's next one, ahead and back, each in the order of reading."""
        features, target = self.features(text)
        ahead, back = log_probabilities(features, self.output.weight, self.output.bias, target).chunk(2)
        return ahead, back

    def start(self, memory: None, batch: int) -> Any:
        """The state of the half that reads ahead, before the first symbol."""
        return self.reader.ahead.start(batch, memory)

    def forward(self, tokens: Tensor, state: Any = None) -> tuple[Tensor, Any]:  # (B, T) → logits (B, T, V), state
        """The half that reads ahead: a language model as any other."""
        embed = self.reader.embed
        vectors = embed(embed.table[tokens] if isinstance(embed, CharacterEmbedding) else tokens)
        values, state = self.reader.ahead(vectors, None, state)
        return self.output(self.bridges[0](self.dropout(values))), state


def reverse_padded(
    values: Tensor,  # (B, T, ...)
    mask: Tensor,  # (B, T)
) -> Tensor:  # (B, T, ...)
    """The real elements behind the first in reverse order; turned twice, they are as before."""
    steps = torch.arange(mask.shape[1], device=mask.device).unsqueeze(0)
    lengths = mask.sum(dim=1, keepdim=True)
    places = torch.where((steps > 0) & (steps < lengths), lengths - steps, steps)
    rows = torch.arange(len(mask), device=mask.device).unsqueeze(1) * mask.shape[1]
    return values.flatten(0, 1).index_select(0, (rows + places).flatten()).view_as(values)


def _next(words: Tensor, mask: Tensor) -> Tensor:  # (B, T), (B, T) → (N,)
    """What follows each real element; behind the last one comes the border, with which the row begins."""
    following = torch.cat([words[:, 1:], words[:, :1]], dim=1)
    last = mask & ~torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], dim=1)
    return torch.where(last, words[:, :1], following)[mask]


def _levels(layer: Layer, x: Tensor, mask: Tensor | None) -> list[Tensor]:
    """What each layer gives; positions are none, and a norm belongs to the layer below it."""
    if not isinstance(layer, Stack):
        return [layer(x, mask)[0]]
    found: list[Tensor] = []
    for each, values in layer.layer_outputs(x, mask)[0]:
        if isinstance(each, Norm) and found:
            found[-1] = values
        elif not isinstance(each, Positions):
            found.append(values)
    return found
