from typing import Any

import pytest
import torch
from tests.contracts.registry import make_mask, noise
from torch import Tensor, nn

from seqloom.layers.custom import CustomLayer


class RunningSum(nn.Module):
    """A user's layer with a state: the running sum, twice as wide."""

    def forward(self, x: Tensor, mask: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
        start = 0 if state is None else state
        assert mask is None or mask.shape == x.shape[:2]
        total = x.cumsum(dim=1) + start
        return torch.cat([total, -total], dim=2), total[:, -1:]


class Broken(nn.Module):
    def forward(self, x: Tensor, mask: Tensor, state: Any) -> tuple[Tensor, Any]:
        raise TypeError(f"an internal error: {x.shape}, {mask.shape}, {state}")


class WithoutState(nn.Module):
    def forward(self, x: Tensor, mask: Tensor, state: Any) -> Tensor:
        return x * mask.unsqueeze(-1) + (state or 0)


def test_a_stateless_module() -> None:
    linear = nn.Linear(3, 5)
    layer = CustomLayer(linear, 3)
    x, mask = noise(2, 4, 3, dtype=torch.float32), make_mask([4, 1], 4)
    outputs, state = layer(x, mask)
    expected = (x @ linear.weight.T + linear.bias).masked_fill(~mask.unsqueeze(-1), 0)
    torch.testing.assert_close(outputs, expected)
    assert (layer.output_size, state) == (5, ())
    torch.testing.assert_close(layer(x, None, state)[0], linear(x))


def test_a_module_with_state_in_chunks() -> None:
    layer = CustomLayer(RunningSum(), 3)
    x = noise(2, 5, 3, dtype=torch.float32)
    whole, last = layer(x)
    first, state = layer(x[:, :2])
    second, state = layer(x[:, 2:], None, state)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)
    torch.testing.assert_close(state, last)
    torch.testing.assert_close(last, x.sum(dim=1, keepdim=True))
    assert layer.output_size == 6


def test_padding_is_zero_for_the_module() -> None:
    layer = CustomLayer(RunningSum(), 3)
    x, mask = noise(2, 4, 3, dtype=torch.float32), make_mask([4, 2], 4)
    x[1, 2:] = float("nan")
    outputs, state = layer(x, mask)
    torch.testing.assert_close(state[1, 0], x[1, :2].sum(dim=0))
    assert torch.equal(outputs[1, 2:], torch.zeros(2, 6))


def test_the_trial_call_leaves_the_module_unchanged() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2))).train()
    module[1].eval()
    random = torch.random.get_rng_state()
    CustomLayer(module, 3)
    assert [part.training for part in module.modules()] == [True, True, False, False, False]
    assert torch.equal(torch.random.get_rng_state(), random)


def test_the_trial_call_uses_the_module_s_dtype() -> None:
    layer = CustomLayer(nn.Linear(3, 5).double(), 3)
    assert layer(noise(1, 2, 3))[0].dtype == torch.float64


@pytest.mark.parametrize(
    ("module", "error", "message"),
    [
        (nn.LSTM(3, 5), ValueError, r"LSTM maps x \(2, 3, 3\) to tuple, expected a tensor"),
        (nn.Flatten(), ValueError, r"Flatten maps x \(2, 3, 3\) to \(2, 9\)"),
        (WithoutState(), TypeError, r"WithoutState returns Tensor, expected a pair \(output, state\)"),
        (Broken(), TypeError, "an internal error"),
    ],
)
def test_unsuitable_modules_are_refused(module: nn.Module, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        CustomLayer(module, 3)
