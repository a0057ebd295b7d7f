"""Attention in projections against torch's multi-head attention and a loop over heads, and invalid arguments."""

import numpy as np
import pytest
import torch
from tests.contracts.registry import make_mask, noise, randomize
from tests.layers.attention.test_attention import EVERY_SCORE, equation
from torch import nn

from seqloom.layers.attention.attention import Attention
from seqloom.layers.attention.hard import HardAttention
from seqloom.layers.attention.projected import ProjectedAttention
from seqloom.models.encoder_decoder import AttentionConfig

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


@EVERY_SCORE
@pytest.mark.parametrize(("heads", "value_size"), [(3, 7), (2, 1), (1, 2)])
def test_heads_of_unequal_widths_equal_a_loop_over_them(score: str, heads: int, value_size: int) -> None:
    """α_hs = softmax_s(score(W_h q, U_h k_s)), context = [c_1; …; c_H] with c_h = Σ_s α_hs V_h k_s."""
    sizes = {"heads": heads, "key_size": HEAD, "value_size": value_size}
    score_size = {"score_size": 6} if score == "additive" else {}
    attention = AttentionConfig(score=score, **sizes, **score_size).build(QUERY, KEY)  # type: ignore[arg-type]
    assert isinstance(attention, ProjectedAttention)
    randomize(attention)
    query, keys, lengths = noise(2, 3, QUERY), noise(2, 7, KEY, seed=1), [7, 4]
    mask = make_mask(lengths, 7)
    context, weights = attention(query, attention.prepare(keys), attention.prepare_values(keys), mask=mask)
    assert context.shape == (2, 3, heads * value_size)
    by_head = {
        name: getattr(attention, name).weight.detach().numpy().reshape(heads, -1, width)
        for name, width in (("query", QUERY), ("key", KEY), ("value", KEY))
    }
    for row, length in enumerate(lengths):
        source = keys[row, :length].numpy()
        for step in range(3):
            for head in range(heads):
                asked = by_head["query"][head] @ query[row, step].numpy()
                scores = [equation(attention.attention, score, asked, by_head["key"][head] @ each) for each in source]
                alpha = np.exp(scores) / np.exp(scores).sum()
                expected = sum(
                    share * (by_head["value"][head] @ each) for share, each in zip(alpha, source, strict=True)
                )
                actual = context[row, step, head * value_size : (head + 1) * value_size].detach().numpy()
                np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)
                found = weights[row, head, step].detach().numpy()
                np.testing.assert_allclose(found[:length], alpha, rtol=0, atol=1e-12)
                assert not found[length:].any()


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="heads is 2, expected 1: hard attention chooses one position"):
        ProjectedAttention(4, 4, attention=HardAttention(2, 2), heads=2, value_size=3)
    with pytest.raises(ValueError, match="value_size must be at least 1, got 0"):
        ProjectedAttention(4, 4, attention=Attention(2, 2), value_size=0)
