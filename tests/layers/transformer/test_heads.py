"""Attention in heads against its equations in NumPy."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.contracts.registry import noise, randomize

from seqloom.layers.transformer.heads import MultiHeadAttention

Array = NDArray[np.float64]
B, H, T, S, D = 2, 3, 4, 5, 6


def plain(
    query: Array, keys: Array, values: Array, visible: NDArray[np.bool_], heads: MultiHeadAttention
) -> tuple[Array, Array]:
    """Shaw et al. 2018, equations 3 and 4, one pair after the other; plain attention without tables."""
    weights, out = np.zeros((B, H, T, S)), np.zeros((B, H, T, D))
    far = heads.distance
    near_keys = heads.near_keys.detach().numpy() if heads.near_keys is not None else np.zeros((1, D))
    near_values = heads.near_values.detach().numpy() if heads.near_values is not None else np.zeros((1, D))
    for b, h, t in np.ndindex(B, H, T):
        steps = [min(max(s - t, -far), far) + far for s in range(S)]
        scores = [query[b, h, t] @ (keys[b, h, s] + near_keys[steps[s]]) / np.sqrt(D) for s in range(S)]
        parts = [np.exp(score) if visible[b, t, s] else 0.0 for s, score in enumerate(scores)]
        if sum(parts):
            weights[b, h, t] = np.array(parts) / sum(parts)
        out[b, h, t] = sum(weights[b, h, t, s] * (values[b, h, s] + near_values[steps[s]]) for s in range(S))
    return weights, out


@pytest.mark.parametrize("distance", [0, 2])
def test_heads_are_their_equations(distance: int) -> None:
    heads = MultiHeadAttention(D, distance=distance).double()
    randomize(heads)
    query, keys, values = noise(B, H, T, D), noise(B, H, S, D, seed=1), noise(B, H, S, D, seed=2)
    mask = noise(B, T, S, seed=3) > -0.5
    mask[1, 2] = False  # sees nothing
    apart = (torch.arange(S) - torch.arange(T).unsqueeze(1)).unsqueeze(0)
    weights, out = plain(query.numpy(), keys.numpy(), values.numpy(), mask.numpy(), heads)
    actual = heads(query, keys, values, mask.unsqueeze(1), apart=apart).detach().numpy()
    np.testing.assert_allclose(actual, out, rtol=0, atol=1e-13)
    seen = heads.weights(query, keys, mask.unsqueeze(1), apart=apart).detach().numpy()
    np.testing.assert_allclose(seen, weights, rtol=0, atol=1e-13)


@pytest.mark.parametrize("distance", [0, 2])
def test_a_query_that_sees_nothing_has_finite_gradients(distance: int) -> None:
    heads = MultiHeadAttention(D, distance=distance)
    tensors = [noise(B, H, length, D, seed=length).float().requires_grad_() for length in (S, S, S)]
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[0] = False
    apart = torch.zeros(1, S, S, dtype=torch.int64)
    out = heads(*tensors, mask, apart=apart)
    assert torch.equal(out[0], torch.zeros_like(out[0]))
    for gradient in torch.autograd.grad(out.square().sum(), tensors):
        assert bool(gradient.isfinite().all())
        assert torch.equal(gradient[0], torch.zeros_like(gradient[0]))


def test_relative_positions_need_positions() -> None:
    heads, x = MultiHeadAttention(D, distance=1), torch.zeros(1, 1, 2, D)
    with pytest.raises(TypeError, match="apart is None"):
        heads(x, x, x)
