"""Attention of decoder rows to source sequences that several rows share, an operation of a program.

A vector is appended to the context. Keys and values may differ in width.
"""

import torch
from llvmlite import ir
from torch import Tensor

from seqloom.kernels.llvm.ir_builder import Emitter, Value, VectorSlice, integer, vector_loop
from seqloom.kernels.program.operations import OperationEmitter, float_bits, splat_float

SOURCE_ATTENTION_OPERANDS = (
    *("query", "query_stride", "heads", "size", "scale", "factor", "keys", "values", "width", "length", "mask"),
    *("source_rows", "accumulated", "appended", "appended_stride", "appended_size", "out", "out_stride"),
)
EPSILON = 1e-8
"""Added to the square of a query's length before division."""


def is_readable(tensor: Tensor, dtype: torch.dtype) -> bool:
    """Whether a tensor of a source has the type and layout that the kernel reads."""
    return tensor.dtype == dtype and tensor.device.type == "cpu" and tensor.is_contiguous()


def source_attention(module: ir.Module, real: str) -> None:
    """out = [softmax(keys · query) · values of each head; appended]; zero where everything is masked.

    Queries are multiplied by ``scale``; with a ``factor``, they get that length. Coverage is added to ``accumulated``.
    """
    _set_length(module, real)
    emit = OperationEmitter(module, "source_attention", SOURCE_ATTENTION_OPERANDS, real)
    builder = emit.builder
    word = {name: emit.operand(name) for name in SOURCE_ATTENTION_OPERANDS}
    heads, size, width, length = word["heads"], word["size"], word["width"], word["length"]
    weights = emit.advance(emit.scratch, builder.and_(builder.add(size, integer(emit.lanes - 1)), integer(-emit.lanes)))
    one, zero = integer(float_bits(1.0)), integer(0)
    all_sizes, all_widths = builder.mul(heads, size), builder.mul(heads, width)
    first, last = emit.rows()
    with emit.loop(first, last) as row:
        source = builder.mul(emit.load_integer(word["source_rows"], row), length)
        query = emit.advance(word["query"], builder.mul(row, word["query_stride"]))
        out = emit.advance(word["out"], builder.mul(row, word["out_stride"]))
        keys, values = (
            emit.advance(word[name], builder.mul(source, columns))
            for name, columns in (("keys", all_sizes), ("values", all_widths))
        )
        with emit.loop(0, heads) as head:
            key_offset, value_offset = builder.mul(head, size), builder.mul(head, width)
            emit.call("copy_scaled", emit.advance(query, key_offset), emit.scratch, size, word["scale"], zero)
            with emit.if_then(builder.icmp_signed("!=", word["factor"], zero)):
                emit.call("set_length", emit.scratch, size, word["factor"])
            emit.call("score_keys", emit.scratch, emit.advance(keys, key_offset), all_sizes, length, size, weights)
            emit.call("apply_mask", weights, builder.add(word["mask"], source), length)
            emit.call("softmax", weights, length)
            with emit.if_then(builder.icmp_signed("!=", word["accumulated"], zero)):
                accumulated = emit.advance(word["accumulated"], builder.mul(row, length))
                emit.call("accumulate", weights, accumulated, length, heads)
            target = emit.advance(out, value_offset)
            emit.call("weighted_sum", weights, emit.advance(values, value_offset), all_widths, length, width, target)
        appended = emit.advance(word["appended"], builder.mul(row, word["appended_stride"]))
        emit.call("copy_scaled", appended, emit.advance(out, all_widths), word["appended_size"], one, zero)
    emit.finish()


def _set_length(module: ir.Module, real: str) -> None:
    """x = factor · x / √(|x|² + ε)."""
    emit = Emitter(module, "set_length", 3, real)
    emit.function.linkage = "internal"
    x, size, factor = emit.arguments
    builder = emit.builder

    def add_squares(vector: VectorSlice, index: Value, sums: tuple[Value, ...]) -> list[Value]:
        value = vector.load(emit.address(x, index))
        return [emit.intrinsic("fma", value, value, sums[0])]

    squares = emit.splat(emit.sum_lanes(vector_loop(emit, size, add_squares, (emit.splat(0.0),))[0]))
    length = emit.intrinsic("sqrt", builder.fadd(squares, emit.splat(EPSILON)))
    ratio = builder.fdiv(splat_float(emit, factor), length)

    def scale(vector: VectorSlice, index: Value, _: tuple[Value, ...]) -> tuple[()]:
        pointer = emit.address(x, index)
        vector.store(builder.fmul(vector.load(pointer), ratio), pointer)
        return ()

    vector_loop(emit, size, scale)
    emit.finish()
