"""Attention as its definition: a query, keys, values, a score, a softmax, a weighted sum (Bahdanau et al. 2015)."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.layers.attention import scores


class AttentionOutput(NamedTuple):
    """What came of a look."""

    context: Tensor  # (B, T, V)
    weights: Tensor  # (B, T, S)


class AttentionMechanism(nn.Module, ABC):
    """Queries that look at keys and get values. Subclasses say by which weights.

    Whoever looks often prepares the keys once. What masked positions hold counts for nothing as long as it is finite;
    the layers of ``attend`` put zeros there.
    """

    remembers: ClassVar[bool] = False
    """Whether it keeps something of each call: then all rows of a batch come in every call, in their own order."""

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        score: str = "additive",  # dot, scaled, multiplicative or additive
        size: int | None = None,  # of the additive score; None: as wide as the query
    ) -> None:
        super().__init__()
        self.query_size = query_size
        self.key_size = key_size
        self.score = scores.make(score, query_size, key_size=key_size, size=size)

    def prepare(
        self,
        keys: Tensor,  # (B, S, K)
    ) -> Tensor:  # (B, S, A)
        """What does not depend on the query."""
        return self.score.prepare(keys)

    @abstractmethod
    def weights(
        self,
        query: Tensor,  # (B, T, Q)
        prepared: Tensor,  # (B, S, A)
        *,
        mask: Tensor | None = None,  # (B, S) or (B, T, S), True where a query may look
        steps: Tensor | None = None,  # (B, T), which step of its sequence a query is; None: 0, 1, 2, …
    ) -> Tensor:  # (B, T, S)
        """How much each position counts: zero where masked, so that a row without any position is all zero."""

    def forward(
        self,
        query: Tensor,  # (B, T, Q)
        prepared: Tensor,  # (B, S, A)
        values: Tensor,  # (B, S, V)
        *,
        mask: Tensor | None = None,  # as in weights
        steps: Tensor | None = None,
    ) -> AttentionOutput:
        weights = self.weights(query, prepared, mask=mask, steps=steps)
        return AttentionOutput(weights @ values, weights)


class Attention(AttentionMechanism):
    """Σ_s α_s v_s with α = softmax_s(score(q, k_s)). The weights of a row add up to one."""

    def weights(
        self,
        query: Tensor,
        prepared: Tensor,
        *,
        mask: Tensor | None = None,
        steps: Tensor | None = None,  # noqa: ARG002  for those that look somewhere else at each step
    ) -> Tensor:
        return masked_softmax(self.score(query, prepared), mask)


def masked_softmax(
    scores: Tensor,  # (B, T, S)
    mask: Tensor | None,  # (B, S) or (B, T, S)
) -> Tensor:  # (B, T, S)
    """A softmax over the positions that are not masked; zeros where there is none."""
    if mask is None:
        return scores.softmax(dim=-1)
    unseen = ~(mask.unsqueeze(1) if mask.dim() == 2 else mask)
    # The lowest number and not minus infinity: the softmax of a row that is masked everywhere must not be NaN.
    return scores.masked_fill(unseen, torch.finfo(scores.dtype).min).softmax(dim=-1).masked_fill(unseen, 0)


def causal(
    queries: int,
    keys: int,  # the queries stand at the last of them
    *,
    mask: Tensor | None = None,  # (B, S), the padding, to have both in one
) -> Tensor:  # (1 or B, T, S)
    """The mask by which a query looks at its own position and those before it."""
    device = None if mask is None else mask.device
    ahead = torch.arange(keys, device=device) - (keys - queries)
    seen = (ahead <= torch.arange(queries, device=device).unsqueeze(1)).unsqueeze(0)
    return seen if mask is None else seen & mask.unsqueeze(1)
