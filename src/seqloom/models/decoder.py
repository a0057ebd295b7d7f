"""Decoders: an embedding, a causal layer and a softmax; a language model, or half of an encoder-decoder."""

from typing import Any, Self

import torch
from torch import Tensor, nn

from seqloom.layers.compiled_step.stepper import Stepper
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Layer, Memory
from seqloom.layers.linear import Linear
from seqloom.layers.softmax_loss import cross_entropy, log_probabilities, score_tokens


class Decoder(nn.Module):
    """An embedding, a causal layer, and a softmax over the vocabulary.

    ``tied``: the embedding matrix is also the output matrix (Press and Wolf 2017), after a linear map if the layer's
    output size differs from the embedding size.
    """

    def __init__(
        self,
        embed: Embedding,
        layer: Layer,
        *,
        tied: bool = False,
        dropout: float = 0.0,  # on the output of the layer
        variational: bool = False,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.layer = layer
        self.dropout: nn.Module = VariationalDropout(dropout) if variational else Dropout(dropout)
        bridged = tied and layer.output_size != embed.embedding_dim
        self.bridge = nn.Linear(layer.output_size, embed.embedding_dim) if bridged else nn.Identity()
        size = embed.embedding_dim if tied else layer.output_size
        self.output = Linear(size, embed.num_embeddings)
        nn.init.uniform_(self.output.weight, -0.1, 0.1)
        nn.init.zeros_(self.output.bias)
        if tied:
            self.output.weight = embed.weight
        self._stepper = Stepper()

    def start(self, memory: Memory | None, batch: int, *, coverage: bool = False) -> Any:
        """The state before the first token of each of ``batch`` sequences; a language model has no memory."""
        return self.layer.start(batch, memory, coverage=coverage)

    def features(
        self,
        tokens: Tensor,  # (B, T)
        state: Any = None,
        *,
        mask: Tensor | None = None,  # (B, T)
    ) -> tuple[Tensor, Any]:  # (B, T, D), state
        """The input of the softmax."""
        values, state = self.layer(self.embed(tokens), mask, state)
        return self.bridge(self.dropout(values)), state

    def forward(
        self,
        tokens: Tensor,  # (B, T)
        state: Any = None,
        *,
        mask: Tensor | None = None,  # (B, T)
    ) -> tuple[Tensor, Any]:  # logits (B, T, V), state
        values, state = self.features(tokens, state, mask=mask)
        return self.output(values), state

    def loss(
        self,
        features: Tensor,  # (N, D)
        target: Tensor,  # (N,)
        *,
        smoothing: float = 0.0,
    ) -> Tensor:  # ()
        """The sum of the targets' negative log-probabilities."""
        return cross_entropy(features, self.output.weight, self.output.bias, target, smoothing=smoothing)

    def log_probabilities(
        self,
        features: Tensor,  # (N, D)
        target: Tensor,  # (N,)
    ) -> Tensor:  # (N,)
        return log_probabilities(features, self.output.weight, self.output.bias, target)

    def score_tokens(
        self,
        features: Tensor,  # (N, D)
        target: Tensor,  # (N,)
    ) -> tuple[Tensor, Tensor]:  # (N,), (N,)
        """The log-probability of each target, and whether it is the most probable token."""
        return score_tokens(features, self.output.weight, self.output.bias, target)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any] | None:  # (B,) → (B, V), state
        """One compiled step; None if it cannot be compiled."""
        return self._stepper(self, tokens, state) if type(self) is Decoder else None

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002  torch's signature
        self._stepper.clear()
        return super().train(mode)


def step(decoder: nn.Module, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:  # (B,) → (B, V), state
    """One step of any decoder: the last tokens → log-probabilities of the next ones."""
    compiled = decoder.step(tokens, state) if isinstance(decoder, Decoder) else None
    if compiled is not None:
        return compiled
    logits, state = decoder(tokens.unsqueeze(1), state)
    return torch.log_softmax(logits[:, -1], dim=-1), state
