import pytest
import torch
from tests.contracts.registry import noise, randomize

from seqloom.cells import GRU, LSTM, Cell, Elman, LayerNormGRU, RecurrentDropout, Zoneout
from seqloom.layers import Recurrent


def test_the_mask_is_constant_over_time_and_differs_between_rows() -> None:
    torch.manual_seed(0)
    cell = RecurrentDropout(LSTM(3, 1000), 0.3)
    masks = cell.project(torch.zeros(5, 2, 3))[..., -1000:]
    assert all(torch.equal(mask, masks[0]) for mask in masks)
    assert not torch.equal(masks[0, 0], masks[0, 1])
    dropped = masks == 0
    torch.testing.assert_close(masks[~dropped], torch.full_like(masks[~dropped], 1 / 0.7), rtol=0, atol=1e-6)
    # 2000 samples: five standard deviations of the mean are 0.05.
    assert abs(dropped.double().mean().item() - 0.3) < 0.05


@pytest.mark.parametrize("inner", [LSTM(3, 5), Elman(3, 5)])
def test_in_training_the_recurrent_products_read_the_masked_hidden_state(inner: Cell) -> None:
    torch.manual_seed(0)
    randomize(inner)
    cell = RecurrentDropout(inner, 0.5)
    state = inner.State(*[noise(4, 5, seed=seed) for seed, _ in enumerate(inner.State._fields)])
    projected = cell.project(noise(1, 4, 3))[0]
    actual, _ = cell.step(projected, state)
    expected, _ = inner.step(projected[:, :-5], state._replace(hidden=projected[:, -5:] * state.hidden))
    assert all(torch.equal(left, right) for left, right in zip(actual, expected, strict=True))


def test_the_copied_part_of_a_gru_state_is_not_masked() -> None:
    torch.manual_seed(0)
    inner = GRU(3, 5, reset="after").double()
    randomize(inner)
    cell = RecurrentDropout(inner, 0.5)
    state = GRU.State(noise(4, 5))
    projected = cell.project(noise(1, 4, 3))[0]
    actual, (r, z, candidate) = cell.step(projected, state)
    mask = projected[:, -5:]
    gates = (projected[:, :10] + (mask * state.hidden) @ inner.get_parameter("recurrent.weight").T).sigmoid()
    recurrent = (mask * state.hidden) @ inner.get_parameter("candidate.weight").T + inner.get_parameter(
        "candidate.bias"
    )
    torch.testing.assert_close(torch.cat([r, z], dim=-1), gates, rtol=0, atol=1e-14)
    torch.testing.assert_close(candidate, torch.tanh(projected[:, 10:15] + r * recurrent), rtol=0, atol=1e-14)
    torch.testing.assert_close(actual.hidden, z * state.hidden + (1 - z) * candidate, rtol=0, atol=1e-14)


@pytest.mark.parametrize("inner", [GRU(3, 20), LayerNormGRU(3, 20)])
def test_outputs_of_a_long_sequence_stay_bounded(inner: Cell) -> None:
    torch.manual_seed(0)
    outputs, _ = Recurrent(RecurrentDropout(inner, 0.5))(torch.randn(4, 200, 3))
    assert outputs.abs().max() <= 1 + 1e-5  # as a mean of tanh values; the rest is rounding


def test_in_eval_mode_it_equals_the_wrapped_cell() -> None:
    inner = LSTM(3, 5)
    x = torch.randn(2, 6, 3)
    assert torch.equal(Recurrent(RecurrentDropout(inner, 0.5)).eval()(x)[0], Recurrent(inner)(x)[0])


def test_wrapping_zoneout_is_refused() -> None:
    with pytest.raises(TypeError, match=r"use Zoneout\(RecurrentDropout\(cell, …\), …\)"):
        RecurrentDropout(Zoneout(LSTM(3, 5), 0.1), 0.1)


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=f"rate must be at least 0 and below 1, got {rate}"):
        RecurrentDropout(LSTM(3, 5), rate)
