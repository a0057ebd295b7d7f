import pytest
import torch
from tests.contracts.registry import noise, randomize

from seqloom.cells import GRU, LSTM, Zoneout
from seqloom.layers import Recurrent


def test_parameters_gates_and_state_are_those_of_the_wrapped_cell() -> None:
    inner = LSTM(3, 5)
    cell = Zoneout(inner, 0.3)
    assert [id(parameter) for parameter in cell.parameters()] == [id(parameter) for parameter in inner.parameters()]
    assert cell.gates == LSTM.gates
    assert cell.State is LSTM.State
    assert isinstance(cell.start(2), LSTM.State)


def test_in_training_every_value_is_either_old_or_new() -> None:
    torch.manual_seed(0)
    inner = LSTM(3, 100).double()
    cell = Zoneout(inner, 0.3)
    state = LSTM.State(noise(50, 100), noise(50, 100, seed=1))
    x = noise(1, 50, 3, seed=2)
    actual, _ = cell.step(cell.project(x)[0], state)
    new, _ = inner.step(inner.project(x)[0], state)
    kept = []
    for old_field, new_field, field in zip(state, new, actual, strict=True):
        assert ((field == old_field) | (field == new_field)).all()
        kept.append(field == old_field)
        # 5000 samples: five standard deviations of the mean are 0.033.
        assert abs(kept[-1].double().mean().item() - 0.3) < 0.033
    both = (kept[0] & kept[1]).double().mean().item()  # 0.09 if the noise of the two fields is independent
    assert abs(both - 0.09) < 0.02


def test_noise_differs_from_step_to_step() -> None:
    torch.manual_seed(0)
    cell = Zoneout(GRU(3, 100), 0.5)
    masks = cell.project(torch.zeros(2, 1, 3))[..., -100:]
    assert 0.2 < (masks[0] == masks[1]).double().mean().item() < 0.8


def test_eval_mode_computes_the_expectation() -> None:
    torch.manual_seed(0)
    cell = Zoneout(GRU(3, 4), 0.3).double()
    randomize(cell)
    state = GRU.State(noise(1, 4))
    x = noise(1, 1, 3, seed=1)
    many = GRU.State(state.hidden.expand(20000, 4))
    mean = cell.step(cell.project(x.expand(1, 20000, 3))[0], many)[0].hidden.mean(dim=0)
    cell.eval()
    expected = cell.step(cell.project(x)[0], state)[0].hidden[0]
    # 20000 samples of a difference of about one: five standard deviations of the mean are 0.016 times that.
    torch.testing.assert_close(mean, expected, rtol=0, atol=0.03)


def test_a_rate_of_zero_changes_nothing() -> None:
    inner = LSTM(3, 5).double()
    x = noise(2, 6, 3)
    expected, _ = Recurrent(inner)(x)
    for training in (True, False):
        actual, _ = Recurrent(Zoneout(inner, 0.0)).train(training)(x)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=f"rate must be at least 0 and below 1, got {rate}"):
        Zoneout(LSTM(3, 5), rate)
