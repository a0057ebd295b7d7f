"""Multi-head scaled dot-product attention (Vaswani et al. 2017) with optional relative positions or ALiBi."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from seqloom.layers.transformer.positions import alibi_slopes

MIN_CHUNK = 64
"""The least number of queries that are computed at once in a window."""


class MultiHeadAttention(nn.Module):
    """softmax(q kᵀ / √D) v for each head. Fully masked rows are zero.

    With ``max_distance``, learned vectors for the distance between key and query, clipped to this maximum, are added to
    keys and values (Shaw, Uszkoreit & Vaswani 2018): e_ij = q_i (k_j + a_{j-i}) / √D, y_i = Σ_j α_ij (v_j + b_{j-i}).
    With ``alibi_heads``, the number of heads, head h scores distant keys lower (ALiBi, Press et al. 2022):
    e_ij = q_i k_j / √D - m_h |j - i|.
    """

    slopes: Tensor  # (H,), of ALiBi; (0,): none

    def __init__(self, size: int, *, max_distance: int = 0, alibi_heads: int = 0) -> None:
        super().__init__()
        self.max_distance = max_distance
        shape = (2 * max_distance + 1, size)
        self.relative_keys = nn.Parameter(torch.randn(shape) / math.sqrt(size)) if max_distance else None
        self.relative_values = nn.Parameter(torch.randn(shape) / math.sqrt(size)) if max_distance else None
        slopes = alibi_slopes(alibi_heads) if alibi_heads else torch.empty(0)
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(
        self,
        query: Tensor,  # (B, H, T, D)
        keys: Tensor,  # (B, H, S, D)
        values: Tensor,  # (B, H, S, D)
        mask: Tensor | None = None,  # (B or 1, 1, T or 1, S), True where a query may attend
        *,
        causal: bool = False,  # query t attends to keys up to t; only without mask
        distances: Tensor | None = None,  # (B or 1, T, S), key position minus query position; for relative positions
        window: int = 0,  # attend to keys less than this far away; the last query is at the last key; 0: no window
    ) -> Tensor:  # (B, H, T, D)
        if window:
            return self._attend_in_window(query, keys, values, mask, causal=causal, window=window)
        if len(self.slopes):
            bias = self._bias(distances)
            mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
        if self.relative_values is None:
            return scaled_dot_product_attention(query, keys, values, attn_mask=mask, is_causal=causal)
        weights = self.weights(query, keys, mask, causal=causal, distances=distances)
        return (
            weights @ values
            + _per_distance(weights, self._table_rows(distances), len(self.relative_values)) @ self.relative_values
        )

    def weights(
        self,
        query: Tensor,
        keys: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        distances: Tensor | None = None,
        window: int = 0,
    ) -> Tensor:  # (B, H, T, S)
        """Return the attention weights: rows sum to one, or are zero if fully masked."""
        if window:
            slots = torch.arange(keys.shape[2], device=keys.device)
            distances = (slots - slots[keys.shape[2] - query.shape[2] :].unsqueeze(1)).unsqueeze(0)
            visible = _in_window(distances, window, causal=causal).unsqueeze(1)
            mask, causal = visible if mask is None else visible & mask, False
        scores = query @ keys.transpose(-1, -2)
        if self.relative_keys is not None:
            rows = self._table_rows(distances).unsqueeze(1).expand(*scores.shape)
            scores = scores + (query @ self.relative_keys.T).gather(-1, rows)
        scores = scores / math.sqrt(query.shape[-1])
        if len(self.slopes):
            scores = scores + self._bias(distances)
        if causal:
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if mask is None:
            return scores.softmax(dim=-1)
        # The lowest float instead of minus infinity: the softmax of a fully masked row must not be NaN.
        weights: Tensor = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
        return weights.masked_fill(~mask, 0)

    def _attend_in_window(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,  # (B, 1, 1, S)
        *,
        causal: bool,
        window: int,
    ) -> Tensor:
        """Attend in chunks of queries, each to the keys near it, so that the cost is linear in the length."""
        batch, length, slots = len(query), query.shape[2], keys.shape[2]
        if not length:
            return torch.zeros_like(query)
        chunk = min(length, max(window, MIN_CHUNK))
        count = -(-length // chunk)
        first = slots - length  # the slot of the first query
        before, after = window - 1, 0 if causal else window - 1
        if count == 1:
            before, after = min(before, first), 0
        seen = before + chunk + after  # keys of a chunk
        ends = before - first, count * chunk + after - length  # slots to add before and after the keys, or to drop
        real = keys.new_ones(1, slots, dtype=torch.bool) if mask is None else mask[:, 0, 0]
        real = pad(real, ends).unfold(1, seen, chunk).unsqueeze(2)  # (B or 1, N, 1, K)
        columns = torch.arange(seen, device=keys.device)
        distances = (columns - before - columns[:chunk].unsqueeze(1)).unsqueeze(0)  # (1, C, K)
        visible = real & _in_window(distances, window, causal=causal)
        queries = pad(query, (0, 0, 0, count * chunk - length)).unflatten(2, (count, chunk)).transpose(1, 2)
        near_keys, near_values = (
            pad(x, (0, 0, *ends)).unfold(2, seen, chunk).permute(0, 2, 1, 4, 3).flatten(0, 1) for x in (keys, values)
        )
        visible = visible.expand(batch, -1, -1, -1).flatten(0, 1).unsqueeze(1)
        context = self.forward(queries.flatten(0, 1), near_keys, near_values, visible, distances=distances)
        by_chunk: Tensor = context.unflatten(0, (batch, count)).transpose(1, 2)  # (B, H, N, C, D)
        return by_chunk.flatten(2, 3)[:, :, :length]

    def _bias(self, distances: Tensor | None) -> Tensor:  # (B or 1, H, T, S)
        """Return what ALiBi adds to the scores."""
        return -self.slopes[:, None, None] * _require(distances).abs().unsqueeze(1)

    def _table_rows(self, distances: Tensor | None) -> Tensor:
        """Return the row of the relative vectors for each pair of query and key."""
        return _require(distances).clamp(-self.max_distance, self.max_distance) + self.max_distance

    def extra_repr(self) -> str:
        return f"max_distance={self.max_distance}" if self.max_distance else ""


def _in_window(distances: Tensor, window: int, *, causal: bool) -> Tensor:
    """Whether a key at each distance from the query is visible."""
    near = distances.abs() < window
    return near & (distances <= 0) if causal else near


def _require(distances: Tensor | None) -> Tensor:
    if distances is None:
        raise TypeError("distances is None, but relative positions need the distances between keys and queries")
    return distances


def _per_distance(weights: Tensor, rows: Tensor, count: int) -> Tensor:  # (B, H, T, S) → (B, H, T, count)
    """Sum the weights of all keys at the same distance."""
    summed = weights.new_zeros(*weights.shape[:-1], count)
    return summed.scatter_add(-1, rows.unsqueeze(1).expand(*weights.shape), weights)
