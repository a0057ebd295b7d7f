"""A bidirectional language model, whose layers are contextual word vectors (ELMo, Peters et al. 2018)."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.data.batch import Batch
from seqloom.decoding.frames.language_models import NeuralLM
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Layer
from seqloom.layers.linear import Linear
from seqloom.layers.softmax_loss import cross_entropy, log_probabilities
from seqloom.models.character_encoder import CharacterConfig, CharacterInput
from seqloom.models.decoder import SoftmaxInputs, TokenScores, neural_lm
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.pretrained.contextual import (
    CharacterEmbedding,
    LMVocabulary,
    embed_tokens,
    layer_levels,
    level_parameters,
)


class BiLMConfig(ConfigSection):
    """The configuration of a bidirectional language model: fields of its task, under the same names."""

    embedding_size: int = Field(ge=1)
    tie_embeddings: bool
    input_dropout: float = Field(ge=0, lt=1)
    characters: CharacterConfig
    prenet: PrenetConfig = Field(default_factory=PrenetConfig)
    decoder: RecurrenceConfig

    def build_encoder(self, vocabulary: LMVocabulary) -> "BiLMEncoder":
        """The encoder with new weights."""
        if self.decoder.bidirectional:
            raise ValueError(
                "task.decoder.bidirectional is true: a language model must not read the token that it predicts"
            )
        embed = vocabulary.build_embedding(self.embedding_size, self.characters, dropout=self.input_dropout)
        forward, backward = (build_stack(self.prenet, self.decoder, self.embedding_size, causal=True) for _ in range(2))
        return BiLMEncoder(embed, forward, backward)

    def build(self, vocabulary: LMVocabulary) -> "BiLM":
        """The language model with new weights."""
        dropout: nn.Module
        dropout = (
            VariationalDropout(self.decoder.dropout)
            if self.decoder.variational_dropout
            else Dropout(self.decoder.dropout)
        )
        return BiLM(
            self.build_encoder(vocabulary), len(vocabulary.text.vocabulary), tied=self.tie_embeddings, dropout=dropout
        )


class BiLMEncoder(nn.Module):
    """The same word vectors read by a forward and a backward layer, both causal in their reading order.

    A text is the boundary token and its words; in the backward direction, too, the boundary comes first.
    """

    def __init__(self, embed: Embedding | CharacterEmbedding, forward_layer: Layer, backward_layer: Layer) -> None:
        super().__init__()
        self.embed = embed
        self.forward_layer = forward_layer
        self.backward_layer = backward_layer

    @property
    def sizes(self) -> list[int]:
        """The sizes of the outputs of ``levels``."""
        with torch.no_grad():
            like = next(self.forward_layer.parameters())
            outputs = layer_levels(self.forward_layer, like.new_zeros(1, 1, self.forward_layer.input_size), None)
        upper = [2 * level.shape[2] for level in outputs]
        return [upper[-1] if self.doubled else self.embed.embedding_dim, *upper]

    @property
    def doubled(self) -> bool:
        return self.embed.embedding_dim == self.forward_layer.output_size

    def vectors(self, text: CharacterInput) -> Tensor:  # (B, T, D)
        """The word vectors without context."""
        return embed_tokens(self.embed, text)

    def levels(self, text: CharacterInput) -> list[Tensor]:  # each (B, T, its size)
        """The outputs of each layer: vectors without context, then both directions concatenated."""
        vectors = self.vectors(text)
        forward = layer_levels(self.forward_layer, vectors, text.mask)
        backward = layer_levels(self.backward_layer, reverse_padded(vectors, text.mask), text.mask)
        lowest = torch.cat([vectors, vectors], dim=2) if self.doubled else vectors
        both = (
            torch.cat([left, reverse_padded(right, text.mask)], dim=2)
            for left, right in zip(forward, backward, strict=True)
        )
        return [lowest, *both]

    def level_parameters(self) -> list[list[nn.Parameter]]:
        """The parameters of each of ``levels``."""
        both = zip(level_parameters(self.forward_layer), level_parameters(self.backward_layer), strict=True)
        return [list(self.embed.parameters()), *([*forward, *backward] for forward, backward in both)]

    def forward(self, text: CharacterInput) -> tuple[Tensor, Tensor]:  # (B, T, D), each
        """The outputs of the top layers, each in its reading order."""
        vectors = self.vectors(text)
        forward, _ = self.forward_layer(vectors, text.mask)
        backward, _ = self.backward_layer(reverse_padded(vectors, text.mask), text.mask)
        return forward, backward


class BiLM(nn.Module):
    """An encoder, and one softmax for both directions: the next word, and the previous one.

    ``tied``: the embedding matrix is also the output matrix, if there is one.
    """

    def __init__(self, encoder: BiLMEncoder, vocab_size: int, *, tied: bool, dropout: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = dropout
        tied = tied and isinstance(encoder.embed, Embedding)
        width = encoder.forward_layer.output_size
        bridged = tied and width != encoder.embed.embedding_dim
        self.bridges = nn.ModuleList(
            nn.Linear(width, encoder.embed.embedding_dim) if bridged else nn.Identity() for _ in range(2)
        )
        self.output = Linear(encoder.embed.embedding_dim if tied else width, vocab_size)
        nn.init.uniform_(self.output.weight, -0.1, 0.1)
        nn.init.zeros_(self.output.bias)
        if tied:
            self.output.weight = cast(Embedding, encoder.embed).weight

    def features(self, text: CharacterInput) -> tuple[Tensor, Tensor]:  # (2 N, D), (2 N,)
        """The inputs and targets of the softmax for all real elements: forward, then backward."""
        mask = text.mask
        features = [
            bridge(self.dropout(values))[mask] for bridge, values in zip(self.bridges, self.encoder(text), strict=True)
        ]
        return torch.cat(features), torch.cat([_next(text.words, mask), _next(reverse_padded(text.words, mask), mask)])

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
        """The log-probability of the element after each real one, forward and backward, in reading order."""
        features, target = self.features(text)
        forward, backward = log_probabilities(features, self.output, target).chunk(2)
        return forward, backward

    def softmax_inputs(self, batch: Batch) -> SoftmaxInputs:
        """The inputs and targets of both directions; whole texts, so there is no state to continue."""
        return SoftmaxInputs(*self.features(batch.inputs), None)

    def score_texts(self, batch: Batch) -> TokenScores:
        """The log-probabilities of the tokens of each row, in both directions."""
        lengths = batch.inputs.mask.sum(dim=1).tolist()
        forward, backward = (values.split(lengths) for values in self.log_probabilities(batch.inputs))
        return TokenScores([row.tolist() for row in forward], [row.tolist() for row in backward])

    def search_lm(self, *, end: int, vocabulary_ids: Sequence[int]) -> NeuralLM:
        """The forward direction as the language model of a search over frames."""
        return neural_lm(self, end=end, vocabulary_ids=vocabulary_ids)

    def start(self, memory: None, batch: int) -> Any:
        """The state of the forward direction before the first token."""
        return self.encoder.forward_layer.start(batch, memory)

    def forward(self, tokens: Tensor, state: Any = None) -> tuple[Tensor, Any]:  # (B, T) → logits (B, T, V), state
        """The forward direction: an ordinary language model."""
        embed = self.encoder.embed
        vectors = embed(embed.table[tokens] if isinstance(embed, CharacterEmbedding) else tokens)
        values, state = self.encoder.forward_layer(vectors, None, state)
        return self.output(self.bridges[0](self.dropout(values))), state


def reverse_padded(
    values: Tensor,  # (B, T, ...)
    mask: Tensor,  # (B, T)
) -> Tensor:  # (B, T, ...)
    """Reverse the real elements after the first; applied twice, it is the identity."""
    steps = torch.arange(mask.shape[1], device=mask.device).unsqueeze(0)
    lengths = mask.sum(dim=1, keepdim=True)
    positions = torch.where((steps > 0) & (steps < lengths), lengths - steps, steps)
    rows = torch.arange(len(mask), device=mask.device).unsqueeze(1) * mask.shape[1]
    return values.flatten(0, 1).index_select(0, (rows + positions).flatten()).view_as(values)


def _next(words: Tensor, mask: Tensor) -> Tensor:  # (B, T), (B, T) → (N,)
    """The element after each real one; after the last comes the boundary, with which the row starts."""
    following = torch.cat([words[:, 1:], words[:, :1]], dim=1)
    last = mask & ~torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], dim=1)
    return torch.where(last, words[:, :1], following)[mask]
