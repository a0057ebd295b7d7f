"""Attention in projections against torch's multi-head attention, and invalid arguments."""

import pytest
import torch
from tests.contracts.registry import make_mask, noise, randomize
from torch import nn

from seqloom.layers.attention.attention import Attention
from seqloom.layers.attention.hard import HardAttention
from seqloom.layers.attention.projected import ProjectedAttention

HEADS, QUERY, KEY, HEAD = 3, 12, 5, 4


def test_scaled_heads_equal_those_of_torch() -> None:
    attention = ProjectedAttention(
        QUERY, KEY, attention=Attention(HEAD, HEAD, score="scaled"), heads=HEADS, value_size=HEAD
    )
    randomize(attention)
    reference = nn.MultiheadAttention(QUERY, HEADS, bias=False, kdim=KEY, vdim=KEY, batch_first=True).double()
    with torch.no_grad():
        for name, linear in (("q", attention.query), ("k", attention.key), ("v", attention.value)):
            getattr(reference, f"{name}_proj_weight").copy_(linear.weight)
        reference.out_proj.weight.copy_(torch.eye(QUERY))
    query, keys, mask = noise(2, 6, QUERY), noise(2, 7, KEY, seed=1), make_mask([7, 3], 7)
    expected, weights = reference(query, keys, keys, key_padding_mask=~mask, average_attn_weights=False)
    actual = attention(query, attention.prepare(keys), attention.prepare_values(keys), mask=mask)
    torch.testing.assert_close(actual.context, expected, rtol=0, atol=1e-13)
    torch.testing.assert_close(actual.weights, weights, rtol=0, atol=1e-13)


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="heads is 2, expected 1: hard attention chooses one position"):
        ProjectedAttention(4, 4, attention=HardAttention(2, 2), heads=2, value_size=3)
    with pytest.raises(ValueError, match="value_size must be at least 1, got 0"):
        ProjectedAttention(4, 4, attention=Attention(2, 2), value_size=0)
