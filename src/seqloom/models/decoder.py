"""Symbols out, one after the other: what a language model is, and half of a translator."""

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
    """An embedding, a layer that looks back only, and a softmax over the vocabulary.

    ``tied``: the vectors of the symbols are also the rows of the output's matrix (Press and Wolf 2017); where the layer
    is wider or narrower than the vectors, a linear map stands between.
    """

    def __init__(
        self,
        embed: Embedding,
        layer: Layer,
        *,
        tied: bool = False,
        dropout: float = 0.0,  # on what the layer gives
        variational: bool = False,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.layer = layer
        self.dropout: nn.Module = VariationalDropout(dropout) if variational else Dropout(dropout)
        narrow = tied and layer.output_size != embed.embedding_dim
        self.bridge = nn.Linear(layer.output_size, embed.embedding_dim) if narrow else nn.Identity()
        size = embed.embedding_dim if tied else layer.output_size
        self.output = Linear(size, embed.num_embeddings)
        nn.init.uniform_(self.output.weight, -0.1, 0.1)
        nn.init.zeros_(self.output.bias)
        if tied:
            self.output.weight = embed.weight
        self._stepper = Stepper()

    def start(self, memory: Memory | None, batch: int, *, coverage: bool = False) -> Any:
        """The state before the first symbol of each of ``batch`` sequences; a language model has no memory."""
        return self.layer.start(batch, memory, coverage=coverage)

    def features(
        self,
        tokens: Tensor,  # (B, T)
        state: Any = None,
        *,
        mask: Tensor | None = None,  # (B, T)
    ) -> tuple[Tensor, Any]:  # (B, T, D), state
        """What the softmax is computed from."""
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

    def judge(
        self,
        features: Tensor,  # (N, D)
        target: Tensor,  # (N,)
    ) -> tuple[Tensor, Tensor]:  # (N,), (N,)
        """The same, and whether each target is the most probable symbol."""
        return score_tokens(features, self.output.weight, self.output.bias, target)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any] | None:  # (B,) → (B, V), state
        """One step as one program; None if this is not a step for one."""
        return self._stepper(self, tokens, state) if type(self) is Decoder else None

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002  as torch has it
        self._stepper.clear()
        return super().train(mode)


def step(decoder: nn.Module, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:  # (B,) → (B, V), state
    """One step of any decoder: the last symbols → log-probabilities of the next ones."""
    found = decoder.step(tokens, state) if isinstance(decoder, Decoder) else None
    if found is not None:
        return found
    logits, state = decoder(tokens.unsqueeze(1), state)
    return torch.log_softmax(logits[:, -1], dim=-1), state
