"""Multi-head attention against its equations in NumPy."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.contracts.registry import make_mask, noise, randomize

from seqloom.layers.transformer import heads as module
from seqloom.layers.transformer.heads import MultiHeadAttention

Array = NDArray[np.float64]
B, H, T, S, D = 2, 3, 4, 5, 6
SLOPES = (2.0**-4, 2.0**-8, 2.0**-2)  # those of two heads, and the first of four


def plain(
    query: Array, keys: Array, values: Array, visible: NDArray[np.bool_], heads: MultiHeadAttention, *, alibi: bool
) -> tuple[Array, Array]:
    """Shaw et al. 2018, equations 3 and 4, or Press et al. 2022, pair by pair; plain attention without either."""
    weights, out = np.zeros((B, H, T, S)), np.zeros((B, H, T, D))
    maximum = heads.max_distance
    relative_keys = heads.relative_keys.detach().numpy() if heads.relative_keys is not None else np.zeros((1, D))
    relative_values = heads.relative_values.detach().numpy() if heads.relative_values is not None else np.zeros((1, D))
    for b, h, t in np.ndindex(B, H, T):
        steps = [min(max(s - t, -maximum), maximum) + maximum for s in range(S)]
        scores = [query[b, h, t] @ (keys[b, h, s] + relative_keys[steps[s]]) / np.sqrt(D) for s in range(S)]
        if alibi:
            scores = [score - SLOPES[h] * abs(s - t) for s, score in enumerate(scores)]
        parts = [np.exp(score) if visible[b, t, s] else 0.0 for s, score in enumerate(scores)]
        if sum(parts):
            weights[b, h, t] = np.array(parts) / sum(parts)
        out[b, h, t] = sum(weights[b, h, t, s] * (values[b, h, s] + relative_values[steps[s]]) for s in range(S))
    return weights, out


@pytest.mark.parametrize(("max_distance", "alibi_heads"), [(0, 0), (2, 0), (0, H)])
def test_heads_equal_their_equations(max_distance: int, alibi_heads: int) -> None:
    heads = MultiHeadAttention(D, max_distance=max_distance, alibi_heads=alibi_heads).double()
    randomize(heads)
    query, keys, values = noise(B, H, T, D), noise(B, H, S, D, seed=1), noise(B, H, S, D, seed=2)
    mask = noise(B, T, S, seed=3) > -0.5
    mask[1, 2] = False  # fully masked
    distances = (torch.arange(S) - torch.arange(T).unsqueeze(1)).unsqueeze(0)
    weights, out = plain(query.numpy(), keys.numpy(), values.numpy(), mask.numpy(), heads, alibi=alibi_heads > 0)
    actual = heads(query, keys, values, mask.unsqueeze(1), distances=distances).detach().numpy()
    np.testing.assert_allclose(actual, out, rtol=0, atol=1e-13)
    actual_weights = heads.weights(query, keys, mask.unsqueeze(1), distances=distances).detach().numpy()
    np.testing.assert_allclose(actual_weights, weights, rtol=0, atol=1e-13)


@pytest.mark.parametrize("max_distance", [0, 2])
def test_a_fully_masked_query_has_finite_gradients(max_distance: int) -> None:
    heads = MultiHeadAttention(D, max_distance=max_distance)
    tensors = [noise(B, H, length, D, seed=length).float().requires_grad_() for length in (S, S, S)]
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[0] = False
    distances = torch.zeros(1, S, S, dtype=torch.int64)
    out = heads(*tensors, mask, distances=distances)
    assert torch.equal(out[0], torch.zeros_like(out[0]))
    for gradient in torch.autograd.grad(out.square().sum(), tensors):
        assert bool(gradient.isfinite().all())
        assert torch.equal(gradient[0], torch.zeros_like(gradient[0]))


def test_relative_positions_need_distances() -> None:
    heads, x = MultiHeadAttention(D, max_distance=1), torch.zeros(1, 1, 2, D)
    with pytest.raises(TypeError, match="distances is None"):
        heads(x, x, x)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("options", [{}, {"max_distance": 2}, {"alibi_heads": H}])
@pytest.mark.parametrize(
    ("queries", "slots", "window"), [(7, 7, 3), (5, 9, 2), (3, 9, 4), (1, 3, 3), (8, 8, 1), (6, 6, 20)]
)
def test_chunks_in_a_window_equal_a_mask(
    queries: int, slots: int, window: int, options: dict[str, int], *, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = MultiHeadAttention(D, **options).double()
    randomize(heads)
    query, keys, values = noise(B, H, queries, D), noise(B, H, slots, D, seed=1), noise(B, H, slots, D, seed=2)
    distances = torch.arange(slots) - torch.arange(slots - queries, slots).unsqueeze(1)
    visible = (distances.abs() < window) & ((distances <= 0) | (not causal))
    padding = make_mask([slots, slots - 1], slots)[:, None, None]
    weights = heads.weights(query, keys, visible & padding, distances=distances.unsqueeze(0))
    expected = heads(query, keys, values, visible & padding, distances=distances.unsqueeze(0))
    for smallest in (1, 4, 64):
        monkeypatch.setattr(module, "MIN_CHUNK", smallest)
        actual = heads(query, keys, values, padding, causal=causal, window=window)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-13)
    actual = heads.weights(query, keys, padding, causal=causal, window=window)
    torch.testing.assert_close(actual, weights, rtol=0, atol=0)
