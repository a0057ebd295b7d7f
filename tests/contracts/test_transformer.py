"""The laws of layers (1, 2, 3 and 6 of ARCHITECTURE.md) for every kind of Transformer, alone and in a mixed stack."""

import copy
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.registry import INPUT, masked, noise, shake
from torch import Tensor

from seqloom import state as states
from seqloom.layers.layer import Layer, Memory
from seqloom.layers.transformer.positions import KINDS
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig, build_stack

MEMORY = 6


def build(positions: str, norm: str, *, causal: bool, memory: bool, context: int = 0, below: str = "") -> Layer:
    options = {"heads": 2, "positions": positions, "norm": norm, "distance": 2, "feed_forward": 10, "context": context}
    cell = (below, "transformer", "transformer") if below else "transformer"
    recurrence = RecurrenceConfig(
        cell=cell, layers=3 if below else 2, hidden_size=8, bidirectional=not causal, options=options
    )
    found = build_stack(PrenetConfig(), recurrence, INPUT, causal=causal, memory_size=MEMORY if memory else 0)
    shake(found)
    return found.eval()


LAYERS = {
    f"{positions}-{norm}-{'causal' if causal else 'both'}-{'memory' if memory else 'alone'}-{context}": build(
        positions, norm, causal=causal, memory=memory, context=context
    )
    for positions, norm, (causal, context), memory in product(
        KINDS, ("pre", "post"), ((True, 0), (True, 3), (False, 0)), (True, False)
    )
}
LAYERS["mixed-causal"] = build("none", "pre", causal=True, memory=True, below="gru")
LAYERS["mixed-both"] = build("rotary", "post", causal=False, memory=False, below="lstm")
EVERY = pytest.mark.parametrize("name", LAYERS)
CAUSAL = [name for name in LAYERS if "causal" in name]
# Only rounding may differ: the number of rows in a product decides the order of its additions.
TOLERANCE = 1e-12


def source(layer: Layer, rows: list[int], *, filling: float = 0.0, extra: int = 0) -> Any:
    """The state to begin with; the memory is padded with anything."""
    lengths = [(3 * row + 2) % 5 for row in rows]
    mask = masked(lengths, 5 + extra)
    values = torch.stack([noise(5 + extra, MEMORY, seed=row + 50) for row in rows])
    values = torch.where(mask.unsqueeze(-1), values, filling)
    needs = any(getattr(part, "memory_size", 0) for part in layer.modules())
    return layer.start(len(rows), Memory(values, mask, ()) if needs else None)


def run(
    layer: Layer, x: Tensor, mask: Tensor | None, rows: list[int], **padding: Any
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Output, gradient of the input and of the parameters; rows say which memory each has."""
    x = x.clone().requires_grad_()
    out, _ = layer(x, mask, source(layer, rows, **padding))
    weights = torch.stack([noise(60, layer.output_size, seed=row) for row in rows])[:, : x.shape[1]]
    slopes = torch.autograd.grad(
        (out * weights).sum(), [x, *layer.parameters()], allow_unused=True, materialize_grads=True
    )
    return out.detach(), slopes[0], list(slopes[1:])


def close(found: Any, wanted: Any) -> None:
    for left, right in zip(found, wanted, strict=True):
        scale = max(1.0, right.abs().max().item()) if right.numel() else 1.0
        torch.testing.assert_close(left, right, rtol=0, atol=TOLERANCE * scale)


def check_pieces(name: str, lengths: list[int], cuts: list[int]) -> None:
    layer, time = LAYERS[name], max(lengths)
    x, mask = noise(len(lengths), time, INPUT), masked(lengths, time)
    state = source(layer, list(range(len(lengths))))
    whole, _ = layer(x, mask, state)
    pieces = []
    for start, end in pairwise([0, *sorted(min(cut, time) for cut in cuts), time]):
        found, state = layer(x[:, start:end], mask[:, start:end], state)
        pieces.append(found)
    close([torch.cat(pieces, dim=1)], [whole])


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("recorded", [True, False])
def test_pieces_equal_the_whole(name: str, *, recorded: bool) -> None:
    with torch.set_grad_enabled(recorded):
        check_pieces(name, [7, 2, 0, 5], [1, 2, 5])
        check_pieces(name, [6, 6], [1, 2, 3, 4, 5])


@settings(max_examples=60)
@given(
    name=st.sampled_from(CAUSAL),
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 6), max_size=6),
)
def test_pieces_equal_the_whole_however_cut(name: str, lengths: list[int], cuts: list[int]) -> None:
    with torch.no_grad():
        check_pieces(name, lengths, cuts)


@EVERY
@pytest.mark.parametrize("filling", [0.0, float("nan"), float("inf")])
def test_padding_is_invisible(name: str, filling: float) -> None:
    layer, lengths = LAYERS[name], [5, 2, 0, 4]
    mask, longer = masked(lengths, 5), masked(lengths, 9)
    x = noise(4, 5, INPUT).masked_fill(~mask.unsqueeze(-1), 0)
    padded = torch.full((4, 9, INPUT), filling, dtype=torch.float64)
    padded[:, :5] = torch.where(mask.unsqueeze(-1), x, filling)
    wanted = run(layer, x, mask, [0, 1, 2, 3])
    found = run(layer, padded, longer, [0, 1, 2, 3], filling=filling, extra=0)
    for value in found[:2]:
        assert torch.equal(value[~longer], torch.zeros_like(value[~longer]))
    close([found[0][:, :5], found[1][:, :5], *found[2]], [wanted[0], wanted[1], *wanted[2]])


@EVERY
def test_batch_mates_are_invisible(name: str) -> None:
    layer, x, mask = LAYERS[name], noise(5, 4, INPUT), masked([4, 2, 0, 3, 4], 4)
    whole = run(layer, x, mask, [0, 1, 2, 3, 4])
    parts = [(rows, run(layer, x[rows], mask[rows], rows)) for rows in ([0, 1], [2], [4, 3])]
    for rows, part in parts:
        close(part[:2], [whole[0][rows], whole[1][rows]])
    summed = [torch.stack(slopes).sum(dim=0) for slopes in zip(*(part[2] for _, part in parts), strict=True)]
    close(summed, whole[2])


@EVERY
def test_a_full_mask_is_no_mask(name: str) -> None:
    layer, x = LAYERS[name], noise(3, 4, INPUT)
    found, wanted = (run(layer, x, mask, [0, 1, 2]) for mask in (torch.ones(3, 4, dtype=torch.bool), None))
    close([*found[:2], *found[2]], [*wanted[:2], *wanted[2]])


@EVERY
def test_a_copy_with_the_saved_weights_is_the_same(name: str) -> None:
    layer = LAYERS[name]
    other = copy.deepcopy(layer)
    shake(other, seed=9)
    other.load_state_dict(layer.state_dict())
    x = noise(2, 3, INPUT)
    assert torch.equal(other(x, None, source(other, [0, 1]))[0], layer(x, None, source(layer, [0, 1]))[0])


@pytest.mark.parametrize("name", CAUSAL)
def test_rows_of_a_state_can_be_moved_and_repeated(name: str) -> None:
    layer, x = LAYERS[name], noise(3, 6, INPUT)
    rows = torch.tensor([2, 0, 0, 1])
    with torch.no_grad():
        whole, _ = layer(x, None, source(layer, [0, 1, 2]))
        _, state = layer(x[:, :4], None, source(layer, [0, 1, 2]))
        moved, _ = layer(x[rows, 4:], None, states.select(state, rows))
        fewer, _ = layer(x[1:2, 4:], None, states.select(state, torch.tensor([1])))
        repeated, after = layer(x[:, 4:5].repeat_interleave(2, dim=0), None, states.repeat(state, 2))
        last, _ = layer(x[rows[:2], 5:], None, states.select(after, 2 * rows[:2]))
    close([moved, fewer, repeated], [whole[rows, 4:], whole[1:2, 4:], whole[:, 4:5].repeat_interleave(2, dim=0)])
    close([last], [whole[rows[:2], 5:]])
