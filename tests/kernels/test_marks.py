"""Every change of an array that torch or an optimiser makes is seen."""

import pytest
import torch

from seqloom.kernels.marks import mark


def test_a_mark_stays_until_something_changes() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    before = mark(weight)
    assert mark(weight) == before
    assert mark(weight.detach()) == before
    with torch.no_grad():
        weight.mul_(2)
    assert mark(weight) != before


@pytest.mark.parametrize("fused", [True, False])
def test_steps_of_optimizers_change_every_mark(*, fused: bool) -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], fused=fused)
    weight.grad = torch.ones(3)
    before = mark(weight)
    optimizer.step()
    assert mark(weight) != before
