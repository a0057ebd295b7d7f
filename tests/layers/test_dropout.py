import pytest
import torch

from seqloom.layers import VariationalDropout
from seqloom.layers.dropout import Dropout


def test_the_mask_is_constant_over_time_and_differs_between_rows() -> None:
    torch.manual_seed(0)
    actual = VariationalDropout(0.3)(torch.ones(4, 6, 1000))
    assert all(torch.equal(actual[:, time], actual[:, 0]) for time in range(6))
    assert not torch.equal(actual[0], actual[1])
    dropped = actual[:, 0] == 0
    torch.testing.assert_close(actual[:, 0][~dropped], torch.full_like(actual[:, 0][~dropped], 1 / 0.7))
    # 4000 samples: five standard deviations of the mean are 0.036.
    assert abs(dropped.double().mean().item() - 0.3) < 0.036


def test_the_gradient_has_the_same_mask() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 50, requires_grad=True)
    actual = VariationalDropout(0.5)(x)
    actual.sum().backward()
    torch.testing.assert_close(x.grad, (actual / x).detach())


def test_eval_mode_is_the_identity() -> None:
    x = torch.randn(2, 3, 4)
    assert VariationalDropout(0.5).eval()(x) is x


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=f"rate must be at least 0 and below 1, got {rate}"):
        VariationalDropout(rate)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_has_its_rate_and_keeps_the_mean(rate: float) -> None:
    torch.manual_seed(3)
    x = torch.ones(500, 1001, dtype=torch.float64, requires_grad=True)
    y = Dropout(rate)(x)
    kept = (y != 0).double().mean(dim=0)  # each column has its own share of the random bits
    assert float(kept.mean()) == pytest.approx(1 - rate, abs=0.003)  # four deviations of half a million samples
    assert float((kept - kept.mean()).abs().max()) < 5 * (rate * (1 - rate) / 500) ** 0.5
    torch.testing.assert_close(y[y != 0], torch.full_like(y[y != 0], 1 / (1 - rate)), rtol=1e-4, atol=0)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(5)
    y = Dropout(0.5)(torch.ones(1 << 18)).view(-1, 4) != 0
    correlation = torch.corrcoef(y.T.double())
    assert float((correlation - torch.eye(4)).abs().max()) < 0.02  # five deviations


def test_dropout_is_inactive_in_eval_mode_and_reproducible() -> None:
    x, layer = torch.randn(3, 5), Dropout(0.4)
    torch.manual_seed(1)
    first = layer(x)
    torch.manual_seed(1)
    assert torch.equal(layer(x), first)
    assert torch.equal(layer.eval()(x), x)
