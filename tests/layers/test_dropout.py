import pytest
import torch

from seqloom.layers import VariationalDropout
from seqloom.layers.dropout import Dropout


def test_the_mask_is_the_same_at_every_time_step_and_another_for_every_row() -> None:
    torch.manual_seed(0)
    actual = VariationalDropout(0.3)(torch.ones(4, 6, 1000))
    assert all(torch.equal(actual[:, time], actual[:, 0]) for time in range(6))
    assert not torch.equal(actual[0], actual[1])
    dropped = actual[:, 0] == 0
    torch.testing.assert_close(actual[:, 0][~dropped], torch.full_like(actual[:, 0][~dropped], 1 / 0.7))
    # 4000 draws: five standard deviations of the mean are 0.036.
    assert abs(dropped.double().mean().item() - 0.3) < 0.036


def test_the_gradient_passes_where_the_value_does() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 50, requires_grad=True)
    actual = VariationalDropout(0.5)(x)
    actual.sum().backward()
    torch.testing.assert_close(x.grad, (actual / x).detach())


def test_in_eval_mode_nothing_happens() -> None:
    x = torch.randn(2, 3, 4)
    assert VariationalDropout(0.5).eval()(x) is x


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=f"rate is {rate}, expected at least 0 and below 1"):
        VariationalDropout(rate)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_keeps_as_many_as_it_says_and_the_mean(rate: float) -> None:
    torch.manual_seed(3)
    x = torch.ones(500, 1001, dtype=torch.float64, requires_grad=True)
    y = Dropout(rate)(x)
    kept = (y != 0).double().mean(dim=0)  # each column has its own share of the random bits
    assert float(kept.mean()) == pytest.approx(1 - rate, abs=0.003)  # four deviations of half a million draws
    assert float((kept - kept.mean()).abs().max()) < 5 * (rate * (1 - rate) / 500) ** 0.5
    torch.testing.assert_close(y[y != 0], torch.full_like(y[y != 0], 1 / (1 - rate)), rtol=1e-4, atol=0)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(5)
    y = Dropout(0.5)(torch.ones(1 << 18)).view(-1, 4) != 0
    together = torch.corrcoef(y.T.double())
    assert float((together - torch.eye(4)).abs().max()) < 0.02  # five deviations


def test_dropout_rests_outside_of_training_and_repeats_by_seed() -> None:
    x, layer = torch.randn(3, 5), Dropout(0.4)
    torch.manual_seed(1)
    first = layer(x)
    torch.manual_seed(1)
    assert torch.equal(layer(x), first)
    assert torch.equal(layer.eval()(x), x)
