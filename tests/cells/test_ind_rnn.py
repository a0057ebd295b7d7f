import pytest
import torch
from torch.nn import functional

from seqloom.cells import IndRNN


def test_parameters() -> None:
    assert sum(parameter.numel() for parameter in IndRNN(3, 7).parameters()) == 3 * 7 + 2 * 7
    assert sum(parameter.numel() for parameter in IndRNN(3, 7, bias=False).parameters()) == 3 * 7 + 7


def test_activation_and_its_slope() -> None:
    cell = IndRNN(3, 7, activation="leaky_relu", negative_slope=0.3)
    projected, hidden = torch.randn(2, 7), torch.randn(2, 7)
    state, _ = cell.step(projected, IndRNN.State(hidden))
    expected = functional.leaky_relu(projected + cell.recurrent * hidden, 0.3)
    torch.testing.assert_close(state.hidden, expected)
    with pytest.raises(ValueError, match="activation is 'maxout', expected one of relu, tanh"):
        IndRNN(3, 7, activation="maxout")
