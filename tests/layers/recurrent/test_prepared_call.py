"""Prepared calls against the plain loop: the same values, and no change goes unnoticed."""

import copy
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import pytest
import torch
from tests.contracts.registry import noise
from torch import Tensor, nn
from torch.nn.modules import module as torch_modules

from seqloom.cells import GRU, LSTM, Elman
from seqloom.kernels.fuse import scan
from seqloom.kernels.runtime.thread_choice import ThreadChoice
from seqloom.layers.recurrent import prepared_call
from seqloom.layers.recurrent.prepared_call import PreparedCall
from seqloom.layers.recurrent.recurrent import Recurrent

SIZE, HIDDEN = 6, 9


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each prepared call answered."""
    recorded: list[bool] = []
    call = PreparedCall.__call__

    def record(self: PreparedCall, *arguments: Any) -> Any:
        result = call(self, *arguments)
        recorded.append(result is not None)
        return result

    monkeypatch.setattr(prepared_call.PreparedCall, "__call__", record)
    return recorded


def make(cell: type[Any] = LSTM, *, steps: int = 3, batch: int = 1) -> tuple[Recurrent, Tensor]:
    """A layer that was called twice with inputs of this shape."""
    layer = Recurrent(cell(SIZE, HIDDEN)).double()
    x = noise(batch, steps, SIZE)
    for _ in range(2 + (not layer._kernels)):
        layer(x)
    return layer, x


def by_loop(layer: Recurrent, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
    plain = copy.deepcopy(layer)
    plain.fused = False
    result: tuple[Tensor, Any] = plain(x, None, state)
    return result


def assert_equal(actual: tuple[Tensor, Any], expected: tuple[Tensor, Any]) -> None:
    # Products are summed in another order than in torch.
    torch.testing.assert_close(actual[0], expected[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(tuple(actual[1]), tuple(expected[1]), rtol=0, atol=1e-12)
    assert type(actual[1]) is type(expected[1])


@pytest.mark.parametrize(("steps", "batch"), [(1, 1), (3, 1), (1, 4), (5, 3)])
@pytest.mark.parametrize("cell", [LSTM, GRU, Elman])
def test_prepared_calls_equal_the_loop(cell: type[Any], steps: int, batch: int, answers: list[bool]) -> None:
    layer, x = make(cell, steps=steps, batch=batch)
    assert_equal(layer(x), by_loop(layer, x))
    _, state = layer(x)
    again = noise(batch, steps, SIZE, seed=1)
    assert_equal(layer(again, state=state), by_loop(layer, again, state))
    assert answers == [True] * 3


def replace_weight(layer: Any) -> None:
    layer.cell.recurrent.weight = nn.Parameter(layer.cell.recurrent.weight + 1)


def replace_data(layer: Any) -> None:
    layer.cell.input.weight.data = layer.cell.input.weight.data * 2


def transpose_data(layer: Any) -> None:
    weight = layer.cell.input.weight
    weight.data = (weight.data + 1).t().contiguous().t()


def write_data(layer: Any) -> None:
    layer.cell.input.weight.data.mul_(2)


def write_bias(layer: Any) -> None:
    layer.cell.input.bias.add_(1)


def replace_cell(layer: Any) -> None:
    layer.cell = LSTM(SIZE, HIDDEN).double()


def reverse(layer: Any) -> None:
    layer.reverse = True


def start_with_ones(layer: Any) -> None:
    cell = layer.cell
    cell.start = lambda batch: cell.State(*[torch.ones(batch, HIDDEN).double()] * 2)


CHANGES: list[Callable[[Any], None]] = [
    replace_weight,
    replace_data,
    transpose_data,
    write_data,
    write_bias,
    replace_cell,
    reverse,
    start_with_ones,
]


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changes_are_noticed(change: Callable[[Any], None], steps: int) -> None:
    layer, x = make(steps=steps)
    first, state = layer(x)
    second, _ = layer(x, state=state)
    change(layer)
    expected, after_state = by_loop(layer, x), by_loop(layer, x, state)
    if (change, steps) != (reverse, 1):
        assert float((expected[0] - first).abs().max() + (after_state[0] - second).abs().max()) > 1e-3
    for _ in range(4):  # the last ones are prepared again
        assert_equal(layer(x), expected)
        assert_equal(layer(x, state=state), after_state)


@pytest.mark.parametrize("place", ["layer", "cell", "child", "all modules"])
def test_hooks_are_called(place: str) -> None:
    layer, x = make(steps=2)
    called: list[nn.Module] = []
    modules = {"layer": layer, "cell": layer.cell, "child": layer.cell.get_submodule("recurrent")}

    def hook(module: nn.Module, *_: object) -> None:
        called.append(module)

    handle = (
        torch_modules.register_module_forward_hook(hook)
        if place == "all modules"
        else modules[place].register_forward_hook(hook)
    )
    try:
        layer(x)
    finally:
        handle.remove()
    # A cell is not called as a module, only its children are.
    assert bool(called) == (place != "cell")


def test_a_replaced_forward_is_called() -> None:
    layer, x = make()
    layer.forward = lambda *_: "mine"  # type: ignore[method-assign, assignment]
    assert layer(x) == "mine"


def test_wrong_inputs_get_the_errors_of_the_layer() -> None:
    layer, x = make()
    _, state = layer(x)
    with pytest.raises(ValueError, match=r"x has shape \(1, 3, 5\)"):
        layer(x[..., :5])
    with pytest.raises(TypeError, match="x has dtype"):
        layer(x.float())
    with pytest.raises(ValueError, match=r"state.memory has shape \(1, 8\)"):
        layer(x, state=state._replace(memory=state.memory[:, :8]))
    with pytest.raises(TypeError, match="expected a tensor"):
        layer([[1.0]])


def test_views_and_gradients_are_as_before(answers: list[bool]) -> None:
    layer, x = make(steps=4, batch=2)
    view = noise(4, 2, SIZE).transpose(0, 1)
    assert_equal(layer(view), by_loop(layer, view))
    assert_equal(layer(-x), by_loop(layer, -x))
    with torch.enable_grad():
        out, _ = layer(x)
        assert out.requires_grad
    assert answers == [False, True]


def test_copies_have_their_own_weights() -> None:
    layer, x = make()
    twin = copy.deepcopy(layer)
    replace_data(twin)
    twin(x)
    assert_equal(twin(x), by_loop(twin, x))
    assert_equal(layer(x), by_loop(layer, x))


def test_the_number_of_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "TEAM_MIN", 0)
    torch.set_num_threads(2)
    layer, x = make(steps=7)
    for dtype in (torch.float64, torch.float32):
        layer, x = layer.to(dtype), x.to(dtype)
        expected = layer(x)
        choices = cycle([True, False])
        used: list[bool] = []
        monkeypatch.setattr(ThreadChoice, "use_all", lambda _, choices=choices: next(choices))
        monkeypatch.setattr(ThreadChoice, "record", lambda *_, used_all, used=used: used.append(used_all))
        for _ in range(8):
            actual = layer(x)
            assert torch.equal(actual[0], expected[0])
            assert all(map(torch.equal, actual[1], expected[1]))
        assert {True, False} == set(used)
