import pytest
import torch
from tests.contracts.registry import make_mask, noise

from seqloom.cells import GRU, LSTM
from seqloom.layers import Bidirectional, Recurrent


def test_equals_a_forward_layer_and_one_on_reversed_rows() -> None:
    lstm, gru = LSTM(3, 4).double(), GRU(3, 2).double()
    layer = Bidirectional(Recurrent(lstm), Recurrent(gru, reverse=True))
    lengths = [5, 3, 1]
    x = noise(3, 5, 3)
    outputs, state = layer(x, make_mask(lengths, 5))
    assert layer.output_size == outputs.shape[2] == 6
    for row, length in enumerate(lengths):
        forward, last = Recurrent(lstm)(x[row : row + 1, :length])
        backward, first = Recurrent(gru)(x[row : row + 1, :length].flip(1))
        expected = torch.cat([forward, backward.flip(1)], dim=-1)
        torch.testing.assert_close(outputs[row : row + 1, :length], expected, rtol=0, atol=1e-14)
        torch.testing.assert_close(state.forward.memory[row : row + 1], last.memory, rtol=0, atol=1e-14)
        torch.testing.assert_close(state.backward.hidden[row : row + 1], first.hidden, rtol=0, atol=1e-14)


def test_each_direction_starts_from_its_own_state() -> None:
    layer = Bidirectional(Recurrent(GRU(3, 4)), Recurrent(GRU(3, 4), reverse=True)).double()
    state = Bidirectional.State(GRU.State(noise(2, 4)), GRU.State(noise(2, 4, seed=1)))
    x = noise(2, 5, 3)
    outputs, _ = layer(x, None, state)
    assert torch.equal(outputs[..., :4], layer.forward_layer(x, None, state.forward)[0])
    assert torch.equal(outputs[..., 4:], layer.backward_layer(x, None, state.backward)[0])


@pytest.mark.parametrize(("first", "second"), [(True, True), (False, False), (True, False)])
def test_layers_of_the_wrong_direction_are_refused(first: bool, second: bool) -> None:
    with pytest.raises(ValueError, match=rf"is \({first}, {second}\), expected \(False, True\)"):
        Bidirectional(Recurrent(LSTM(3, 4), reverse=first), Recurrent(LSTM(3, 4), reverse=second))


def test_layers_of_unequal_input_are_refused() -> None:
    with pytest.raises(ValueError, match="backward has input_size 5, expected 3"):
        Bidirectional(Recurrent(LSTM(3, 4)), Recurrent(LSTM(5, 4), reverse=True))
