import pytest
import torch
from tests.contracts.registry import make_mask, noise
from torch import Tensor

from seqloom.cells import GRU, LSTM
from seqloom.kernels.fuse import scan
from seqloom.layers import Bidirectional, Recurrent
from seqloom.layers.recurrent import bidirectional


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


def results(layer: Bidirectional, lengths: list[int] | None, *, steps: int = 6) -> list[Tensor]:
    """Outputs, last states, and the gradients of the input, the initial states and the parameters."""
    x = noise(7, steps, 5, dtype=torch.float32).requires_grad_()
    gru = GRU.State(noise(7, 6, seed=3, dtype=torch.float32).requires_grad_())
    mask = None if lengths is None else make_mask(lengths, steps)
    y, state = layer(x, mask, Bidirectional.State(layer.forward_layer.cell.start(7), gru))
    values = [y, *state.forward, *state.backward]
    loss = sum((value * noise(*value.shape, seed=4, dtype=torch.float32)).sum() for value in values)
    return [*values, *torch.autograd.grad(loss, [x, *gru, *layer.parameters()])]


@pytest.mark.parametrize("lengths", [None, [6, 1, 3, 0, 6, 5, 4]], ids=str)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_both_directions_at_once_equal_one_after_the_other(
    lengths: list[int] | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    layer = Bidirectional(Recurrent(LSTM(5, 19)), Recurrent(GRU(5, 6), reverse=True))
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        together = results(layer, lengths)
    finally:
        torch.set_num_threads(before)
    monkeypatch.setattr(Bidirectional, "_scan_together", lambda *_: None)
    for fused in (True, False):
        layer.forward_layer.fused = layer.backward_layer.fused = fused
        for actual, expected in zip(together, results(layer, lengths), strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)  # float32, sums in another order


def test_second_derivatives_of_both_directions() -> None:
    layer = Bidirectional(Recurrent(LSTM(2, 3)), Recurrent(LSTM(2, 3), reverse=True)).double()
    x = noise(2, 3, 2).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: layer(x)[0], x)


def test_directions_with_hooks_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Bidirectional(Recurrent(LSTM(5, 4)), Recurrent(LSTM(5, 4), reverse=True))
    shapes = []
    layer.backward_layer.register_forward_hook(lambda _module, _inputs, result: shapes.append(result[0].shape))
    calls = []
    monkeypatch.setattr(bidirectional, "scan_together", lambda *_: calls.append(1))
    layer(noise(3, 2, 5, dtype=torch.float32))
    assert shapes == [(3, 2, 4)]
    assert not calls


@pytest.mark.parametrize(("first", "second"), [(True, True), (False, False), (True, False)])
def test_layers_of_the_wrong_direction_are_refused(first: bool, second: bool) -> None:
    with pytest.raises(ValueError, match=rf"is \({first}, {second}\), expected \(False, True\)"):
        Bidirectional(Recurrent(LSTM(3, 4), reverse=first), Recurrent(LSTM(3, 4), reverse=second))


def test_layers_of_unequal_input_are_refused() -> None:
    with pytest.raises(ValueError, match="backward has input_size 5, expected 3"):
        Bidirectional(Recurrent(LSTM(3, 4)), Recurrent(LSTM(5, 4), reverse=True))
