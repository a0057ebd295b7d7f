"""The kernel equals the plain loop: directions, precisions, sizes, lengths, chunks and threads."""

from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.registry import HIDDEN, INPUT, build, cells, make_mask, noise, randomize
from torch import Tensor, nn
from torch.autograd import gradgradcheck
from torch.nn import functional

from seqloom.cells.cell import Cell, projection, recurrence
from seqloom.kernels.fuse import scan
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.testing import check_cell
from seqloom.testing.cells import CellCase, compare_kernel_with_loop, kernel_equals_the_loop, plain, random_state
from seqloom.testing.laws import check_law

EVERY_CELL = pytest.mark.parametrize("name", cells())
EVERY_TYPE = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
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
    assert rows * 30 > 2 * scan.CHUNK_ROWS["backward"]
    check(make_layer("LSTM()"), rows, 30, [30 - row // 2 for row in range(rows)])


@pytest.mark.parametrize("lengths", [[11], [11, 2, 0, 7]], ids=str)
@pytest.mark.parametrize("name", ["LSTM()", "GRU(reset=before)", "LayerNormGRU()", "Zoneout(LSTM)"])
def test_results_do_not_depend_on_the_chunk_size(
    name: str, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "CHUNK_ROWS", dict.fromkeys(scan.CHUNK_ROWS, 6))
    check(make_layer(name), len(lengths), 11, lengths)
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    check(make_layer(name, "reverse"), len(lengths), 11, lengths, threads=2)


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


def test_the_plain_loop_can_be_differentiated_twice() -> None:
    layer = make_layer("LSTM()")
    x = noise(2, 3, INPUT).requires_grad_()
    with plain(layer):
        assert gradgradcheck(lambda x: layer(x)[0], (x,), fast_mode=True)


def test_the_kernel_says_that_it_cannot_be_differentiated_twice() -> None:
    layer = make_layer("LSTM()")
    x = noise(2, 3, INPUT).requires_grad_()
    (gradient,) = torch.autograd.grad(layer(x)[0].square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()


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
