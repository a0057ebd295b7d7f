"""Attention of linear cost: a feature map in place of the softmax (Katharopoulos et al. 2020)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, pad

from seqloom.layers.transformer.positions import rotate

CHUNK = 64
"""Elements of a causal sequence that are computed at once; their pairs cost CHUNK² products."""


class LinearState(NamedTuple):
    """What causal linear attention keeps of all earlier elements: its size does not depend on their number."""

    sums: Tensor  # (B, H, D, D), Σ φ(k) vᵀ
    totals: Tensor  # (B, H, D), Σ φ(k)
    position: Tensor  # (B,), position of the next element


class LinearAttention(nn.Module):
    """y_i = φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ / φ(q_i)ᵀ Σ_j φ(k_j) for each head, with φ(x) = elu(x) + 1.

    The sums run over all elements, or, if causal, over those up to i: then they are the state of a recurrence. Rotary
    positions rotate φ(q) and φ(k) in the numerator only, so that the denominator stays positive (Su et al. 2021).
    """

    def start(self, like: Tensor) -> LinearState:  # (B, H, T, D)
        """Return the state before the first element."""
        batch, heads, _, size = like.shape
        position = torch.zeros(batch, dtype=torch.int64, device=like.device)
        return LinearState(like.new_zeros(batch, heads, size, size), like.new_zeros(batch, heads, size), position)

    def forward(
        self,
        query: Tensor,  # (B, H, T, D)
        keys: Tensor,  # (B, H, T, D)
        values: Tensor,  # (B, H, T, D)
        mask: Tensor | None = None,  # (B, T), True where real
        *,
        state: LinearState | None = None,  # before the first element, if causal; None: all elements see each other
        steps: Tensor | None = None,  # (B or 1, T), positions of the elements, if they are rotary
    ) -> tuple[Tensor, LinearState | None]:  # (B, H, T, D), the state after the last real element
        query, keys, turned_query, turned_keys = _features(query, keys, mask, steps)
        if state is None:
            sums, totals = turned_keys.transpose(2, 3) @ values, keys.sum(dim=2)
            return turned_query @ sums / _nonzero(query @ totals.unsqueeze(-1)), None
        length = query.shape[2]
        chunk = min(CHUNK, max(1, length))
        shape = -(-length // chunk), chunk
        spare = shape[0] * chunk - length
        parts = [pad(x, (0, 0, 0, spare)).unflatten(2, shape) for x in (turned_query, turned_keys, values)]
        chunked_query, chunked_keys, chunked_values = parts  # (B, H, N, C, D)
        added = chunked_keys.transpose(3, 4) @ chunked_values  # (B, H, N, D, D)
        sums = torch.cat([state.sums.unsqueeze(2), added], dim=2).cumsum(dim=2)
        within = (chunked_query @ chunked_keys.transpose(3, 4)).tril() @ chunked_values
        numerator = (chunked_query @ sums[:, :, :-1] + within).flatten(2, 3)[:, :, :length]
        totals = torch.cat([state.totals.unsqueeze(2), keys], dim=2).cumsum(dim=2)  # (B, H, 1 + T, D)
        denominator = (query * totals[:, :, 1:]).sum(dim=-1, keepdim=True)
        position = state.position + (length if mask is None else mask.sum(dim=1))
        return numerator / _nonzero(denominator), LinearState(sums[:, :, -1], totals[:, :, -1], position)

    def weights(
        self,
        query: Tensor,
        keys: Tensor,
        mask: Tensor | None = None,
        *,
        state: LinearState | None = None,
        steps: Tensor | None = None,
    ) -> Tensor:  # (B, H, T, T)
        """Return the weights of the elements of this call; those of earlier ones are only known as a sum."""
        query, keys, turned_query, turned_keys = _features(query, keys, mask, steps)
        products, scores = query @ keys.transpose(2, 3), turned_query @ turned_keys.transpose(2, 3)
        if state is None:
            return scores / _nonzero(products.sum(dim=-1, keepdim=True))
        earlier = query @ state.totals.unsqueeze(-1)
        return scores.tril() / _nonzero(earlier + products.tril().sum(dim=-1, keepdim=True))


def _features(
    query: Tensor, keys: Tensor, mask: Tensor | None, steps: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return φ(q) and φ(k), zero in the padding, and both of them rotated."""
    query, keys = elu(query) + 1, elu(keys) + 1
    if mask is not None:
        keys = keys.masked_fill(~mask[:, None, :, None], 0)
    if steps is None:
        return query, keys, query, keys
    turned_query, turned_keys = (rotate(x.transpose(1, 2).contiguous(), steps).transpose(1, 2) for x in (query, keys))
    return query, keys, turned_query, turned_keys


def _nonzero(sums: Tensor) -> Tensor:
    """Replace zeros, which occur where there is no element, by ones."""
    return sums.masked_fill(sums == 0, 1)
