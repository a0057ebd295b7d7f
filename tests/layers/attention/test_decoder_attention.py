"""Decoder layers with attention against their equations in NumPy, step by step, and with noise."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tests.cells import equations
from tests.contracts.registry import make_mask, noise, randomize
from torch import Tensor, nn

from seqloom.cells import GRU, LSTM, Cell, LayerNormGRU, RecurrentDropout, Zoneout
from seqloom.layers.attention.attention import Attention
from seqloom.layers.attention.decoder_attention import BahdanauAttention, FixedContext, LuongAttention
from seqloom.layers.layer import Memory

Array = npt.NDArray[np.float64]
INPUT, HIDDEN, SOURCE = 3, 5, 4


def weights(module: nn.Module) -> dict[str, Array]:
    return {name: value.numpy() for name, value in module.state_dict().items()}


def attend(attention: Any, query: Array, values: Array) -> tuple[Array, Array]:
    """Additive attention of one query over one source without padding."""
    parameters = weights(attention.score)
    scores = [
        parameters["combine.weight"][0]
        @ np.tanh(parameters["query.weight"] @ query + parameters["key.weight"] @ value + parameters["key.bias"])
        for value in values
    ]
    alpha = np.exp(scores) / np.exp(scores).sum()
    return alpha @ values, alpha


def example() -> tuple[Tensor, Memory]:
    return noise(2, 4, INPUT), Memory(noise(2, 6, SOURCE, seed=1), make_mask([6, 3], 6), ())


@pytest.mark.parametrize("output_size", [HIDDEN, 0])
def test_luong_attention_equals_its_equations(output_size: int) -> None:
    layer = LuongAttention(Attention(INPUT, SOURCE), output_size)
    randomize(layer)
    x, memory = example()
    y, state = layer(x, make_mask([4, 2], 4), layer.start(2, memory, coverage=True))
    assert y.shape == (2, 4, layer.output_size) == (2, 4, output_size or SOURCE + INPUT)
    for row, (time, length) in enumerate([(4, 6), (2, 3)]):
        covered = np.zeros(6)
        for t in range(time):
            context, alpha = attend(layer.attention, x[row, t].numpy(), memory.values[row, :length].numpy())
            expected = np.concatenate([context, x[row, t].numpy()])
            if output_size:
                expected = np.tanh(weights(layer)["output.weight"] @ expected)
            np.testing.assert_allclose(y[row, t].detach().numpy(), expected, rtol=0, atol=1e-12)
            covered[:length] += alpha
        assert not y[row, time:].any()
        np.testing.assert_allclose(state.coverage[row].detach().numpy(), covered, rtol=0, atol=1e-12)
    assert state.step.tolist() == [4, 2]


@pytest.mark.parametrize(
    ("make", "equation"),
    [(LSTM, equations.lstm), (GRU, equations.gru), (LayerNormGRU, equations.layer_norm_gru)],
)
def test_bahdanau_attention_equals_its_equations(make: type[Any], equation: equations.Step) -> None:
    layer = BahdanauAttention(make(INPUT + SOURCE, HIDDEN), Attention(HIDDEN, SOURCE))
    randomize(layer)
    x, memory = example()
    y, last = layer(x, make_mask([4, 2], 4), layer.start(2, memory, coverage=True))
    for row, (time, length) in enumerate([(4, 6), (2, 3)]):
        state = {name: np.zeros(HIDDEN) for name in make.State._fields}
        for t in range(time):
            context, _ = attend(layer.attention, state["hidden"], memory.values[row, :length].numpy())
            read = np.concatenate([x[row, t].numpy(), context])
            state, _ = equation(layer.cell, weights(layer.cell), read, state)
            expected = np.concatenate([state["hidden"], context])
            np.testing.assert_allclose(y[row, t].detach().numpy(), expected, rtol=0, atol=1e-12)
        for name, field in zip(last.cell._fields, last.cell, strict=True):
            np.testing.assert_allclose(field[row].detach().numpy(), state[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [LSTM, LayerNormGRU])
def test_gradients_of_bahdanau_attention(make: type[Any]) -> None:
    layer = BahdanauAttention(make(2 + 3, 3), Attention(3, 3))
    randomize(layer)
    x, values = noise(2, 3, 2).requires_grad_(), noise(2, 3, 3, seed=1).requires_grad_()
    mask, sources = make_mask([3, 1], 3), make_mask([2, 3], 3)

    def call(x: Tensor, values: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        y, last = layer(x, mask, layer.start(2, Memory(values, sources, ())))
        return y, *last.cell

    assert torch.autograd.gradcheck(call, (x, values, *layer.parameters()))


class CustomProjection(Cell):
    """A cell that overrides ``project``."""

    class State(NamedTuple):
        hidden: Tensor

    gates = ()

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.input = nn.Linear(input_size, hidden_size)

    def project(self, x: Tensor) -> Tensor:
        return torch.tanh(self.input(x))

    def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        return self.State(torch.tanh(projected + 0.5 * state.hidden)), ()


def test_a_cell_that_overrides_project() -> None:
    layer = BahdanauAttention(CustomProjection(INPUT + SOURCE, HIDDEN), Attention(HIDDEN, SOURCE))
    randomize(layer)
    x, memory = example()
    y, _ = layer(x, None, layer.start(2, memory))
    parameters, hidden = weights(layer.cell), np.zeros(HIDDEN)
    for t in range(4):
        context, _ = attend(layer.attention, hidden, memory.values[0].numpy())
        read = np.concatenate([x[0, t].numpy(), context])
        hidden = np.tanh(np.tanh(parameters["input.weight"] @ read + parameters["input.bias"]) + 0.5 * hidden)
        np.testing.assert_allclose(y[0, t].detach().numpy(), np.concatenate([hidden, context]), rtol=0, atol=1e-12)


def test_noise_is_sampled_for_all_steps_by_each_wrapper() -> None:
    inner = LSTM(INPUT + SOURCE, HIDDEN)
    cell = Zoneout(RecurrentDropout(inner, 0.5), 0.5)
    layer = BahdanauAttention(cell, Attention(HIDDEN, SOURCE))
    randomize(layer)
    x, memory = example()
    start = layer.start(2, memory)
    torch.manual_seed(0)
    y, _ = layer(x, None, start)
    torch.manual_seed(0)
    dropped = torch.empty(2, HIDDEN, dtype=torch.float64).bernoulli_(0.5) / 0.5  # one mask for all steps
    kept = torch.empty(4, 2, 2 * HIDDEN, dtype=torch.float64).bernoulli_(0.5)
    state = inner.start(2)
    for t in range(4):
        source = start.attention.source.parts
        context = layer.attention(state.hidden.unsqueeze(1), source.prepared, source.values, mask=source.mask).context[
            :, 0
        ]
        projected = inner.project(torch.cat([x[:, t], context], dim=1))
        next_state, _ = inner.step(projected, LSTM.State(dropped * state.hidden, state.memory))
        pairs = zip(kept[t].chunk(2, dim=1), state, next_state, strict=True)
        state = LSTM.State(*[torch.where(keep.bool(), old, new) for keep, old, new in pairs])
        torch.testing.assert_close(y[:, t], torch.cat([state.hidden, context], dim=1), rtol=0, atol=1e-12)


def test_fixed_context_appends_one_vector_to_every_input() -> None:
    x, memory = example()
    values = memory.values
    last, ends = (
        torch.stack([values[0, 5], values[1, 2]]),
        torch.cat([values[:, 5:6, :2], values[:, :1, 2:]], dim=2)[:, 0],
    )
    ends[1, :2] = values[1, 2, :2]
    means = torch.stack([values[0].mean(dim=0), values[1, :3].mean(dim=0)])
    for kind, expected in (("last", last), ("ends", ends), ("mean", means)):
        layer = FixedContext(INPUT, SOURCE, kind=kind)
        y, _ = layer(x, make_mask([4, 2], 4), layer.start(2, memory))
        assert torch.equal(y[0, :, :INPUT], x[0])
        torch.testing.assert_close(y[0, :, INPUT:], expected[0].expand(4, -1))
        torch.testing.assert_close(y[1, :2, INPUT:], expected[1].expand(2, -1))
        assert not y[1, 2:].any()


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="attention has query_size 4, expected 5"):
        BahdanauAttention(GRU(7, 5), Attention(4, 4))
    with pytest.raises(ValueError, match="cell has input_size 4, expected more than 4"):
        BahdanauAttention(GRU(4, 5), Attention(5, 4))
    with pytest.raises(TypeError, match="cell is Linear, expected a Cell"):
        BahdanauAttention(nn.Linear(4, 5), Attention(5, 4))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind is 'first', expected one of last, ends, mean"):
        FixedContext(3, 4, kind="first")
    with pytest.raises(ValueError, match="kind 'ends' needs two directions of equal width, got a memory of width 5"):
        FixedContext(3, 5, kind="ends")
    layer = LuongAttention(Attention(3, 4), 5)
    with pytest.raises(ValueError, match=r"memory.mask has shape \(2, 5\) and dtype torch.bool, expected \(2, 6\)"):
        layer.start(2, Memory(torch.zeros(2, 6, 4), make_mask([5, 5], 5), ()))
