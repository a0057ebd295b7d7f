"""Matrix products of bfloat16 numbers with sums in float32, of sides that are rounded and packed already.

``multiply``   out = left · packed, where left is rounded rows
``contract``   out = leftᵀ · packed, or added to out: sums over many rows, gradients of matrices; left is packed, too

They use AMX where the processor has it, otherwise tiles of registers and ``vdpbf16ps``, which adds two products.
"""

from functools import cache
from typing import NamedTuple

from llvmlite import ir

from seqloom.kernels.linalg import bfloat16_amx, gemm
from seqloom.kernels.linalg.bfloat16_packing import (
    LANES,
    LINE,
    NUMBERS,
    WIDTH,
    WORD,
    WORD_BYTES,
    WORDS,
    emit_packing,
    load_words,
    panel_bytes,
)
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm.ir_builder import Emitter, Value, integer

DEPTH_BLOCK = 512
"""Pairs that are summed before the next panel: a block of a panel stays in the first cache."""
ROW_BLOCK = 224
"""Rows of the left side that are multiplied before the next block: they stay in the second cache."""


def unsupported() -> str | None:
    """Why this processor cannot run the functions; None if it can."""
    if jit_cache.has_cpu_feature("avx512bf16") and jit_cache.vector_bytes() == LINE:
        return None
    return "this processor has no instructions for bfloat16 products (AVX512_BF16)"


def instructions() -> str:
    """The instructions that products use where they are supported."""
    return "AMX" if bfloat16_amx.is_available() else "AVX512_BF16"


class Bfloat16Functions(NamedTuple):
    """Addresses of the compiled functions."""

    round_rows: int
    pack_rows: int
    pack_columns: int
    multiply_bfloat16: int
    contract_bfloat16: int


@cache
def functions() -> Bfloat16Functions:
    """The compiled functions."""
    name = instructions()
    key, fields = f"bfloat16 products {name}", Bfloat16Functions._fields
    return Bfloat16Functions(*jit_cache.load(key, lambda: assembly(uses_amx=name == "AMX"), fields))


def assembly(*, uses_amx: bool) -> str:
    """The functions as LLVM assembly."""
    module = ir.Module("bfloat16")
    emit_packing(module)
    if uses_amx:
        bfloat16_amx.emit_products(module)
    else:
        _emit_products(module)
    return str(module)


def _emit_products(module: ir.Module) -> None:
    """Add the functions to a module, with instructions of AVX-512."""
    for rows in range(1, gemm.tile_rows() + 1):
        _tile(module, rows, transposed=False)
        _tile(module, rows, transposed=True)
    _multiply(module)
    _contract(module)


def _tile(module: ir.Module, rows: int, *, transposed: bool) -> None:
    """One tile of out (rows, panel), added to out if ``add``. The left side is rounded, or packed if ``transposed``."""
    emit = Emitter(module, f"{'tile_transposed' if transposed else 'tile'}{rows}", 7, "float")
    emit.function.linkage = "internal"
    left, stride, panel, pairs, out, out_stride, add = emit.arguments
    builder, vectors = emit.builder, gemm.PANEL_VECTORS
    unroll = 4 if rows == 1 else 2 if rows == 2 else 1
    count = rows * vectors
    starts = [builder.add(left, integer(WORD_BYTES * row) if transposed else builder.mul(stride, integer(row)))
              for row in range(rows)]  # fmt: skip
    targets = [
        emit.address(emit.advance(out, builder.mul(out_stride, integer(row))), LANES * vector)
        for row in range(rows)
        for vector in range(vectors)
    ]
    kind = ir.FunctionType(emit.vector, [emit.vector, NUMBERS, NUMBERS])
    add_products = emit.declare("llvm.x86.avx512bf16.dpbf16ps.512", kind)
    undefined = ir.Constant(WORDS, ir.Undefined)
    zeros = ir.Constant(WORDS, [0] * LANES)

    def accumulate(index: Value, sums: tuple[Value, ...], repeats: int) -> list[Value]:
        updated = list(sums)
        for repeat in range(repeats):
            pair = builder.add(index, integer(repeat))
            base = builder.add(panel, builder.mul(pair, integer(WIDTH * WORD_BYTES)))
            columns = [
                builder.bitcast(load_words(emit, builder.add(base, integer(LINE * vector))), NUMBERS)
                for vector in range(vectors)
            ]
            offset = builder.mul(pair, integer(WORD_BYTES * (WIDTH if transposed else 1)))
            for row in range(rows):
                word = load_words(emit, builder.add(starts[row], offset), WORD)
                single = builder.insert_element(undefined, word, WORD(0))
                value = builder.bitcast(builder.shuffle_vector(single, undefined, zeros), NUMBERS)
                for vector in range(vectors):
                    slot = (repeat * rows + row) * vectors + vector
                    updated[slot] = builder.call(add_products, [updated[slot], value, columns[vector]])
        return updated

    added = builder.icmp_signed("!=", add, integer(0))
    initial = [builder.select(added, emit.load(target), emit.splat(0.0)) for target in targets]
    initial += [emit.splat(0.0)] * (count * (unroll - 1))
    even = builder.and_(pairs, integer(-unroll))
    with emit.loop_carrying(0, even, unroll, tuple(initial)) as (index, sums, advance):
        final = advance(*accumulate(index, sums, unroll))
    totals = final[:count]
    for repeat in range(1, unroll):
        totals = [builder.fadd(a, b) for a, b in zip(totals, final[repeat * count :][:count], strict=True)]
    if unroll > 1:
        with emit.loop_carrying(even, pairs, 1, tuple(totals)) as (index, sums, advance):
            totals = advance(*accumulate(index, sums, 1))
    for total, target in zip(totals, targets, strict=True):
        emit.store(total, target)
    emit.finish()


def _smaller(emit: Emitter, left: Value, right: Value) -> Value:
    return emit.builder.select(emit.builder.icmp_signed("<", left, right), left, right)


def _multiply(module: ir.Module) -> None:
    """left (rows, depth), rounded, times panels [first, last) into out, whose rows are padded to whole panels."""
    emit = Emitter(module, "multiply_bfloat16", 9, "float")
    left, left_stride, right, depth, out, out_stride, rows, first, last = emit.arguments
    builder, tallest = emit.builder, gemm.tile_rows()
    size = panel_bytes(emit, depth)
    all_pairs = builder.udiv(builder.add(depth, integer(1)), integer(2))
    with emit.loop(0, all_pairs, DEPTH_BLOCK) as pair, emit.loop(0, rows, ROW_BLOCK) as top:
        pairs = _smaller(emit, builder.sub(all_pairs, pair), integer(DEPTH_BLOCK))
        height = _smaller(emit, builder.sub(rows, top), integer(ROW_BLOCK))
        tiles = gemm.tile_count(emit, height, tallest=tallest)
        block = builder.add(left, builder.mul(pair, integer(WORD_BYTES)))
        inside = builder.mul(pair, integer(WIDTH * WORD_BYTES))
        with emit.loop(first, last) as panel, emit.loop(0, tiles) as tile:
            low, count = gemm.tile_bounds(emit, height, tile, tiles)
            row = builder.add(top, low)
            source = builder.add(block, builder.mul(row, left_stride))
            start = builder.add(builder.add(right, builder.mul(panel, size)), inside)
            column = builder.mul(panel, integer(WIDTH))
            target = emit.advance(out, builder.add(builder.mul(row, out_stride), column))
            arguments = source, left_stride, start, pairs, target, out_stride, pair
            gemm.call_tile(emit, "tile", count, *arguments, tallest=tallest)
    emit.finish()


def _contract(module: ir.Module) -> None:
    """left (depth, rows) transposed, its panels [first, last) only, times ``number`` panels, into or added to out."""
    emit = Emitter(module, "contract_bfloat16", 10, "float")
    left, right, depth, out, out_stride, rows, first, last, number, add = emit.arguments
    builder, tallest = emit.builder, gemm.tile_rows()
    size = panel_bytes(emit, depth)
    all_pairs = builder.udiv(builder.add(depth, integer(1)), integer(2))
    with emit.loop(0, all_pairs, DEPTH_BLOCK) as pair, emit.loop(first, last) as panel:
        pairs = _smaller(emit, builder.sub(all_pairs, pair), integer(DEPTH_BLOCK))
        inside = builder.mul(pair, integer(WIDTH * WORD_BYTES))
        top = builder.mul(panel, integer(WIDTH))
        height = _smaller(emit, builder.sub(rows, top), integer(WIDTH))
        tiles = gemm.tile_count(emit, height, tallest=tallest)
        block = builder.add(builder.add(left, builder.mul(panel, size)), inside)
        with emit.loop(0, number) as other, emit.loop(0, tiles) as tile:
            low, count = gemm.tile_bounds(emit, height, tile, tiles)
            source = builder.add(block, builder.mul(low, integer(WORD_BYTES)))
            start = builder.add(builder.add(right, builder.mul(other, size)), inside)
            column = builder.mul(other, integer(WIDTH))
            target = emit.advance(out, builder.add(builder.mul(builder.add(top, low), out_stride), column))
            arguments = source, integer(0), start, pairs, target, out_stride, builder.or_(pair, add)
            gemm.call_tile(emit, "tile_transposed", count, *arguments, tallest=tallest)
    emit.finish()
