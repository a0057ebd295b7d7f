"""Attention of decoder rows to source sequences that several rows share; a vector is appended to the context."""

import ctypes
from functools import cache

import torch
from llvmlite import ir
from torch import Tensor

from seqloom.kernels.linalg.packed import LLVM_TYPES
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm.ir_builder import Emitter, integer
from seqloom.kernels.program import attention
from seqloom.kernels.program.operations import float_bits
from seqloom.kernels.runtime import threads

FIELDS = (
    *("query", "heads", "size", "keys", "values", "width", "length", "mask", "source_rows", "accumulated"),
    *("appended", "appended_size", "out", "rows", "parts", "scratch", "scratch_size"),
)
SERIAL_LIMIT = 1 << 19
"""Multiplications below which one thread is faster than several."""


def attend_to_source(
    query: Tensor,  # (B, H · A)
    keys: Tensor,  # (R, S, H · A)
    values: Tensor,  # (R, S, H · V)
    *,
    heads: int,  # H
    mask: Tensor,  # (R, S), True where real
    rows: Tensor,  # (B,), the source of each query
    accumulated: Tensor,  # (B, S), to which the mean weights of the heads are added; (B, 0): not requested
    appended: Tensor,  # (B, D)
) -> Tensor:  # (B, H · V + D); all tensors are contiguous
    """concat(softmax(keys · query) · values of each head, appended); zero where everything is masked."""
    batch, length = len(query), values.shape[1]
    size, width = query.shape[1] // heads, values.shape[2] // heads
    out = query.new_empty(batch, heads * width + appended.shape[1])
    parts = 1 if batch * length * heads * (size + width) < SERIAL_LIMIT else min(threads.count(), batch)
    real = LLVM_TYPES[query.dtype]
    scratch_size = attention.scratch_size(real, size, length)
    scratch = query.new_empty(parts * scratch_size)
    accumulated_address = accumulated.data_ptr() if accumulated.shape[1] else 0
    table = (ctypes.c_int64 * len(FIELDS))(
        *(query.data_ptr(), heads, size, keys.data_ptr(), values.data_ptr(), width, length),
        *(mask.data_ptr(), rows.data_ptr(), accumulated_address, appended.data_ptr(), appended.shape[1]),
        *(out.data_ptr(), batch, parts, scratch.data_ptr(), scratch_size),
    )
    threads.run(_function(real), ctypes.addressof(table), parts)
    return out


def is_readable(tensor: Tensor, dtype: torch.dtype) -> bool:
    """Whether a tensor of a source has the type and layout that the kernel reads."""
    return tensor.dtype == dtype and tensor.device.type == "cpu" and tensor.is_contiguous()


@cache
def _function(real: str) -> int:
    """Address of the function that computes one thread's share of the rows."""
    return jit_cache.load(f"context {real}", lambda: _emit(real), ("attend",))[0]


def _emit(real: str) -> str:
    module = ir.Module("context")
    for emit_part in (
        attention.copy_scaled,
        attention.score_keys,
        attention.apply_mask,
        attention.softmax,
        attention.accumulate,
        attention.weighted_sum,
    ):
        emit_part(module, real)
    emit = Emitter(module, "attend", 4, real)
    builder = emit.builder
    table, part = emit.arguments[:2]
    word = {name: emit.load_integer(table, index) for index, name in enumerate(FIELDS)}
    heads, size, width, length = word["heads"], word["size"], word["width"], word["length"]
    scratch = emit.advance(word["scratch"], builder.mul(part, word["scratch_size"]))
    weights = emit.advance(scratch, builder.and_(builder.add(size, integer(emit.lanes - 1)), integer(-emit.lanes)))
    first, last = emit.part_range(word["rows"], part, word["parts"])
    one, zero = integer(float_bits(1.0)), integer(0)
    all_sizes, all_widths = builder.mul(heads, size), builder.mul(heads, width)
    with emit.loop(first, last) as row:
        source = builder.mul(emit.load_integer(word["source_rows"], row), length)
        query = emit.advance(word["query"], builder.mul(row, all_sizes))
        out = emit.advance(word["out"], builder.mul(row, builder.add(all_widths, word["appended_size"])))
        keys, values = (
            emit.advance(word[name], builder.mul(source, columns))
            for name, columns in (("keys", all_sizes), ("values", all_widths))
        )
        with emit.loop(0, heads) as head:
            key_offset, value_offset = builder.mul(head, size), builder.mul(head, width)
            emit.call("copy_scaled", emit.advance(query, key_offset), scratch, size, one, zero)
            emit.call("score_keys", scratch, emit.advance(keys, key_offset), all_sizes, length, size, weights)
            emit.call("apply_mask", weights, builder.add(word["mask"], source), length)
            emit.call("softmax", weights, length)
            with emit.if_then(builder.icmp_signed("!=", word["accumulated"], zero)):
                accumulated = emit.advance(word["accumulated"], builder.mul(row, length))
                emit.call("accumulate", weights, accumulated, length, heads)
            target = emit.advance(out, value_offset)
            emit.call("weighted_sum", weights, emit.advance(values, value_offset), all_widths, length, width, target)
        appended = emit.advance(word["appended"], builder.mul(row, word["appended_size"]))
        emit.call("copy_scaled", appended, emit.advance(out, all_widths), word["appended_size"], one, zero)
    emit.finish()
    return str(module)
