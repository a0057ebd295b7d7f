"""Layers in int8: the same laws as in float, bit for bit where all products of a layer are sums of integers."""

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch
from tests.contracts.registry import HIDDEN, INPUT, cells, layers, make_mask, noise
from tests.contracts.registry import build as build_recurrent
from torch import Tensor

from seqloom.cells.sru import SRU
from seqloom.insight import trace_gates
from seqloom.layers.connection import Highway
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Layer
from seqloom.layers.linear import Linear
from seqloom.layers.quantization import round_weights, use_int8
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.models.decoder import Decoder, step
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig, build_stack
from seqloom.testing.laws import assert_close, tensors

pytestmark = pytest.mark.sampled(8)

LENGTHS = [6, 0, 3, 5]
EXACT = 0.0
ROUNDED = 0.02
"""A value between two integers goes to one or to the other as the last bit of a float decides: 1/127 of a row."""


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@cache
def build(cell: str, layer: str = "forward") -> Layer:
    built = copy.deepcopy(build_recurrent(cell, layer, dtype=torch.float32))
    round_weights(built)
    use_int8(built)
    return built


def tolerance(layer: Layer) -> float:
    """Exact where a kernel computes all of a layer, and the products of its kernels are all in int8."""
    if any(isinstance(part, Highway) for part in layer.modules()):  # whose product is torch's
        return ROUNDED
    for part in layer.modules():
        if isinstance(part, Recurrent):
            kernel = part.kernel(noise(1, 1, part.input_size, dtype=torch.float32))
            if isinstance(kernel, str) or not kernel.plan.linear:
                return ROUNDED
            if any(str(index) not in kernel.quantized for index in kernel.plan.forward_products):
                return ROUNDED
    return EXACT


def inputs() -> tuple[Tensor, Tensor]:
    return noise(len(LENGTHS), 6, INPUT, dtype=torch.float32), make_mask(LENGTHS, 6)


def results(layer: Layer, *arguments: Any) -> dict[str, Tensor]:
    y, state = layer(*arguments)
    return {"y": y, **tensors(state)}


EVERY_CELL = pytest.mark.parametrize(
    ("cell", "arrangement"), [*[(cell, "forward") for cell in cells()], *[("LSTM()", layer) for layer in layers()]]
)


@EVERY_CELL
def test_laws(cell: str, arrangement: str) -> None:
    layer = build(cell, arrangement)
    check_padding_and_other_rows(layer)
    if "bidirectional" not in arrangement and "reverse" not in arrangement:
        check_pieces(layer)
    check_loop(layer, build_recurrent(cell, arrangement, dtype=torch.float32))


def check_padding_and_other_rows(layer: Layer) -> None:
    x, mask = inputs()
    expected = results(layer, x, mask)
    padded = torch.cat([x, x], dim=1).masked_fill(~make_mask(LENGTHS, 12).unsqueeze(-1), float("nan"))
    padded[0] *= 1000  # a loud row
    found = results(layer, padded, make_mask(LENGTHS, 12))
    assert not found["y"][:, 6:].any()
    found["y"] = found["y"][:, :6]
    others = {name: value[1:] for name, value in expected.items()}
    assert_close({name: value[1:] for name, value in found.items()}, others, tolerance=tolerance(layer))
    alone = results(layer, x[2:3, : LENGTHS[2]])
    third = {name: value[2:3] for name, value in expected.items()}
    assert_close(alone, third | {"y": third["y"][:, : LENGTHS[2]]}, tolerance=tolerance(layer))


def check_pieces(layer: Layer) -> None:
    x, _ = inputs()
    expected = results(layer, x)
    state, pieces = None, []
    for start, end in ((0, 1), (1, 4), (4, 6)):
        y, state = layer(x[:, start:end], None, state)
        pieces.append(y)
    assert_close({"y": torch.cat(pieces, dim=1), **tensors(state)}, expected, tolerance=tolerance(layer))


def check_loop(layer: Layer, in_float: Layer) -> None:
    x, mask = inputs()
    loop = copy.deepcopy(layer)
    for part in loop.modules():
        if isinstance(part, Recurrent):
            part.fused = False
    expected = results(layer, x, mask)
    assert_close(results(loop, x, mask), expected, tolerance=ROUNDED)
    # With 3 and 5 inputs, each rounded to 1/127 of the largest one, int8 is near float and no more.
    assert_close(results(in_float, x, mask), expected, tolerance=0.3)


def test_a_layer_is_in_int8_and_not_in_float() -> None:
    layer, (x, _) = build("LSTM()"), inputs()
    as_float = copy.deepcopy(layer)
    for part in as_float.modules():
        if isinstance(part, Recurrent):
            part.int8 = False
    difference = (layer(x)[0] - as_float(x)[0]).abs().max()
    assert 1e-5 < difference < ROUNDED  # the weights are the same: only activations are rounded
    with torch.enable_grad():  # which are not where a gradient is needed
        torch.testing.assert_close(layer(x)[0].detach(), as_float(x)[0])


def test_an_input_that_the_step_reads_as_well_is_not_rounded() -> None:
    cell = SRU(HIDDEN, HIDDEN, reset_bias=-100.0)  # closes the reset gate: the input goes to the output
    layer = Recurrent(cell)
    round_weights(layer)
    use_int8(layer)
    x = noise(4, 6, HIDDEN, dtype=torch.float32)
    torch.testing.assert_close(layer(x)[0], cell.scale * x)
    expected = results(layer, x)
    layer.fused = False
    assert_close(results(layer, x), expected, tolerance=ROUNDED)


def test_tracing_shows_what_the_layer_computes() -> None:
    layer, (x, mask) = build("LSTM()"), inputs()
    (y, _), traces = trace_gates(layer, x, mask)
    torch.testing.assert_close(traces[0].states["hidden"], y, atol=ROUNDED, rtol=0)
    as_float = copy.deepcopy(layer)
    as_float.int8 = False  # type: ignore[assignment]
    _, others = trace_gates(as_float, x, mask)
    distances = [(trace[0].states["hidden"] - y).abs().max() for trace in (traces, others)]
    assert distances[0] < distances[1]


def test_a_linear_map_multiplies_each_row_by_itself() -> None:
    linear = Linear(HIDDEN, 7).eval()
    round_weights(linear)
    expected = linear(noise(4, 3, HIDDEN, dtype=torch.float32))
    use_int8(linear)
    x = noise(4, 3, HIDDEN, dtype=torch.float32)
    y = linear(x)
    assert 0 < (y - expected).abs().max() < ROUNDED
    x[1:] *= 100
    assert torch.equal(linear(x)[0], y[0])
    assert torch.equal(linear(x[0]), y[0])


@pytest.mark.parametrize("cell", ["transformer", "lstm"])
def test_a_compiled_step_of_a_decoder_equals_its_layers(cell: str) -> None:
    torch.manual_seed(0)
    recurrence = RecurrenceConfig(cell=cell, layers=2, hidden_size=16)
    layer = build_stack(PrenetConfig(), recurrence, 12, causal=True, memory_size=0)
    decoder = Decoder(Embedding(40, 12), layer, tied=True).eval()
    round_weights(decoder)
    in_float = copy.deepcopy(decoder)
    use_int8(decoder)
    assert decoder.path == "compiled"
    tokens = torch.arange(30).view(3, 10) + 1
    expected = torch.log_softmax(decoder(tokens)[0], dim=-1)
    state, scores = decoder.start(None, 3), []
    for position in range(10):
        row, state = step(decoder, tokens[:, position], state)
        scores.append(row)
    actual = torch.stack(scores, dim=1)
    # A value between two integers may be rounded differently.
    torch.testing.assert_close(actual, expected, atol=ROUNDED, rtol=0)
    features, _ = decoder.features(tokens)
    target = decoder.log_probabilities(features[0], tokens[0])
    torch.testing.assert_close(target, expected[0].gather(1, tokens[0].unsqueeze(1)).squeeze(1), atol=1e-5, rtol=0)
    distance = (torch.log_softmax(in_float(tokens)[0], dim=-1) - expected).abs().max()
    assert 1e-4 < distance < 0.1
