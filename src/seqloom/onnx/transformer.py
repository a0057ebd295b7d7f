"""Transformer blocks and their positions.

The state of a causal block is its cache: keys and values of earlier elements (B, P, H, D), which of them are real
(B, P), and the position of the next element (B,).
"""

import math

import numpy as np
import torch

from seqloom.layers.transformer.block import TransformerBlock
from seqloom.layers.transformer.heads import MultiHeadAttention
from seqloom.layers.transformer.linear_attention import LinearAttention
from seqloom.layers.transformer.positions import Positions, binary, position_angles
from seqloom.onnx.graph import BOOLEAN, DOUBLE, FLOAT, INTEGER, Graph, Value
from seqloom.onnx.modules import Rows, State, array, emit_module, emits_layer, lowest


@emits_layer(Positions)
def emit_positions(graph: Graph, layer: Positions, x: Value, rows: Rows, state: State) -> tuple[Value, State]:
    x = rows.clear_padding(x)
    start = graph.full(0, x.size(0), dtype=INTEGER) if state is None else state[0]
    y = emit_module(layer.project, x) * math.sqrt(layer.output_size)
    if layer.has_features:
        steps = start.unsqueeze(1) + graph.range(x.size(1)).unsqueeze(0)  # (B, T)
        features = _features(graph, layer, steps, rows)
        if layer.widen is not None:
            features = emit_module(layer.widen, features)
        y = graph.concatenate([y, features]) if layer.padding else y + features
        y = rows.clear_padding(y)
    return y, (start + rows.lengths,)


def _features(graph: Graph, layer: Positions, steps: Value, rows: Rows) -> Value:  # (B, T, feature_size)
    if layer.table is not None:  # a position beyond the table is an error at run time
        return graph.constant(array(layer.table)).take(_real_steps(steps, rows))
    if layer.kind == "binary":
        digits = binary(torch.arange(layer.max_positions), layer.feature_size, torch.float32)
        return graph.constant(array(digits)).take(_real_steps(steps, rows))
    if layer.kind == "sinusoidal":
        angles = _angles(steps, (layer.feature_size + 1) // 2)
        # cos a = sin(a + π / 2): onnxruntime has no cosine of float64
        both = graph.concatenate([angles.apply("Sin"), (angles + math.pi / 2).apply("Sin")])
        return both.part(-1, 0, layer.feature_size).cast(FLOAT)
    counts = steps.unsqueeze(2).cast(FLOAT)
    if layer.kind == "counts":
        return counts
    spans = graph.call("Max", rows.lengths - 1, graph.constant(1, np.int64)).cast(FLOAT)
    return counts / spans.unsqueeze(1, 2)


def _real_steps(steps: Value, rows: Rows) -> Value:
    """Positions, 0 in the padding, which may extend beyond the last position."""
    return steps.graph.where(rows.mask, steps, 0)


def _angles(steps: Value, count: int) -> Value:  # (B, T) → (B, T, count)
    frequencies = array(position_angles(torch.ones((), dtype=torch.int64), count))
    return steps.unsqueeze(2).cast(DOUBLE) * frequencies


@emits_layer(TransformerBlock)
def emit_block(graph: Graph, block: TransformerBlock, x: Value, rows: Rows, state: State) -> tuple[Value, State]:
    h = rows.clear_padding(x)
    past: State
    memory: State
    past, memory = (None, ()) if state is None else state
    next_past: State = ()

    def self_attend(h: Value) -> Value:
        nonlocal next_past
        context, next_past = _self_attend(graph, block, emit_module(block.query_key_value, h), rows, past)
        return emit_module(block.output, context)

    def cross_attend(h: Value) -> Value:
        keys, values, real = memory
        size = block.input_size // block.heads
        query = emit_module(block.cross_query, h).reshape(0, 0, block.heads, size)
        context = attend(block.cross_attention, (query, keys, values), real.unsqueeze(1), size=size)
        return emit_module(block.cross_output, context)

    def feed_forward(h: Value) -> Value:
        return emit_module(block.feed_forward, h)

    sublayers = [self_attend, cross_attend, feed_forward] if block.memory_size else [self_attend, feed_forward]
    for norm, sublayer in zip(block.norms, sublayers, strict=True):
        h = h + sublayer(emit_module(norm, h)) if block.norm == "pre" else emit_module(norm, h + sublayer(h))
    return rows.clear_padding(h), (next_past, memory)


def _self_attend(
    graph: Graph, block: TransformerBlock, projected: Value, rows: Rows, past: State
) -> tuple[Value, State]:
    """(B, T, 3 D) → (B, T, D), and the new cache."""
    size = block.input_size // block.heads
    query, keys, values = (part.reshape(0, 0, block.heads, size) for part in projected.split(3))
    batch, length = projected.size(0), projected.size(1)
    if past is None:
        past = start_cache(graph, block, batch, size=size) if block.causal else ()
    start = past[-1] if block.causal else graph.full(0, batch, dtype=INTEGER)
    steps = start.unsqueeze(1) + graph.range(length).unsqueeze(0)  # (B, T), positions of the elements
    if isinstance(block.attention, LinearAttention):
        return _attend_linearly(graph, block, (query, keys, values), rows, past, steps)
    if block.positions == "rotary":
        query, keys = rotate(query, steps, size=size), rotate(keys, steps, size=size)
    if not block.causal:
        slots = graph.range(length)
        distances = (slots.unsqueeze(0) - slots.unsqueeze(1)).unsqueeze(0)  # (1, T, S)
        visible = rows.mask.unsqueeze(1)  # (B, 1, S)
        if block.context:
            visible = visible & (distances.apply("Abs") < block.context)
        return attend(block.attention, (query, keys, values), visible, distances, size=size), ()
    past_keys, past_values, past_real, _ = past
    keys, values = (graph.concatenate(pair, axis=1) for pair in ((past_keys, keys), (past_values, values)))
    real = graph.concatenate([past_real, rows.mask], axis=1)  # (B, S)
    counts = real.cast(INTEGER)
    slots = graph.range(real.size(1))
    visible = (slots.unsqueeze(0) <= (graph.range(length) + past_real.size(1)).unsqueeze(1)).unsqueeze(0)
    visible = visible & real.unsqueeze(1)  # (B, T, S)
    total = start + rows.lengths  # elements so far
    dropped = (total - counts.sum(1)).unsqueeze(1)  # elements that are no longer in the cache
    positions = graph.call("CumSum", counts, np.array(1)) - 1 + dropped  # (B, S)
    distances = positions.unsqueeze(1) - steps.unsqueeze(2)
    if block.context:
        visible = visible & (distances > -block.context)
    context = attend(block.attention, (query, keys, values), visible, distances, size=size)
    if block.context:
        keys, values, real = _latest(graph, (keys, values, real), counts, count=block.context - 1)
    return context, (keys, values, real, total)


def _latest(
    graph: Graph, cache: tuple[Value, Value, Value], counts: Value, *, count: int
) -> tuple[Value, Value, Value]:
    """Drop the slots at the beginning that no later element attends to."""
    later = counts.sum(1, keep=True) - graph.call("CumSum", counts, np.array(1))  # real elements after each slot
    needed = counts * (later < count).cast(INTEGER)  # (B, S)
    # An additional slot at the end is always needed, so that there is a first one.
    end = graph.full(1, 1, dtype=INTEGER)
    first = graph.concatenate([needed.max(0), end], axis=0).argmax(0)
    keys, values, real = (part.part(1, first) for part in cache)
    return keys, values, real


def start_cache(graph: Graph, block: TransformerBlock, batch: Value, *, size: int) -> tuple[Value, ...]:
    """What a causal block keeps of earlier elements before the first one."""
    position = graph.full(0, batch, dtype=INTEGER)
    if isinstance(block.attention, LinearAttention):
        sums = graph.full(0.0, batch, block.heads, size, size)
        return sums, graph.full(0.0, batch, block.heads, size), position
    none = graph.full(0.0, batch, 0, block.heads, size)
    return none, none, graph.full(0, batch, 0, dtype=INTEGER).cast(BOOLEAN), position


def rotate(x: Value, steps: Value, *, size: int) -> Value:  # (B, T, H, size), (B, T)
    """Rotary positions: pairs of features, turned by an angle."""
    graph = x.graph
    angles = _angles(steps, size // 2).cast(FLOAT).unsqueeze(2, 4)  # (B, T, 1, size / 2, 1)
    cosine, sine = angles.apply("Cos"), angles.apply("Sin")
    real, imaginary = x.reshape(0, 0, 0, size // 2, 2).split(2)
    turned = graph.concatenate([real * cosine - imaginary * sine, real * sine + imaginary * cosine])
    return turned.reshape(0, 0, 0, size)


Heads = tuple[Value, Value, Value]
"""Queries (B, T, H, D), keys and values (B, S, H, D)."""


def attend(
    attention: MultiHeadAttention,
    heads: Heads,
    visible: Value,  # (B or 1, T or 1, S)
    distances: Value | None = None,  # (B or 1, T, S), key position minus query position
    *,
    size: int,
) -> Value:  # (B, T, H × D)
    """softmax(q kᵀ / √D) v for each head."""
    graph = visible.graph
    query, keys, values = heads[0].transpose(0, 2, 1, 3), heads[1].transpose(0, 2, 3, 1), heads[2].transpose(0, 2, 1, 3)
    scores = query @ keys  # (B, H, T, S)
    indices = None
    if attention.relative_keys is not None and distances is not None:
        limit = attention.max_distance
        clipped = graph.call("Clip", distances, graph.constant(-limit), graph.constant(limit)) + limit
        indices = graph.call("Expand", clipped.unsqueeze(1), graph.call("Shape", scores, dtype=INTEGER))
        by_distance = query @ array(attention.relative_keys).T
        scores = scores + graph.call("GatherElements", by_distance, indices, axis=-1)
    scores = scores / math.sqrt(size)
    if len(attention.slopes) and distances is not None:
        slopes = array(attention.slopes).reshape(-1, 1, 1)
        scores = scores - distances.apply("Abs").cast(FLOAT).unsqueeze(1) * slopes
    seen = visible.unsqueeze(1)
    weights = graph.where(seen, scores, lowest(scores)).apply("Softmax", axis=-1)
    weights = graph.where(seen, weights, 0.0)
    context = weights @ values
    if attention.relative_values is not None and indices is not None:
        table = array(attention.relative_values)
        empty = graph.full(0.0, *(query.size(axis) for axis in (0, 1, 2)), len(table))
        summed = graph.call("ScatterElements", empty, indices, weights, axis=-1, reduction="add")
        context = context + summed @ table
    return context.transpose(0, 2, 1, 3).reshape(0, 0, -1)


def _attend_linearly(
    graph: Graph, block: TransformerBlock, heads: Heads, rows: Rows, past: State, steps: Value
) -> tuple[Value, State]:
    """Linear attention: φ(q)ᵀ Σ φ(k) vᵀ / φ(q)ᵀ Σ φ(k) with φ(x) = elu(x) + 1."""
    size = block.input_size // block.heads
    query, keys = (part.apply("Elu", alpha=1.0) + 1.0 for part in heads[:2])  # (B, T, H, D)
    keys = graph.where(rows.mask.unsqueeze(2, 3), keys, 0.0)
    turned_query, turned_keys = query, keys
    if block.positions == "rotary":
        turned_query, turned_keys = rotate(query, steps, size=size), rotate(keys, steps, size=size)
    query, keys, turned_query, turned_keys, values = (
        part.transpose(0, 2, 1, 3) for part in (query, keys, turned_query, turned_keys, heads[2])
    )  # (B, H, T, D)
    added = turned_keys.transpose(0, 1, 3, 2) @ values  # (B, H, D, D)
    if not block.causal:
        numerator = turned_query @ added
        denominator = (query * keys.sum(2, keep=True)).sum(-1, keep=True)
        return _mean(graph, numerator, denominator), ()
    sums, totals, position = past
    pairs = (turned_query @ turned_keys.transpose(0, 1, 3, 2)).apply("Trilu", upper=0)
    numerator = turned_query @ sums + pairs @ values
    running = graph.call("CumSum", keys, np.array(2)) + totals.unsqueeze(2)
    denominator = (query * running).sum(-1, keep=True)
    following = sums + added, totals + keys.sum(2), position + rows.lengths
    return _mean(graph, numerator, denominator), following


def _mean(graph: Graph, numerator: Value, denominator: Value) -> Value:  # (B, H, T, D) → (B, T, H × D)
    positive = graph.where(denominator.equals(0.0), 1.0, denominator)
    return (numerator / positive).transpose(0, 2, 1, 3).reshape(0, 0, -1)
