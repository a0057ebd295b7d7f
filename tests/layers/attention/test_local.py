"""Local attention against its equations in NumPy."""

import numpy as np
import pytest
import torch
from tests.contracts.registry import make_mask, noise, randomize

from seqloom.layers.attention.local import LocalAttention


@pytest.mark.parametrize("predictive", [False, True])
def test_local_attention_equals_its_equations(predictive: bool) -> None:
    local = LocalAttention(4, 3, window=2, predictive=predictive, score="multiplicative")
    randomize(local)
    query, keys, mask = noise(3, 8, 4), noise(3, 9, 3, seed=1), make_mask([9, 3, 0], 9)
    steps = torch.tensor([[0], [2], [5]]) + torch.arange(8)
    actual = local.weights(query, local.prepare(keys), mask=mask, steps=steps).detach().numpy()
    matrix = local.score.state_dict()["key.weight"].numpy()
    for b, length in enumerate([9, 3, 0]):
        for t in range(8):
            q = query[b, t].numpy()
            centre = float(min(int(steps[b, t]), length - 1))
            if local.predict is not None:
                first, second = (value.numpy() for value in local.predict.state_dict().values())
                centre = length / (1 + np.exp(-second[0] @ np.tanh(first @ q)))
            window = [s for s in range(length) if abs(s - centre) <= 2]
            scores = [float(q @ matrix @ keys[b, s].numpy()) for s in window]
            expected = np.zeros(9)
            for s, score in zip(window, scores, strict=True):
                expected[s] = np.exp(score) / np.exp(scores).sum()
                if predictive:
                    expected[s] *= np.exp(-((s - centre) ** 2) / (2 * (2 / 2) ** 2))
            np.testing.assert_allclose(actual[b, t], expected, rtol=0, atol=1e-12)


def test_without_steps_and_mask_it_starts_at_the_first_position() -> None:
    local = LocalAttention(4, 4, window=1, score="dot")
    weights = local.weights(torch.zeros(1, 4, 4), torch.zeros(1, 3, 4))
    half, third = 1 / 2, 1 / 3
    expected = torch.tensor([[[half, half, 0], [third, third, third], [0, half, half], [0, half, half]]])
    torch.testing.assert_close(weights, expected)


@pytest.mark.parametrize("predictive", [False, True])
def test_gradients(predictive: bool) -> None:
    local = LocalAttention(4, 3, window=1, predictive=predictive)
    randomize(local)
    query, keys, values = noise(2, 2, 4), noise(2, 4, 3, seed=1), noise(2, 4, 2, seed=2)
    tensors = [tensor.requires_grad_() for tensor in (query, keys, values)]

    def call(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        context: torch.Tensor = local(query, local.prepare(keys), values, mask=make_mask([4, 0], 4)).context
        return context

    assert torch.autograd.gradcheck(call, (*tensors, *local.parameters()))


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="window must be at least 1, got 0"):
        LocalAttention(4, 4, window=0)
