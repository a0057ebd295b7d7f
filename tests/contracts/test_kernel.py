"""The kernel equals the plain loop: directions, precisions, sizes, lengths, chunks and threads."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.registry import HIDDEN, INPUT, build, cells, make_mask, noise, randomize
from torch import Tensor, nn
from torch.autograd import forward_ad, gradgradcheck
from torch.nn import functional

from seqloom.cells.cell import Cell, projection, recurrence
from seqloom.cells.sru import SRU
from seqloom.kernels.fuse import inference, scan
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.testing import check_cell
from seqloom.testing.cells import CellCase, compare_kernel_with_loop, kernel_equals_the_loop, plain, random_state
from seqloom.testing.laws import check_law

pytestmark = pytest.mark.sampled(12)

EVERY_CELL = pytest.mark.parametrize("name", cells())
EVERY_TYPE = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
functional_autograd: Any = torch.autograd.functional  # without types
SOME_CELLS = ["LSTM()", "GRU(reset=before)", "GRU(reset=after)", "LayerNormLSTM()", "Elman(activation=maxout)"]


def make_layer(name: str, direction: str = "forward", *, dtype: torch.dtype = torch.float64) -> Recurrent:
    layer = build(name, direction, dtype=dtype)
    assert isinstance(layer, Recurrent)
    return layer


def check(layer: Recurrent, batch: int, time: int, lengths: list[int] | None = None, *, threads: int = 1) -> None:
    assert layer.path == "fused"
    compare_kernel_with_loop(layer, rows=batch, time=time, lengths=lengths, threads=threads)


# float64, forward and in evaluation: test_cells.
@EVERY_CELL
@pytest.mark.parametrize(
    ("dtype", "reverse"),
    [(torch.float64, True), (torch.float32, False), (torch.float32, True)],
    ids=["float64-reverse", "float32-forward", "float32-reverse"],
)
def test_outputs_state_and_gradients_equal_the_plain_loop(name: str, dtype: torch.dtype, reverse: bool) -> None:
    case = CellCase(cells()[name], name, INPUT, HIDDEN, dtype=dtype, reverse=reverse, require_fused=True)
    check_law(kernel_equals_the_loop, case)


@EVERY_CELL
@EVERY_TYPE
def test_every_cell_is_fused_in_training(name: str, dtype: torch.dtype) -> None:
    assert Recurrent(cells()[name](INPUT, HIDDEN).to(dtype)).train().path == "fused"


@pytest.mark.parametrize("name", [name for name in cells() if "Zoneout" in name or "Dropout" in name])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_noise_in_training_is_that_of_the_plain_loop(name: str, reverse: bool) -> None:
    case = CellCase(cells()[name], name, INPUT, HIDDEN, training=True, reverse=reverse, require_fused=True)
    check_law(kernel_equals_the_loop, case)


@pytest.mark.parametrize("name", ["LSTM()", "GRU(reset=before)", "LayerNormGRU()", "Zoneout(LSTM)"])
@settings(max_examples=15)
@given(data=st.data(), time=st.integers(0, 6), reverse=st.booleans())
def test_any_lengths(name: str, data: st.DataObject, time: int, reverse: bool) -> None:
    lengths = data.draw(st.lists(st.integers(0, time), max_size=5))
    check(make_layer(name, "reverse" if reverse else "forward"), len(lengths), time, lengths)


# Less than a vector, whole vectors, whole panels and a remainder: for all matrices and loops.
@pytest.mark.parametrize(("input_size", "hidden_size"), [(1, 1), (2, 16), (19, 37)])
@pytest.mark.parametrize("name", SOME_CELLS)
@EVERY_TYPE
def test_sizes_that_are_no_multiple_of_the_vector(
    name: str, input_size: int, hidden_size: int, dtype: torch.dtype
) -> None:
    layer = Recurrent(cells()[name](input_size, hidden_size).to(dtype))
    randomize(layer, dtype=dtype)
    check(layer, 3, 4, [4, 0, 2])


def test_many_steps_and_rows_are_run_in_chunks() -> None:
    rows = 40
    assert rows * 30 > 2 * inference.CHUNK_ROWS["backward"]
    check(make_layer("LSTM()"), rows, 30, [30 - row // 2 for row in range(rows)])


@pytest.mark.parametrize("lengths", [[11], [11, 2, 0, 7]], ids=str)
@pytest.mark.parametrize("name", ["LSTM()", "GRU(reset=before)", "LayerNormGRU()", "Zoneout(LSTM)"])
def test_results_do_not_depend_on_the_chunk_size(
    name: str, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "CHUNK_ROWS", dict.fromkeys(inference.CHUNK_ROWS, 6))
    check(make_layer(name), len(lengths), 11, lengths)
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    check(make_layer(name, "reverse"), len(lengths), 11, lengths, threads=2)


@EVERY_TYPE
@pytest.mark.parametrize("size", [1, 5, 40])
def test_an_input_that_the_step_reads_as_well(size: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = SRU(size, size)
    randomize(cell, dtype=dtype)
    layers = [Recurrent(cell, reverse=reverse) for reverse in (False, True)]
    for layer in layers:
        check(layer, 4, 11, [11, 2, 0, 7])
        x, state = noise(4, 11, size, dtype=dtype), random_state(cell, 4, dtype)
        out, *gradients = gradients_of_parameters(layer, x, state)
        with plain(layer):
            expected = gradients_of_parameters(layer, x, state)
        torch.testing.assert_close((out, *gradients), expected)  # no gradient of x is needed
    monkeypatch.setattr(inference, "CHUNK_ROWS", dict.fromkeys(inference.CHUNK_ROWS, 6))
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    for layer in layers:
        check(layer, 1, 11, threads=2)
        check(layer, 4, 11, [11, 2, 0, 7], threads=2)


def gradients_of_parameters(layer: Recurrent, x: Tensor, state: Any) -> tuple[Tensor, ...]:
    out, _ = layer(x, None, state)
    return out, *torch.autograd.grad(out.square().sum(), list(layer.parameters()))


@EVERY_TYPE
@pytest.mark.parametrize("name", SOME_CELLS)
@pytest.mark.parametrize("largest", [0, inference.PACKING_MIN_BYTES], ids=["packed", "as-it-is"])
def test_a_matrix_that_many_steps_of_one_row_read(
    name: str, largest: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "PACKING_MIN_BYTES", largest)
    layer, x = make_layer(name, dtype=dtype), noise(1, inference.PACKING_MIN_STEPS + 1, INPUT, dtype=dtype)
    with torch.no_grad():
        actual = layer(x)
        with plain(layer):
            torch.testing.assert_close(actual, layer(x))


# Both threads share one row (unless there is a reduction over it); several rows are distributed.
@EVERY_CELL
@pytest.mark.parametrize("lengths", [[4], [4, 6, 0]], ids=str)
def test_two_threads(name: str, lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    layer = make_layer(name)
    check(layer, len(lengths), 6, lengths, threads=2)
    x, mask = noise(len(lengths), 6, INPUT, seed=1), make_mask(lengths, 6)
    state = random_state(layer.cell, len(lengths), torch.float64)
    torch.set_num_threads(2)
    with torch.no_grad():
        actual, _ = layer(x, mask, state)
    torch.set_num_threads(1)
    with plain(layer):
        expected, _ = layer(x, mask, state)
    torch.testing.assert_close(actual, expected.detach(), rtol=0, atol=1e-13)


@pytest.mark.parametrize("size", [16, 37])
@pytest.mark.parametrize("name", ["LSTM()", "GRU(reset=before)", "Elman(activation=maxout)"])
def test_a_team_shares_vectors_panels_and_remainders(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    layer = Recurrent(cells()[name](19 if size == 37 else 2, size).double())
    randomize(layer)
    check(layer, 1, 9, threads=2)


@EVERY_CELL
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_second_derivatives_equal_those_of_the_plain_loop(name: str, training: bool) -> None:
    layer = copy.deepcopy(make_layer(name)).train(training)  # the layer itself is shared by all tests
    x, mask = noise(2, 3, INPUT), make_mask([3, 1], 3)
    results = []
    for fused in (True, False):
        layer.fused = fused
        torch.manual_seed(0)  # of the noise in training
        inputs = (x.clone().requires_grad_(), *layer.parameters())
        out, state = layer(inputs[0], mask)
        loss = out.sum() + sum(field.sum() for field in state)  # linear: the gradient that enters is a constant
        gradients = torch.autograd.grad(loss, inputs, create_graph=True, materialize_grads=True)
        total = torch.stack([gradient.square().sum() for gradient in gradients]).sum()
        results.append(torch.autograd.grad(total, inputs, materialize_grads=True))
    assert sum(float(value.abs().sum()) for value in results[0]) > 0
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def test_the_kernel_can_be_differentiated_twice_with_respect_to_everything() -> None:
    layer = make_layer("LSTM()", "reverse")
    x, state = noise(2, 3, INPUT), tuple(random_state(layer.cell, 2, torch.float64))
    inputs = tuple(tensor.detach().requires_grad_() for tensor in (x, *state))
    mask = make_mask([3, 1], 3)
    assert gradgradcheck(lambda x, *state: layer(x, mask, state)[0], inputs, fast_mode=True)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, for dual numbers
def test_hessians_and_batched_and_forward_derivatives_equal_those_of_the_plain_loop() -> None:
    layer, x = make_layer("GRU(reset=after)"), noise(2, 3, INPUT)
    differentiate: dict[str, Callable[[], Any]] = {
        "hessian": lambda: functional_autograd.hessian(lambda x: layer(x)[0].sum(), x),
        "batched": lambda: functional_autograd.jacobian(lambda x: layer(x)[0], x, vectorize=True),
        "forward": lambda: forward_tangent(layer, x),
    }
    for name, function in differentiate.items():
        actual = function()
        with plain(layer):
            expected = function()
        assert float(expected.abs().max()) > 0.01, name
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12, msg=name)


def forward_tangent(layer: Recurrent, x: Tensor) -> Tensor:
    """The derivative in the direction of ones, by dual numbers."""
    with torch.no_grad(), forward_ad.dual_level():
        tangent: Tensor | None = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, torch.ones_like(x)))[0]).tangent
        assert tangent is not None
        return tangent


def test_weights_computed_from_the_input_are_differentiated_once() -> None:
    """The inner gradient of the loop stops at the weights, even if they are a function of x themselves."""
    layer = make_layer("Elman(activation=tanh)")
    x = noise(2, 3, INPUT).requires_grad_()
    results = []
    for fused in (True, False):
        layer.fused = fused
        weights = {name: value * x.mean() for name, value in layer.named_parameters()}
        out, _ = torch.func.functional_call(layer, weights, (x,))
        (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        results.append(torch.autograd.grad(first.square().sum(), x)[0])
    torch.testing.assert_close(*results, rtol=0, atol=1e-12)


class Hidden(NamedTuple):
    hidden: Tensor


class MinimalGated(Cell):
    """A minimal gated unit (Zhou 2016): f = σ(W x + U h), c = tanh(V x + f ∘ h R), h' = (1 − f) ∘ h + f ∘ c."""

    gates = ("forget",)
    State = Hidden

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=2)
        self.recurrent = recurrence(hidden_size)
        self.candidate = nn.Parameter(0.3 * torch.randn(hidden_size, hidden_size))

    def step(self, projected: Tensor, state: Hidden) -> tuple[Hidden, tuple[Tensor, ...]]:
        first, second = projected.chunk(2, dim=-1)
        f = torch.sigmoid(first + self.recurrent(state.hidden))
        c = torch.tanh(second + (f * state.hidden) @ self.candidate)
        return Hidden((1 - f) * state.hidden + f * c), (f,)


class Four(NamedTuple):
    hidden: Tensor
    memory: Tensor
    level: Tensor
    peak: Tensor


class Combined(Cell):
    """All supported features in one cell: four states, reductions over rows, a scalar, conditions."""

    gates = ("share",)
    State = Four

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=3)
        self.recurrent = nn.Linear(hidden_size, 2 * hidden_size)
        self.matrix = nn.Parameter(torch.randn(hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.randn(hidden_size))
        self.gain = nn.Parameter(torch.ones(hidden_size))
        self.scale = nn.Parameter(torch.tensor(0.7))

    def step(self, projected: Tensor, state: Four) -> tuple[Four, tuple[Tensor, ...]]:
        a, b, c = projected.split(self.hidden_size, dim=-1)
        d, e = self.recurrent(state.hidden).chunk(2, dim=-1)
        share = torch.softmax(a + d, dim=-1)
        memory = functional.layer_norm(share * state.memory + functional.silu(b + e), (self.hidden_size,), self.gain)
        level = torch.exp(-functional.softplus(state.level + state.peak @ self.matrix + self.bias))
        peak = torch.where(c > state.peak, self.scale * c, state.peak)
        hidden = torch.clamp(memory * self.scale - level, -1.5, 1.5)
        return Four(hidden, memory, level, peak), (share,)


@pytest.mark.parametrize("make", [MinimalGated, Combined])
def test_a_user_defined_cell(make: type[Cell]) -> None:
    check_cell(make, input_size=INPUT, hidden_size=HIDDEN, require_fused=True)
