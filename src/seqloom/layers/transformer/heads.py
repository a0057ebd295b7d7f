"""Scaled dot-product attention in several heads at once (Vaswani et al. 2017), relative positions included."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention


class MultiHeadAttention(nn.Module):
    """softmax(q kᵀ / √D) v for each head. Rows that see nothing give zeros.

    With ``distance``, keys and values know how far they are from the query, up to that far (Shaw, Uszkoreit &
    Vaswani 2018): e_ij = q_i (k_j + a_{j-i}) / √D, and y_i = Σ_j α_ij (v_j + b_{j-i}).
    """

    def __init__(self, size: int, *, distance: int = 0) -> None:
        super().__init__()
        self.distance = distance
        shape = (2 * distance + 1, size)
        self.near_keys = nn.Parameter(torch.randn(shape) / math.sqrt(size)) if distance else None
        self.near_values = nn.Parameter(torch.randn(shape) / math.sqrt(size)) if distance else None

    def forward(
        self,
        query: Tensor,  # (B, H, T, D)
        keys: Tensor,  # (B, H, S, D)
        values: Tensor,  # (B, H, S, D)
        mask: Tensor | None = None,  # (B or 1, 1, T or 1, S), True where a query may look
        *,
        causal: bool = False,  # query t sees keys up to t; together with no mask
        apart: Tensor | None = None,  # (B or 1, T, S), position of a key less that of a query: of relative positions
    ) -> Tensor:  # (B, H, T, D)
        if self.near_values is None:
            return scaled_dot_product_attention(query, keys, values, attn_mask=mask, is_causal=causal)
        weights = self.weights(query, keys, mask, causal=causal, apart=apart)
        return weights @ values + _per_distance(weights, self._steps(apart), len(self.near_values)) @ self.near_values

    def weights(
        self,
        query: Tensor,
        keys: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        apart: Tensor | None = None,
    ) -> Tensor:  # (B, H, T, S)
        """How much each query looks at each key: rows add up to one, or are zero where nothing may be seen."""
        scores = query @ keys.transpose(-1, -2)
        if self.near_keys is not None:
            steps = self._steps(apart).unsqueeze(1).expand(*scores.shape)
            scores = scores + (query @ self.near_keys.T).gather(-1, steps)
        scores = scores / math.sqrt(query.shape[-1])
        if causal:
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if mask is None:
            return scores.softmax(dim=-1)
        # The lowest number and not minus infinity: the softmax of a row that sees nothing must not be NaN.
        weights: Tensor = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
        return weights.masked_fill(~mask, 0)

    def _steps(self, apart: Tensor | None) -> Tensor:
        """Which row of the tables belongs to each pair."""
        if apart is None:
            raise TypeError("apart is None, and relative positions need to know how far keys are from queries")
        return apart.clamp(-self.distance, self.distance) + self.distance

    def extra_repr(self) -> str:
        return f"distance={self.distance}" if self.distance else ""


def _per_distance(weights: Tensor, steps: Tensor, count: int) -> Tensor:  # (B, H, T, S) → (B, H, T, count)
    """The weights of all keys at the same distance, added up."""
    summed = weights.new_zeros(*weights.shape[:-1], count)
    return summed.scatter_add(-1, steps.unsqueeze(1).expand(*weights.shape), weights)
