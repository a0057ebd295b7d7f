"""Decoders with a source: the state that they start from, and greedy search as a loop inside the graph."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from seqloom.export_check import ExportError
from seqloom.layers.attention.decoder_attention import BahdanauAttention, FixedContext, LuongAttention
from seqloom.layers.bridge import BridgedLayer
from seqloom.layers.convolution import Convolution
from seqloom.layers.layer import Layer
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack
from seqloom.layers.transformer.block import Norm, TransformerBlock
from seqloom.layers.transformer.positions import Positions
from seqloom.models.decoder import Decoder
from seqloom.onnx.attention import prepare
from seqloom.onnx.encoders import Source
from seqloom.onnx.graph import BOOLEAN, INTEGER, Graph, Value
from seqloom.onnx.models import decoder_step
from seqloom.onnx.modules import Rows, State, emit_module
from seqloom.onnx.pooling import at
from seqloom.onnx.recurrent import start_state
from seqloom.onnx.states import Field, Fields, flatten, has_state, state_fields, unflatten
from seqloom.onnx.transformer import start_cache

Start = Callable[[Any, Source], State]
Function = TypeVar("Function", bound=Start)
STARTS: dict[type[Layer], Start] = {}


def starts(*classes: type[Layer]) -> Callable[[Function], Function]:
    """Register the function that gives the state of these layers before the first element."""

    def register(function: Function) -> Function:
        STARTS.update(dict.fromkeys(classes, function))
        return function

    return register


def start(layer: Any, source: Source) -> State:
    """The state of a decoder's layer before the first token."""
    if type(layer) not in STARTS:
        raise ExportError(f"a decoder with {type(layer).__name__} cannot be exported to ONNX")
    return STARTS[type(layer)](layer, source)


@starts(Recurrent)
def _recurrent(layer: Recurrent, source: Source) -> State:
    return start_state(source.values.graph, layer.cell, source.rows.lengths.size(0))


@starts(Stack)
def _stack(layer: Stack, source: Source) -> State:
    return tuple(start(inner, source) for inner in layer.layers)


@starts(Norm)
def _norm(_layer: Norm, _source: Source) -> State:
    return ()


@starts(Positions)
def _positions(_layer: Positions, source: Source) -> State:
    return (source.rows.lengths * 0,)


@starts(Convolution)
def _convolution(layer: Convolution, source: Source) -> State:
    batch = source.rows.lengths.size(0)
    return (source.values.graph.full(0.0, batch, layer.window - 1, layer.input_size),)


@starts(TransformerBlock)
def _block(layer: TransformerBlock, source: Source) -> State:
    graph, size = source.values.graph, layer.input_size // layer.heads
    past = start_cache(graph, layer, source.rows.lengths.size(0), size=size)
    if not layer.memory_size:
        return past, ()
    keys, values = emit_module(layer.cross_key_value, source.values).split(2)
    shaped = [part.reshape(0, 0, layer.heads, size) for part in (keys, values)]
    return past, (*shaped, source.rows.mask)


@starts(LuongAttention)
def _luong(layer: LuongAttention, source: Source) -> State:
    return prepare(layer.attention, source.values, source.rows), source.rows.lengths * 0


@starts(BahdanauAttention)
def _bahdanau(layer: BahdanauAttention, source: Source) -> State:
    cell = start_state(source.values.graph, layer.cell, source.rows.lengths.size(0))
    return cell, (prepare(layer.attention, source.values, source.rows), source.rows.lengths * 0)


@starts(FixedContext)
def _fixed_context(layer: FixedContext, source: Source) -> State:
    if layer.kind == "mean":
        return (source.mean(),)
    ends = at(source.values, source.rows.lengths - 1)
    if layer.kind == "ends":
        half = layer.memory_size // 2
        first = at(source.values, source.rows.lengths * 0)
        ends = ends.graph.concatenate([ends.part(-1, 0, half), first.part(-1, half)])
    return (ends,)


@starts(BridgedLayer)
def _bridged(layer: BridgedLayer, source: Source) -> State:
    state = start(layer.layer, source)
    if layer.kind == "zero":
        return state
    for index, (target, levels) in enumerate(zip(layer.targets, layer.sources, strict=True)):
        last = [_get(source.state, cell_state.path) for cell_state in levels]
        fields = _copied(layer, index, last, source) if layer.kind == "copy" else _mapped(layer, index, last, source)
        state = _replace(state, target.path, tuple(fields))
    return state


def _copied(layer: BridgedLayer, index: int, last: list[State], source: Source) -> list[Value]:
    graph = source.values.graph
    if last:
        return [graph.concatenate(list(directions)) for directions in zip(*last, strict=True)]
    _, *others = layer.targets[index].fields.values()
    batch = source.rows.lengths.size(0)
    return [source.mean(), *(graph.full(0.0, batch, size) for size in others)]


def _mapped(layer: BridgedLayer, index: int, last: list[State], source: Source) -> list[Value]:
    graph = source.values.graph
    inputs = graph.concatenate([field for state in last for field in state]) if last else source.mean()
    maps: Any = layer.maps[index]
    output, *others = (emit_module(linear, inputs) for linear in maps)
    return [output.apply("Tanh"), *others]


def _get(state: State, path: tuple[int, ...]) -> State:
    for index in path:
        state = state[index]
    return state


def _replace(state: State, path: tuple[int, ...], fields: State) -> State:
    if not path:
        return fields
    parts = list(state)
    parts[path[0]] = _replace(parts[path[0]], path[1:], fields)
    return tuple(parts)


SOURCE = "source"
"""The name of the axis of a source, in the fields of a state."""


def _source_fields(attention: Any) -> Fields:
    return (
        Field("prepared", (SOURCE, _prepared_size(attention))),
        Field("values", (SOURCE, attention.context_size)),
        Field("mask", (SOURCE,), BOOLEAN),
    )


def _prepared_size(attention: Any) -> int:
    """The width of prepared keys."""
    import torch

    with torch.no_grad():
        return int(attention.prepare(torch.zeros(1, 1, attention.key_size)).shape[2])


@has_state(LuongAttention)
def _luong_fields(layer: LuongAttention) -> Fields:
    return _source_fields(layer.attention), Field("step", (), INTEGER)


@has_state(BahdanauAttention)
def _bahdanau_fields(layer: BahdanauAttention) -> Fields:
    cell = state_fields(Recurrent(layer.cell))
    return cell, (_source_fields(layer.attention), Field("step", (), INTEGER))


@has_state(FixedContext)
def _fixed_fields(layer: FixedContext) -> Fields:
    return (Field("context", (layer.memory_size,)),)


@has_state(BridgedLayer)
def _bridged_fields(layer: BridgedLayer) -> Fields:
    return state_fields(layer.layer)


def greedy(
    graph: Graph,
    decoder: Decoder,
    state: State,
    *,
    batch: Value,
    end: int,
    limits: Value,  # (B,), maximum tokens of each row, the end token included
    suppress: tuple[int, ...],  # tokens that are never generated
) -> tuple[Value, Value]:  # tokens (B, N), ``end`` after the end, and their log-probabilities (B, N)
    """The most probable token at each step, until all rows have ended or reached their limit."""
    forbidden = np.zeros(decoder.output.out_features, np.float32)
    forbidden[list(suppress)] = -np.inf

    def step(number: Value, states: list[Value]) -> tuple[Value, list[Value], list[Value]]:
        token, done, *fields = states
        column = token.unsqueeze(1)
        rows = Rows.of(column, token * 0 + 1)
        scores, following = decoder_step(decoder, column, rows, unflatten(state, iter(fields)))
        allowed = scores.squeeze(1) + forbidden
        best = graph.where(done, end, allowed.argmax(1))
        value = graph.where(done, 0.0, allowed.max(1))
        finished = graph.call("Or", graph.call("Or", done, best.equals(end)), (number + 1).equals(limits))
        go_on = graph.call("ReduceMin", finished.cast(INTEGER), np.array([0]), keepdims=0) < 1
        return go_on, [best, finished, *flatten(following)], [best, value]

    first = graph.full(end, batch, dtype=INTEGER)
    done = limits.equals(0)
    longest = graph.call("ReduceMax", limits, np.array([0]), keepdims=0)
    _, (tokens, values) = graph.loop(step, [first, done, *flatten(state)], longest)
    return tokens.transpose(1, 0), values.transpose(1, 0)
