"""Products with the last panel of a matrix, which may have fewer columns than the others.

``multiply_edge``   out = left · panel
``contract_edge``   out = leftᵀ · panel

Both are added to out if ``add``. Only the columns that exist are written, and no more vectors than they fill are
multiplied: of 100 columns in panels of 32, the last four cost half a panel.
"""

from functools import cache
from typing import NamedTuple

from llvmlite import ir

from seqloom.kernels.linalg import gemm
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm.ir_builder import Emitter, Value, integer


class EdgeFunctions(NamedTuple):
    """Addresses of the compiled functions: (left, its stride, panel, depth, out, its stride, rows, columns, add)."""

    multiply_edge: int
    contract_edge: int


@cache
def functions(real: str) -> EdgeFunctions:
    """The compiled functions for "float" or "double"."""
    return EdgeFunctions(*jit_cache.load(f"edges {real}", lambda: _emit(real), EdgeFunctions._fields))


def _emit(real: str) -> str:
    module = ir.Module("edges")
    for transposed, name in ((False, "multiply_edge"), (True, "contract_edge")):
        for vectors in range(1, gemm.PANEL_VECTORS + 1):
            for rows in range(1, gemm.tile_rows() + 1):
                gemm.emit_tile(module, real, rows, transposed=transposed, may_add=True, vectors=vectors, masked=True)
        _multiply(module, real, name, transposed=transposed)
    return str(module)


def _multiply(module: ir.Module, real: str, name: str, *, transposed: bool) -> None:
    emit = Emitter(module, name, 9, real)
    left, left_stride, panel, depth, out, out_stride, rows, columns, add = emit.arguments
    builder, tallest = emit.builder, gemm.tile_rows()
    tiles = gemm.tile_count(emit, rows, tallest=tallest)

    def multiply(vectors: int) -> None:
        tile_name = gemm.tile_name(transposed=transposed, masked=True, vectors=vectors)
        with emit.loop(0, tiles) as tile:
            low, count = gemm.tile_bounds(emit, rows, tile, tiles)
            source = emit.advance(left, low if transposed else builder.mul(low, left_stride))
            target = emit.advance(out, builder.mul(low, out_stride))
            arguments: tuple[Value, ...] = (source, left_stride, panel, depth, target, out_stride, add, columns)
            gemm.call_tile(emit, tile_name, count, *arguments, tallest=tallest)

    for vectors in range(1, gemm.PANEL_VECTORS + 1):
        above = builder.icmp_signed(">", columns, integer((vectors - 1) * emit.lanes))
        within = builder.icmp_signed("<=", columns, integer(vectors * emit.lanes))
        with emit.if_then(builder.and_(above, within)):
            multiply(vectors)
    emit.finish()
