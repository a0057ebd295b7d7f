"""The fused and the loop path of a recurrent layer, and their interplay with torch."""

import copy
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from tests.contracts.registry import HIDDEN, INPUT, cells, make_mask, noise, randomize
from torch import Tensor, nn

from seqloom.cells import GRU, LSTM, Elman
from seqloom.cells.cell import Cell, projection, recurrence
from seqloom.cells.wrapper import RecurrentDropout, Zoneout
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.testing import check_cell


def make_layer(*, dtype: torch.dtype = torch.float64, reverse: bool = False) -> Recurrent:
    layer = Recurrent(LSTM(INPUT, HIDDEN), reverse=reverse)
    randomize(layer, dtype=dtype)
    return layer


class Hidden(NamedTuple):
    hidden: Tensor


class Sorting(Cell):
    """A cell that no kernel can run: h' = sort(tanh(W x + b + h))."""

    gates = ()
    State = Hidden

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=1)

    def step(self, projected: Tensor, state: Hidden) -> tuple[Hidden, tuple[Tensor, ...]]:
        return Hidden(torch.tanh(projected + state.hidden).sort(dim=-1).values), ()


def test_path_is_fused() -> None:
    assert make_layer().path == "fused"
    assert make_layer(dtype=torch.float32).path == "fused"


def test_path_follows_the_switch() -> None:
    layer = make_layer()
    layer.fused = False
    assert layer.path == "loop: switched off by layer.fused = False"
    layer.fused = True
    assert layer.path == "fused"


def test_path_follows_the_parameters() -> None:
    layer = make_layer(dtype=torch.float32)
    assert layer.path == "fused"
    with pytest.warns(UserWarning, match="LSTM runs step by step, which is slow: .*torch.bfloat16"):
        assert "torch.bfloat16" in layer.bfloat16().path
    assert layer.double().path == "fused"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_runs_step_by_step(dtype: torch.dtype) -> None:
    layer = make_layer(dtype=dtype)
    x = noise(2, 4, INPUT, dtype=dtype)
    with pytest.warns(UserWarning, match=f"{dtype}, not all float32 or all float64"):
        actual, _ = layer(x)
    expected, _ = layer.double()(x.double())
    # Values below 1, a dozen roundings of half a unit in the last place.
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=12 * torch.finfo(dtype).eps)


def test_an_unfusable_cell_warns_once_with_the_reason_and_is_right() -> None:
    layer = Recurrent(Sorting(INPUT, HIDDEN))
    randomize(layer)
    x, mask = noise(2, 4, INPUT), make_mask([4, 2], 4)
    with pytest.warns(UserWarning, match="Sorting runs step by step, which is slow: torch.Tensor.sort"):
        actual, _ = layer(x, mask)
    layer(x)  # a second warning would be an error
    assert layer.path.startswith("loop: torch.Tensor.sort")
    h = torch.zeros(2, HIDDEN, dtype=torch.float64)
    for time in range(2):
        h = torch.tanh(layer.cell.project(x[:, time]) + h).sort(dim=-1).values
        torch.testing.assert_close(actual[:, time], h, rtol=0, atol=1e-14)


def test_each_layer_warns_separately() -> None:
    for _ in range(2):
        layer = Recurrent(Sorting(INPUT, HIDDEN))
        with pytest.warns(UserWarning, match="Sorting runs step by step"):
            assert layer.path.startswith("loop: torch.Tensor.sort")
        layer(noise(1, 2, INPUT, dtype=torch.float32))


def test_inside_function_transformations() -> None:
    layer = make_layer()
    x = noise(3, 4, INPUT)
    paths = []

    def loss(x: Tensor) -> Tensor:
        paths.append(layer.path)
        total: Tensor = layer(x)[0].square().sum()
        return total

    actual = torch.func.grad(loss)(x)
    assert paths == ["loop: inside a torch.func transformation"]
    leaf = x.clone().requires_grad_()
    layer(leaf)[0].square().sum().backward()
    torch.testing.assert_close(actual, leaf.grad, rtol=0, atol=1e-12)
    each = torch.func.vmap(lambda row: layer(row.unsqueeze(0))[0].squeeze(0))(x)
    torch.testing.assert_close(each, layer(x)[0], rtol=0, atol=1e-13)
    assert layer.path == "fused"


def test_inside_of_autocast() -> None:
    layer = make_layer(dtype=torch.float32)
    x = noise(2, 4, INPUT, dtype=torch.float32)
    expected, _ = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer.path == "loop: inside torch.autocast"
        actual, _ = layer(x)
    # Products in bfloat16: eight bits.
    torch.testing.assert_close(actual.float(), expected, rtol=0, atol=12 * torch.finfo(torch.bfloat16).eps)
    assert layer.path == "fused"


@pytest.mark.parametrize("cell", [LSTM, GRU, Zoneout, RecurrentDropout])
@pytest.mark.parametrize("training", [True, False])
def test_reading_the_path_uses_no_random_numbers(cell: type[Cell], training: bool) -> None:
    inner = LSTM(INPUT, HIDDEN)
    wrapped = cell(inner, 0.3) if cell in (Zoneout, RecurrentDropout) else cell(INPUT, HIDDEN)
    layer = Recurrent(wrapped).train(training)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    assert layer.path == "fused"
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("cell", [Zoneout, RecurrentDropout])
def test_the_first_call_samples_the_same_noise_as_later_ones(cell: type[Zoneout | RecurrentDropout]) -> None:
    layer = Recurrent(cell(LSTM(INPUT, HIDDEN), 0.5)).train()
    x = noise(3, 6, INPUT, dtype=torch.float32)
    torch.manual_seed(5)
    first, _ = layer(x)
    torch.manual_seed(5)
    second, _ = layer(x)
    assert torch.equal(first, second)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", cells())
def test_results_are_the_same_with_and_without_gradients(name: str) -> None:
    layer = Recurrent(cells()[name](INPUT, HIDDEN)).eval()
    randomize(layer, dtype=torch.float32)
    x, mask = noise(4, 6, INPUT, dtype=torch.float32), make_mask([6, 0, 3, 5], 6)
    expected, last = layer(x, mask)
    assert expected.requires_grad
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            actual, final = layer(x, mask)
        assert not actual.requires_grad
        for left, right in zip((actual, *final), (expected, *last), strict=True):
            torch.testing.assert_close(left, right.detach(), rtol=0, atol=1e-6)


class Model(nn.Module):
    """A recurrent layer between two linear ones."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(4, INPUT)
        self.recurrent = Recurrent(LSTM(INPUT, HIDDEN))
        self.after = nn.Linear(HIDDEN, 2)

    def forward(self, x: Tensor) -> Tensor:
        out, state = self.recurrent(torch.relu(self.before(x)))
        result: Tensor = self.after(torch.tanh(out)) + state.memory.sum()
        return result


@pytest.fixture
def compiler() -> Iterator[None]:
    """Reset torch.compile before and after the test."""
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings from inside torch
        yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("compiler")
def test_a_compiled_model_gives_the_same_numbers() -> None:
    model = Model()
    randomize(model)
    compiled = torch.compile(model, backend="aot_eager")
    for time in (5, 7):
        x = noise(3, time, 4)
        actual, expected = compiled(x), model(x)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
        pairs = [torch.autograd.grad(result.square().sum(), list(model.parameters())) for result in (actual, expected)]
        for left, right in zip(*pairs, strict=True):
            torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=1e-12)
    assert model.recurrent.path == "fused"


def test_a_copy_is_independent() -> None:
    layer = make_layer()
    x = noise(2, 4, INPUT)
    expected, _ = layer(x)
    other = copy.deepcopy(layer)
    assert torch.equal(other(x)[0], expected)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert torch.equal(layer(x)[0], expected)
    assert torch.equal(other(x)[0], torch.zeros_like(expected))


def test_a_copy_may_change_its_dtype() -> None:
    layer = make_layer()
    x = noise(2, 4, INPUT)
    layer(x)
    other = copy.deepcopy(layer).float()
    # float32 against float64 over four steps
    torch.testing.assert_close(other(x.float())[0].double(), layer(x)[0], rtol=0, atol=1e-6)


def test_parameters_load_into_another_layer_by_name() -> None:
    layer, other = make_layer(), Recurrent(LSTM(INPUT, HIDDEN)).double()
    x = noise(2, 4, INPUT)
    before, _ = other(x)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x)[0], layer(x)[0])
    assert not torch.equal(other(x)[0], before)
    assert all(name.startswith("cell.") for name in layer.state_dict())


def test_an_optimizer_step_takes_effect() -> None:
    layer = make_layer()
    x = noise(2, 4, INPUT)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    before, _ = layer(x)
    before.square().sum().backward()
    optimizer.step()
    after, _ = layer(x)
    layer.fused = False
    torch.testing.assert_close(after, layer(x)[0], rtol=0, atol=1e-13)
    assert not torch.allclose(before, after)


def test_a_replaced_parameter_takes_effect() -> None:
    layer = make_layer()
    x = noise(2, 4, INPUT)
    layer(x)
    linear = layer.cell.get_submodule("recurrent")
    linear.weight = nn.Parameter(0.1 * noise(4 * HIDDEN, HIDDEN, seed=9))
    actual, _ = layer(x)
    layer.fused = False
    torch.testing.assert_close(actual, layer(x)[0], rtol=0, atol=1e-13)


def test_a_replaced_cell_takes_effect() -> None:
    layer = Recurrent(Elman(INPUT, HIDDEN)).double()
    x = noise(2, 4, INPUT)
    for activation in ("tanh", "relu", "tanh"):
        layer.cell = Elman(INPUT, HIDDEN, activation=activation).double()
        layer.fused = True
        actual, _ = layer(x)
        layer.fused = False
        torch.testing.assert_close(actual, layer(x)[0], rtol=0, atol=1e-13)


def double(module: nn.Module, arguments: object, result: Tensor) -> Tensor:
    return 2 * result


def change_the_rate(cell: Zoneout) -> None:
    cell.rate = 0.9


def replace_a_submodule(cell: Zoneout) -> None:
    cell.cell.input = projection(INPUT, HIDDEN, blocks=4).double()


def replace_the_wrapped_cell(cell: Zoneout) -> None:
    cell.cell = LSTM(INPUT, HIDDEN).double()


def hook_the_projection(cell: Zoneout) -> None:
    cell.cell.input.register_forward_hook(double)


def hook_the_product(cell: Zoneout) -> None:
    cell.cell.get_submodule("recurrent").register_forward_hook(double)


@pytest.mark.parametrize(
    "change", [change_the_rate, replace_a_submodule, replace_the_wrapped_cell, hook_the_projection, hook_the_product]
)
def test_changes_after_the_first_call_take_effect(change: Callable[[Zoneout], None]) -> None:
    cell = Zoneout(LSTM(INPUT, HIDDEN), 0.3)
    layer = Recurrent(cell).eval()
    randomize(layer)
    x = noise(2, 4, INPUT)
    before, _ = layer(x)
    change(cell)
    actual, _ = layer(x)
    layer.fused = False
    torch.testing.assert_close(actual, layer(x)[0], rtol=0, atol=1e-13)
    assert not torch.allclose(actual, before)


def test_hooks_of_the_projection_are_called() -> None:
    layer = make_layer()
    hook_the_projection(Zoneout(layer.cell, 0.3))
    x = noise(2, 4, INPUT)
    actual, _ = layer(x)
    layer.fused = False
    torch.testing.assert_close(actual, layer(x)[0], rtol=0, atol=1e-13)


def test_submodules_in_eval_mode_add_no_noise() -> None:
    inner = RecurrentDropout(GRU(INPUT, HIDDEN), 0.4)
    layer = Recurrent(Zoneout(inner, 0.3)).train()
    randomize(layer)
    x = noise(2, 4, INPUT)
    for training in (True, False, True):
        inner.train(training)
        torch.manual_seed(1)
        actual, _ = layer(x)
        layer.fused = False
        torch.manual_seed(1)
        torch.testing.assert_close(actual, layer(x)[0], rtol=0, atol=1e-13)
        layer.fused = True


def test_double_precision_is_double() -> None:
    layer = make_layer()
    x = noise(2, 40, INPUT)
    actual, state = layer(x)
    layer.fused = False
    expected, _ = layer(x)
    assert actual.dtype == state.memory.dtype == torch.float64
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-13)


def test_compiling_a_kernel_leaves_the_parameters_that_other_threads_use() -> None:
    seen: list[object] = []

    class Watched(LSTM):
        def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
            seen.append(layer.cell.get_submodule("recurrent").weight)
            return super().step(projected, state)

    layer = Recurrent(Watched(INPUT, HIDDEN))
    original = layer.get_parameter("cell.recurrent.weight")
    with pytest.warns(UserWarning, match="step changes seen"):
        assert layer.path == "loop: step changes seen"
    assert seen
    assert all(weight is original for weight in seen)


def test_a_layer_works_in_a_second_thread() -> None:
    layer = make_layer()
    x = noise(2, 4, INPUT)
    actual: list[Tensor] = []

    def work() -> None:
        out, _ = layer(x)
        out.sum().backward()
        actual.append(out)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gradients = [parameter.grad for parameter in layer.parameters()]
    layer.zero_grad()
    out, _ = layer(x)
    out.sum().backward()
    assert torch.equal(actual[0], out)
    for left, parameter in zip(gradients, layer.parameters(), strict=True):
        assert left is not None
        assert parameter.grad is not None
        assert torch.equal(left, parameter.grad)


@pytest.mark.parametrize("fused", [True, False])
def test_single_steps_use_weights_changed_by_an_optimizer(*, fused: bool) -> None:
    """Packed weights are kept from step to step: whatever changes them must be noticed."""
    layer = Recurrent(LSTM(3, 20)).double()
    plain = copy.deepcopy(layer)
    plain.fused = False
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1, fused=fused)
    x = noise(40, 1, 3)
    for _ in range(3):
        plain.load_state_dict(layer.state_dict())
        with torch.no_grad():
            torch.testing.assert_close(layer(x)[0], plain(x)[0], rtol=0, atol=1e-13)
        layer(x)[0].square().sum().backward()
        optimizer.step()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.data.mul_(2)  # which torch does not count
        layer.eval()
        plain.load_state_dict(layer.state_dict())
        torch.testing.assert_close(layer(x)[0], plain(x)[0], rtol=0, atol=1e-13)


def transpose(layer: Recurrent) -> None:
    """Square matrices at the same address, with other strides."""
    weight = layer.cell.get_parameter("recurrent.weight")
    weight.data = weight.data.t()


def negate(layer: Recurrent) -> None:
    for parameter in layer.parameters():
        parameter.data.neg_()  # which torch does not count


def replace(layer: Recurrent) -> None:
    layer.cell.input.weight = nn.Parameter(noise(6, 6, seed=5))


def hook(layer: Recurrent) -> None:
    layer.cell.get_submodule("recurrent").register_forward_hook(double)


def turn(layer: Recurrent) -> None:
    layer.reverse = not layer.reverse


@pytest.mark.parametrize("change", [transpose, negate, replace, hook, turn])
@pytest.mark.parametrize(("batch", "time"), [(1, 1), (3, 1), (1, 7), (1, 200), (2, 5)])
def test_calls_without_gradients_follow_every_change(
    change: Callable[[Recurrent], None], batch: int, time: int
) -> None:
    """Their arguments are kept from call to call, so that a short call spends little time outside of its kernel."""
    layer = Recurrent(Elman(6, 6)).double()
    x, state = noise(batch, time, 6), Elman.State(noise(batch, 6, seed=1))

    def compare() -> Tensor:
        actual: Tensor
        actual, final = layer(x, state=state)
        layer.fused = False
        expected, final_expected = layer(x, state=state)
        layer.fused = True
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-13)
        torch.testing.assert_close(final, final_expected, rtol=0, atol=1e-13)
        return actual

    with torch.no_grad():
        before = compare()
        assert torch.equal(compare(), before)
        change(layer)
        after = compare()
        assert (change is turn and time == 1) or not torch.equal(before, after)
        x = noise(batch + 1, time + 1, 6, seed=3)  # another shape
        state = Elman.State(noise(batch + 1, 6, seed=4))
        compare()


def test_results_of_calls_without_gradients_belong_to_the_caller() -> None:
    layer, x = Recurrent(LSTM(4, 4)), noise(1, 1, 4, dtype=torch.float32)
    with torch.no_grad():
        out, state = layer(x)
        kept = out.clone(), state.hidden.clone(), state.memory.clone()
        out.zero_()
        assert torch.equal(state.hidden, kept[1])
        layer(x, state=state)
        assert torch.equal(state.hidden, kept[1])
        assert torch.equal(state.memory, kept[2])
        assert not any(tensor.is_inference() or tensor.requires_grad for tensor in (out, *state))


@pytest.mark.parametrize("size", [1, 4])
def test_an_input_that_torch_negates_when_it_is_read(size: int) -> None:
    layer = Recurrent(Elman(size, size)).double()
    x = torch.complex(noise(1, 1, size), noise(1, 1, size, seed=1)).conj().imag
    state = Elman.State(torch.complex(noise(1, size), noise(1, size, seed=2)).conj().imag)
    assert x.is_neg()
    copied = layer(x.clone().resolve_neg(), state=Elman.State(state.hidden.clone().resolve_neg()))[0]
    torch.testing.assert_close(layer(x, state=state)[0], copied, rtol=0, atol=1e-15)
    with torch.no_grad():
        torch.testing.assert_close(layer(x, state=state)[0], copied, rtol=0, atol=1e-15)


class FastWeights(Cell):
    """A matrix as memory: C' = f C + v kᵀ, h' = tanh(C' q)."""

    class State(NamedTuple):
        hidden: Tensor
        memory: Tensor  # (B, H, H)

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=3)
        self.recurrent = recurrence(hidden_size)
        self.forget = nn.Parameter(torch.zeros(1, hidden_size))

    def start(self, batch: int) -> State:
        zeros = self.forget.new_zeros
        return self.State(zeros(batch, self.hidden_size), zeros(batch, self.hidden_size, self.hidden_size))

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        k, v, q = projected.chunk(3, dim=-1)
        v = torch.tanh(v + self.recurrent(state.hidden))
        memory = self.forget.sigmoid() * state.memory + torch.einsum("bi,bj->bij", v, k)
        return self.State(torch.einsum("bij,bj->bi", memory, q).tanh(), memory), ()


def test_a_cell_with_a_matrix_as_state_keeps_all_laws() -> None:
    check_cell(FastWeights, require_fused=True)
    layer = Recurrent(FastWeights(3, 4))
    _, state = layer(torch.randn(2, 5, 3))
    assert state.memory.shape == (2, 4, 4)
    with pytest.raises(ValueError, match=r"state.memory has shape \(2, 16\), expected \(2, 4, 4\)"):
        layer(torch.randn(2, 5, 3), state=state._replace(memory=state.memory.flatten(1)))
