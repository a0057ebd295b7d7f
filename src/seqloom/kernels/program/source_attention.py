"""Attention of decoder rows to source sequences that several rows share; the query is appended to the context."""

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
    *("query", "size", "keys", "values", "width", "length", "mask", "source_rows", "scale", "accumulated"),
    *("out", "rows", "parts", "scratch", "scratch_size"),
)
SERIAL_LIMIT = 1 << 19
"""Multiplications below which one thread is faster than several."""


def attend_to_source(
    query: Tensor,  # (B, A)
    keys: Tensor,  # (R, S, A)
    values: Tensor,  # (R, S, V)
    *,
    mask: Tensor,  # (R, S), True where real
    rows: Tensor,  # (B,), the source of each query
    scale: float,  # factor of the query
    accumulated: Tensor,  # (B, S), to which the weights are added; (B, 0): not requested
) -> Tensor:  # (B, V + A); all tensors are contiguous
    """concat(softmax(keys · query · scale) · values, query); the context is zero where everything is masked."""
    (batch, size), (length, width) = query.shape, values.shape[1:]
    out = query.new_empty(batch, width + size)
    parts = 1 if batch * length * (size + width) < SERIAL_LIMIT else min(threads.count(), batch)
    real = LLVM_TYPES[query.dtype]
    scratch_size = attention.scratch_size(real, size, length)
    scratch = query.new_empty(parts * scratch_size)
    accumulated_address = accumulated.data_ptr() if accumulated.shape[1] else 0
    table = (ctypes.c_int64 * len(FIELDS))(
        *(query.data_ptr(), size, keys.data_ptr(), values.data_ptr(), width, length, mask.data_ptr(), rows.data_ptr()),
        *(float_bits(scale), accumulated_address, out.data_ptr(), batch, parts, scratch.data_ptr(), scratch_size),
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
    size, width, length = word["size"], word["width"], word["length"]
    scratch = emit.advance(word["scratch"], builder.mul(part, word["scratch_size"]))
    weights = emit.advance(scratch, builder.and_(builder.add(size, integer(emit.lanes - 1)), integer(-emit.lanes)))
    first, last = emit.part_range(word["rows"], part, word["parts"])
    one, zero = integer(float_bits(1.0)), integer(0)
    with emit.loop(first, last) as row:
        source = builder.mul(emit.load_integer(word["source_rows"], row), length)
        query = emit.advance(word["query"], builder.mul(row, size))
        out = emit.advance(word["out"], builder.mul(row, builder.add(width, size)))
        keys, values = (
            emit.advance(word[name], builder.mul(source, columns))
            for name, columns in (("keys", size), ("values", width))
        )
        emit.call("copy_scaled", query, scratch, size, word["scale"], zero)
        emit.call("score_keys", scratch, keys, size, length, size, weights)
        emit.call("apply_mask", weights, builder.add(word["mask"], source), length)
        emit.call("softmax", weights, length)
        with emit.if_then(builder.icmp_signed("!=", word["accumulated"], zero)):
            emit.call(
                "accumulate", weights, emit.advance(word["accumulated"], builder.mul(row, length)), length, integer(1)
            )
        emit.call("weighted_sum", weights, values, width, length, width, out)
        emit.call("copy_scaled", query, emit.advance(out, width), size, one, zero)
    emit.finish()
    return str(module)
