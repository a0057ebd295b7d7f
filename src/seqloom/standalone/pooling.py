"""From the outputs of an encoder to one vector for the sequence."""

from collections.abc import Callable
from typing import Any

from seqloom.kernels.llvm import vector_math
from seqloom.kernels.llvm.ir_builder import Value, integer
from seqloom.models.pooling import AttentionPooling, EndsPooling, LastPooling, MaxPooling, MeanPooling, Pooling
from seqloom.standalone.builder import ONE, ModelBuilder, Rows
from seqloom.standalone.modules import array, softmax_row, unsupported


def pool(b: ModelBuilder, pooling: Pooling, values: Rows) -> Rows:
    """One row; zeros for an empty sequence."""
    if type(pooling) not in POOLINGS:
        raise unsupported(f"the pooling {type(pooling).__name__}")
    return POOLINGS[type(pooling)](b, pooling, values)


def at(b: ModelBuilder, values: Rows, step: Value | int) -> Rows:
    """A copy of the row at a step; zeros if there are no rows."""
    target = b.allocate(ONE, values.size)
    b.fill(target, 0.0)
    with b.emit.if_then(b.builder.icmp_signed(">", values.count.value, integer(0))):
        b.copy(b.row(values, step), target)
    return target


def last(b: ModelBuilder, values: Rows) -> Rows:
    return at(b, values, b.builder.sub(values.count.value, integer(1)))


def _ends(b: ModelBuilder, pooling: EndsPooling, values: Rows) -> Rows:
    half = pooling.size // 2
    sides = last(b, b.columns(values, 0, half)), at(b, b.columns(values, half, half), 0)
    return b.concatenate(sides)


def _mean(b: ModelBuilder, _pooling: Pooling, values: Rows) -> Rows:
    total = b.reduce(lambda left, right, _row: b.builder.fadd(left, right), values, 0.0)
    count = b.builder.sitofp(values.count.value, b.emit.scalar)
    divisor = vector_math.at_least(b.emit, b.emit.splat(count), b.emit.splat(1.0))
    return b.map(lambda value: b.builder.fdiv(value, divisor), total)


def _max(b: ModelBuilder, _pooling: Pooling, values: Rows) -> Rows:
    best = b.reduce(lambda left, right, _row: vector_math.maximum(b.emit, left, right), values, -float("inf"))
    is_empty = b.builder.icmp_signed("<", values.count.value, integer(1))
    return b.map(lambda value: b.builder.select(is_empty, b.emit.splat(0.0), value), best)


def _attention(b: ModelBuilder, pooling: AttentionPooling, values: Rows) -> Rows:
    emit, project = b.emit, pooling.project
    keys = b.linear(values, array(project.weight), array(project.bias), lambda value: vector_math.tanh(emit, value))
    scores = b.linear(keys, array(pooling.query.weight), None)
    weights = b.allocate(values.count, 1, compact=True)
    b.copy(scores, weights)
    softmax_row(b, weights.address, values.count.value)

    def add(total: Value, value: Value, row: Value) -> Value:
        weight = emit.splat(emit.load_scalar(emit.address(weights.address, row)))
        return emit.intrinsic("fma", weight, value, total)

    return b.reduce(add, values, 0.0)


POOLINGS: dict[type[Pooling], Callable[[ModelBuilder, Any, Rows], Rows]] = {
    LastPooling: lambda b, _pooling, values: last(b, values),
    EndsPooling: _ends,
    MeanPooling: _mean,
    MaxPooling: _max,
    AttentionPooling: _attention,
}
