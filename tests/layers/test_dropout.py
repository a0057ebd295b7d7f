import pytest
import torch

from seqloom.layers import Variational


def test_the_mask_is_the_same_at_every_time_step_and_another_for_every_row() -> None:
    torch.manual_seed(0)
    found = Variational(0.3)(torch.ones(4, 6, 1000))
    assert all(torch.equal(found[:, time], found[:, 0]) for time in range(6))
    assert not torch.equal(found[0], found[1])
    dropped = found[:, 0] == 0
    torch.testing.assert_close(found[:, 0][~dropped], torch.full_like(found[:, 0][~dropped], 1 / 0.7))
    # 4000 draws: five standard deviations of the mean are 0.036.
    assert abs(dropped.double().mean().item() - 0.3) < 0.036


def test_the_gradient_passes_where_the_value_does() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 50, requires_grad=True)
    found = Variational(0.5)(x)
    found.sum().backward()
    torch.testing.assert_close(x.grad, (found / x).detach())


def test_in_eval_mode_nothing_happens() -> None:
    x = torch.randn(2, 3, 4)
    assert Variational(0.5).eval()(x) is x


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=f"rate is {rate}, wanted at least 0 and below 1"):
        Variational(rate)
