"""Attention: query, keys, values, score, softmax, weighted sum (Bahdanau et al. 2015)."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqloom.layers.attention import scores


class AttentionOutput(NamedTuple):
    """Context vectors and attention weights."""

    context: Tensor  # (B, T, C)
    weights: Tensor  # (B, T, S), or (B, heads, T, S)


class AttentionMechanism(nn.Module, ABC):
    """Maps queries, keys and values to a weighted sum of the values. Subclasses define the weights.

    Prepare keys and values once for all queries. Masked positions have no effect as long as they are finite; the layers
    of ``decoder_attention`` set them to zero.
    """

    stateful: bool = False
    """Whether it stores something at each call; then every call gets all rows of the batch, in their order."""

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        context_size: int,  # width of the context if the values are as wide as the keys
    ) -> None:
        super().__init__()
        self.query_size = query_size
        self.key_size = key_size
        self.context_size = context_size

    @abstractmethod
    def prepare(
        self,
        keys: Tensor,  # (B, S, K)
    ) -> Tensor:  # (B, S, A)
        """Compute the part of the score that does not depend on the query."""

    def prepare_values(
        self,
        values: Tensor,  # (B, S, V)
    ) -> Tensor:  # (B, S, C)
        """Compute what is summed: the values themselves, unless the attention projects them."""
        return values

    @abstractmethod
    def weights(
        self,
        query: Tensor,  # (B, T, Q)
        prepared: Tensor,  # (B, S, A)
        *,
        mask: Tensor | None = None,  # (B, S) or (B, T, S), True where a query may attend
        steps: Tensor | None = None,  # (B, T), time step of each query; None: 0, 1, 2, …
    ) -> Tensor:  # (B, T, S), or (B, heads, T, S)
        """Return the attention weights: zero where masked, so that a row without any position is all zero."""

    def forward(
        self,
        query: Tensor,  # (B, T, Q)
        prepared: Tensor,  # (B, S, A)
        values: Tensor,  # (B, S, C), prepared
        *,
        mask: Tensor | None = None,  # as in weights
        steps: Tensor | None = None,
    ) -> AttentionOutput:
        weights = self.weights(query, prepared, mask=mask, steps=steps)
        return AttentionOutput(self.mix(weights, values), weights)

    def mix(self, weights: Tensor, values: Tensor) -> Tensor:  # (B, T, C)
        """Return the weighted sums of the values."""
        return weights @ values


class ScoredAttention(AttentionMechanism):
    """Attention whose weights follow from one score of each query and key."""

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        score: str = "additive",  # see SCORES
        size: int | None = None,  # width of the additive score; None: query_size
    ) -> None:
        super().__init__(query_size, key_size, context_size=key_size)
        self.score = scores.build_score(score, query_size, key_size=key_size, size=size)

    def prepare(self, keys: Tensor) -> Tensor:
        return self.score.prepare(keys)


class Attention(ScoredAttention):
    """Soft attention: Σ_s α_s v_s with α = softmax_s(score(q, k_s))."""

    def weights(
        self,
        query: Tensor,
        prepared: Tensor,
        *,
        mask: Tensor | None = None,
        steps: Tensor | None = None,  # noqa: ARG002  used by local attention
    ) -> Tensor:
        return masked_softmax(self.score(query, prepared), mask)


def masked_softmax(
    scores: Tensor,  # (B, T, S)
    mask: Tensor | None,  # (B, S) or (B, T, S)
) -> Tensor:  # (B, T, S)
    """Softmax over the positions that are not masked; zeros if all are."""
    if mask is None:
        return scores.softmax(dim=-1)
    masked = ~(mask.unsqueeze(1) if mask.dim() == 2 else mask)
    # The lowest float instead of minus infinity: the softmax of a fully masked row must not be NaN.
    return scores.masked_fill(masked, torch.finfo(scores.dtype).min).softmax(dim=-1).masked_fill(masked, 0)


def causal_mask(
    queries: int,
    keys: int,  # the queries are at the last positions
    *,
    mask: Tensor | None = None,  # (B, S), padding mask to combine with
) -> Tensor:  # (1 or B, T, S)
    """Mask that lets each query attend to its own and earlier positions."""
    device = None if mask is None else mask.device
    positions = torch.arange(keys, device=device) - (keys - queries)
    visible = (positions <= torch.arange(queries, device=device).unsqueeze(1)).unsqueeze(0)
    return visible if mask is None else visible & mask.unsqueeze(1)
