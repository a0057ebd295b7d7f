"""The loss of a softmax and its gradient, each row in one go while it is in the cache."""

import ctypes
import math
from functools import cache, partial

from llvmlite import ir
from torch import Tensor

from seqloom.kernels import machine, mathematics, threads
from seqloom.kernels.emit import Emitter, Value, integer
from seqloom.kernels.packed import REALS
from seqloom.kernels.sweep import Span, sweep

ALONE = 1 << 14
"""Elements that are not worth a second thread."""


def cross_entropy(
    logits: Tensor,  # (N, V), each row without gaps; becomes the gradient of the losses' sum
    bias: Tensor | None,  # (V,), added to the logits first
    target: Tensor,  # (N,), from 0 to V - 1
    *,
    smoothing: float,
) -> Tensor:  # (N,)
    """log Σ exp x - (1 - s) x[target] - s mean x of each row; in its place softmax(x) - (1 - s) [target] - s / V."""
    rows, size = logits.shape
    losses = logits.new_empty(rows)
    share = logits.new_tensor([smoothing, (1 - smoothing), smoothing / size, 1 / size])
    parts = 1 if logits.numel() < ALONE else min(threads.count(), rows)
    table = (ctypes.c_int64 * 9)(
        logits.data_ptr(),
        logits.stride(0),
        0 if bias is None else bias.data_ptr(),
        target.data_ptr(),
        losses.data_ptr(),
        share.data_ptr(),
        rows,
        size,
        max(parts, 1),
    )
    threads.run(_rows(REALS[logits.dtype]), ctypes.addressof(table), max(parts, 1))
    return losses


@cache
def _rows(real: str) -> int:
    """The address of a function that does one part of the rows."""
    return machine.load(f"entropy {real}", lambda: _emit(real), ("rows",))[0]


def _emit(real: str) -> str:
    module = ir.Module("entropy")
    emit = Emitter(module, "rows", 4, real)
    builder = emit.builder
    table, part = emit.arguments[:2]
    words = [emit.load_integer(table, index) for index in range(9)]
    logits, stride, bias, targets, losses, shares, rows, size, parts = words
    smooth, sharp, spread, each = (emit.load_scalar(emit.address(shares, index)) for index in range(4))
    first, last = emit.share(rows, part, parts)
    biased = builder.icmp_signed("!=", bias, integer(0))
    with emit.loop(first, last) as row:
        place = emit.advance(logits, builder.mul(row, stride))
        with emit.when(biased):
            sweep(emit, size, partial(_add, emit, place, bias))
        highest, total = sweep(emit, size, partial(_look, emit, place), (emit.splat(-math.inf), emit.splat(0.0)))
        top = emit.splat(emit.largest(highest))
        mean = builder.fmul(emit.total(total), each)
        target = emit.load_integer(targets, row)
        chosen = emit.load_scalar(emit.address(place, target))
        summed = emit.total(sweep(emit, size, partial(_exponents, emit, place, top), (emit.splat(0.0),))[0])
        normal = builder.extract_element(
            builder.fadd(top, mathematics.log(emit, emit.splat(summed))), ir.Constant(ir.IntType(32), 0)
        )
        loss = builder.fsub(builder.fsub(normal, builder.fmul(sharp, chosen)), builder.fmul(smooth, mean))
        builder.store(loss, emit.address(losses, row))
        scale = emit.splat(builder.fdiv(ir.Constant(emit.scalar, 1.0), summed))
        sweep(emit, size, partial(_scale, emit, place, scale, emit.splat(spread)))
        at = emit.address(place, target)
        builder.store(builder.fsub(emit.load_scalar(at), sharp), at)
    emit.finish()
    return str(module)


def _add(emit: Emitter, place: Value, bias: Value, span: Span, index: Value, _: tuple[Value, ...]) -> tuple[()]:
    at = emit.address(place, index)
    span.store(emit.builder.fadd(span.load(at), span.load(emit.address(bias, index))), at)
    return ()


def _look(emit: Emitter, place: Value, span: Span, index: Value, values: tuple[Value, ...]) -> list[Value]:
    x = span.load(emit.address(place, index))
    return [mathematics.maximum(emit, values[0], span.only(x, -math.inf)), emit.builder.fadd(values[1], span.only(x))]


def _exponents(
    emit: Emitter, place: Value, top: Value, span: Span, index: Value, sums: tuple[Value, ...]
) -> list[Value]:
    at = emit.address(place, index)
    x = mathematics.exp(emit, emit.builder.fsub(span.load(at), top))
    span.store(x, at)
    return [emit.builder.fadd(sums[0], span.only(x))]


def _scale(
    emit: Emitter, place: Value, scale: Value, less: Value, span: Span, index: Value, _: tuple[Value, ...]
) -> tuple[()]:
    at = emit.address(place, index)
    span.store(emit.builder.fsub(emit.builder.fmul(span.load(at), scale), less), at)
    return ()
