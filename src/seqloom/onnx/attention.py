"""Attention of a decoder to its source; one step at a time, as decoding calls it."""

import math
from collections.abc import Callable
from typing import Any

from seqloom.export_check import ExportError
from seqloom.layers.attention.attention import Attention
from seqloom.layers.attention.decoder_attention import BahdanauAttention, FixedContext, LuongAttention
from seqloom.layers.attention.hard import HardAttention
from seqloom.layers.attention.local import LocalAttention
from seqloom.layers.attention.projected import ProjectedAttention
from seqloom.layers.attention.scores import Additive, Cosine, Dot, Multiplicative, Scaled, Score, SingleLayer
from seqloom.layers.bridge import BridgedLayer
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.onnx.graph import FLOAT, INTEGER, Graph, Value
from seqloom.onnx.modules import Rows, State, emit_layer, emit_module, emits_layer, lowest
from seqloom.onnx.recurrent import emit_recurrent

Keys = Callable[[Any, Value], Value]  # (B, S, K) → (B, S, A)
Compare = Callable[[Any, Value, Value], Value]  # (B, T, Q), (B, S, A) → (B, T, S)


def _normalize(x: Value) -> Value:
    return x / ((x * x).sum(-1, keep=True) + 1e-8).apply("Sqrt")


def _product(query: Value, prepared: Value) -> Value:
    return query @ prepared.transpose(0, 2, 1)


def _additive(score: Additive, query: Value, prepared: Value) -> Value:
    mixed = (emit_module(score.query, query).unsqueeze(2) + prepared.unsqueeze(1)).apply("Tanh")
    return emit_module(score.combine, mixed).squeeze(3)


def _single_layer(score: SingleLayer, query: Value, prepared: Value) -> Value:
    return (emit_module(score.query, query) + prepared.transpose(0, 2, 1)).apply("Tanh")


SCORES: dict[type[Score], tuple[Keys, Compare]] = {
    Dot: (lambda _, keys: keys, lambda _, query, prepared: _product(query, prepared)),
    Scaled: (
        lambda _, keys: keys,
        lambda score, query, prepared: _product(query / math.sqrt(score.key_size), prepared),
    ),
    Cosine: (
        lambda _, keys: _normalize(keys),
        lambda score, query, prepared: _product(_normalize(query) * float(score.factor), prepared),
    ),
    Multiplicative: (
        lambda score, keys: emit_module(score.key, keys),
        lambda _, query, prepared: _product(query, prepared),
    ),
    Additive: (lambda score, keys: emit_module(score.key, keys), _additive),
    SingleLayer: (lambda score, keys: emit_module(score.key, keys), _single_layer),
}
"""How a score prepares keys, and compares queries with them."""


def _weights(attention: Any, query: Value, source: State, steps: Value) -> Value:  # (B, T, S)
    """The attention weights of one head; ``steps`` (B, T) are the numbers of the queries."""
    prepared, _, mask = source
    graph = query.graph
    scores = SCORES[type(attention.score)][1](attention.score, query, prepared)
    visible = mask.unsqueeze(1)
    if type(attention) is Attention:
        return _softmax(scores, visible)
    if type(attention) is HardAttention:  # the most probable position
        probabilities = _softmax(scores, visible)
        chosen = graph.range(mask.size(1)).unsqueeze(0, 1).equals(probabilities.argmax(2).unsqueeze(2))
        return graph.where(chosen & (probabilities > 0.0), graph.constant(1.0, FLOAT), 0.0)
    if type(attention) is not LocalAttention:
        raise ExportError(f"{type(attention).__name__} cannot be exported to ONNX")
    lengths = mask.cast(INTEGER).sum(1, keep=True).unsqueeze(2)  # (B, 1, 1)
    places = graph.range(mask.size(1)).unsqueeze(0, 1).cast(FLOAT)
    if attention.predict is None:
        centre = graph.call("Min", steps.unsqueeze(2), lengths - 1).cast(FLOAT)
    else:
        centre = lengths.cast(FLOAT) * emit_module(attention.predict, query).apply("Sigmoid")
    distance = places - centre  # (B, T, S)
    weights = _softmax(scores, visible & (distance.apply("Abs") <= float(attention.window)))
    if attention.predict is None:
        return weights
    share = distance / float(attention.window)
    return weights * (share * share * -2.0).apply("Exp")


def _softmax(scores: Value, visible: Value) -> Value:
    graph = scores.graph
    return graph.where(visible, graph.where(visible, scores, lowest(scores)).apply("Softmax", axis=-1), 0.0)


def attend(attention: Any, query: Value, source: State, steps: Value) -> Value:  # (B, T, C)
    """The context of each query."""
    if type(attention) is not ProjectedAttention:
        values: Value = source[1]
        return _weights(attention, query, source, steps) @ values
    prepared, values, mask = source
    heads = attention.heads
    queries, keys = _fold(emit_module(attention.query, query), heads), _fold(prepared, heads)
    batch, graph = query.size(0), query.graph

    def repeated(x: Value) -> Value:  # (B, N) → (B × heads, N)
        return x.unsqueeze(1).expand(batch, heads, x.size(1)).reshape(batch * heads, x.size(1))

    mask_per_head = repeated(mask.cast(INTEGER)) > 0
    weights = _weights(attention.attention, queries, (keys, None, mask_per_head), repeated(steps))
    context = weights @ _fold(values, heads)  # (B × heads, T, V)
    size = attention.context_size // heads
    shaped = context.reshape(batch, heads, query.size(1), size).transpose(0, 2, 1, 3)
    return graph.call("Reshape", shaped, graph.shape(batch, query.size(1), heads * size))


def _fold(x: Value, heads: int) -> Value:  # (B, T, heads × D) → (B × heads, T, D)
    batch, length = x.size(0), x.size(1)
    by_head = x.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)
    return by_head.reshape(batch * heads, length, -1)


def prepare(attention: Any, values: Value, rows: Rows) -> State:
    """The source as attention reads it: prepared keys, values and mask."""
    values = rows.clear_padding(values)
    if type(attention) is not ProjectedAttention:
        return SCORES[type(attention.score)][0](attention.score, values), values, rows.mask
    heads, score = attention.heads, attention.attention.score
    keys = emit_module(attention.key, values)
    batch, length = keys.size(0), keys.size(1)
    by_head = keys.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3).reshape(batch * heads, length, -1)
    prepared = SCORES[type(score)][0](score, by_head)
    joined = prepared.reshape(batch, heads, length, -1).transpose(0, 2, 1, 3).reshape(batch, length, -1)
    return joined, emit_module(attention.value, values), rows.mask


@emits_layer(LuongAttention)
def emit_luong(graph: Graph, layer: LuongAttention, x: Value, rows: Rows, state: State) -> tuple[Value, State]:
    x = rows.clear_padding(x)
    source, step = state
    steps = step.unsqueeze(1) + graph.range(x.size(1)).unsqueeze(0)
    y = graph.concatenate([attend(layer.attention, x, source, steps), x])
    if layer.output is not None:
        y = emit_module(layer.output, y).apply("Tanh")
    return rows.clear_padding(y), (source, step + rows.lengths)


@emits_layer(BahdanauAttention)
def emit_bahdanau(graph: Graph, layer: BahdanauAttention, x: Value, rows: Rows, state: State) -> tuple[Value, State]:
    """One step: the query is the state before it."""
    cell_state, (source, step) = state
    context = attend(layer.attention, cell_state[0].unsqueeze(1), source, step.unsqueeze(1))
    y, cell_state = emit_recurrent(
        graph, Recurrent(layer.cell).eval(), graph.concatenate([x, context]), rows, cell_state
    )
    return graph.concatenate([y, context]), (cell_state, (source, step + rows.lengths))


@emits_layer(FixedContext)
def emit_fixed_context(graph: Graph, layer: FixedContext, x: Value, rows: Rows, state: State) -> tuple[Value, State]:
    (vector,) = state
    repeated = vector.unsqueeze(1).expand(x.size(0), x.size(1), layer.memory_size)
    return rows.clear_padding(graph.concatenate([x, repeated])), state


@emits_layer(BridgedLayer)
def emit_bridged(graph: Graph, layer: BridgedLayer, x: Value, rows: Rows, state: State) -> tuple[Value, State]:
    return emit_layer(graph, layer.layer, x, rows, state)
