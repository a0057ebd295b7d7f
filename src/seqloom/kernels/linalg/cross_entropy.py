"""Softmax cross-entropy with label smoothing, and its gradient, row by row while a row is in the cache."""

import ctypes
import math
from functools import cache, partial

from llvmlite import ir
from torch import Tensor

from seqloom.kernels.linalg.packed import LLVM_TYPES
from seqloom.kernels.llvm import jit_cache, vector_math
from seqloom.kernels.llvm.ir_builder import Emitter, Value, VectorSlice, integer, vector_loop
from seqloom.kernels.runtime import threads

SERIAL_LIMIT = 1 << 14
"""Elements below which one thread is faster than several."""


def cross_entropy(
    logits: Tensor,  # (N, V), rows contiguous; replaced by the gradient of the summed loss
    bias: Tensor | None,  # (V,), added to the logits first
    target: Tensor,  # (N,), from 0 to V - 1
    *,
    smoothing: float,
    bias_gradient: Tensor | None = None,  # (V,), to which the sum of the gradient over all rows is added
) -> Tensor:  # (N,)
    """The loss of each row: log Σ exp x - (1 - s) x[target] - s mean x, with the label smoothing s.

    Its gradient is softmax(x) - (1 - s) onehot(target) - s / V.
    """
    rows, size = logits.shape
    losses = logits.new_empty(rows)
    coefficients = logits.new_tensor([smoothing, (1 - smoothing), smoothing / size, 1 / size])
    parts = 1 if logits.numel() < SERIAL_LIMIT else max(1, min(threads.count(), rows))
    sums = logits.new_zeros(parts, 0 if bias_gradient is None else size)
    table = (ctypes.c_int64 * 10)(
        logits.data_ptr(),
        logits.stride(0),
        0 if bias is None else bias.data_ptr(),
        target.data_ptr(),
        losses.data_ptr(),
        coefficients.data_ptr(),
        rows,
        size,
        parts,
        0 if bias_gradient is None else sums.data_ptr(),
    )
    threads.run(_function(LLVM_TYPES[logits.dtype]), ctypes.addressof(table), parts)
    if bias_gradient is not None:
        bias_gradient += sums.sum(dim=0)
    return losses


@cache
def _function(real: str) -> int:
    """Address of the function that computes one thread's share of the rows."""
    return jit_cache.load(f"entropy {real}", lambda: _emit(real), ("rows",))[0]


def _emit(real: str) -> str:
    module = ir.Module("entropy")
    emit = Emitter(module, "rows", 4, real)
    builder = emit.builder
    table, part = emit.arguments[:2]
    fields = [emit.load_integer(table, index) for index in range(10)]
    logits, stride, bias, targets, losses, coefficients, rows, size, parts, all_sums = fields
    sums = emit.advance(all_sums, builder.mul(part, size))
    summed_up = builder.icmp_signed("!=", all_sums, integer(0))
    smoothing, target_weight, uniform, reciprocal_size = (
        emit.load_scalar(emit.address(coefficients, index)) for index in range(4)
    )
    first, last = emit.part_range(rows, part, parts)
    biased = builder.icmp_signed("!=", bias, integer(0))
    with emit.loop(first, last) as row:
        row_start = emit.advance(logits, builder.mul(row, stride))
        with emit.if_then(biased):
            vector_loop(emit, size, partial(_add, emit, row_start, bias))
        maxima, total = vector_loop(
            emit, size, partial(_max_and_sum, emit, row_start), (emit.splat(-math.inf), emit.splat(0.0))
        )
        maximum = emit.splat(emit.max_lanes(maxima))
        mean = builder.fmul(emit.sum_lanes(total), reciprocal_size)
        target = emit.load_integer(targets, row)
        target_logit = emit.load_scalar(emit.address(row_start, target))
        summed = emit.sum_lanes(
            vector_loop(emit, size, partial(_exponentiate, emit, row_start, maximum), (emit.splat(0.0),))[0]
        )
        normalizer = builder.extract_element(
            builder.fadd(maximum, vector_math.log(emit, emit.splat(summed))), ir.Constant(ir.IntType(32), 0)
        )
        loss = builder.fsub(
            builder.fsub(normalizer, builder.fmul(target_weight, target_logit)), builder.fmul(smoothing, mean)
        )
        builder.store(loss, emit.address(losses, row))
        scale = emit.splat(builder.fdiv(ir.Constant(emit.scalar, 1.0), summed))
        vector_loop(emit, size, partial(_normalize, emit, row_start, scale, emit.splat(uniform)))
        at = emit.address(row_start, target)
        builder.store(builder.fsub(emit.load_scalar(at), target_weight), at)
        with emit.if_then(summed_up):
            vector_loop(emit, size, partial(_add, emit, sums, row_start))
    emit.finish()
    return str(module)


def _add(
    emit: Emitter, total: Value, summand: Value, vector: VectorSlice, index: Value, _: tuple[Value, ...]
) -> tuple[()]:
    at = emit.address(total, index)
    vector.store(emit.builder.fadd(vector.load(at), vector.load(emit.address(summand, index))), at)
    return ()


def _max_and_sum(
    emit: Emitter, row_start: Value, vector: VectorSlice, index: Value, values: tuple[Value, ...]
) -> list[Value]:
    x = vector.load(emit.address(row_start, index))
    return [
        vector_math.maximum(emit, values[0], vector.fill_rest(x, -math.inf)),
        emit.builder.fadd(values[1], vector.fill_rest(x)),
    ]


def _exponentiate(
    emit: Emitter, row_start: Value, maximum: Value, vector: VectorSlice, index: Value, sums: tuple[Value, ...]
) -> list[Value]:
    at = emit.address(row_start, index)
    x = vector_math.exp(emit, emit.builder.fsub(vector.load(at), maximum))
    vector.store(x, at)
    return [emit.builder.fadd(sums[0], vector.fill_rest(x))]


def _normalize(
    emit: Emitter,
    row_start: Value,
    scale: Value,
    uniform: Value,
    vector: VectorSlice,
    index: Value,
    _: tuple[Value, ...],
) -> tuple[()]:
    at = emit.address(row_start, index)
    vector.store(emit.builder.fsub(emit.builder.fmul(vector.load(at), scale), uniform), at)
    return ()
