import pytest
import torch
from torch import nn

from seqloom.cells import LSTM


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 7)])
def test_parameters(m: int, n: int) -> None:
    assert sum(parameter.numel() for parameter in LSTM(m, n).parameters()) == 4 * (m * n + n * n + n)
    assert sum(parameter.numel() for parameter in LSTM(m, n, bias=False).parameters()) == 4 * (m * n + n * n)


def test_only_the_forget_gate_starts_with_a_bias() -> None:
    expected = torch.tensor([0.0, 0.0, 2.5, 2.5, 0.0, 0.0, 0.0, 0.0])
    assert torch.equal(LSTM(3, 2, forget_bias=2.5).get_parameter("input.bias"), expected)


def test_a_step_equals_that_of_torch() -> None:
    torch.manual_seed(0)
    cell, reference = LSTM(3, 5), nn.LSTMCell(3, 5)
    with torch.no_grad():
        reference.weight_ih.copy_(cell.get_parameter("input.weight"))
        reference.weight_hh.copy_(cell.get_parameter("recurrent.weight"))
        cell.get_parameter("input.bias").copy_(reference.bias_ih + reference.bias_hh)
    x, hidden, memory = torch.randn(2, 3), torch.randn(2, 5), torch.randn(2, 5)
    state, _ = cell.step(cell.project(x), LSTM.State(hidden, memory))
    expected = reference(x, (hidden, memory))
    torch.testing.assert_close(state.hidden, expected[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(state.memory, expected[1], rtol=0, atol=1e-6)
