"""A masked language model: it predicts hidden tokens from both sides (BERT, Devlin et al. 2019)."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.data.batch import Batch
from seqloom.data.text.vocabulary import MASK
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Layer
from seqloom.layers.linear import Linear
from seqloom.layers.softmax_loss import cross_entropy, log_probabilities
from seqloom.models.character_encoder import CharacterConfig, CharacterInput
from seqloom.models.decoder import SoftmaxInputs, TokenScores
from seqloom.models.encoder import BidirectionalEncoder, PrenetConfig, build_stack
from seqloom.models.pretrained.contextual import (
    CharacterEmbedding,
    LMVocabulary,
    embed_tokens,
    layer_levels,
    level_parameters,
)
from seqloom.models.pretrained.masking import MaskedTokens, Masking, fixed_noise

MAX_ELEMENTS = 1 << 14
"""Tokens, with padding, that are read at once where each token is hidden in turn."""


class MaskedLMConfig(ConfigSection):
    """The configuration of a masked language model: fields of its task, under the same names."""

    embedding_size: int = Field(ge=1)
    tie_embeddings: bool
    input_dropout: float = Field(ge=0, lt=1)
    mask_rate: float = Field(gt=0, lt=1)
    characters: CharacterConfig
    prenet: PrenetConfig = Field(default_factory=PrenetConfig)
    encoder: BidirectionalEncoder

    def build_encoder(self, vocabulary: LMVocabulary) -> "MaskedLMEncoder":
        """The encoder with new weights."""
        embed = vocabulary.build_embedding(self.embedding_size, self.characters, dropout=self.input_dropout)
        return MaskedLMEncoder(embed, build_stack(self.prenet, self.encoder, self.embedding_size))

    def masking(self, vocabulary: LMVocabulary) -> Masking:
        """How tokens of this vocabulary are hidden."""
        text = vocabulary.text
        return Masking(
            self.mask_rate, text.vocabulary.index(MASK), first=2 + len(text.specials), end=len(text.vocabulary)
        )

    def build(self, vocabulary: LMVocabulary) -> "MaskedLM":
        """The language model with new weights."""
        encoder = self.encoder
        dropout = VariationalDropout(encoder.dropout) if encoder.variational_dropout else Dropout(encoder.dropout)
        return MaskedLM(
            self.build_encoder(vocabulary), self.masking(vocabulary), tied=self.tie_embeddings, dropout=dropout
        )


class MaskedLMEncoder(nn.Module):
    """Token embeddings, and layers that read them in both directions. A text is the boundary token and its tokens."""

    def __init__(self, embed: Embedding | CharacterEmbedding, layer: Layer) -> None:
        super().__init__()
        self.embed = embed
        self.layer = layer

    @property
    def sizes(self) -> list[int]:
        """The sizes of the outputs of ``levels``."""
        with torch.no_grad():
            like = next(self.layer.parameters())
            outputs = layer_levels(self.layer, like.new_zeros(1, 1, self.layer.input_size), None)
        return [self.embed.embedding_dim, *(level.shape[2] for level in outputs)]

    def levels(self, text: CharacterInput) -> list[Tensor]:  # each (B, T, its size)
        """The token embeddings, then the output of each layer."""
        vectors = embed_tokens(self.embed, text)
        return [vectors, *layer_levels(self.layer, vectors, text.mask)]

    def level_parameters(self) -> list[list[nn.Parameter]]:
        """The parameters of each of ``levels``."""
        return [list(self.embed.parameters()), *level_parameters(self.layer)]

    def forward(self, text: CharacterInput) -> Tensor:  # (B, T, D)
        """The output of the last layer."""
        values: Tensor = self.layer(embed_tokens(self.embed, text), text.mask)[0]
        return values


class Fillers(NamedTuple):
    """The most probable tokens at one place, the best first."""

    tokens: list[int]
    probabilities: list[float]


class MaskedLM(nn.Module):
    """An encoder, and a softmax over the vocabulary at the places of hidden tokens.

    Before the softmax come a linear map, GELU and layer normalisation, so that the last layer of the encoder need not
    be the output vector itself. ``tied``: the embedding matrix is also the output matrix, if there is one.

    In training, other tokens are hidden each time; in evaluation, always the same ones of a text.
    """

    def __init__(self, encoder: MaskedLMEncoder, masking: Masking, *, tied: bool, dropout: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.masking = masking
        self.dropout = dropout
        tied = tied and isinstance(encoder.embed, Embedding)
        size = encoder.embed.embedding_dim if tied else encoder.layer.output_size
        self.transform = nn.Sequential(Linear(encoder.layer.output_size, size), nn.GELU(), nn.LayerNorm(size))
        self.output = Linear(size, masking.end)
        nn.init.uniform_(self.output.weight, -0.1, 0.1)
        nn.init.zeros_(self.output.bias)
        if tied:
            self.output.weight = cast(Embedding, encoder.embed).weight

    def features(
        self,
        text: CharacterInput,
        masked: MaskedTokens,
    ) -> Tensor:  # (N, D)
        """The inputs of the softmax at the chosen tokens."""
        hidden = self.encoder(self._hidden(text, masked.words))[masked.chosen]
        features: Tensor = self.transform(self.dropout(hidden))
        return features

    def _hidden(self, text: CharacterInput, words: Tensor) -> CharacterInput:
        """The text with other tokens; a token that is replaced is spelled as the vocabulary has it."""
        characters, embed = text.characters, self.encoder.embed
        if isinstance(embed, CharacterEmbedding):
            changed = (words != text.words).unsqueeze(2)
            characters = torch.where(changed, embed.table[words], characters)
        return CharacterInput(words, characters, text.mask)

    def softmax_inputs(self, batch: Batch) -> SoftmaxInputs:
        """The inputs of the softmax at tokens that are hidden, and these tokens."""
        text: CharacterInput = batch.inputs
        shape = (3, *text.words.shape)
        noise = torch.rand(shape) if self.training else fixed_noise(text.words, text.mask)
        masked = self.masking.hide(text.words, text.mask, noise)
        return SoftmaxInputs(self.features(text, masked), text.words[masked.chosen], None)

    def loss(
        self,
        features: Tensor,  # (N, D)
        target: Tensor,  # (N,)
        *,
        smoothing: float = 0.0,
    ) -> Tensor:  # ()
        """The sum of the targets' negative log-probabilities."""
        return cross_entropy(features, self.output.weight, self.output.bias, target, smoothing=smoothing)

    def score_texts(self, batch: Batch) -> TokenScores:
        """The log-probabilities of the hidden tokens of each row."""
        features, target, _ = self.softmax_inputs(batch)
        text: CharacterInput = batch.inputs
        counts = self.masking.counts(self.masking.candidates(text.words, text.mask).sum(dim=1)).tolist()
        rows = log_probabilities(features, self.output, target).split(counts)
        return TokenScores([row.tolist() for row in rows])

    def pseudo_log_likelihoods(self, text: CharacterInput) -> list[list[float]]:
        """The log-probability of each token of each row given all others, by hiding one after the other."""
        tokens = self.masking.candidates(text.words, text.mask)
        places = tokens.nonzero()  # (N, 2)
        scores = [self._hide_each(text, rows, columns) for rows, columns in _portions(places, text.words.shape[1])]
        values = torch.cat(scores) if scores else torch.zeros(0)
        return [row.tolist() for row in values.split(tokens.sum(dim=1).tolist())]

    def _hide_each(self, text: CharacterInput, rows: Tensor, columns: Tensor) -> Tensor:  # (N,), (N,) → (N,)
        """The log-probability of each of these tokens, each hidden in a copy of its text."""
        longest = int(text.mask[rows].sum(dim=1).max())
        copies = CharacterInput(*(part[rows, :longest] for part in text))
        chosen = torch.zeros_like(copies.mask)
        chosen[torch.arange(len(rows)), columns] = True
        features = self.features(copies, MaskedTokens(copies.words.masked_fill(chosen, self.masking.mask), chosen))
        target = text.words[rows, columns]
        return log_probabilities(features, self.output, target).cpu()

    def fill(self, text: CharacterInput, *, nbest: int) -> list[list[Fillers]]:
        """The most probable tokens at each [MASK] of each row, special tokens excepted."""
        chosen = text.mask & (text.words == self.masking.mask)
        probabilities = self.output(self.features(text, MaskedTokens(text.words, chosen))).softmax(dim=1)
        best = probabilities[:, self.masking.first :].topk(min(nbest, self.masking.end - self.masking.first), dim=1)
        tokens, values = (best.indices + self.masking.first).tolist(), best.values.tolist()
        fillers = map(Fillers, tokens, values)
        return [list(islice(fillers, count)) for count in chosen.sum(dim=1).tolist()]


def _portions(places: Tensor, length: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows and columns of the tokens, in portions whose copied texts do not take too much memory."""
    for part in places.split(max(MAX_ELEMENTS // max(length, 1), 1)):
        if len(part):
            yield part[:, 0], part[:, 1]
