from typing import Any

import pytest
import torch
from tests.contracts.registry import make_mask, noise, randomize
from torch import Tensor, nn

from seqloom.cells import GRU, LSTM
from seqloom.layers import Bidirectional, Layer, Recurrent, Stack, VariationalDropout


def lstms(*sizes: int) -> list[Layer]:
    return [Recurrent(LSTM(size, 4)) for size in sizes]


def output(layer: nn.Module, x: Tensor) -> Tensor:
    actual: Tensor = layer(x)[0]
    return actual


def test_plain_runs_one_layer_after_the_other() -> None:
    layers = lstms(3, 4, 4)
    stack = Stack(layers).double()
    x = noise(2, 5, 3)
    outputs, state = stack(x)
    expected = x
    for layer, actual in zip(layers, state, strict=True):
        expected, last = layer(expected)
        assert torch.equal(actual.memory, last.memory)
    assert torch.equal(outputs, expected)


def test_residual_adds_the_input_of_each_layer() -> None:
    stack = Stack(lstms(3, 4, 4), connection="residual").double()
    x = noise(2, 5, 3)
    first = output(stack.layers[0], x) + x @ stack.get_parameter("connections.0.skip.weight").T
    second = output(stack.layers[1], first) + first
    third = output(stack.layers[2], second) + second
    torch.testing.assert_close(output(stack, x), third, rtol=0, atol=1e-14)


def test_dense_reads_the_input_and_all_earlier_outputs() -> None:
    stack = Stack(lstms(3, 7, 11), connection="dense").double()
    x = noise(2, 5, 3)
    first = output(stack.layers[0], x)
    second = output(stack.layers[1], torch.cat([x, first], dim=-1))
    third = output(stack.layers[2], torch.cat([x, first, second], dim=-1))
    torch.testing.assert_close(output(stack, x), third, rtol=0, atol=1e-14)
    assert stack.output_size == 4


def test_highway_mixes_input_and_output_by_a_gate() -> None:
    stack = Stack(lstms(3, 4), connection="highway")
    randomize(stack)
    x = noise(2, 5, 3)
    for layer, connection in zip(stack.layers, stack.connections, strict=True):
        t = connection.get_submodule("gate")(x).sigmoid()
        x, read = t * output(layer, x) + (1 - t) * connection.get_submodule("skip")(x), x
        assert x.shape[2] == 4
        assert read.shape[2] in (3, 4)
    torch.testing.assert_close(output(stack, noise(2, 5, 3)), x, rtol=0, atol=1e-14)


class Double(nn.Module):
    """Deterministic replacement for dropout."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


def test_dropout_is_applied_to_layer_inputs_but_not_to_skip_connections() -> None:
    stack = Stack(lstms(3, 4, 4), connection="residual", dropout=Double()).double()
    x = noise(2, 5, 3)
    first = output(stack.layers[0], x) + x @ stack.get_parameter("connections.0.skip.weight").T
    second = output(stack.layers[1], 2 * first) + first
    third = output(stack.layers[2], 2 * second) + second
    torch.testing.assert_close(output(stack, x), third, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dropout", [0.5, VariationalDropout(0.5)])
def test_dropout_is_active_in_training_only(dropout: float | nn.Module) -> None:
    torch.manual_seed(0)
    stack = Stack(lstms(3, 4), dropout=dropout)
    x = noise(2, 5, 3, dtype=torch.float32)
    assert not torch.equal(output(stack, x), output(stack, x))
    stack.eval()
    expected = output(stack.layers[1], output(stack.layers[0], x))
    assert torch.equal(output(stack, x), expected)


@pytest.mark.parametrize("connection", ["plain", "residual", "highway"])
def test_one_layer_has_no_dropout(connection: str) -> None:
    stack = Stack(lstms(4), connection=connection, dropout=0.5)
    x = noise(2, 5, 4, dtype=torch.float32)
    assert torch.equal(output(stack, x), output(stack, x))


def test_different_layers_may_be_mixed() -> None:
    bidirectional = Bidirectional(Recurrent(GRU(3, 2)), Recurrent(GRU(3, 4), reverse=True))
    stack = Stack([bidirectional, Recurrent(LSTM(6, 5)), Stack(lstms(5, 4))], connection="residual")
    randomize(stack)
    x, mask = noise(2, 5, 3), make_mask([5, 2], 5)
    outputs, state = stack(x, mask)
    again, _ = stack(x[:, 4:], mask[:, 4:], state)
    assert outputs.shape == (2, 5, 4)
    assert torch.equal(again[1], torch.zeros(1, 4, dtype=torch.float64))
    assert torch.equal(state[2][1].hidden.isfinite(), torch.ones(2, 4, dtype=torch.bool))


@pytest.mark.parametrize(
    ("sizes", "connection", "message"),
    [
        ((3, 5), "plain", "layer 1 has input_size 5, expected 4"),
        ((3, 4, 7), "residual", "layer 2 has input_size 7, expected 4"),
        ((3, 7, 4), "dense", "layer 2 has input_size 4, expected 11"),
        ((3, 4), "ladder", "connection is 'ladder', expected one of plain, residual, dense, highway"),
        ((), "plain", "layers is empty"),
    ],
)
def test_mismatched_layers_are_refused(sizes: tuple[int, ...], connection: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stack(lstms(*sizes), connection=connection)


@pytest.mark.parametrize("state", [(), (None,), (None, None, None), [None, None]])
def test_a_state_of_another_number_of_layers_is_refused(state: Any) -> None:
    with pytest.raises(TypeError, match="expected a tuple of the states of 2 layers"):
        Stack(lstms(3, 4))(noise(2, 5, 3, dtype=torch.float32), None, state)
