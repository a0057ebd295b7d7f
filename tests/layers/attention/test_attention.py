"""Attention equals its equations in NumPy, and sees nothing through a mask."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tests.contracts.registry import make_mask, noise, randomize

from seqloom.layers.attention.attention import Attention, ScoredAttention, causal_mask, masked_softmax
from seqloom.layers.attention.scores import SCORES

Array = npt.NDArray[np.float64]
B, T, S, Q, V = 3, 4, 5, 6, 2

EVERY_SCORE = pytest.mark.parametrize("score", SCORES)


def build(score: str) -> Attention:
    attention = Attention(Q, Q if score in ("dot", "scaled", "cosine") else 4, score=score)
    randomize(attention)
    return attention


def inputs(attention: Attention) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return noise(B, T, Q, seed=1), noise(B, S, attention.key_size, seed=2), noise(B, S, V, seed=3)


def equation(attention: ScoredAttention, score: str, query: Array, key: Array) -> float:
    """The score of one pair."""
    weights = {name: value.numpy() for name, value in attention.score.state_dict().items()}
    if score == "dot":
        return float(query @ key)
    if score == "scaled":
        return float(query @ key / np.sqrt(len(key)))
    if score == "multiplicative":
        return float(query @ weights["key.weight"] @ key)
    if score == "cosine":
        return float(weights["factor"] * query @ key / np.sqrt(query @ query + 1e-8) / np.sqrt(key @ key + 1e-8))
    if score == "single_layer":
        matrix = np.concatenate([weights["query.weight"][0], weights["key.weight"][0]])
        return float(np.tanh(matrix @ np.concatenate([query, key]) + weights["key.bias"][0]))
    mixed = np.tanh(weights["query.weight"] @ query + weights["key.weight"] @ key + weights["key.bias"])
    return float(weights["combine.weight"][0] @ mixed)


@EVERY_SCORE
@pytest.mark.parametrize("kind", ["none", "padding", "causal", "both", "any"])
def test_attention_equals_its_equations(score: str, kind: str) -> None:
    attention = build(score)
    query, keys, values = inputs(attention)
    padding = make_mask([5, 2, 0], S)
    any_mask = noise(B, T, S, seed=4) > 0
    any_mask[1, 2] = False
    mask = {
        "none": None,
        "padding": padding,
        "causal": causal_mask(T, S),
        "both": causal_mask(T, S, mask=padding),
        "any": any_mask,
    }[kind]
    context, weights = attention(query, attention.prepare(keys), values, mask=mask)
    visible = np.ones((B, T, S), dtype=bool) if mask is None else np.zeros((B, T, S), dtype=bool)
    if mask is not None:
        visible |= mask.numpy() if mask.dim() == 3 else mask.numpy()[:, None]
    for b in range(B):
        for t in range(T):
            positions = [s for s in range(S) if visible[b, t, s]]
            scores = [equation(attention, score, query[b, t].numpy(), keys[b, s].numpy()) for s in positions]
            expected, total = np.zeros(S), np.zeros(V)
            for s, value in zip(positions, scores, strict=True):
                expected[s] = np.exp(value) / np.exp(scores).sum()
                total += expected[s] * values[b, s].numpy()
            np.testing.assert_allclose(weights[b, t].detach().numpy(), expected, rtol=0, atol=1e-12)
            np.testing.assert_allclose(context[b, t].detach().numpy(), total, rtol=0, atol=1e-12)


def test_the_causal_mask_by_hand() -> None:
    assert causal_mask(3, 3).int().tolist() == [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]
    assert causal_mask(2, 4).int().tolist() == [[[1, 1, 1, 0], [1, 1, 1, 1]]]
    both = causal_mask(2, 2, mask=make_mask([1, 2], 2))
    assert both.int().tolist() == [[[1, 0], [1, 0]], [[1, 0], [1, 1]]]


@EVERY_SCORE
def test_gradients(score: str) -> None:
    attention = build(score)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    query, keys, values = noise(2, 2, Q), noise(2, 3, attention.key_size, seed=1), noise(2, 3, V, seed=2)
    tensors = [tensor.requires_grad_() for tensor in (query, keys, values)]

    def call(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        context: torch.Tensor = attention(query, attention.prepare(keys), values, mask=mask).context
        return context

    assert torch.autograd.gradcheck(call, (*tensors, *attention.parameters()))
    slopes = torch.autograd.grad(call(*tensors).sum(), tensors)
    for slope in slopes:
        assert torch.equal(slope[1], torch.zeros_like(slope[1]))  # fully masked: zero, not NaN


def test_masked_positions_have_no_effect() -> None:
    attention = build("additive")
    query, keys, values = inputs(attention)
    mask = make_mask([3, 1, 4], S)
    expected = attention(query, attention.prepare(keys), values, mask=mask)
    masked = ~mask.unsqueeze(-1)
    keys, values = keys.masked_fill(masked, 1e6), values.masked_fill(masked, -1e6)
    actual = attention(query, attention.prepare(keys), values, mask=mask)
    assert torch.equal(actual.context, expected.context)
    assert torch.equal(actual.weights, expected.weights)


def test_large_scores_and_no_positions() -> None:
    scores = torch.tensor([[[1e38, -1e38, 3e38]]])
    assert masked_softmax(scores, torch.tensor([[True, True, False]])).tolist() == [[[1, 0, 0]]]
    attention = build("additive")
    context, weights = attention(noise(2, 3, Q), attention.prepare(noise(2, 0, 4)), noise(2, 0, V))
    assert torch.equal(context, torch.zeros(2, 3, V, dtype=torch.float64))
    assert weights.shape == (2, 3, 0)


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="score is 'sine', expected one of dot, scaled, cosine, multiplicative, "):
        Attention(4, 4, score="sine")
    with pytest.raises(ValueError, match="query_size is 4 and key_size 5: a dot product needs equal sizes"):
        Attention(4, 5, score="scaled")
    with pytest.raises(ValueError, match="size is 7, but only the additive score has a size, not 'dot'"):
        Attention(4, 4, score="dot", size=7)
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        Attention(4, 4, size=0)
    with pytest.raises(ValueError, match="key_size must be at least 1, got 0"):
        Attention(4, 0)
    assert Attention(4, 5, size=7).prepare(torch.zeros(1, 2, 5)).shape == (1, 2, 7)
