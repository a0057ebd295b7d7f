"""The laws that hold for every cell in every layer (1, 2, 3 and 6 of ARCHITECTURE.md), and errors for bad input."""

import copy
import io
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.registry import HIDDEN, INPUT, build, cells, convolutions, layers, masked, noise, shake
from torch import Tensor

from seqloom import state as states
from seqloom.layers.layer import Layer

EVERY_CELL = pytest.mark.parametrize("cell", cells())
EVERY_LAYER = pytest.mark.parametrize("layer", layers())
BOTH_WAYS = pytest.mark.parametrize("layer", ["forward", "bidirectional"])
IN_PIECES = pytest.mark.parametrize("layer", [name for name in layers() if "bidirectional" not in name])
EVERY_CONVOLUTION = pytest.mark.parametrize("name", convolutions())
# Only rounding may differ: the number of rows in a product decides the order of its additions.
PRECISIONS = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-6)])

ANY_CELL = st.sampled_from(sorted(cells()))
ANY_LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=4)
PROPERTY = settings(max_examples=20)


class Result(NamedTuple):
    outputs: Tensor
    slope: Tensor  # the gradient of x
    state: list[Tensor]
    parameters: list[Tensor]  # their gradients


def run(layer: Layer, x: Tensor, mask: Tensor | None, rows: list[int] | None = None) -> Result:
    """Results and gradients of some rows, with a loss in which every output and state counts in its own way."""
    x = x.clone().requires_grad_()
    chosen = list(range(len(x))) if rows is None else rows
    outputs, state = layer(x[chosen], None if mask is None else mask[chosen])
    weights = noise(len(x), 110, layer.output_size, seed=5, dtype=x.dtype)[chosen, : x.shape[1]]
    loss = (outputs * weights).sum() + torch.stack([field.square().sum() for field in flat(state)]).sum()
    variables = [x, *layer.parameters()]
    slopes = [torch.zeros_like(variable) for variable in variables]
    if loss.requires_grad:  # not so without a single step
        slopes = list(torch.autograd.grad(loss, variables, allow_unused=True, materialize_grads=True))
    return Result(outputs.detach(), slopes[0], [field.detach() for field in flat(state)], slopes[1:])


def flat(state: Any) -> list[Tensor]:
    return [state] if isinstance(state, Tensor) else [tensor for part in state for tensor in flat(part)]


def assert_close(found: list[Tensor], wanted: list[Tensor], tolerance: float) -> None:
    for left, right in zip(found, wanted, strict=True):
        # A sum is rounded as its largest terms are, so that the tolerance is relative to the largest value.
        scale = max(1.0, right.abs().max().item()) if right.numel() else 1.0
        torch.testing.assert_close(left, right, rtol=0, atol=tolerance * scale)


def assert_same(found: Result, wanted: Result, tolerance: float) -> None:
    assert_close([found.outputs, found.slope], [wanted.outputs, wanted.slope], tolerance)
    assert_close(found.state + found.parameters, wanted.state + wanted.parameters, tolerance)


def check_pieces(layer: Layer, lengths: list[int], cuts: list[int], *, reverse: bool, tolerance: float) -> None:
    time, dtype = max(lengths), next(layer.parameters()).dtype
    x, mask = noise(len(lengths), time, INPUT, dtype=dtype), masked(lengths, time)
    whole, last = layer(x, mask)
    edges = [0, *sorted(min(cut, time) for cut in cuts), time]
    spans = [slice(*edge) for edge in pairwise(edges)]
    state, pieces = None, []
    for span in reversed(spans) if reverse else spans:
        piece, state = layer(x[:, span], mask[:, span], state)
        pieces.append(piece)
    found = torch.cat(pieces[::-1] if reverse else pieces, dim=1)
    assert_close([found, *flat(state)], [whole, *flat(last)], tolerance)


@EVERY_CELL
@IN_PIECES
@PRECISIONS
def test_pieces_equal_the_whole(cell: str, layer: str, dtype: torch.dtype, tolerance: float) -> None:
    found = build(cell, layer, dtype=dtype)
    check_pieces(found, [7, 2, 0, 5], [1, 4], reverse="reverse" in layer, tolerance=tolerance)


@IN_PIECES
@PROPERTY
@given(cell=ANY_CELL, lengths=ANY_LENGTHS, cuts=st.lists(st.integers(0, 6), max_size=6))
def test_pieces_equal_the_whole_however_cut(layer: str, cell: str, lengths: list[int], cuts: list[int]) -> None:
    check_pieces(build(cell, layer), lengths, cuts, reverse="reverse" in layer, tolerance=1e-13)


def check_padding(layer: Layer, lengths: list[int], extra: int, filling: float | None, *, tolerance: float) -> None:
    time, dtype = max(lengths), next(layer.parameters()).dtype
    mask, longer = masked(lengths, time), masked(lengths, time + extra)
    x = noise(len(lengths), time + extra, INPUT, dtype=dtype)
    padded = x if filling is None else torch.where(longer.unsqueeze(-1), x, filling)
    x = torch.where(mask.unsqueeze(-1), x[:, :time], 0)
    wanted, found = run(layer, x, mask), run(layer, padded, longer)
    for value in (found.outputs, found.slope):
        assert torch.equal(value[~longer], torch.zeros_like(value[~longer]))
    cut = found._replace(outputs=found.outputs[:, :time], slope=found.slope[:, :time])
    assert_same(cut, wanted, tolerance)


@EVERY_CELL
@EVERY_LAYER
@PRECISIONS
def test_padding_is_invisible(cell: str, layer: str, dtype: torch.dtype, tolerance: float) -> None:
    check_padding(build(cell, layer, dtype=dtype), [5, 2, 0, 4], 3, float("nan"), tolerance=tolerance)


@EVERY_LAYER
@settings(PROPERTY, max_examples=12)
@given(
    cell=ANY_CELL,
    lengths=ANY_LENGTHS,
    extra=st.integers(0, 100),
    filling=st.sampled_from([0.0, None, float("nan"), float("inf")]),  # None: noise
)
def test_padding_is_invisible_however_long(
    layer: str, cell: str, lengths: list[int], extra: int, filling: float | None
) -> None:
    check_padding(build(cell, layer), lengths, extra, filling, tolerance=1e-13)


@EVERY_CELL
@BOTH_WAYS
def test_a_full_mask_is_no_mask(cell: str, layer: str) -> None:
    found, x = build(cell, layer), noise(3, 4, INPUT)
    assert_same(run(found, x, torch.ones(3, 4, dtype=torch.bool)), run(found, x, None), 1e-13)


def check_batch_mates(layer: Layer, *, tolerance: float) -> None:
    x, mask = noise(5, 4, INPUT, dtype=next(layer.parameters()).dtype), masked([4, 2, 0, 3, 4], 4)
    whole = run(layer, x, mask)
    parts = [(rows, run(layer, x, mask, rows)) for rows in ([0, 1], [2], [3, 4])]
    for rows, part in parts:
        assert_close([part.outputs, *part.state], [value[rows] for value in (whole.outputs, *whole.state)], tolerance)
    gradients = zip(*[[part.slope, *part.parameters] for _, part in parts], strict=True)
    accumulated = [torch.stack(pieces).sum(dim=0) for pieces in gradients]
    assert_close(accumulated, [whole.slope, *whole.parameters], tolerance)


# The gradients of the parts are rounded before they are added up; layer normalisation makes large ones of small ones.
@EVERY_CELL
@EVERY_LAYER
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
def test_batch_mates_are_invisible(cell: str, layer: str, dtype: torch.dtype, tolerance: float) -> None:
    check_batch_mates(build(cell, layer, dtype=dtype), tolerance=tolerance)


@EVERY_CELL
@BOTH_WAYS
def test_a_batch_mate_that_is_not_a_number_is_invisible(cell: str, layer: str) -> None:
    found, x = build(cell, layer), noise(3, 4, INPUT)
    wanted = run(found, x, None)
    x[1] = float("nan")
    spoiled = run(found, x, None)
    left, right = [spoiled.outputs, spoiled.slope, *spoiled.state], [wanted.outputs, wanted.slope, *wanted.state]
    assert_close([value[[0, 2]] for value in left], [value[[0, 2]] for value in right], 1e-13)


@EVERY_LAYER
@PROPERTY
@given(cell=ANY_CELL, lengths=ANY_LENGTHS)
def test_a_row_of_any_length_equals_the_row_alone(layer: str, cell: str, lengths: list[int]) -> None:
    found, time = build(cell, layer), max(lengths)
    x = noise(len(lengths), time, INPUT)
    outputs, state = found(x, masked(lengths, time))
    for row, length in enumerate(lengths):
        alone, last = found(x[row : row + 1, :length])
        assert_close([outputs[row : row + 1, :length]], [alone], 1e-13)
        assert_close([field[row : row + 1] for field in flat(state)], flat(last), 1e-13)


@EVERY_LAYER
def test_rows_of_no_length_leave_the_state_as_it_is(layer: str) -> None:
    found = build("LSTM()", layer)
    start = states.apply(lambda field: field + 0.5, found(noise(2, 3, INPUT))[1])
    for time in (0, 3):
        outputs, state = found(noise(2, time, INPUT), masked([0, 0], time), start)
        assert torch.equal(outputs, torch.zeros(2, time, found.output_size, dtype=torch.float64))
        assert all(torch.equal(left, right) for left, right in zip(flat(state), flat(start), strict=True))


@EVERY_LAYER
def test_a_batch_of_no_rows_gives_none(layer: str) -> None:
    outputs, state = build("LSTM()", layer)(noise(0, 3, INPUT))
    assert outputs.shape[:2] == (0, 3)
    assert {tuple(field.shape) for field in flat(state)} == {(0, HIDDEN)}


@pytest.mark.parametrize(
    ("cell", "layer"), [*[(cell, "bidirectional") for cell in cells()], *[("LSTM()", layer) for layer in layers()]]
)
def test_saved_and_loaded_copied_and_pickled_it_is_the_same_bit_for_bit(cell: str, layer: str) -> None:
    found = build(cell, layer, dtype=torch.float32)
    other = copy.deepcopy(found)
    shake(other, seed=1, dtype=torch.float32)
    x, mask = noise(3, 5, INPUT, dtype=torch.float32), masked([5, 0, 3], 5)
    wanted = run(found, x, mask)
    assert not torch.equal(run(other, x, mask).outputs, wanted.outputs)
    file = io.BytesIO()
    torch.save(found.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    file = io.BytesIO()
    torch.save(found, file)
    file.seek(0)
    unpickled = torch.load(file, weights_only=False)
    for twin in (other, copy.deepcopy(found), unpickled):
        result = run(twin, x, mask)
        assert torch.equal(result.outputs, wanted.outputs)
        assert torch.equal(result.slope, wanted.slope)
        for left, right in zip(result.state + result.parameters, wanted.state + wanted.parameters, strict=True):
            assert torch.equal(left, right)


@EVERY_LAYER
def test_without_gradients_it_is_the_same(layer: str) -> None:
    found, x = build("LSTM()", layer), noise(3, 5, INPUT)
    outputs, state = found(x)
    with torch.no_grad():
        silent, last = found(x)
    assert not silent.requires_grad
    assert_close([silent, *flat(last)], [outputs.detach(), *[field.detach() for field in flat(state)]], 1e-14)


@EVERY_LAYER
@pytest.mark.parametrize(
    ("x", "mask", "error", "message"),
    [
        (torch.zeros(2, 4), None, ValueError, r"x has shape \(2, 4\), wanted \(batch, time, 3\)"),
        (torch.zeros(2, 4, 7), None, ValueError, r"x has shape \(2, 4, 7\), wanted \(batch, time, 3\)"),
        (torch.zeros(2, 4, 3).long(), None, TypeError, "x has dtype torch.int64, wanted torch.float32"),
        (torch.zeros(2, 4, 3).double(), None, TypeError, "x has dtype torch.float64, wanted torch.float32"),
        (torch.zeros(2, 4, 3, device="meta"), None, ValueError, "x is on meta, wanted cpu"),
        (torch.zeros(2, 4, 3), torch.ones(2, 4), TypeError, "mask has dtype torch.float32, wanted torch.bool"),
        (torch.zeros(2, 4, 3), masked([4, 4], 5), ValueError, r"mask has shape \(2, 5\), wanted \(2, 4\)"),
        (torch.zeros(2, 4, 3), masked([4], 4), ValueError, r"mask has shape \(1, 4\), wanted \(2, 4\)"),
        (torch.zeros(2, 4, 3), masked([4, 2], 4).flip(1), ValueError, "mask row 1 is padded on the left or inside"),
    ],
)
def test_bad_input_is_named(layer: str, x: Tensor, mask: Tensor | None, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build("LSTM()", layer, dtype=torch.float32)(x, mask)


@EVERY_LAYER
def test_a_state_of_another_batch_size_is_refused(layer: str) -> None:
    found = build("LSTM()", layer)
    _, state = found(noise(3, 2, INPUT))
    with pytest.raises(ValueError, match=r"state.hidden has shape \(3, 5\), wanted \(2, 5\)"):
        found(noise(2, 2, INPUT), None, state)


@EVERY_LAYER
def test_a_state_of_another_dtype_is_refused(layer: str) -> None:
    found = build("LSTM()", layer)
    _, state = found(noise(2, 2, INPUT))
    single = states.apply(lambda field: field.float(), state)
    with pytest.raises(TypeError, match=r"state.hidden is torch.float32 on cpu, wanted torch.float64 on cpu"):
        found(noise(2, 2, INPUT), None, single)


@EVERY_LAYER
def test_a_state_that_is_none_is_refused(layer: str) -> None:
    with pytest.raises(TypeError, match="state is Tensor, wanted"):
        build("LSTM()", layer)(noise(2, 2, INPUT), None, torch.zeros(2, HIDDEN))


@EVERY_CONVOLUTION
@PROPERTY
@given(lengths=ANY_LENGTHS, extra=st.integers(0, 100), filling=st.sampled_from([0.0, None, float("nan"), float("inf")]))
def test_a_convolution_sees_no_padding(name: str, lengths: list[int], extra: int, filling: float | None) -> None:
    check_padding(convolutions()[name], lengths, extra, filling, tolerance=1e-13)


@pytest.mark.parametrize("name", [name for name in convolutions() if "causal" in name])
@PROPERTY
@given(lengths=ANY_LENGTHS, cuts=st.lists(st.integers(0, 6), max_size=6))
def test_a_causal_convolution_in_pieces_equals_the_whole(name: str, lengths: list[int], cuts: list[int]) -> None:
    check_pieces(convolutions()[name], lengths, cuts, reverse=False, tolerance=1e-13)


@EVERY_CONVOLUTION
def test_a_convolution_sees_no_batch_mates(name: str) -> None:
    check_batch_mates(convolutions()[name], tolerance=1e-13)


@EVERY_CONVOLUTION
def test_rows_of_no_length_leave_the_state_of_a_convolution_as_it_is(name: str) -> None:
    layer = convolutions()[name]
    _, start = layer(noise(2, 3, INPUT))
    for time in (0, 3):
        outputs, state = layer(noise(2, time, INPUT), masked([0, 0], time), start)
        assert torch.equal(outputs, torch.zeros(2, time, HIDDEN, dtype=torch.float64))
        assert torch.equal(state.past, start.past)


@EVERY_CONVOLUTION
def test_a_convolution_refuses_a_state_that_does_not_fit(name: str) -> None:
    layer = convolutions()[name]
    x, (_, state) = noise(2, 2, INPUT), layer(noise(3, 2, INPUT))
    with pytest.raises(ValueError, match=r"state.past has shape \(3, \d, 3\), wanted \(2, \d, 3\)"):
        layer(x, None, state)
    with pytest.raises(TypeError, match=r"state.past is torch.float32 on cpu, wanted torch.float64 on cpu"):
        layer(x, None, states.apply(lambda field: field[:2].float(), state))
    with pytest.raises(TypeError, match=r"state is Tensor, wanted Convolution\.State"):
        layer(x, None, state.past)
