"""Local attention: a window that moves along the source (Luong et al. 2015)."""

import torch
from torch import Tensor, nn

from seqloom.layers.attention.attention import ScoredAttention, masked_softmax


class LocalAttention(ScoredAttention):
    """A softmax over the positions from p - window to p + window.

    ::

        monotonic:  p = t, the time step, at most the last position of the source
        predictive: p = S σ(v · tanh(W q)) in a source of S positions, and each weight times exp(-(s - p)² / 2σ²),
                    σ = window / 2: the weights sum to at most one
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        window: int,
        predictive: bool = False,
        score: str = "additive",
        size: int | None = None,
    ) -> None:
        if window < 1:
            raise ValueError(f"window must be at least 1, got {window}")
        super().__init__(query_size, key_size, score=score, size=size)
        self.window = window
        self.predict = (
            nn.Sequential(
                nn.Linear(query_size, query_size, bias=False), nn.Tanh(), nn.Linear(query_size, 1, bias=False)
            )
            if predictive
            else None
        )

    def weights(
        self, query: Tensor, prepared: Tensor, *, mask: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:
        batch, time, length = *query.shape[:2], prepared.shape[1]
        visible = query.new_ones(1, 1, length, dtype=torch.bool) if mask is None else mask
        if visible.dim() == 2:
            visible = visible.unsqueeze(1)
        lengths = visible.sum(dim=-1, keepdim=True)  # (B or 1, T or 1, 1)
        if self.predict is not None:
            centre = lengths * self.predict(query).sigmoid()
        else:
            if steps is None:
                steps = torch.arange(time, device=query.device).expand(batch, -1)
            centre = torch.minimum(steps.unsqueeze(-1), lengths - 1)
        distance = torch.arange(length, device=query.device) - centre  # (B, T, S)
        weights = masked_softmax(self.score(query, prepared), visible & (distance.detach().abs() <= self.window))
        if self.predict is None:
            return weights
        return weights * torch.exp(-2 * (distance / self.window).square())

    def extra_repr(self) -> str:
        return f"window={self.window}, predictive={self.predict is not None}"
