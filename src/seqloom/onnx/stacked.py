"""Stacks, their connections, and convolutional layers."""

from typing import Any, cast

from seqloom.layers.audio.spectral_convolution import EPSILON, RecordingNorm, SpectralConvolution
from seqloom.layers.connection import Dense, Highway, Plain, Residual
from seqloom.layers.convolution import Convolution
from seqloom.layers.layer import Layer
from seqloom.layers.stack import Stack
from seqloom.layers.transformer.block import Norm
from seqloom.onnx.graph import FLOAT, Graph, Value
from seqloom.onnx.modules import Rows, State, array, emit_layer, emit_module, emits_layer


def _highway(connection: Highway, x: Value, y: Value) -> Value:
    gate = emit_module(connection.gate, x).apply("Sigmoid")
    return gate * y + (gate * -1.0 + 1.0) * emit_module(connection.skip, x)


CONNECTIONS: dict[type, Any] = {
    Plain: lambda _connection, _x, y: y,
    Residual: lambda connection, x, y: y + emit_module(connection.skip, x),
    Highway: _highway,
    Dense: lambda _connection, x, y: x.graph.concatenate([x, y]),
}


@emits_layer(Stack)
def emit_stack(graph: Graph, stack: Stack, x: Value, rows: Rows, state: State) -> tuple[Value, State]:
    outputs, states = layer_outputs(graph, stack, x, rows, state)
    return outputs[-1][1], states


def layer_outputs(
    graph: Graph, stack: Stack, x: Value, rows: Rows, state: State = None
) -> tuple[list[tuple[Layer, Value]], State]:
    """Every layer, those of nested stacks included, with its output, and the state of the stack."""
    x = rows.clear_padding(x)
    before = (None,) * len(stack.layers) if state is None else state
    outputs: list[tuple[Layer, Value]] = []
    states = []
    for layer, connection, layer_state in zip(stack.layers, stack.connections, before, strict=True):
        if type(layer) is Stack:
            (*lower, (last, y)), next_state = layer_outputs(graph, layer, x, rows, layer_state)
            outputs += lower
        else:
            last = cast(Layer, layer)
            y, next_state = emit_layer(graph, layer, x, rows, layer_state)
        x = CONNECTIONS[type(connection)](connection, x, y)
        outputs.append((last, x))
        states.append(next_state)
    return outputs, tuple(states)


@emits_layer(Norm)
def emit_norm(_graph: Graph, layer: Norm, x: Value, rows: Rows, _state: State) -> tuple[Value, State]:
    return rows.clear_padding(emit_module(layer.norm, x)), ()


@emits_layer(Convolution)
def emit_convolution(graph: Graph, layer: Convolution, x: Value, rows: Rows, state: State) -> tuple[Value, State]:
    elements, following = _with_neighbours(graph, x, rows, state, reach=layer.window - 1, causal=layer.causal)
    windows = [elements.part(1, step, x.size(1) + step) for step in range(layer.window)]
    y = emit_module(layer.activation, emit_module(layer.linear, graph.concatenate(windows)))
    return rows.clear_padding(y), following


@emits_layer(SpectralConvolution)
def emit_spectral_convolution(
    graph: Graph, layer: SpectralConvolution, x: Value, rows: Rows, state: State
) -> tuple[Value, State]:
    elements, following = _with_neighbours(graph, x, rows, state, reach=2, causal=layer.causal)
    batch, time = x.size(0), x.size(1)
    image = elements.reshape(batch, time + 2, layer.input_channels, layer.bands).transpose(0, 2, 1, 3)
    weights = [graph.constant(array(weight)) for weight in layer.convolution.parameters()]
    y = graph.call("Conv", image, *weights, pads=[0, 1, 0, 1]).transpose(0, 2, 1, 3)  # (B, T, channels, bands)
    if layer.norm is not None:
        y = _normalised(graph, layer.norm, y, rows, layer.bands)
    y = y.apply("Relu")
    odd = 2 * layer.output_bands - layer.bands
    if odd:  # a last band of its own; all values are at least 0
        y = graph.concatenate([y, graph.full(0.0, batch, time, layer.channels, odd)], axis=3)
    pooled = y.reshape(batch, time, layer.output_size, 2).max(3)
    return rows.clear_padding(pooled), following


def _normalised(graph: Graph, norm: RecordingNorm, y: Value, rows: Rows, bands: int) -> Value:
    """Group normalisation over the real frames of each recording; y is (B, T, channels, bands)."""
    batch, time, channels = y.size(0), y.size(1), len(norm.weight)
    size = channels // norm.groups * bands
    grouped = y.reshape(batch, time, norm.groups, size)
    real = rows.mask.unsqueeze(2, 3)
    count = graph.call("Max", rows.lengths, graph.constant(1)).cast(FLOAT).unsqueeze(1, 2, 3) * float(size)
    centred = grouped - _total(graph.where(real, grouped, 0.0)) / count
    variance = _total(graph.where(real, centred * centred, 0.0)) / count
    scaled = (centred / (variance + EPSILON).apply("Sqrt")).reshape(batch, time, channels, bands)
    return scaled * array(norm.weight)[:, None] + array(norm.bias)[:, None]


def _total(values: Value) -> Value:  # (B, T, groups, size) → (B, 1, groups, 1)
    return values.sum(3, keep=True).sum(1, keep=True)


def _with_neighbours(
    graph: Graph, x: Value, rows: Rows, state: State, *, reach: int, causal: bool
) -> tuple[Value, State]:
    """The elements with those before and after them that windows reach, and the last ones that were read."""
    x = rows.clear_padding(x)
    batch, size = x.size(0), x.size(2)
    before = reach if causal else reach // 2
    past = graph.full(0.0, batch, reach, size) if state is None else state[0]
    padded = [past.part(1, reach - before), x, graph.full(0.0, batch, reach - before, size)]
    elements = graph.concatenate(padded if not causal else padded[:2], axis=1)
    # The last elements that were read: at length, …, length + reach - 1 of past and x together.
    steps = rows.lengths.unsqueeze(1, 2) + graph.range(graph.constant(reach)).unsqueeze(0, 2)
    indices = steps.expand(batch, reach, size)
    last = graph.call("GatherElements", graph.concatenate([past, x], axis=1), indices, axis=1)
    return elements, (last,)
