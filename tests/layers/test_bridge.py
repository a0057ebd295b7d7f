"""Bridges: the initial state of a decoder, computed by hand."""

from typing import Any

import pytest
import torch
from tests.contracts.registry import make_mask, noise, randomize
from torch import Tensor

from seqloom.cells import GRU, LSTM
from seqloom.layers.attention.attention import Attention
from seqloom.layers.attention.decoder_attention import BahdanauAttention, LuongAttention
from seqloom.layers.bridge import BridgedLayer
from seqloom.layers.build import recurrent
from seqloom.layers.convolution import Convolution
from seqloom.layers.layer import Layer, Memory
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack
from seqloom.layers.transformer.block import transformer

MASK = make_mask([4, 2], 4)


def encode(encoder: Layer) -> Memory:
    randomize(encoder)
    values, state = encoder(noise(2, 4, encoder.input_size), MASK)
    return Memory(values, MASK, state)


def bridged(layer: Layer, encoder: Layer, kind: str) -> tuple[BridgedLayer, Memory, Any]:
    memory = encode(encoder)
    bridge = BridgedLayer(layer, encoder, memory_size=encoder.output_size, kind=kind)
    randomize(bridge, seed=3)
    return bridge, memory, bridge.start(2, memory)


def test_copy_takes_over_the_state_of_equal_layers() -> None:
    _, memory, state = bridged(recurrent("lstm", 3, 5, layers=2), recurrent("lstm", 4, 5, layers=2), "copy")
    for actual, expected in zip(state, memory.state, strict=True):
        assert torch.equal(actual.hidden, expected.hidden)
        assert torch.equal(actual.memory, expected.memory)


def test_copy_concatenates_two_directions() -> None:
    _, memory, state = bridged(recurrent("lstm", 3, 8), recurrent("lstm", 5, 4, bidirectional=True), "copy")
    forward, backward = memory.state
    assert torch.equal(state.hidden, torch.cat([forward.hidden, backward.hidden], dim=1))
    assert torch.equal(state.memory, torch.cat([forward.memory, backward.memory], dim=1))


@pytest.mark.parametrize(
    ("encoder_layers", "decoder_layers", "expected"), [(3, 2, [1, 2]), (2, 3, [0, 0, 1]), (1, 3, [0, 0, 0])]
)
def test_unequal_depth_is_matched_from_the_top(encoder_layers: int, decoder_layers: int, expected: list[int]) -> None:
    encoder, decoder = recurrent("gru", 3, 5, layers=encoder_layers), recurrent("gru", 3, 5, layers=decoder_layers)
    _, memory, state = bridged(decoder, encoder, "copy")
    last = memory.state if encoder_layers > 1 else (memory.state,)
    for actual, index in zip(state, expected, strict=True):
        assert torch.equal(actual.hidden, last[index].hidden)


def test_a_linear_bridge_equals_its_equations() -> None:
    decoder = recurrent("lstm", 3, 5, layers=3)
    bridge, memory, state = bridged(decoder, recurrent("gru", 4, 6, layers=2, bidirectional=True), "linear")
    weights = bridge.state_dict()
    for index, source in enumerate([0, 0, 1]):
        last = torch.cat([memory.state[source].forward.hidden, memory.state[source].backward.hidden], dim=1)
        raw = [
            last @ weights[f"maps.{index}.{field}.weight"].T + weights[f"maps.{index}.{field}.bias"] for field in (0, 1)
        ]
        torch.testing.assert_close(state[index].hidden, torch.tanh(raw[0]), rtol=0, atol=1e-12)
        torch.testing.assert_close(state[index].memory, raw[1], rtol=0, atol=1e-12)


def test_all_fields_of_an_lstm_are_read() -> None:
    bridge, memory, state = bridged(recurrent("gru", 3, 5), recurrent("lstm", 4, 6), "linear")
    weights = bridge.state_dict()
    last = torch.cat([memory.state.hidden, memory.state.memory], dim=1)
    raw = last @ weights["maps.0.0.weight"].T + weights["maps.0.0.bias"]
    torch.testing.assert_close(state.hidden, torch.tanh(raw), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "encoder",
    [Convolution(4, 6, window=3), transformer(4, 6, heads=3, causal=False)],
    ids=["convolution", "transformer"],
)
def test_an_encoder_without_recurrence_gives_the_mean_of_its_memory(encoder: Layer) -> None:
    bridge, memory, state = bridged(recurrent("lstm", 3, 5), encoder, "linear")
    spoiled = memory._replace(values=memory.values.masked_fill(~MASK.unsqueeze(-1), float("nan")))
    mean = torch.stack([memory.values[0].mean(dim=0), memory.values[1, :2].mean(dim=0)])
    weights = bridge.state_dict()
    raw = mean @ weights["maps.0.1.weight"].T + weights["maps.0.1.bias"]
    for actual in (state, bridge.start(2, spoiled), bridge.start(2, memory._replace(state=None))):
        torch.testing.assert_close(actual.memory, raw, rtol=0, atol=1e-12)
    twin = BridgedLayer(recurrent("lstm", 3, 5), None, memory_size=6)
    randomize(twin, seed=3)
    torch.testing.assert_close(twin.start(2, memory).memory, raw, rtol=0, atol=1e-12)


def test_copying_from_an_encoder_without_recurrence_takes_the_mean_of_its_memory() -> None:
    _, memory, state = bridged(recurrent("lstm", 3, 5), Convolution(4, 5), "copy")
    for row, length in enumerate(memory.mask.sum(dim=1).tolist()):
        torch.testing.assert_close(state.hidden[row], memory.values[row, :length].mean(dim=0), rtol=0, atol=1e-14)
    assert not state.memory.any()


def test_a_zero_bridge_starts_from_zeros_and_runs_the_wrapped_layer() -> None:
    layer = recurrent("lstm", 3, 5, layers=2)
    bridge, _, state = bridged(layer, recurrent("gru", 4, 6), "zero")
    assert not any(field.any() for part in state for field in part)
    assert not list(bridge.maps.parameters())
    x = noise(2, 3, 3)
    actual, expected = bridge(x, None, state), layer(x)
    assert torch.equal(actual[0], expected[0])
    assert torch.equal(bridge(x)[0], expected[0])
    assert torch.equal(bridge.start(2)[0].hidden, torch.zeros(2, 5, dtype=torch.float64))
    assert (bridge.input_size, bridge.output_size) == (3, 5)


def test_in_a_stack_only_recurrences_get_a_new_state() -> None:
    encoder = Stack([Convolution(4, 4), Recurrent(LSTM(4, 5)), Recurrent(LSTM(5, 5))])
    before = BahdanauAttention(LSTM(3 + 5, 5), Attention(5, 5))
    layer = Stack(
        [before, Convolution(10, 4, window=2, causal=True), Recurrent(LSTM(4, 5)), LuongAttention(Attention(5, 5), 6)]
    )
    _, memory, state = bridged(layer, encoder, "copy")
    plain = layer.start(2, memory)
    assert torch.equal(state[0].cell.memory, memory.state[1].memory)
    assert torch.equal(state[2].hidden, memory.state[2].hidden)
    pairs: list[tuple[Tensor, Tensor]] = [
        (state[0].attention.source.parts.prepared, plain[0].attention.source.parts.prepared),
        (state[1].past, plain[1].past),
        (state[3].source.parts.values, plain[3].source.parts.values),
    ]
    assert all(torch.equal(left, right) for left, right in pairs)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (recurrent("gru", 3, 5), r"the encoder has fields of widths {'hidden': 5}, but recurrence 0 of the decoder"),
        (
            recurrent("lstm", 3, 6),
            r"widths {'hidden': 6, 'memory': 6}.*{'hidden': 5, 'memory': 5}.*use the linear bridge",
        ),
        (recurrent("lstm", 3, 5, bidirectional=True), r"widths {'hidden': 10, 'memory': 10}"),
        (Convolution(3, 4), r"the encoder has no recurrence, and a memory of width 4, but.*use the linear bridge"),
    ],
)
def test_a_mismatched_copy_is_refused_with_a_reason(encoder: Layer, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BridgedLayer(recurrent("lstm", 3, 5), encoder, memory_size=encoder.output_size, kind="copy")


def test_invalid_arguments_are_refused() -> None:
    layer = Recurrent(GRU(3, 5))
    with pytest.raises(ValueError, match="kind is 'steel', expected one of linear, copy, zero"):
        BridgedLayer(layer, layer, memory_size=5, kind="steel")
    with pytest.raises(ValueError, match="memory is None, but the linear bridge needs it"):
        BridgedLayer(layer, layer, memory_size=5).start(2)
