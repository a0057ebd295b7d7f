"""The laws of seqloom.testing for every layer without a source, with property tests, and errors for invalid input."""

import io
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.registry import HIDDEN, INPUT, build, cells, convolutions, layers, make_mask, noise, recurrent_case
from torch import Tensor

from seqloom import state as states
from seqloom.testing.laws import Law, assert_close, check_law
from seqloom.testing.layers import (
    LayerCase,
    a_row_equals_the_row_alone,
    laws_for,
    padding_is_invisible,
    pieces_equal_the_whole,
    rows_are_independent,
    run,
)

pytestmark = pytest.mark.sampled(12)

EVERY_LAYER = pytest.mark.parametrize("layer", layers())
IN_CHUNKS = pytest.mark.parametrize("layer", [name for name in layers() if "bidirectional" not in name])
EVERY_CONVOLUTION = pytest.mark.parametrize("name", convolutions())

ANY_LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=4)
ANY_FILLING = st.sampled_from([0.0, None, float("nan"), float("inf")])  # None: noise
PROPERTY = settings(max_examples=20)

SOME_CELLS = ["LSTM()", "LayerNormGRU()", "Zoneout(RecurrentDropout(GRU))"]
"""One with two state fields, one with sums over rows, one that overrides ``project``: layers depend on nothing else."""
CELLS = {layer: st.sampled_from(sorted(cells()) if layer == "forward" else SOME_CELLS) for layer in layers()}

NUMERIC = (padding_is_invisible, rows_are_independent)
"""Laws that depend on rounding."""


def every_law() -> list[Any]:
    """All laws for every cell in a forward layer, and for every arrangement of some cells.

    Bidirectional and Stack depend on layers, not on cells: combining each of them with each cell would test no more.
    """
    pairs = [(cell, "forward") for cell in cells()] + [(cell, layer) for cell in SOME_CELLS for layer in layers()]
    return [
        pytest.param(law, cell, layer, id=f"{law.__name__}-{cell}-{layer}")
        for cell, layer in dict.fromkeys(pairs)
        for law in laws_for(recurrent_case(cell, layer))
    ]


def numeric_laws() -> list[Any]:
    """Laws about numbers for every cell in the other direction, and in single precision."""
    settings = [(cell, "reverse", torch.float64) for cell in cells()]
    settings += [(cell, layer, torch.float32) for cell in cells() for layer in ("forward", "reverse")]
    settings += [("LSTM()", layer, torch.float32) for layer in layers()]
    return [
        pytest.param(law, cell, layer, dtype, id=f"{law.__name__}-{cell}-{layer}-{dtype}".replace("torch.", ""))
        for cell, layer, dtype in dict.fromkeys(settings)
        for law in ((*NUMERIC, pieces_equal_the_whole) if "bidirectional" not in layer else NUMERIC)
    ]


@pytest.mark.parametrize(("law", "cell", "layer"), every_law())
def test_law(law: Law, cell: str, layer: str) -> None:
    check_law(law, recurrent_case(cell, layer))


@pytest.mark.parametrize(("law", "cell", "layer", "dtype"), numeric_laws())
def test_law_in_other_settings(law: Law, cell: str, layer: str, dtype: torch.dtype) -> None:
    check_law(law, recurrent_case(cell, layer, dtype=dtype))


@IN_CHUNKS
@PROPERTY
@given(data=st.data(), lengths=ANY_LENGTHS, cuts=st.lists(st.integers(0, 6), max_size=6))
def test_pieces_equal_the_whole_however_cut(
    layer: str, data: st.DataObject, lengths: list[int], cuts: list[int]
) -> None:
    case = recurrent_case(data.draw(CELLS[layer]), layer)
    check_law(pieces_equal_the_whole, case, lengths=lengths, cuts=cuts)


@EVERY_LAYER
@settings(PROPERTY, max_examples=12)
@given(data=st.data(), lengths=ANY_LENGTHS, extra=st.integers(0, 100), filling=ANY_FILLING)
def test_padding_is_invisible_however_long(
    layer: str, data: st.DataObject, lengths: list[int], extra: int, filling: float | None
) -> None:
    case = recurrent_case(data.draw(CELLS[layer]), layer)
    check_law(padding_is_invisible, case, lengths=lengths, extra=(extra, 0), filling=filling)


@EVERY_LAYER
@PROPERTY
@given(data=st.data(), lengths=ANY_LENGTHS)
def test_a_row_of_any_length_equals_the_row_alone(layer: str, data: st.DataObject, lengths: list[int]) -> None:
    check_law(a_row_equals_the_row_alone, recurrent_case(data.draw(CELLS[layer]), layer), lengths=lengths)


@pytest.mark.parametrize(
    ("cell", "layer"), [*[(cell, "bidirectional") for cell in cells()], *[("LSTM()", layer) for layer in layers()]]
)
def test_a_pickled_layer_is_the_same_bit_for_bit(cell: str, layer: str) -> None:
    case = recurrent_case(cell, layer, dtype=torch.float32)
    x, mask = noise(3, 5, INPUT, dtype=torch.float32), make_mask([5, 0, 3], 5)
    file = io.BytesIO()
    torch.save(case.layer, file)
    file.seek(0)
    unpickled = LayerCase(torch.load(file, weights_only=False), case.name, case.direction)
    assert_close(run(unpickled, x, mask).everything(), run(case, x, mask).everything(), tolerance=0)


@EVERY_LAYER
@pytest.mark.parametrize(
    ("x", "mask", "error", "message"),
    [
        (torch.zeros(2, 4), None, ValueError, r"x has shape \(2, 4\), expected \(batch, time, 3\)"),
        (torch.zeros(2, 4, 7), None, ValueError, r"x has shape \(2, 4, 7\), expected \(batch, time, 3\)"),
        (torch.zeros(2, 4, 3).long(), None, TypeError, "x has dtype torch.int64, expected torch.float32"),
        (torch.zeros(2, 4, 3).double(), None, TypeError, "x has dtype torch.float64, expected torch.float32"),
        (torch.zeros(2, 4, 3, device="meta"), None, ValueError, "x is on meta, expected cpu"),
        (torch.zeros(2, 4, 3), torch.ones(2, 4), TypeError, "mask has dtype torch.float32, expected torch.bool"),
        (torch.zeros(2, 4, 3), make_mask([4, 4], 5), ValueError, r"mask has shape \(2, 5\), expected \(2, 4\)"),
        (torch.zeros(2, 4, 3), make_mask([4], 4), ValueError, r"mask has shape \(1, 4\), expected \(2, 4\)"),
        (
            torch.zeros(2, 4, 3),
            make_mask([4, 2], 4).flip(1),
            ValueError,
            "mask row 1 is padded on the left or in the middle",
        ),
    ],
)
def test_invalid_input_is_named(
    layer: str, x: Tensor, mask: Tensor | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build("LSTM()", layer, dtype=torch.float32)(x, mask)


@EVERY_LAYER
def test_a_state_that_does_not_fit_is_refused(layer: str) -> None:
    actual, x = build("LSTM()", layer), noise(2, 2, INPUT)
    _, state = actual(noise(3, 2, INPUT))
    with pytest.raises(ValueError, match=r"state.hidden has shape \(3, 5\), expected \(2, 5\)"):
        actual(x, None, state)
    single = states.apply(lambda field: field[:2].float(), state)
    with pytest.raises(TypeError, match=r"state.hidden is torch.float32 on cpu, expected torch.float64 on cpu"):
        actual(x, None, single)
    with pytest.raises(TypeError, match="state is Tensor, expected"):
        actual(x, None, torch.zeros(2, HIDDEN))


def convolution_case(name: str) -> LayerCase:
    direction = "forward" if "causal" in name else "both"
    return LayerCase(convolutions()[name], name, direction, tolerance=1e-13)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("law", "name"),
    [
        pytest.param(law, name, id=f"{law.__name__}-{name}")
        for name in convolutions()
        for law in laws_for(convolution_case(name))
    ],
)
def test_law_of_convolutions(law: Law, name: str) -> None:
    check_law(law, convolution_case(name))


@EVERY_CONVOLUTION
@PROPERTY
@given(lengths=ANY_LENGTHS, extra=st.integers(0, 100), filling=ANY_FILLING)
def test_padding_is_invisible_to_convolutions(name: str, lengths: list[int], extra: int, filling: float | None) -> None:
    check_law(padding_is_invisible, convolution_case(name), lengths=lengths, extra=(extra, 0), filling=filling)


@pytest.mark.parametrize("name", [name for name in convolutions() if "causal" in name])
@PROPERTY
@given(lengths=ANY_LENGTHS, cuts=st.lists(st.integers(0, 6), max_size=6))
def test_a_causal_convolution_in_pieces_equals_the_whole(name: str, lengths: list[int], cuts: list[int]) -> None:
    check_law(pieces_equal_the_whole, convolution_case(name), lengths=lengths, cuts=cuts)


@EVERY_CONVOLUTION
def test_a_convolution_refuses_a_state_that_does_not_fit(name: str) -> None:
    layer = convolutions()[name]
    x, (_, state) = noise(2, 2, INPUT), layer(noise(3, 2, INPUT))
    with pytest.raises(ValueError, match=r"state.past has shape \(3, \d, 3\), expected \(2, \d, 3\)"):
        layer(x, None, state)
    with pytest.raises(TypeError, match=r"state.past is torch.float32 on cpu, expected torch.float64 on cpu"):
        layer(x, None, states.apply(lambda field: field[:2].float(), state))
    with pytest.raises(TypeError, match=r"state is Tensor, expected Convolution\.State"):
        layer(x, None, state.past)
