"""Products of a few rows with a matrix packed in panels: small register tiles, one per number of rows."""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from llvmlite import ir

from seqloom.kernels import machine
from seqloom.kernels.emit import INTEGER, Emitter, integer

COLUMNS = 2
"""Vectors in a panel."""


class Products(NamedTuple):
    """Addresses of the compiled functions."""

    multiply: int
    pack: int


def tile_rows() -> int:
    """The tallest tile: its sums, a row of the panel and one broadcast value fill the registers."""
    return (machine.vector_registers() - COLUMNS - 1) // COLUMNS


def panel(real: str) -> int:
    """Columns in a panel."""
    return COLUMNS * machine.vector_bytes() // (4 if real == "float" else 8)


@cache
def products(real: str) -> Products:
    """The compiled functions for "float" or "double"."""
    return Products(*machine.load(f"products {real}", lambda: _emit(real), ("multiply", "pack")))


def _emit(real: str) -> str:
    module = ir.Module("products")
    for rows in range(1, tile_rows() + 1):
        _tile(module, real, rows)
    _multiply(module, real)
    _pack(module, real)
    return str(module)


def _tile(module: ir.Module, real: str, rows: int) -> None:
    """left (rows, depth) times one panel (depth, width) into out (rows, width)."""
    emit = Emitter(module, f"tile{rows}", 6, real)
    emit.function.linkage = "internal"
    left, left_stride, right, depth, out, out_stride = emit.arguments
    builder = emit.builder
    width = COLUMNS * emit.lanes
    # Several sums per element where one row of tiles would wait for its own additions.
    together = 4 if rows == 1 else 2 if rows == 2 else 1
    starts = [emit.advance(left, builder.mul(left_stride, integer(row))) for row in range(rows)]

    def accumulate(index: ir.Value, sums: tuple[ir.Value, ...], unroll: int) -> list[ir.Value]:
        updated = list(sums)
        for turn in range(unroll):
            position = builder.add(index, integer(turn))
            place = builder.mul(position, integer(width))
            columns = [
                emit.load(emit.address(right, builder.add(place, integer(column * emit.lanes))))
                for column in range(COLUMNS)
            ]
            for row in range(rows):
                value = emit.splat(emit.load_scalar(emit.address(starts[row], position)))
                for column in range(COLUMNS):
                    slot = (turn * rows + row) * COLUMNS + column
                    updated[slot] = emit.intrinsic("fma", value, columns[column], updated[slot])
        return updated

    zeros = (emit.splat(0.0),) * (rows * COLUMNS)
    even = builder.and_(depth, integer(-together))
    with emit.carry(0, even, together, zeros * together) as (index, sums, advance):
        final = advance(*accumulate(index, sums, together))
    count = len(zeros)
    totals = final[:count]
    for turn in range(1, together):
        totals = [builder.fadd(a, b) for a, b in zip(totals, final[turn * count :][:count], strict=True)]
    if together > 1:
        with emit.carry(even, depth, 1, tuple(totals)) as (index, sums, advance):
            totals = advance(*accumulate(index, sums, 1))
    for row in range(rows):
        start = emit.advance(out, builder.mul(out_stride, integer(row)))
        for column in range(COLUMNS):
            emit.store(totals[row * COLUMNS + column], emit.address(start, column * emit.lanes))
    emit.finish()


def _multiply(module: ir.Module, real: str) -> None:
    """left (rows, depth) times panels [first, last) into out, whose rows are padded to whole panels."""
    emit = Emitter(module, "multiply", 9, real)
    left, left_stride, right, depth, out, out_stride, rows, first, last = emit.arguments
    builder = emit.builder
    width = COLUMNS * emit.lanes
    tallest = tile_rows()
    tiles = builder.udiv(builder.add(rows, integer(tallest - 1)), integer(tallest))
    with emit.loop(first, last) as number:
        column = builder.mul(number, integer(width))
        start = emit.advance(right, builder.mul(column, depth))
        with emit.loop(0, tiles) as tile:
            low = builder.udiv(builder.mul(rows, tile), tiles)
            high = builder.udiv(builder.mul(rows, builder.add(tile, integer(1))), tiles)
            source = emit.advance(left, builder.mul(low, left_stride))
            target = emit.advance(out, builder.add(builder.mul(low, out_stride), column))
            done = emit.function.append_basic_block("done")
            choice = builder.switch(builder.sub(high, low), done)
            for count in range(1, tallest + 1):
                block = emit.function.append_basic_block(f"rows{count}")
                choice.add_case(ir.Constant(INTEGER, count), block)
                builder.position_at_end(block)
                emit.call(f"tile{count}", source, left_stride, start, depth, target, out_stride)
                builder.branch(done)
            builder.position_at_end(done)
    emit.finish()


def _pack(module: ir.Module, real: str) -> None:
    """Copy matrix (depth, columns), of any strides, into panels [first, last), zeros beyond the last column."""
    emit = Emitter(module, "pack", 8, real)
    matrix, row_stride, column_stride, depth, columns, packed, first, last = emit.arguments
    builder = emit.builder
    width = COLUMNS * emit.lanes
    zero = ir.Constant(emit.scalar, 0.0)
    with emit.loop(first, last) as number:
        begin = builder.mul(number, integer(width))
        target = emit.advance(packed, builder.mul(begin, depth))
        with emit.loop(0, width) as offset:
            column = builder.add(begin, offset)
            real_column = builder.icmp_signed("<", column, columns)
            safe = builder.select(real_column, column, integer(0))
            source = emit.advance(matrix, builder.mul(safe, column_stride))
            with emit.loop(0, depth) as row:
                value = emit.load_scalar(emit.address(source, builder.mul(row, row_stride)))
                place = builder.add(builder.mul(row, integer(width)), offset)
                builder.store(builder.select(real_column, value, zero), emit.address(target, place))
    emit.finish()


def multiply(real: str) -> Callable[..., None]:
    """The compiled product, for tests."""
    return machine.function(products(real).multiply, *[ctypes.c_int64] * 9)


def pack(real: str) -> Callable[..., None]:
    return machine.function(products(real).pack, *[ctypes.c_int64] * 8)
