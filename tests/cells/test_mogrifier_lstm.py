import pytest
import torch

from seqloom.cells import LSTM, MogrifierLSTM


def test_parameters() -> None:
    assert sum(parameter.numel() for parameter in MogrifierLSTM(3, 7).parameters()) == 4 * (3 * 7 + 7 * 7 + 7) + 105
    assert sum(parameter.numel() for parameter in MogrifierLSTM(3, 7, rounds=2).parameters()) == 350


def test_without_rounds_it_is_an_lstm() -> None:
    torch.manual_seed(0)
    cell, lstm = MogrifierLSTM(3, 5, rounds=0, forget_bias=0.5), LSTM(3, 5)
    lstm.load_state_dict({name.replace("_projection", ""): value for name, value in cell.state_dict().items()})
    x, state = torch.randn(2, 3), (torch.randn(2, 5), torch.randn(2, 5))
    actual, _ = cell.step(cell.project(x), MogrifierLSTM.State(*state))
    expected, _ = lstm.step(lstm.project(x), LSTM.State(*state))
    torch.testing.assert_close(actual.hidden, expected.hidden)
    assert torch.equal(cell.get_parameter("input_projection.bias")[5:10], torch.full((5,), 0.5))
    with pytest.raises(ValueError, match="rounds must be at least 0, got -1"):
        MogrifierLSTM(3, 5, rounds=-1)
