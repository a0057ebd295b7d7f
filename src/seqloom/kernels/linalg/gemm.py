"""Matrix products with register tiles; there is a tile for each number of rows.

``multiply``   out = left · packed       with a matrix that is packed into panels of columns
``contract``   out += leftᵀ · packed     sums over many rows: gradients of matrices
``dot``        out = left · matrixᵀ      with a matrix that is not packed, for few rows
``pack``       a matrix into panels of columns
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from llvmlite import ir

from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm.ir_builder import INTEGER, Emitter, Value, VectorSlice, integer

PANEL_VECTORS = 2
"""Vectors in a row of a panel."""


CORE_CACHE = 1 << 20
"""Bytes of the second-level cache of a core."""

STREAMED, CACHED, CACHED_BACKWARDS = range(3)
"""Orders in which ``dot`` reads a matrix. From memory, one column after another is fastest; from the cache, eight at
once. A matrix larger than the cache is best read forwards and backwards in turn: its last columns are still there."""


class GemmFunctions(NamedTuple):
    """Addresses of the compiled functions."""

    multiply: int
    contract: int
    dot: int
    pack: int


def tile_rows() -> int:
    """Rows of the tallest tile: its accumulators, a row of the panel and one broadcast value fill the registers."""
    return (jit_cache.vector_registers() - PANEL_VECTORS - 1) // PANEL_VECTORS


def lanes(real: str) -> int:
    """Elements in a vector."""
    return jit_cache.vector_bytes() // (4 if real == "float" else 8)


def panel_width(real: str) -> int:
    """Columns in a panel."""
    return PANEL_VECTORS * lanes(real)


def panel_count(real: str, columns: int) -> int:
    """Panels that are needed for a number of columns."""
    return -(-columns // panel_width(real))


@cache
def functions(real: str) -> GemmFunctions:
    """The compiled functions for "float" or "double"."""
    return GemmFunctions(*jit_cache.load(f"products {real}", lambda: _emit(real), GemmFunctions._fields))


@cache
def python_function(real: str, name: str) -> Callable[..., None]:
    """One of the functions, callable from Python with addresses and integers."""
    arguments = {"multiply": 9, "contract": 8, "dot": 9, "pack": 8}
    return jit_cache.c_function(getattr(functions(real), name), *[ctypes.c_int64] * arguments[name])


def _emit(real: str) -> str:
    module = ir.Module("products")
    emit_multiply(module, real)
    for rows in range(1, tile_rows() + 1):
        emit_tile(module, real, rows, transposed=True)
    _contract(module, real)
    _dot(module, real)
    _pack(module, real)
    return str(module)


def emit_multiply(module: ir.Module, real: str) -> None:
    """Add the function ``multiply`` and its tiles to a module."""
    for rows in range(1, tile_rows() + 1):
        emit_tile(module, real, rows, transposed=False)
    _multiply(module, real)


def emit_tile(
    module: ir.Module,
    real: str,
    rows: int,
    *,
    transposed: bool,
    may_add: bool = False,
    vectors: int = PANEL_VECTORS,  # of each row of the panel that the tile multiplies
    masked: bool = False,
) -> None:
    """One tile of out (rows, panel). The rows of left are ``stride`` apart, or, if ``transposed``, its columns are.

    A transposed tile is added to out, the other one replaces it; with ``may_add``, a further argument decides. With
    ``masked``, one more is the number of columns, which end in the last vector.
    """
    emit = Emitter(
        module, tile_name(transposed=transposed, masked=masked, vectors=vectors) + str(rows), 6 + may_add + masked, real
    )
    emit.function.linkage = "internal"
    left, stride, right, depth, out, out_stride, *more = emit.arguments
    builder = emit.builder
    width = PANEL_VECTORS * emit.lanes
    # With few accumulators, the latency of additions limits the speed: use several per element.
    unroll = 1 if transposed else 4 if rows == 1 else 2 if rows == 2 else 1
    starts = [emit.advance(left, row if transposed else builder.mul(stride, integer(row))) for row in range(rows)]
    targets = [
        emit.address(emit.advance(out, builder.mul(out_stride, integer(row))), column * emit.lanes)
        for row in range(rows)
        for column in range(vectors)
    ]

    in_last = builder.sub(more[-1], integer((vectors - 1) * emit.lanes)) if masked else None
    slices = [VectorSlice(emit), VectorSlice(emit, in_last)]
    accesses = [slices[number % vectors == vectors - 1] for number in range(len(targets))]

    def accumulate(index: Value, sums: tuple[Value, ...], repeats: int) -> list[Value]:
        updated = list(sums)
        for repeat in range(repeats):
            position = builder.add(index, integer(repeat))
            panel_row = builder.mul(position, integer(width))
            columns = [
                emit.load(emit.address(right, builder.add(panel_row, integer(column * emit.lanes))))
                for column in range(vectors)
            ]
            offset = builder.mul(position, stride) if transposed else position
            for row in range(rows):
                value = emit.splat(emit.load_scalar(emit.address(starts[row], offset)))
                for column in range(vectors):
                    slot = (repeat * rows + row) * vectors + column
                    updated[slot] = emit.intrinsic("fma", value, columns[column], updated[slot])
        return updated

    count = rows * vectors
    initial = (emit.splat(0.0),) * (count * unroll)
    if may_add:
        added = builder.icmp_signed("!=", more[0], integer(0))
        before = [access.load(target) for access, target in zip(accesses, targets, strict=True)]
        initial = (*[builder.select(added, value, emit.splat(0.0)) for value in before], *initial[count:])
    elif transposed:
        initial = tuple(emit.load(target) for target in targets)
    even = builder.and_(depth, integer(-unroll))
    with emit.loop_carrying(0, even, unroll, initial) as (index, sums, advance):
        final = advance(*accumulate(index, sums, unroll))
    totals = final[:count]
    for repeat in range(1, unroll):
        totals = [builder.fadd(a, b) for a, b in zip(totals, final[repeat * count :][:count], strict=True)]
    if unroll > 1:
        with emit.loop_carrying(even, depth, 1, tuple(totals)) as (index, sums, advance):
            totals = advance(*accumulate(index, sums, 1))
    for access, total, target in zip(accesses, totals, targets, strict=True):
        access.store(total, target)
    emit.finish()


def tile_name(*, transposed: bool, masked: bool = False, vectors: int = PANEL_VECTORS) -> str:
    """The name of the functions that ``emit_tile`` emits, without the number of rows."""
    return f"{'tile_transposed' if transposed else 'tile'}{f'_{vectors}_masked_' if masked else ''}"


def call_tile(emit: Emitter, name: str, rows: Value, *arguments: Value, tallest: int) -> None:
    """Call the tile for a number of rows."""
    builder = emit.builder
    done = emit.function.append_basic_block("done")
    choice = builder.switch(rows, done)
    for count in range(1, tallest + 1):
        block = emit.function.append_basic_block(f"rows{count}")
        choice.add_case(ir.Constant(INTEGER, count), block)
        builder.position_at_end(block)
        emit.call(f"{name}{count}", *arguments)
        builder.branch(done)
    builder.position_at_end(done)


def tile_count(emit: Emitter, rows: Value, *, tallest: int) -> Value:
    """Number of tiles that cover the rows; all have about the same height."""
    return emit.builder.udiv(emit.builder.add(rows, integer(tallest - 1)), integer(tallest))


def tile_bounds(emit: Emitter, rows: Value, tile: Value, tiles: Value) -> tuple[Value, Value]:
    """The first row of a tile, and the number of its rows."""
    builder = emit.builder
    low = builder.udiv(builder.mul(rows, tile), tiles)
    high = builder.udiv(builder.mul(rows, builder.add(tile, integer(1))), tiles)
    return low, builder.sub(high, low)


def _multiply(module: ir.Module, real: str) -> None:
    """left (rows, depth) times panels [first, last) into out, whose rows are padded to whole panels."""
    emit = Emitter(module, "multiply", 9, real)
    left, left_stride, right, depth, out, out_stride, rows, first, last = emit.arguments
    builder = emit.builder
    tiles = tile_count(emit, rows, tallest=tile_rows())
    with emit.loop(first, last) as number:
        column = builder.mul(number, integer(PANEL_VECTORS * emit.lanes))
        start = emit.advance(right, builder.mul(column, depth))
        with emit.loop(0, tiles) as tile:
            low, count = tile_bounds(emit, rows, tile, tiles)
            source = emit.advance(left, builder.mul(low, left_stride))
            target = emit.advance(out, builder.add(builder.mul(low, out_stride), column))
            arguments = source, left_stride, start, depth, target, out_stride
            call_tile(emit, "tile", count, *arguments, tallest=tile_rows())
    emit.finish()


def _contract(module: ir.Module, real: str) -> None:
    """left (depth, rows) transposed, times ``number`` panels of depth rows, added to out (rows, panels)."""
    emit = Emitter(module, "contract", 8, real)
    left, left_stride, right, depth, out, out_stride, rows, number = emit.arguments
    builder = emit.builder
    tiles = tile_count(emit, rows, tallest=tile_rows())
    with emit.loop(0, tiles) as tile:
        low, count = tile_bounds(emit, rows, tile, tiles)
        source = emit.advance(left, low)
        with emit.loop(0, number) as index:
            column = builder.mul(index, integer(PANEL_VECTORS * emit.lanes))
            start = emit.advance(right, builder.mul(column, depth))
            target = emit.advance(out, builder.add(builder.mul(low, out_stride), column))
            arguments = source, left_stride, start, depth, target, out_stride
            call_tile(emit, "tile_transposed", count, *arguments, tallest=tile_rows())
    emit.finish()


def _dot(module: ir.Module, real: str) -> None:
    """left (rows, depth) times matrix (columns, depth) transposed, into out.

    ``order`` is one of ``STREAMED``, ``CACHED`` and ``CACHED_BACKWARDS``.
    """
    emit = Emitter(module, "dot", 9, real)
    left, left_stride, matrix, depth, out, out_stride, rows, columns, order = emit.arguments
    builder = emit.builder
    group = 8

    def columns_of_row(start: Value, source: Value, target: Value, count: int) -> None:
        """``count`` columns of one row; the sum of a column is the same whatever their number."""
        starts = [emit.advance(matrix, builder.mul(start, depth))]
        while len(starts) < count:
            starts.append(emit.advance(starts[-1], depth))
        whole = builder.and_(depth, integer(-emit.lanes))
        zeros = (emit.splat(0.0),) * count
        with emit.loop_carrying(0, whole, emit.lanes, zeros) as (index, sums, advance):
            x = emit.load(emit.address(source, index))
            final = advance(
                *[
                    emit.intrinsic("fma", x, emit.load(emit.address(base, index)), total)
                    for base, total in zip(starts, sums, strict=True)
                ]
            )
        rest = builder.sub(depth, whole)
        with emit.loop_carrying(whole, depth, emit.lanes, tuple(final)) as (index, sums, advance):  # at most once
            x = emit.masked_load(emit.address(source, index), rest)
            final = advance(
                *[
                    emit.intrinsic("fma", x, emit.masked_load(emit.address(base, index), rest), total)
                    for base, total in zip(starts, sums, strict=True)
                ]
            )
        for column, total in enumerate(final):
            builder.store(emit.sum_lanes(total), emit.address(target, builder.add(start, integer(column))))

    is_streamed = builder.icmp_signed("==", order, integer(STREAMED))
    is_backwards = builder.icmp_signed("==", order, integer(CACHED_BACKWARDS))
    grouped = builder.select(is_streamed, integer(0), builder.and_(columns, integer(-group)))
    last = builder.sub(grouped, integer(group))
    with emit.loop(0, rows) as row:
        source = emit.advance(left, builder.mul(row, left_stride))
        target = emit.advance(out, builder.mul(row, out_stride))
        with emit.loop(0, grouped, group) as number:
            column = builder.select(is_backwards, builder.sub(last, number), number)
            columns_of_row(column, source, target, group)
        with emit.loop(grouped, columns) as column:
            columns_of_row(column, source, target, 1)
    emit.finish()


def _pack(module: ir.Module, real: str) -> None:
    """Copy matrix (depth, columns), of any strides, into panels [first, last), zeros beyond the last column."""
    emit = Emitter(module, "pack", 8, real)
    matrix, row_stride, column_stride, depth, columns, packed, first, last = emit.arguments
    builder = emit.builder
    width = PANEL_VECTORS * emit.lanes
    one = integer(1)
    with emit.loop(first, last) as number:
        begin = builder.mul(number, integer(width))
        target = emit.advance(packed, builder.mul(begin, depth))
        full = builder.icmp_signed("<=", builder.add(begin, integer(width)), columns)
        rows_contiguous = builder.and_(full, builder.icmp_signed("==", column_stride, one))
        columns_contiguous = builder.and_(full, builder.icmp_signed("==", row_stride, one))
        tiled = builder.select(columns_contiguous, builder.and_(depth, integer(-emit.lanes)), integer(0))
        with emit.if_then(rows_contiguous), emit.loop(0, depth) as row:
            source = emit.advance(matrix, builder.add(builder.mul(row, row_stride), begin))
            panel_row = emit.advance(target, builder.mul(row, integer(width)))
            for offset in range(0, width, emit.lanes):
                emit.store(emit.load(emit.address(source, offset)), emit.address(panel_row, offset))
        with emit.loop(0, tiled, emit.lanes) as row:
            for offset in range(0, width, emit.lanes):
                _transpose(
                    emit, matrix, column_stride, builder.add(begin, integer(offset)), row, (target, width, offset)
                )
        copied = builder.select(rows_contiguous, depth, tiled)  # rows that are copied already
        with emit.loop(0, width) as offset:
            column = builder.add(begin, offset)
            exists = builder.icmp_signed("<", column, columns)
            source = emit.advance(matrix, builder.mul(builder.select(exists, column, integer(0)), column_stride))
            with emit.loop(copied, depth) as row:
                value = emit.load_scalar(emit.address(source, builder.mul(row, row_stride)))
                position = builder.add(builder.mul(row, integer(width)), offset)
                value = builder.select(exists, value, ir.Constant(emit.scalar, 0.0))
                builder.store(value, emit.address(target, position))
    emit.finish()


def _transpose(
    emit: Emitter, matrix: Value, stride: Value, column: Value, row: Value, target: tuple[Value, int, int]
) -> None:
    """Transpose a square of vectors in registers."""
    builder = emit.builder
    vectors = []
    for index in range(emit.lanes):
        start = builder.add(builder.mul(builder.add(column, integer(index)), stride), row)
        vectors.append(emit.load(emit.address(matrix, start)))
    address, width, offset = target
    for index, vector in enumerate(transpose(emit, vectors)):
        panel_row = builder.mul(builder.add(row, integer(index)), integer(width))
        emit.store(vector, emit.address(address, builder.add(panel_row, integer(offset))))


def transpose(emit: Emitter, vectors: list[Value]) -> list[Value]:
    """The transpose of as many vectors as a vector has lanes: ever larger blocks are swapped across the diagonal."""
    vectors, count, distance = [*vectors], emit.lanes, 1
    while distance < count:
        low = [lane if not lane & distance else count + lane - distance for lane in range(count)]
        high = [lane + distance if not lane & distance else count + lane for lane in range(count)]
        for index in range(count):
            if not index & distance:
                pair = vectors[index], vectors[index + distance]
                vectors[index] = emit.shuffle(*pair, low)
                vectors[index + distance] = emit.shuffle(*pair, high)
        distance *= 2
    return vectors
