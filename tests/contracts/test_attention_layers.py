"""The laws of seqloom.testing for every layer that attends to a source, and what holds for these layers only."""

import io

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.attention_layers import ENCODER, SOURCE, layers, memory
from tests.contracts.registry import INPUT, make_mask, noise

from seqloom import state as states
from seqloom.layers.layer import coverage
from seqloom.testing.laws import Law, assert_close, check_law, tensors
from seqloom.testing.layers import LayerCase, laws_for, padding_is_invisible, pieces_equal_the_whole, run

pytestmark = pytest.mark.sampled(12)

EVERY_LAYER = pytest.mark.parametrize("name", layers())
WITH_COVERAGE = [name for name in layers() if "bahdanau" in name or "luong" in name or "stack" in name]
NAMES = st.sampled_from(sorted(layers()))
ROWS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=4)  # target and source lengths
FILLINGS = st.sampled_from([0.0, float("nan"), float("inf")])


def case(name: str) -> LayerCase:
    return LayerCase(layers()[name], name, memory_size=SOURCE, encoder=ENCODER, tolerance=1e-13)


@pytest.mark.parametrize(
    ("law", "name"),
    [pytest.param(law, name, id=f"{law.__name__}-{name}") for name in layers() for law in laws_for(case(name))],
)
def test_law(law: Law, name: str) -> None:
    check_law(law, case(name))


@settings(max_examples=60)
@given(name=NAMES, rows=ROWS, cuts=st.lists(st.integers(0, 6), max_size=6))
def test_pieces_equal_the_whole_however_cut(name: str, rows: list[tuple[int, int]], cuts: list[int]) -> None:
    check_law(
        pieces_equal_the_whole, case(name), lengths=[row[0] for row in rows], source=[row[1] for row in rows], cuts=cuts
    )


@settings(max_examples=60)
@given(name=NAMES, rows=ROWS, extra=st.tuples(st.integers(0, 20), st.integers(0, 10)), filling=FILLINGS)
def test_padding_is_invisible_however_long(
    name: str, rows: list[tuple[int, int]], extra: tuple[int, int], filling: float
) -> None:
    lengths, source = [row[0] for row in rows], [row[1] for row in rows]
    check_law(padding_is_invisible, case(name), lengths=lengths, source=source, extra=extra, filling=filling)


@EVERY_LAYER
def test_hypotheses_of_a_sentence_share_its_source(name: str) -> None:
    """Rows are repeated, moved and dropped: the results equal those of separate sources."""
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
        sources = states.select(source, torch.tensor(owners))
        expected, end = layer(history, None, layer.start(len(owners), sources, coverage=True))
        assert_close({"outputs": y, **tensors(state)}, {"outputs": expected[:, -2:], **tensors(end)}, tolerance=1e-13)


@pytest.mark.parametrize("name", WITH_COVERAGE)
def test_coverage_is_the_sum_of_all_weights(name: str) -> None:
    layer, source = layers()[name], memory([3, 1, 4], 4)
    mask = make_mask([5, 2, 0], 5)
    _, state = layer(noise(3, 5, INPUT), mask, layer.start(3, source, coverage=True))
    actual = coverage(state)
    assert actual is not None
    assert coverage(layer(noise(3, 5, INPUT), mask, layer.start(3, source))[1]) is None
    assert torch.equal(actual[~source.mask], torch.zeros_like(actual[~source.mask]))
    if "predictive" not in name:
        torch.testing.assert_close(actual.sum(dim=1), mask.sum(dim=1).double())


@pytest.mark.parametrize("name", sorted(layers().keys() - set(WITH_COVERAGE)))
def test_layers_without_attention_have_no_coverage(name: str) -> None:
    layer = layers()[name]
    _, state = layer(noise(3, 5, INPUT), None, layer.start(3, memory([3, 1, 4], 4), coverage=True))
    assert coverage(state) is None


@EVERY_LAYER
def test_a_pickled_layer_is_the_same_bit_for_bit(name: str) -> None:
    original, x, mask = case(name), noise(3, 5, INPUT), make_mask([5, 0, 3], 5)
    source = original.memory([3, 1, 4])
    file = io.BytesIO()
    torch.save(original.layer, file)
    file.seek(0)
    unpickled = LayerCase(torch.load(file, weights_only=False), name, memory_size=SOURCE, encoder=ENCODER)
    actual, expected = (run(item, x, mask, memory=source).everything() for item in (unpickled, original))
    assert_close(actual, expected, tolerance=0)


@EVERY_LAYER
def test_a_missing_or_mismatched_memory_is_refused(name: str) -> None:
    layer = layers()[name]
    if name != "bridged-copy":
        with pytest.raises(
            TypeError,
            match=r"state is NoneType, expected (BahdanauAttention|LuongAttention|FixedContext|SlidingWindow)\.State: "
            "call start",
        ):
            layer(noise(2, 3, INPUT))
        with pytest.raises(ValueError, match=rf"memory.values has shape \(3, 4, 4\), expected \(2, length, {SOURCE}\)"):
            layer.start(2, memory([1, 2, 3], 4))
    with pytest.raises(ValueError, match="memory is None, but"):
        layer.start(2)


@pytest.mark.parametrize("name", ["luong-additive", "bahdanau-additive", "fixed-last"])
def test_a_state_of_another_batch_size_is_refused(name: str) -> None:
    state = layers()[name].start(3, memory([1, 2, 3], 4))
    with pytest.raises(ValueError, match=r"state\.\w+ has shape \(3(, \d)?,?\), expected \(2"):
        layers()[name](noise(2, 3, INPUT), None, state)
