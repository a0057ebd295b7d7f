"""User-modified and user-defined cells in a recurrent layer: changed, hooked, pruned, or wrong."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from seqloom.cells import GRU, LSTM, Elman
from seqloom.cells.cell import Cell
from seqloom.layers.recurrent.recurrent import Recurrent


class Parts(Cell):
    """A cell whose step depends on an activation module, a container and a number."""

    gates, State = (), Elman.State

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.input = nn.Linear(input_size, hidden_size)
        self.recurrent = nn.Linear(hidden_size, hidden_size)
        self.activation = nn.LeakyReLU(0.01)
        self.options = {"scale": 1.0}

    def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        total = self.activation(projected + self.recurrent(state.hidden))
        return self.State((total * self.options["scale"]).tanh()), ()


def difference(layer: Recurrent, x: Tensor) -> float:
    """Largest difference between the layer and its plain loop."""
    out = layer(x)[0]
    layer.fused = False
    plain = layer(x)[0]
    layer.fused = True
    return float((out - plain).detach().abs().max())


def test_changes_of_submodules_and_containers_take_effect() -> None:
    torch.manual_seed(0)
    layer, x = Recurrent(Parts(3, 5)), torch.randn(2, 4, 3)
    assert difference(layer, x) < 1e-6
    cell = layer.cell
    assert isinstance(cell, Parts)
    cell.activation.negative_slope = 0.5
    assert difference(layer, x) < 1e-6
    cell.options["scale"] = 3.0
    assert difference(layer, x) < 1e-6
    assert layer.path == "fused"


def test_hooks_are_called_at_every_step() -> None:
    layer, x = Recurrent(LSTM(3, 5)), torch.randn(2, 7, 3)
    layer(x)
    calls: list[int] = []
    handle = layer.cell.get_submodule("recurrent").register_forward_hook(lambda *_: calls.append(1))
    assert layer.path.startswith("loop: a module of the cell has hooks")
    layer(x)
    assert len(calls) == 7
    handle.remove()
    assert layer.path == "fused"


def test_pruned_weights_run_in_the_loop() -> None:
    layer, x = Recurrent(LSTM(3, 5)), torch.randn(2, 4, 3)
    layer(x)
    prune.l1_unstructured(layer.cell.get_submodule("recurrent"), "weight", 0.5)
    assert difference(layer, x) == 0.0
    assert layer.path.startswith("loop: ")


def test_an_empty_sequence_has_gradients_on_both_paths() -> None:
    for fused in (True, False):
        layer = Recurrent(GRU(3, 5))
        layer.fused = fused
        x = torch.randn(2, 0, 3, requires_grad=True)
        out, state = layer(x)
        (out.sum() + state.hidden.sum()).backward()
        assert out.shape == (2, 0, 5)
        assert x.grad is not None


def test_a_plain_tuple_is_a_state_on_both_paths() -> None:
    layer, x = Recurrent(LSTM(3, 5)), torch.randn(2, 4, 3)
    assert isinstance(layer(x, state=(torch.zeros(2, 5), torch.zeros(2, 5)))[1], LSTM.State)
    layer.fused = False
    assert isinstance(layer(x, state=(torch.zeros(2, 5), torch.zeros(2, 5)))[1], LSTM.State)


class Wrong(Elman):
    """A cell whose step returns a fixed value."""

    returned: Any = None

    def step(self, projected: Tensor, state: Any) -> Any:
        return self.returned if self.returned is not None else super().step(projected, state)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (Elman.State(torch.zeros(3, 5)), "Wrong.step returned .*State, expected"),
        (torch.zeros(2, 5), "Wrong.step returned Tensor, expected"),
        ((Elman.State(torch.zeros(3, 5)), (torch.zeros(3, 5),)), "Wrong.step returned 1 gates, expected 0"),
    ],
)
def test_a_wrong_return_value_of_step_is_reported(returned: Any, message: str) -> None:
    cell = Wrong(3, 5)
    cell.returned = returned
    with pytest.raises((TypeError, ValueError), match=message):
        Recurrent(cell)(torch.randn(2, 4, 3))


class Reshaped(Elman):
    """A cell whose step changes the shape of its state."""

    change: Callable[[Tensor], Any]

    def step(self, projected: Tensor, state: Any) -> Any:
        (hidden,), gates = super().step(projected, state)
        return self.State(type(self).change(hidden)), gates


@pytest.mark.filterwarnings("ignore:Reshaped runs step by step")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda hidden: torch.cat([hidden, hidden], dim=-1), r"state.hidden of shape \(B, 10\), expected \(B, 5\)"),
        (lambda hidden: hidden[:, :2], r"state.hidden of shape \(B, 2\), expected \(B, 5\)"),
        (lambda hidden: hidden.sum(dim=0), r"state.hidden of shape \(5,\), expected \(B, 5\)"),
        (lambda hidden: hidden[:1], r"state.hidden of shape \(1, 5\), expected \(B, 5\)"),
        (lambda _: None, r"NoneType as state.hidden, expected a tensor"),
    ],
)
def test_a_state_of_wrong_shape_is_reported(change: Callable[[Tensor], Any], message: str, *, fused: bool) -> None:
    layer = Recurrent(type("Reshaped", (Reshaped,), {"change": staticmethod(change)})(3, 5))
    layer.fused = fused
    with pytest.raises((TypeError, ValueError), match=f"Reshaped.step returned {message}"):
        layer(torch.randn(2, 4, 3))


def test_parameters_of_another_shape_or_precision_are_reported() -> None:
    layer, x = Recurrent(LSTM(3, 5)), torch.randn(2, 4, 3)
    layer(x)
    recurrent: Any = layer.cell.get_submodule("recurrent")
    recurrent.weight = nn.Parameter(torch.zeros(2, 2))
    with pytest.raises(ValueError, match=r"recurrent.weight has shape \(2, 2\), expected \(20, 5\)"):
        layer(x)
    recurrent.weight = nn.Parameter(torch.zeros(20, 5, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"recurrent.weight is torch.float64, expected torch.float32"):
        layer(x)


def test_arguments_of_the_wrong_type_are_named() -> None:
    layer, x = Recurrent(LSTM(3, 5)), torch.randn(2, 4, 3)
    with pytest.raises(TypeError, match=r"x is list, expected a tensor"):
        layer([[1.0]])
    with pytest.raises(TypeError, match=r"mask is list, expected a tensor"):
        layer(x, [[True]])
    with pytest.raises(TypeError, match=r"state.hidden is NoneType, expected a tensor of shape \(2, 5\)"):
        layer(x, state=(None, None))
    with pytest.raises(TypeError, match="cell is LSTM, expected a Cell"):
        Recurrent(nn.LSTM(3, 5))  # type: ignore[arg-type]
