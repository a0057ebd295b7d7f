"""Packed weights against torch's linear map."""

import copy
import pickle

import pytest
import torch
from tests.contracts.registry import noise, randomize
from torch.nn.functional import linear

from seqloom.layers.linear import Linear


def make_layer(inputs: int = 7, outputs: int = 40, *, bias: bool = True, dtype: torch.dtype = torch.float64) -> Linear:
    layer = Linear(inputs, outputs, bias=bias)
    randomize(layer, dtype=dtype)
    return layer.eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7,), (1, 7), (5, 7), (2, 3, 7), (3, 0, 7)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 1e-5)])
def test_packed_equals_plain(shape: tuple[int, ...], dtype: torch.dtype, tolerance: float, *, bias: bool) -> None:
    layer, x = make_layer(bias=bias, dtype=dtype), noise(*shape, dtype=dtype)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), linear(x, layer.weight, layer.bias), rtol=0, atol=tolerance)


def test_gradients_are_those_of_torch() -> None:
    layer, x = make_layer(), noise(3, 7).requires_grad_()
    assert torch.autograd.gradcheck(layer, (x,))


@torch.no_grad()
def test_changed_weights_are_noticed() -> None:
    layer, x = make_layer(), noise(3, 7)
    before = layer(x)
    layer.weight.mul_(2)
    torch.testing.assert_close(layer(x), linear(x, layer.weight, layer.bias), rtol=0, atol=1e-14)
    other = make_layer()
    layer.load_state_dict(other.state_dict())
    assert torch.equal(layer(x), before)
    layer.weight.data.zero_()
    layer.eval()
    assert torch.equal(layer(x), layer.bias.expand(3, -1))


@pytest.mark.parametrize("fused", [True, False])
def test_optimizer_updates_are_noticed(*, fused: bool) -> None:
    layer, x = make_layer(), noise(3, 7)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1, fused=fused)
    for _ in range(3):
        with torch.no_grad():
            torch.testing.assert_close(layer(x), linear(x, layer.weight, layer.bias), rtol=0, atol=1e-14)
        layer(x).square().sum().backward()
        optimizer.step()


@torch.no_grad()
def test_a_copy_packs_its_own_weights() -> None:
    layer, x = make_layer(), noise(3, 7)
    expected = layer(x)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):  # noqa: S301
        assert other._packed is None
        assert torch.equal(other(x), expected)
        assert layer._packed is not None


def test_a_mismatched_width_raises_torch_s_error() -> None:
    with torch.no_grad(), pytest.raises(RuntimeError):
        make_layer()(noise(3, 6))


@torch.no_grad()
def test_transposed_input() -> None:
    layer, x = make_layer(), noise(7, 3).t()
    torch.testing.assert_close(layer(x), linear(x, layer.weight, layer.bias), rtol=0, atol=1e-14)
