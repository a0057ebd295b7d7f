"""Products of large matrices, in blocks that stay in the cache; each thread packs the blocks that it multiplies.

``multiply``   left · matrix    such as a batch times a weight matrix
``contract``   leftᵀ · right    sums over the rows of a batch: gradients of weight matrices
"""

import ctypes
from functools import cache
from typing import NamedTuple

from llvmlite import ir
from torch import Tensor

from seqloom.kernels.linalg import gemm, gemm_edges
from seqloom.kernels.linalg.packed import LLVM_TYPES
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm.ir_builder import Emitter, Value, integer
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.buffers import Loan

DEPTH_BLOCK = 768
"""Terms that are summed at once: a panel with this many rows takes a tenth of the second-level cache."""
ROW_BLOCK = 1024
"""Rows of the left side that are multiplied with a panel before the next one: they stay in the third cache."""
COLUMN_TILES = 8
"""Tiles of the transposed left side that are multiplied with a panel before the next one: they stay in the second."""
LINE = 64
"""Bytes of a cache line."""
ALIASED = 2048
"""Bytes; rows at a multiple of this distance would compete for the same sets of the first cache."""
SERIAL_LIMIT = 1 << 20
"""Multiplications below which one thread is faster than several."""


def multiply(left: Tensor, matrix: Tensor, out: Tensor) -> Tensor:  # (N, K), (K, M) → (N, M)
    """left · matrix. The rows of left and out have no gaps; those or the columns of the matrix have none."""
    left, matrix = _without_gaps(left), matrix if 1 in matrix.stride() else matrix.contiguous()
    if left.stride(0) * left.element_size() % ALIASED == 0:
        left = left.new_empty(len(left), row_stride(left))[:, : left.shape[1]].copy_(left)
    (rows, depth), columns = left.shape, matrix.shape[1]
    if not rows * depth * columns:
        return out.zero_()
    real = LLVM_TYPES[left.dtype]
    panels, tiles = gemm.panel_count(real, columns), -(-rows // gemm.tile_rows())
    by_rows = tiles > panels  # what the threads share: rows, or panels of columns
    parts = _parts(rows * depth * columns, max(panels, tiles))
    size = gemm.panel_width(real) * min(depth, DEPTH_BLOCK)
    with Loan() as loan:
        buffer = loan.borrow(parts * size, left)
        sides = left.data_ptr(), left.stride(0), matrix.data_ptr(), *matrix.stride(), out.data_ptr(), out.stride(0)
        _run(real, "multiply_part", parts, *sides, rows, depth, columns, buffer.data_ptr(), size, int(by_rows))
    return out


def contract(left: Tensor, right: Tensor, out: Tensor, *, add: bool = False) -> Tensor:  # (N, R), (N, C) → (R, C)
    """leftᵀ · right, added to out if ``add``. The rows of out have no gaps."""
    left, right = _without_gaps(left), _without_gaps(right)
    (depth, rows), columns = left.shape, right.shape[1]
    if not rows * depth * columns:
        return out if add else out.zero_()
    real = LLVM_TYPES[left.dtype]
    parts = _parts(rows * depth * columns, -(-rows // gemm.tile_rows()))
    size = gemm.panel_width(real) * gemm.panel_count(real, columns) * min(depth, DEPTH_BLOCK)
    with Loan() as loan:
        buffer = loan.borrow(parts * size, left)
        sides = left.data_ptr(), left.stride(0), right.data_ptr(), right.stride(0), out.data_ptr(), out.stride(0)
        _run(real, "contract_part", parts, *sides, rows, depth, columns, buffer.data_ptr(), size, int(add))
    return out


def row_stride(matrix: Tensor) -> int:
    """A distance between rows that is an odd number of cache lines: they use different sets."""
    per_line = LINE // matrix.element_size()
    lines = -(-matrix.shape[1] // per_line)
    return (lines + 1 - lines % 2) * per_line


def _without_gaps(matrix: Tensor) -> Tensor:
    return matrix if matrix.stride(1) == 1 else matrix.contiguous()


def _parts(work: int, items: int) -> int:
    return 1 if work < SERIAL_LIMIT else max(1, min(threads.count(), items))


def _run(real: str, name: str, parts: int, *values: int) -> None:
    table = (ctypes.c_int64 * (len(values) + 1))(*values, parts)
    threads.run(getattr(_functions(real), name), ctypes.addressof(table), parts)


class _Parts(NamedTuple):
    """Addresses of the functions that compute one thread's share."""

    multiply_part: int
    contract_part: int


@cache
def _functions(real: str) -> _Parts:
    symbols = {"pack": gemm.functions(real).pack, **gemm_edges.functions(real)._asdict()}
    return _Parts(*jit_cache.load(f"large products {real}", lambda: _emit(real), _Parts._fields, **symbols))


def _emit(real: str) -> str:
    module = ir.Module("large_products")
    for rows in range(1, gemm.tile_rows() + 1):
        gemm.emit_tile(module, real, rows, transposed=False, may_add=True)
        gemm.emit_tile(module, real, rows, transposed=True, may_add=True)
    _multiply(module, real)
    _contract(module, real)
    return str(module)


def _blocks(emit: Emitter, size: Value, largest: int) -> Value:
    """The number of blocks of about equal size."""
    return emit.builder.udiv(emit.builder.add(size, integer(largest - 1)), integer(largest))


def _multiply(module: ir.Module, real: str) -> None:
    emit = Emitter(module, "multiply_part", 4, real)
    builder, width = emit.builder, gemm.PANEL_VECTORS * emit.lanes
    table, part = emit.arguments[:2]
    fields = [emit.load_integer(table, index) for index in range(14)]
    left, left_stride, matrix, row_stride, column_stride, out, out_stride = fields[:7]
    all_rows, all_depth, columns, buffers, buffer_size, by_rows, parts = fields[7:]
    buffer = emit.advance(buffers, builder.mul(part, buffer_size))
    panels = _blocks(emit, columns, width)
    is_by_rows = builder.icmp_signed("!=", by_rows, integer(0))
    tiles = gemm.tile_count(emit, all_rows, tallest=gemm.tile_rows())
    first_tile, last_tile = emit.part_range(tiles, part, parts)
    first, last = emit.part_range(panels, part, parts)
    first, last = builder.select(is_by_rows, integer(0), first), builder.select(is_by_rows, panels, last)
    low, _ = gemm.tile_bounds(emit, all_rows, first_tile, tiles)
    high, _ = gemm.tile_bounds(emit, all_rows, last_tile, tiles)
    low, high = builder.select(is_by_rows, low, integer(0)), builder.select(is_by_rows, high, all_rows)
    own_rows = builder.sub(high, low)
    row_blocks, depth_blocks = _blocks(emit, own_rows, ROW_BLOCK), _blocks(emit, all_depth, DEPTH_BLOCK)
    with emit.loop(0, row_blocks) as row_block, emit.loop(0, depth_blocks) as depth_block:
        top, rows = gemm.tile_bounds(emit, own_rows, row_block, row_blocks)
        top = builder.add(top, low)
        start, depth = gemm.tile_bounds(emit, all_depth, depth_block, depth_blocks)
        count = gemm.tile_count(emit, rows, tallest=gemm.tile_rows())
        with emit.loop(first, last) as panel:
            column = builder.mul(panel, integer(width))
            at = builder.add(builder.mul(start, row_stride), builder.mul(column, column_stride))
            rest = builder.sub(columns, column)
            emit.call("pack", emit.advance(matrix, at), row_stride, column_stride, depth, rest, buffer, 0, 1)
            source = emit.advance(left, builder.add(builder.mul(top, left_stride), start))
            target = emit.advance(out, builder.add(builder.mul(top, out_stride), column))
            with builder.if_else(builder.icmp_signed(">=", rest, integer(width))) as (is_whole, is_edge):
                with is_whole, emit.loop(0, count) as tile:
                    row, height = gemm.tile_bounds(emit, rows, tile, count)
                    first_row = emit.advance(source, builder.mul(row, left_stride))
                    out_row = emit.advance(target, builder.mul(row, out_stride))
                    arguments = first_row, left_stride, buffer, depth, out_row, out_stride, depth_block
                    gemm.call_tile(emit, "tile", height, *arguments, tallest=gemm.tile_rows())
                with is_edge:
                    sides = source, left_stride, buffer, depth
                    emit.call("multiply_edge", *sides, target, out_stride, rows, rest, depth_block)
    emit.finish()


def _contract(module: ir.Module, real: str) -> None:
    emit = Emitter(module, "contract_part", 4, real)
    builder, width = emit.builder, gemm.PANEL_VECTORS * emit.lanes
    table, part = emit.arguments[:2]
    fields = [emit.load_integer(table, index) for index in range(13)]
    left, left_stride, right, right_stride, out, out_stride = fields[:6]
    rows, all_depth, columns, buffers, buffer_size, add, parts = fields[6:]
    buffer = emit.advance(buffers, builder.mul(part, buffer_size))
    panels = _blocks(emit, columns, width)
    tiles = gemm.tile_count(emit, rows, tallest=gemm.tile_rows())
    first, last = emit.part_range(tiles, part, parts)
    own_tiles = builder.sub(last, first)
    groups, depth_blocks = _blocks(emit, own_tiles, COLUMN_TILES), _blocks(emit, all_depth, DEPTH_BLOCK)
    with emit.loop(0, depth_blocks) as depth_block:
        start, depth = gemm.tile_bounds(emit, all_depth, depth_block, depth_blocks)
        beginning = emit.advance(right, builder.mul(start, right_stride))
        emit.call("pack", beginning, right_stride, 1, depth, columns, buffer, 0, panels)
        panel_size = builder.mul(depth, integer(width))
        is_added = builder.or_(depth_block, add)
        with emit.loop(0, groups) as group, emit.loop(0, panels) as panel:
            from_tile, count = gemm.tile_bounds(emit, own_tiles, group, groups)
            column = builder.mul(panel, integer(width))
            rest = builder.sub(columns, column)
            packed = emit.advance(buffer, builder.mul(panel, panel_size))
            with builder.if_else(builder.icmp_signed(">=", rest, integer(width))) as (is_whole, is_edge):
                with is_whole, emit.loop(0, count) as index:
                    tile = builder.add(builder.add(first, from_tile), index)
                    row, height = gemm.tile_bounds(emit, rows, tile, tiles)
                    source = emit.advance(left, builder.add(builder.mul(start, left_stride), row))
                    target = emit.advance(out, builder.add(builder.mul(row, out_stride), column))
                    arguments = source, left_stride, packed, depth, target, out_stride, is_added
                    gemm.call_tile(emit, "tile_transposed", height, *arguments, tallest=gemm.tile_rows())
                with is_edge:
                    top_tile = builder.add(first, from_tile)
                    top, _ = gemm.tile_bounds(emit, rows, top_tile, tiles)
                    bottom, _ = gemm.tile_bounds(emit, rows, builder.add(top_tile, count), tiles)
                    source = emit.advance(left, builder.add(builder.mul(start, left_stride), top))
                    target = emit.advance(out, builder.add(builder.mul(top, out_stride), column))
                    sides = source, left_stride, packed, depth
                    height = builder.sub(bottom, top)
                    emit.call("contract_edge", *sides, target, out_stride, height, rest, is_added)
    emit.finish()
