import pytest
import torch
from torch import nn

from seqloom.cells import Elman
from seqloom.cells.elman import ACTIVATIONS


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 7)])
def test_parameters(activation: str, m: int, n: int) -> None:
    pieces = 4 if activation == "maxout" else 1
    cell = Elman(m, n, activation=activation, pieces=4)
    assert sum(parameter.numel() for parameter in cell.parameters()) == pieces * (m * n + n * n + n)
    cell = Elman(m, n, activation=activation, pieces=4, bias=False)
    assert sum(parameter.numel() for parameter in cell.parameters()) == pieces * (m * n + n * n)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_a_step_equals_that_of_torch(nonlinearity: str) -> None:
    torch.manual_seed(0)
    cell, reference = Elman(3, 5, activation=nonlinearity), nn.RNNCell(3, 5, nonlinearity=nonlinearity)
    with torch.no_grad():
        reference.weight_ih.copy_(cell.get_parameter("input.weight"))
        reference.weight_hh.copy_(cell.get_parameter("recurrent.weight"))
        cell.get_parameter("input.bias").copy_(reference.bias_ih + reference.bias_hh)
    x, hidden = torch.randn(2, 3), torch.randn(2, 5)
    state, gates = cell.step(cell.project(x), Elman.State(hidden))
    torch.testing.assert_close(state.hidden, reference(x, hidden), rtol=0, atol=1e-6)
    assert gates == ()


def test_an_unknown_activation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'swish', expected one of tanh, sigmoid, relu, leaky_relu, elu, maxout"):
        Elman(3, 5, activation="swish")


def test_no_pieces_are_refused() -> None:
    with pytest.raises(ValueError, match="pieces must be at least 1, got 0"):
        Elman(3, 5, activation="maxout", pieces=0)
