"""The laws for every layer that looks at a source: pieces, padding of both sides, batch mates, saving, beams."""

import copy
import io
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.attending import SOURCE, layers, memory, tensors
from tests.contracts.registry import INPUT, masked, noise, shake
from tests.contracts.test_layers import Result, assert_close, assert_same, flat
from torch import Tensor

from seqloom import state as states
from seqloom.layers.layer import Layer, Memory, coverage

EVERY_LAYER = pytest.mark.parametrize("name", layers())
NAMES = st.sampled_from(sorted(layers()))
ROWS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=4)  # target and source lengths
FILLINGS = st.sampled_from([0.0, float("nan"), float("inf")])
NAN = float("nan")


def last(state: Any) -> list[Tensor]:
    """What changes in a state, without the source."""
    if isinstance(state, states.Shared):
        return []
    return [state] if isinstance(state, Tensor) else [tensor for part in state for tensor in last(part)]


def run(
    layer: Layer, x: Tensor, mask: Tensor, source: Memory, rows: list[int] | None = None
) -> tuple[Result, list[Tensor]]:
    """Results and gradients of some rows, with a loss in which all counts in its own way; gradients of the source."""
    x = x.clone().requires_grad_()
    chosen = list(range(len(x))) if rows is None else rows
    start = layer.start(len(chosen), states.apply(lambda tensor: tensor[chosen], source), coverage=True)
    outputs, state = layer(x[chosen], mask[chosen], start)
    weights = noise(len(x), 110, layer.output_size, seed=5)[chosen, : x.shape[1]]
    squares = [field.square().sum() for field in last(state) if field.is_floating_point()]
    loss = (outputs * weights).sum() + torch.stack(squares).sum()
    variables = [x, *tensors(source), *layer.parameters()]
    slopes = [torch.zeros_like(variable) for variable in variables]
    if loss.requires_grad:  # not so without a single step
        slopes = list(torch.autograd.grad(loss, variables, allow_unused=True, materialize_grads=True))
    seen = 1 + len(tensors(source))
    result = Result(outputs.detach(), slopes[0], [field.detach() for field in last(state)], slopes[seen:])
    return result, slopes[1:seen]


def check_pieces(layer: Layer, lengths: list[int], sources: list[int], cuts: list[int]) -> None:
    time = max(lengths)
    x, mask = noise(len(lengths), time, INPUT), masked(lengths, time)
    start = layer.start(len(lengths), memory(sources, max(sources)), coverage=True)
    whole, wanted = layer(x, mask, start)
    state, pieces = start, []
    for span in [slice(*edge) for edge in pairwise([0, *sorted(min(cut, time) for cut in cuts), time])]:
        piece, state = layer(x[:, span], mask[:, span], state)
        pieces.append(piece)
    assert_close([torch.cat(pieces, dim=1), *last(state)], [whole, *last(wanted)], 1e-13)


@EVERY_LAYER
def test_pieces_equal_the_whole(name: str) -> None:
    check_pieces(layers()[name], [7, 2, 0, 5], [3, 5, 4, 0], [1, 4])


@settings(max_examples=60)
@given(name=NAMES, rows=ROWS, cuts=st.lists(st.integers(0, 6), max_size=6))
def test_pieces_equal_the_whole_however_cut(name: str, rows: list[tuple[int, int]], cuts: list[int]) -> None:
    check_pieces(layers()[name], [row[0] for row in rows], [row[1] for row in rows], cuts)


def check_padding(layer: Layer, lengths: list[int], sources: list[int], extra: tuple[int, int], filling: float) -> None:
    time, length = max(lengths), max(sources)
    mask, longer = masked(lengths, time), masked(lengths, time + extra[0])
    x = noise(len(lengths), time + extra[0], INPUT).masked_fill(~longer.unsqueeze(-1), filling)
    clean = x[:, :time].masked_fill(~mask.unsqueeze(-1), 0)
    wanted, slopes = run(layer, clean, mask, memory(sources, length, grad=True))
    padded = memory(sources, length + extra[1], filling=filling, grad=True)
    found, spoiled = run(layer, x, longer, padded)
    for value in (found.outputs, found.slope):
        assert torch.equal(value[~longer], torch.zeros_like(value[~longer]))
    assert torch.equal(spoiled[0][~padded.mask], torch.zeros_like(spoiled[0][~padded.mask]))
    # Coverage is as wide as the source; what is added to it is not looked at.
    pairs = zip(found.state, wanted.state, strict=True)
    state = [field[:, : known.shape[1]] if known.dim() > 1 else field for field, known in pairs]
    cut = found._replace(outputs=found.outputs[:, :time], slope=found.slope[:, :time], state=state)
    assert_same(cut, wanted, 1e-13)
    assert_close([spoiled[0][:, :length], *spoiled[1:]], slopes, 1e-13)


@EVERY_LAYER
def test_padding_of_both_sides_is_invisible(name: str) -> None:
    check_padding(layers()[name], [5, 2, 0, 4], [2, 4, 3, 0], (3, 2), NAN)


@settings(max_examples=60)
@given(name=NAMES, rows=ROWS, extra=st.tuples(st.integers(0, 20), st.integers(0, 10)), filling=FILLINGS)
def test_padding_is_invisible_however_long(
    name: str, rows: list[tuple[int, int]], extra: tuple[int, int], filling: float
) -> None:
    check_padding(layers()[name], [row[0] for row in rows], [row[1] for row in rows], extra, filling)


@EVERY_LAYER
def test_batch_mates_are_invisible(name: str) -> None:
    layer, x, mask = layers()[name], noise(5, 4, INPUT), masked([4, 2, 0, 3, 4], 4)
    source = memory([3, 1, 4, 0, 4], 4, grad=True)
    whole, slopes = run(layer, x, mask, source)
    parts = []
    for rows in ([0, 1], [2], [3, 4]):
        part, seen = run(layer, x, mask, source, rows)
        assert_close([part.outputs, *part.state], [value[rows] for value in (whole.outputs, *whole.state)], 1e-13)
        parts.append([part.slope, *seen, *part.parameters])
    accumulated = [torch.stack(pieces).sum(dim=0) for pieces in zip(*parts, strict=True)]
    assert_close(accumulated, [whole.slope, *slopes, *whole.parameters], 1e-13)


@EVERY_LAYER
def test_a_batch_mate_that_is_not_a_number_is_invisible(name: str) -> None:
    layer, x, mask = layers()[name], noise(3, 4, INPUT), masked([4, 4, 3], 4)
    source = memory([3, 2, 4], 4, grad=True)
    wanted, _ = run(layer, x, mask, source)
    x[1] = NAN
    with torch.no_grad():
        source.values[1] = NAN
    found, _ = run(layer, x, mask, source)
    left, right = [found.outputs, found.slope, *found.state], [wanted.outputs, wanted.slope, *wanted.state]
    assert_close([value[[0, 2]] for value in left], [value[[0, 2]] for value in right], 1e-13)


@EVERY_LAYER
def test_no_steps_and_no_rows(name: str) -> None:
    layer = layers()[name]
    start = layer.start(2, memory([3, 2], 3))
    for time in (0, 3):
        outputs, state = layer(noise(2, time, INPUT), masked([0, 0], time), start)
        assert torch.equal(outputs, torch.zeros(2, time, layer.output_size, dtype=torch.float64))
        assert all(torch.equal(left, right) for left, right in zip(flat(state), flat(start), strict=True))
    outputs, _ = layer(noise(0, 3, INPUT), None, layer.start(0, memory([], 2)))
    assert outputs.shape == (0, 3, layer.output_size)


@EVERY_LAYER
def test_hypotheses_of_a_sentence_share_its_source(name: str) -> None:
    """Repeated, moved, thinned out: as if each hypothesis had a source of its own."""
    layer, source = layers()[name], memory([3, 1, 4], 4)
    owners = [0, 1, 2]
    state = layer.start(3, source, coverage=True)
    history = noise(3, 0, INPUT)
    moves = [None, [0, 0, 0, 1, 1, 1, 2, 2, 2], [2, 0, 1, 4, 4, 3, 8, 7, 6], [3, 8, 4, 5, 1], [4, 2, 4, 4], [0]]
    for time, rows in enumerate(moves):
        if time == 1:
            state, history, owners = (
                states.repeat(state, 3),
                history.repeat_interleave(3, 0),
                [0, 0, 0, 1, 1, 1, 2, 2, 2],
            )
        elif rows is not None:
            state, history = states.select(state, torch.tensor(rows)), history[rows]
            owners = [owners[row] for row in rows]
        x = noise(len(owners), 2, INPUT, seed=time)
        history = torch.cat([history, x], dim=1)
        y, state = layer(x, None, state)
        own = states.select(source, torch.tensor(owners))
        wanted, end = layer(history, None, layer.start(len(owners), own, coverage=True))
        assert_close([y, *last(state)], [wanted[:, -2:], *last(end)], 1e-13)


@EVERY_LAYER
def test_coverage_is_the_sum_of_all_weights(name: str) -> None:
    layer, source = layers()[name], memory([3, 1, 4], 4)
    mask = masked([5, 2, 0], 5)
    _, state = layer(noise(3, 5, INPUT), mask, layer.start(3, source, coverage=True))
    found = coverage(state)
    if not ("before" in name or "after" in name or "stack" in name):
        assert found is None
        return
    assert found is not None
    assert coverage(layer(noise(3, 5, INPUT), mask, layer.start(3, source))[1]) is None
    assert torch.equal(found[~source.mask], torch.zeros_like(found[~source.mask]))
    if "predicted" not in name:
        torch.testing.assert_close(found.sum(dim=1), mask.sum(dim=1).double())


@EVERY_LAYER
def test_saved_and_loaded_copied_and_pickled_it_is_the_same_bit_for_bit(name: str) -> None:
    found, source = layers()[name], memory([3, 1, 4], 4, grad=True)
    other = copy.deepcopy(found)
    shake(other, seed=1)
    x, mask = noise(3, 5, INPUT), masked([5, 0, 3], 5)
    wanted = run(found, x, mask, source)
    file = io.BytesIO()
    torch.save(found.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    file = io.BytesIO()
    torch.save(found, file)
    file.seek(0)
    for twin in (other, copy.deepcopy(found), torch.load(file, weights_only=False)):
        result = run(twin, x, mask, source)
        for left, right in zip(flat(result), flat(wanted), strict=True):
            assert torch.equal(left, right)


@EVERY_LAYER
def test_without_a_memory_or_with_another_one_it_says_so(name: str) -> None:
    layer = layers()[name]
    if name != "bridged-copy":
        with pytest.raises(TypeError, match=r"state is NoneType, wanted (Before|After|Fixed)\.State: begin with start"):
            layer(noise(2, 3, INPUT))
        with pytest.raises(ValueError, match=rf"memory.values has shape \(3, 4, 4\), wanted \(2, length, {SOURCE}\)"):
            layer.start(2, memory([1, 2, 3], 4))
    with pytest.raises(ValueError, match="memory is None, but"):
        layer.start(2)


@pytest.mark.parametrize("name", ["after-additive", "before-additive", "fixed-last"])
def test_a_state_of_another_batch_size_is_refused(name: str) -> None:
    state = layers()[name].start(3, memory([1, 2, 3], 4))
    with pytest.raises(ValueError, match=r"state\.\w+ has shape \(3(, \d)?,?\), wanted \(2"):
        layers()[name](noise(2, 3, INPUT), None, state)
