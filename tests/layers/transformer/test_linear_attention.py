"""Linear attention against its equations in NumPy, pair by pair."""

import numpy as np
import pytest
import torch
from tests.contracts.registry import make_mask, noise

from seqloom.layers.transformer import linear_attention
from seqloom.layers.transformer.linear_attention import LinearAttention
from seqloom.layers.transformer.positions import rotate

B, H, T, D = 2, 3, 9, 4
LENGTHS = [9, 5]


@pytest.mark.parametrize("rotary", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_linear_attention_equals_its_equations(*, causal: bool, rotary: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    attention = LinearAttention()
    query, keys, values = (noise(B, H, T, D, seed=seed) for seed in range(3))
    steps = torch.arange(T).unsqueeze(0) if rotary else None
    mask = make_mask(LENGTHS, T)
    features = [np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (query.numpy(), keys.numpy())]
    turned = features
    if steps is not None:
        turned = [
            rotate(torch.from_numpy(x).transpose(1, 2).contiguous(), steps).transpose(1, 2).numpy() for x in features
        ]
    expected, weights = np.zeros((B, H, T, D)), np.zeros((B, H, T, T))
    for b, h, i in np.ndindex(B, H, T):
        seen = [j for j in range(LENGTHS[b]) if not causal or j <= i]
        total = sum(features[0][b, h, i] @ features[1][b, h, j] for j in seen)
        for j in seen:
            weights[b, h, i, j] = turned[0][b, h, i] @ turned[1][b, h, j] / total
            expected[b, h, i] += weights[b, h, i, j] * values[b, h, j].numpy()
    for chunk in (1, 4, 64):
        monkeypatch.setattr(linear_attention, "CHUNK", chunk)
        state = attention.start(query) if causal else None
        actual, _ = attention(query, keys, values, mask, state=state, steps=steps)
        np.testing.assert_allclose(actual.numpy(), expected, rtol=0, atol=1e-13)
        actual = attention.weights(query, keys, mask, state=state, steps=steps)
        np.testing.assert_allclose(actual.numpy(), weights, rtol=0, atol=1e-13)


def test_the_state_does_not_grow() -> None:
    attention = LinearAttention()
    x = noise(B, H, 200, D)
    _, state = attention(x, x, x, state=attention.start(x))
    assert [tuple(part.shape) for part in state] == [(B, H, D, D), (B, H, D), (B,)]
    assert state.position.tolist() == [200, 200]
