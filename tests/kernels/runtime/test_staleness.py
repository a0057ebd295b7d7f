"""Changes of tensors and modules, by torch or by an optimizer, are detected."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from seqloom.kernels.runtime.staleness import ModuleSnapshot, active_transform, tensor_version


def test_a_version_is_constant_until_the_tensor_changes() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    before = tensor_version(weight)
    assert tensor_version(weight) == before
    assert tensor_version(weight.detach()) == before
    with torch.no_grad():
        weight.mul_(2)
    assert tensor_version(weight) != before


@pytest.mark.parametrize("fused", [True, False])
def test_steps_of_optimizers_change_every_version(*, fused: bool) -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], fused=fused)
    weight.grad = torch.ones(3)
    before = tensor_version(weight)
    optimizer.step()
    assert tensor_version(weight) != before


CHANGES: dict[str, Callable[[Any], object]] = {
    "attribute": lambda model: setattr(model[0], "eps", 0.5),
    "child": lambda model: model.__setitem__(1, nn.Linear(3, 3)),
    "parameter": lambda model: setattr(model[1], "weight", nn.Parameter(torch.ones(3, 3))),
    "address": lambda model: setattr(model[1].weight, "data", torch.ones(3, 3)),
    "copied value": lambda model: model[1].bias.detach().zero_(),
    "hook": lambda model: model[1].register_forward_hook(lambda *_: None),
    "optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=0.0).step(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_snapshot_matches_until_something_changes(change: str) -> None:
    model: Any = nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 3))
    snapshot = ModuleSnapshot(model, attributes={nn.LayerNorm: ("eps",)}, copied=[model[1].bias])
    assert snapshot.matches()
    model[1].weight.detach().zero_()  # not copied: its value does not count
    assert snapshot.matches()
    CHANGES[change](model)
    assert not snapshot.matches()


def test_global_hooks_never_match() -> None:
    snapshot = ModuleSnapshot(nn.Linear(3, 3), attributes={}, copied=[])
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert not snapshot.matches()
    handle.remove()
    assert snapshot.matches()


def test_active_transforms_are_reported() -> None:
    assert active_transform() is None
    with torch.autocast("cpu"):
        assert active_transform() == "inside torch.autocast"
    assert torch.func.vmap(lambda x: x + (active_transform() is not None))(torch.zeros(2)).tolist() == [1, 1]
    with forward_ad.dual_level():
        assert active_transform() == "inside forward-mode differentiation"
