"""What the rows of a batch see of a source that several of them share, with themselves beside it."""

import ctypes
from functools import cache

import torch
from llvmlite import ir
from torch import Tensor

from seqloom.kernels import attend, machine, threads
from seqloom.kernels.emit import Emitter, integer
from seqloom.kernels.operations import bits
from seqloom.kernels.packed import REALS

FIELDS = (
    *("query", "size", "keys", "values", "width", "length", "mask", "read", "scale", "noted"),
    *("out", "rows", "parts", "scratch", "room"),
)
ALONE = 1 << 19
"""Multiplications that are not worth a second thread."""


def context(
    query: Tensor,  # (B, A)
    keys: Tensor,  # (R, S, A)
    values: Tensor,  # (R, S, V)
    *,
    mask: Tensor,  # (R, S), True where a query may look
    rows: Tensor,  # (B,), the row of the source that each query looks at
    scale: float,  # of the query
    noted: Tensor,  # (B, S), to which the weights are added; (B, 0) where nobody asked
) -> Tensor:  # (B, V + A), all without gaps
    """softmax(keys · query · scale) · values, zero where nothing can be seen, and beside it the query."""
    (batch, size), (length, width) = query.shape, values.shape[1:]
    out = query.new_empty(batch, width + size)
    parts = 1 if batch * length * (size + width) < ALONE else min(threads.count(), batch)
    real = REALS[query.dtype]
    room = attend.room(real, size, length)
    scratch = query.new_empty(parts * room)
    places = [tensor.data_ptr() for tensor in (query, keys, values, mask, rows, out, scratch)]
    queries, first_key, first_value, seen, read, target, memory = places
    added = noted.data_ptr() if noted.shape[1] else 0
    table = (ctypes.c_int64 * len(FIELDS))(
        *(queries, size, first_key, first_value, width, length, seen, read, bits(scale), added),
        *(target, batch, parts, memory, room),
    )
    threads.run(_look(real), ctypes.addressof(table), parts)
    return out


def fitting(tensor: Tensor, dtype: torch.dtype) -> bool:
    """Whether a part of a source is one for the function above."""
    return tensor.dtype == dtype and tensor.device.type == "cpu" and tensor.is_contiguous()


@cache
def _look(real: str) -> int:
    """The address of a function that does one part of the rows."""
    return machine.load(f"context {real}", lambda: _emit(real), ("look",))[0]


def _emit(real: str) -> str:
    module = ir.Module("context")
    for emit_part in (attend.put, attend.score, attend.hide, attend.weigh, attend.note, attend.gather):
        emit_part(module, real)
    emit = Emitter(module, "look", 4, real)
    builder = emit.builder
    table, part = emit.arguments[:2]
    word = {name: emit.load_integer(table, index) for index, name in enumerate(FIELDS)}
    size, width, length = word["size"], word["width"], word["length"]
    scratch = emit.advance(word["scratch"], builder.mul(part, word["room"]))
    weights = emit.advance(scratch, builder.and_(builder.add(size, integer(emit.lanes - 1)), integer(-emit.lanes)))
    first, last = emit.share(word["rows"], part, word["parts"])
    one, zero = integer(bits(1.0)), integer(0)
    with emit.loop(first, last) as row:
        source = builder.mul(emit.load_integer(word["read"], row), length)
        query = emit.advance(word["query"], builder.mul(row, size))
        out = emit.advance(word["out"], builder.mul(row, builder.add(width, size)))
        keys, values = (
            emit.advance(word[name], builder.mul(source, wide)) for name, wide in (("keys", size), ("values", width))
        )
        emit.call("put", query, scratch, size, word["scale"], zero)
        emit.call("score", scratch, keys, size, length, size, weights)
        emit.call("hide", weights, builder.add(word["mask"], source), length)
        emit.call("weigh", weights, length)
        with emit.when(builder.icmp_signed("!=", word["noted"], zero)):
            emit.call("note", weights, emit.advance(word["noted"], builder.mul(row, length)), length, integer(1))
        emit.call("gather", weights, values, width, length, width, out)
        emit.call("put", query, emit.advance(out, width), size, one, zero)
    emit.finish()
    return str(module)
