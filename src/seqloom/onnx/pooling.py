"""From the outputs of an encoder to one vector for each sequence."""

from collections.abc import Callable
from typing import Any

import numpy as np

from seqloom.export_check import ExportError
from seqloom.models.pooling import (
    AttentionPooling,
    EndsPooling,
    LastPooling,
    MaxPooling,
    MeanPooling,
    PairPooling,
    Pooling,
)
from seqloom.onnx.graph import FLOAT, Value
from seqloom.onnx.modules import Rows, emit_module, lowest


def pool(pooling: Pooling, values: Value, rows: Rows) -> Value:  # (B, T, D), zero in the padding → (B, D)
    """One vector for each row, zeros for a row of length 0."""
    if type(pooling) not in POOLINGS:
        raise ExportError(f"the pooling {type(pooling).__name__} cannot be exported to ONNX")
    return POOLINGS[type(pooling)](pooling, values, rows)


def at(values: Value, steps: Value) -> Value:  # (B, T, D), (B,) → (B, D)
    """The element of each row at a step; a negative step is the first element."""
    graph = values.graph
    steps = graph.call("Max", steps, graph.constant(0, np.int64))
    indices = graph.concatenate([graph.range(steps.size(0)).unsqueeze(1), steps.unsqueeze(1)], axis=1)
    return graph.call("GatherND", values, indices)


def _ends(pooling: EndsPooling, values: Value, rows: Rows) -> Value:
    half = pooling.size // 2
    last, first = at(values, rows.lengths - 1), at(values, rows.lengths * 0)
    return values.graph.concatenate([last.part(-1, 0, half), first.part(-1, half)])


def _mean(_pooling: Pooling, values: Value, rows: Rows) -> Value:
    graph = values.graph
    count = graph.call("Max", rows.lengths, graph.constant(1, np.int64)).cast(FLOAT)
    return values.sum(1) / count.unsqueeze(1)


def _max(_pooling: Pooling, values: Value, rows: Rows) -> Value:
    graph = values.graph
    best = graph.where(rows.mask.unsqueeze(2), values, lowest(values)).max(1)
    return graph.where((rows.lengths > 0).unsqueeze(1), best, 0.0)


def _attention(pooling: AttentionPooling, values: Value, rows: Rows) -> Value:
    graph = values.graph
    scores = emit_module(pooling.query, emit_module(pooling.project, values).apply("Tanh")).squeeze(2)
    weights = graph.where(rows.mask, scores, lowest(scores)).apply("Softmax", axis=1)
    weights = graph.where(rows.mask, weights, 0.0)
    return (weights.unsqueeze(1) @ values).squeeze(1)


def _pair(pooling: PairPooling, values: Value, rows: Rows) -> Value:
    pooled = pool(pooling.pooling, values, rows)
    first, second = (part.squeeze(1) for part in pooled.reshape(-1, 2, pooling.pooling.size).split(2, axis=1))
    return values.graph.concatenate([first, second, (first - second).apply("Abs"), first * second])


POOLINGS: dict[type[Pooling], Callable[[Any, Value, Rows], Value]] = {
    LastPooling: lambda _pooling, values, rows: at(values, rows.lengths - 1),
    EndsPooling: _ends,
    MeanPooling: _mean,
    MaxPooling: _max,
    AttentionPooling: _attention,
    PairPooling: _pair,
}
