"""Recording computes the same loss and changes nothing (law 7)."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import seqloom
from seqloom.diagnosis.recording import record

LAYERS: dict[str, Any] = {
    "stack": lambda: seqloom.recurrent("lstm", 3, 6, layers=2, dropout=0.3, zoneout=0.2),
    "bidirectional": lambda: seqloom.recurrent("gru", 3, 6, bidirectional=True, recurrent_dropout=0.2),
    "transformer": lambda: seqloom.transformer(3, 6, layers=2, heads=1, dropout=0.3),
}


@pytest.mark.parametrize("name", LAYERS)
def test_recording_changes_nothing(name: str) -> None:
    torch.manual_seed(1)
    layer: nn.Module = LAYERS[name]()
    twin = copy.deepcopy(layer)
    x, mask = torch.randn(3, 8, 3), torch.arange(8) < torch.tensor([8, 5, 0])[:, None]
    results = []
    for module, examined in ((layer, True), (twin, False)):
        module.train()
        torch.manual_seed(2)
        module(x, mask)[0].sum().backward()
        if examined:
            seqloom.doctor(module, (x, mask))
        out: Tensor = module(x, mask)[0]
        out.sum().backward()
        results.append([out, *[parameter.grad for parameter in module.parameters()], torch.rand(1)])
        assert all(part.training for part in module.modules())
        results[-1] += list(module.parameters())
    for examined_value, other in zip(*results, strict=True):
        assert torch.equal(examined_value, other)
    assert not any("step" in vars(part) for part in layer.modules())
    hooks = [part._forward_hooks or part._forward_pre_hooks for part in layer.modules()]
    assert not any(hooks)


def test_the_kernel_runs_again_afterwards_even_if_the_loss_fails() -> None:
    layer = seqloom.recurrent("lstm", 3, 4)
    assert layer.path == "fused"

    def fail() -> Tensor:
        layer(torch.randn(1, 2, 3))
        raise RuntimeError("no loss")

    with pytest.raises(RuntimeError, match="no loss"):
        record(layer, fail)
    assert layer.path == "fused"
    assert not any("step" in vars(part) for part in layer.modules())


def test_recorded_states_are_those_of_the_layer() -> None:
    torch.manual_seed(3)
    layer = seqloom.recurrent("lstm", 3, 4).double().eval()
    x, mask = torch.randn(2, 6, 3, dtype=torch.float64), torch.arange(6) < torch.tensor([6, 3])[:, None]
    expected, _ = layer(x, mask)
    loss, (part,) = record(layer, lambda: layer(x, mask)[0].square().sum())
    torch.testing.assert_close(loss, expected.square().sum(), rtol=1e-12, atol=0)
    (call,) = part.cells
    for step in call.steps:
        real = call.is_real(step)
        torch.testing.assert_close(step.state[0][real], expected[real, step.position], rtol=1e-12, atol=1e-14)
