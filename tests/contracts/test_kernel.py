"""Law 4: the kernel equals the plain loop, for every cell that exists and for cells that users write."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.registry import HIDDEN, INPUT, build, cells, masked, noise, shake
from tests.kernels.fuse.comparison import Tensors, assert_same, outcome
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional

from seqloom.cells.cell import Cell, projection, recurrence
from seqloom.kernels.fuse import scan
from seqloom.layers.recurrent.recurrent import Recurrent

EVERY_CELL = pytest.mark.parametrize("name", cells())
EVERY_DIRECTION = pytest.mark.parametrize("direction", ["forward", "reverse"])
EVERY_TYPE = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
SOME_CELLS = ["LSTM()", "GRU(reset=before)", "GRU(reset=after)", "LayerNormLSTM()", "Elman(activation=maxout)"]
LENGTHS = [3, 6, 0, 6, 1]  # of 6 steps


def made(name: str, direction: str = "forward", *, dtype: torch.dtype = torch.float64) -> Recurrent:
    layer = build(name, direction, dtype=dtype)
    assert isinstance(layer, Recurrent)
    return layer


@contextmanager
def plainly(layer: Recurrent) -> Iterator[None]:
    layer.fused = False
    try:
        yield
    finally:
        layer.fused = True


def inputs(layer: Recurrent, batch: int, time: int, lengths: list[int] | None) -> tuple[Tensor, Tensor | None, Any]:
    """Random x with NaN in the padding, its mask, and a random state."""
    dtype = next(layer.parameters()).dtype
    x = noise(batch, time, layer.input_size, seed=1, dtype=dtype)
    mask = None if lengths is None else masked(lengths, time)
    if mask is not None:
        x[~mask] = torch.nan
    start = layer.cell.start(batch)
    fields = [0.5 * noise(*field.shape, seed=2 + index, dtype=dtype) for index, field in enumerate(start)]
    return x.requires_grad_(), mask, type(start)(*[field.requires_grad_() for field in fields])


def run(layer: Recurrent, batch: int, time: int, lengths: list[int] | None) -> Tensors:
    x, mask, state = inputs(layer, batch, time, lengths)
    sources = {"x": x, **state._asdict(), **dict(layer.named_parameters())}

    def forward() -> tuple[Tensor, Any]:
        torch.manual_seed(0)
        return cast("tuple[Tensor, Any]", layer(x, mask, state))

    return outcome(forward, sources)


def check(layer: Recurrent, batch: int, time: int, lengths: list[int] | None = None, *, threads: int = 1) -> None:
    assert layer.path == "fused"
    torch.set_num_threads(threads)
    found = run(layer, batch, time, lengths)
    torch.set_num_threads(1)
    with plainly(layer):
        wanted = run(layer, batch, time, lengths)
    assert_same(found, wanted)


@EVERY_CELL
@EVERY_DIRECTION
@EVERY_TYPE
def test_outputs_state_and_gradients_equal_the_plain_loop(name: str, direction: str, dtype: torch.dtype) -> None:
    check(made(name, direction, dtype=dtype), 5, 6, LENGTHS)


@pytest.mark.parametrize("name", [name for name in cells() if "Zoneout" in name or "Dropout" in name])
@EVERY_DIRECTION
def test_noise_while_training_is_that_of_the_plain_loop(name: str, direction: str) -> None:
    reverse = direction == "reverse"
    layer = Recurrent(cells()[name](INPUT, HIDDEN), reverse=reverse).double().train()
    shake(layer)
    check(layer, 5, 6, LENGTHS)


@pytest.mark.parametrize("name", ["LSTM()", "GRU(reset=before)", "LayerNormGRU()", "Zoneout(LSTM)"])
@settings(max_examples=15)
@given(data=st.data(), time=st.integers(0, 6), reverse=st.booleans())
def test_any_lengths(name: str, data: st.DataObject, time: int, reverse: bool) -> None:
    lengths = data.draw(st.lists(st.integers(0, time), max_size=5))
    check(made(name, "reverse" if reverse else "forward"), len(lengths), time, lengths)


# Less than a vector, whole vectors only, whole panels and some more: of all matrices and in all loops.
@pytest.mark.parametrize(("input_size", "hidden_size"), [(1, 1), (2, 16), (19, 37)])
@pytest.mark.parametrize("name", SOME_CELLS)
@EVERY_TYPE
def test_sizes_beside_the_vector(name: str, input_size: int, hidden_size: int, dtype: torch.dtype) -> None:
    layer = Recurrent(cells()[name](input_size, hidden_size).to(dtype))
    shake(layer, dtype=dtype)
    check(layer, 3, 4, [4, 0, 2])


def test_many_steps_and_rows_are_run_in_chunks() -> None:
    rows = 40
    assert rows * 30 > 2 * scan.CHUNK_ROWS["backward"]
    check(made("LSTM()"), rows, 30, [30 - row // 2 for row in range(rows)])


@pytest.mark.parametrize("lengths", [[11], [11, 2, 0, 7]], ids=str)
@pytest.mark.parametrize("name", ["LSTM()", "GRU(reset=before)", "LayerNormGRU()", "Zoneout(LSTM)"])
def test_chunks_are_seamless(name: str, lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "CHUNK_ROWS", dict.fromkeys(scan.CHUNK_ROWS, 6))
    check(made(name), len(lengths), 11, lengths)
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    check(made(name, "reverse"), len(lengths), 11, lengths, threads=2)


# No more than three rows and steps: matrices as they lie. Otherwise packed. Without gradients nothing is kept.
@EVERY_CELL
@pytest.mark.parametrize(("batch", "time"), [(1, 1), (3, 1), (1, 3), (5, 6)])
def test_without_gradients_the_results_are_the_same(name: str, batch: int, time: int) -> None:
    layer = made(name)
    x, _, state = inputs(layer, batch, time, None)
    with torch.no_grad():
        found, final = layer(x, None, state)
    with torch.inference_mode():
        inferred, _ = layer(x, None, state)
    with plainly(layer):
        wanted, last = layer(x, None, state)
    assert torch.equal(found, inferred)
    for left, right in zip((found, *final), (wanted, *last), strict=True):
        torch.testing.assert_close(left, right.detach(), rtol=0, atol=1e-13)


# One row is shared by a team of both threads (unless a sum runs over it); several rows are dealt out.
@EVERY_CELL
@pytest.mark.parametrize("lengths", [[4], [4, 6, 0]], ids=str)
def test_two_threads(name: str, lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    layer = made(name)
    check(layer, len(lengths), 6, lengths, threads=2)
    x, mask, state = inputs(layer, len(lengths), 6, lengths)
    torch.set_num_threads(2)
    with torch.no_grad():
        found, _ = layer(x, mask, state)
    torch.set_num_threads(1)
    with plainly(layer):
        wanted, _ = layer(x, mask, state)
    torch.testing.assert_close(found, wanted.detach(), rtol=0, atol=1e-13)


@pytest.mark.parametrize("size", [16, 37])
@pytest.mark.parametrize("name", ["LSTM()", "GRU(reset=before)", "Elman(activation=maxout)"])
def test_a_team_shares_vectors_panels_and_what_is_left(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SERIAL_LIMIT", 0)
    layer = Recurrent(cells()[name](19 if size == 37 else 2, size).double())
    shake(layer)
    check(layer, 1, 9, threads=2)


@EVERY_CELL
@pytest.mark.parametrize("fused", [True, False], ids=["kernel", "loop"])
def test_gradients_equal_differences(name: str, fused: bool) -> None:
    layer = made(name, "reverse")
    x, mask, state = inputs(layer, 2, 3, [3, 1])
    x = x.nan_to_num().detach().requires_grad_()
    parameters = dict(layer.named_parameters())

    def function(x: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        out, final = layer(x, mask, type(state)(*tensors[: len(state)]))
        return (out, *final)

    arguments = (x, *state, *parameters.values())
    layer.fused = fused
    try:
        assert gradcheck(function, arguments, fast_mode=True)
    finally:
        layer.fused = True


def test_the_plain_loop_can_be_differentiated_twice() -> None:
    layer = made("LSTM()")
    x, _, _ = inputs(layer, 2, 3, None)
    with plainly(layer):
        assert gradgradcheck(lambda x: layer(x)[0], (x,), fast_mode=True)


def test_the_kernel_says_that_it_cannot_be_differentiated_twice() -> None:
    layer = made("LSTM()")
    x, _, _ = inputs(layer, 2, 3, None)
    (gradient,) = torch.autograd.grad(layer(x)[0].square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()


@EVERY_CELL
@EVERY_TYPE
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_every_cell_is_fused(name: str, dtype: torch.dtype, training: bool) -> None:
    layer = Recurrent(cells()[name](INPUT, HIDDEN).to(dtype)).train(training)
    assert layer.path == "fused"


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


class Kitchen(Cell):
    """All that a step may consist of, in one cell: four states, sums over rows, a scalar, conditions."""

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


@pytest.mark.parametrize("make", [MinimalGated, Kitchen])
@EVERY_DIRECTION
@EVERY_TYPE
def test_a_cell_that_a_user_wrote(make: type[Cell], direction: str, dtype: torch.dtype) -> None:
    layer = Recurrent(make(INPUT, HIDDEN), reverse=direction == "reverse")
    shake(layer, dtype=dtype)
    check(layer, 5, 6, LENGTHS)
