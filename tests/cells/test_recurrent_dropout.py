import pytest
import torch
from tests.contracts.registry import noise, randomize

from seqloom.cells import GRU, LSTM, Cell, Elman, LayerNormGRU, RecurrentDropout, Zoneout
from seqloom.layers import Recurrent


def test_the_mask_is_the_same_at_every_step_and_another_for_every_row() -> None:
    torch.manual_seed(0)
    cell = RecurrentDropout(LSTM(3, 1000), 0.3)
    masks = cell.project(torch.zeros(5, 2, 3))[..., -1000:]
    assert all(torch.equal(mask, masks[0]) for mask in masks)
    assert not torch.equal(masks[0, 0], masks[0, 1])
    dropped = masks == 0
    torch.testing.assert_close(masks[~dropped], torch.full_like(masks[~dropped], 1 / 0.7), rtol=0, atol=1e-6)
    # 2000 draws: five standard deviations of the mean are 0.05.
    assert abs(dropped.double().mean().item() - 0.3) < 0.05


@pytest.mark.parametrize("inside", [LSTM(3, 5), Elman(3, 5)])
def test_when_training_the_products_see_the_masked_hidden_state(inside: Cell) -> None:
    torch.manual_seed(0)
    randomize(inside)
    cell = RecurrentDropout(inside, 0.5)
    state = inside.State(*[noise(4, 5, seed=seed) for seed, _ in enumerate(inside.State._fields)])
    projected = cell.project(noise(1, 4, 3))[0]
    found, _ = cell.step(projected, state)
    wanted, _ = inside.step(projected[:, :-5], state._replace(hidden=projected[:, -5:] * state.hidden))
    assert all(torch.equal(left, right) for left, right in zip(found, wanted, strict=True))


def test_what_a_gru_carries_over_is_not_masked() -> None:
    torch.manual_seed(0)
    inside = GRU(3, 5, reset="after").double()
    randomize(inside)
    cell = RecurrentDropout(inside, 0.5)
    state = GRU.State(noise(4, 5))
    projected = cell.project(noise(1, 4, 3))[0]
    found, (r, z, candidate) = cell.step(projected, state)
    mask = projected[:, -5:]
    opened = (projected[:, :10] + (mask * state.hidden) @ inside.get_parameter("recurrent.weight").T).sigmoid()
    recalled = (mask * state.hidden) @ inside.get_parameter("candidate.weight").T + inside.get_parameter(
        "candidate.bias"
    )
    torch.testing.assert_close(torch.cat([r, z], dim=-1), opened, rtol=0, atol=1e-14)
    torch.testing.assert_close(candidate, torch.tanh(projected[:, 10:15] + r * recalled), rtol=0, atol=1e-14)
    torch.testing.assert_close(found.hidden, z * state.hidden + (1 - z) * candidate, rtol=0, atol=1e-14)


@pytest.mark.parametrize("inside", [GRU(3, 20), LayerNormGRU(3, 20)])
def test_a_long_sequence_does_not_grow(inside: Cell) -> None:
    torch.manual_seed(0)
    outputs, _ = Recurrent(RecurrentDropout(inside, 0.5))(torch.randn(4, 200, 3))
    assert outputs.abs().max() <= 1 + 1e-5  # as a mean of tanh values; the rest is rounding


def test_in_eval_mode_it_is_the_cell_inside() -> None:
    inside = LSTM(3, 5)
    x = torch.randn(2, 6, 3)
    assert torch.equal(Recurrent(RecurrentDropout(inside, 0.5)).eval()(x)[0], Recurrent(inside)(x)[0])


def test_zoneout_inside_is_refused() -> None:
    with pytest.raises(TypeError, match=r"wanted Zoneout\(RecurrentDropout\(cell, …\), …\)"):
        RecurrentDropout(Zoneout(LSTM(3, 5), 0.1), 0.1)


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=f"rate is {rate}, wanted at least 0 and below 1"):
        RecurrentDropout(LSTM(3, 5), rate)
