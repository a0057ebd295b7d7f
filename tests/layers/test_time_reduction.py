"""Time reduction against a plain loop, in chunks, and with padding."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seqloom.layers.time_reduction import Method, TimeReduction

METHODS = pytest.mark.parametrize("method", ["stride", "pyramid", "max"])
LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=4)
PROPERTY = settings(max_examples=40, deadline=None, derandomize=True)


def build(factor: int, method: Method) -> TimeReduction:
    torch.manual_seed(factor)
    return TimeReduction(3, factor, method=method).double()


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


def masked(lengths: list[int], time: int) -> Tensor:
    return torch.arange(time) < torch.tensor(lengths).unsqueeze(1)


def by_hand(layer: TimeReduction, row: Tensor) -> Tensor:  # (T, 3)
    groups = []
    for start in range(0, len(row), layer.factor):
        group = row.new_zeros(layer.factor, 3)
        elements = row[start : start + layer.factor]
        group[: len(elements)] = elements
        if layer.method == "max":
            groups.append(torch.stack([max(column) for column in elements.T]))
            continue
        joined = torch.cat(list(group))
        groups.append(
            joined if layer.linear is None else (layer.linear.weight @ joined + layer.linear.bias).clamp(min=0)
        )
    return torch.stack(groups) if groups else row.new_zeros(0, layer.output_size)


@METHODS
@PROPERTY
@given(lengths=LENGTHS, factor=st.integers(1, 4), extra=st.integers(0, 5))
def test_each_row_equals_a_plain_loop_whatever_the_padding(
    method: Method, lengths: list[int], factor: int, extra: int
) -> None:
    layer, time = build(factor, method), max(lengths) + extra
    mask = masked(lengths, time)
    x = noise(len(lengths), time, 3)
    y, real, _ = layer(torch.where(mask.unsqueeze(-1), x, float("nan")), mask)
    for row, length in enumerate(lengths):
        expected = by_hand(layer, x[row, :length])
        assert int(real[row].sum()) == len(expected) == layer.output_length(length)
        torch.testing.assert_close(y[row, : len(expected)], expected, atol=1e-13, rtol=0)
        assert not y[row, len(expected) :].any()


@METHODS
@PROPERTY
@given(lengths=LENGTHS, factor=st.integers(1, 4), cuts=st.lists(st.integers(0, 9), max_size=4))
def test_chunks_equal_the_whole(method: Method, lengths: list[int], factor: int, cuts: list[int]) -> None:
    layer, time = build(factor, method), max(lengths)
    x, mask = noise(len(lengths), time, 3), masked(lengths, time)
    whole, real, _ = layer(x, mask)
    bounds = [0, *sorted(min(cut, time) for cut in cuts), time]
    actual: list[list[Tensor]] = [[] for _ in lengths]
    state = None
    for index, (start, stop) in enumerate(pairwise(bounds)):
        more = index < len(bounds) - 2
        y, chunk_mask, state = layer(x[:, start:stop], mask[:, start:stop], state, more=more)
        for row in range(len(lengths)):
            actual[row] += list(y[row][chunk_mask[row]])
    for row in range(len(lengths)):
        expected = whole[row][real[row]]
        chunks = torch.stack(actual[row]) if actual[row] else expected[:0]
        torch.testing.assert_close(chunks, expected, atol=1e-13, rtol=0)


@METHODS
def test_gradients(method: Method) -> None:
    layer, mask = build(3, method), masked([7, 0, 4], 7)
    assert torch.autograd.gradcheck(lambda x: layer(x, mask)[0], noise(3, 7, 3).requires_grad_())


def test_errors_name_the_argument() -> None:
    with pytest.raises(ValueError, match="factor must be at least 1, got 0"):
        TimeReduction(3, 0)
    with pytest.raises(ValueError, match="method is 'mean', expected one of stride, pyramid"):
        TimeReduction(3, 2, method="mean")  # type: ignore[arg-type]
    layer = TimeReduction(3, 2)
    x = torch.zeros(2, 4, 3)
    state = layer(torch.zeros(3, 4, 3), more=True)[2]
    with pytest.raises(ValueError, match=r"state.pending has shape \(3, 1, 3\), expected \(2, 1, 3\)"):
        layer(x, None, state)
    with pytest.raises(TypeError, match=r"state is Tensor, expected TimeReduction\.State"):
        layer(x, None, x)
    with pytest.raises(TypeError, match=r"state.pending is torch.float64"):
        layer(x, None, TimeReduction.State(torch.zeros(2, 1, 3).double(), torch.zeros(2).long()))
    with pytest.raises(ValueError, match=r"x has shape \(2, 4, 5\)"):
        layer(torch.zeros(2, 4, 5))
