"""Matrix products of bfloat16 numbers with sums in float32: register tiles of ``vdpbf16ps``, which adds two products.

``round_rows``    rows of floats → rows of bfloat16, the left side of ``multiply``
``pack_rows``     a matrix of contiguous rows → panels of columns, either side of ``contract``
``pack_columns``  a matrix of contiguous columns → panels of columns
``multiply``      out = left · packed
``contract``      out = leftᵀ · packed, or added to out: sums over many rows, gradients of matrices

All are called with floats: rounding, to the nearest even, is part of packing. A word is a pair of numbers that follow
each other in depth, the dimension that is summed over. A panel holds the words of its columns, pair by pair; beyond the
depth and the last column it is zero, as are the ends of rounded rows.
"""

from functools import cache
from typing import NamedTuple

from llvmlite import ir

from seqloom.kernels.linalg import gemm
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm.ir_builder import POINTER, Emitter, Value, integer

LANES = 16
"""Words in a vector: the instructions need vectors of 512 bits."""
WIDTH = gemm.PANEL_VECTORS * LANES
"""Columns in a panel."""
WORD_BYTES = 4
LINE = 64
"""Bytes: rounded rows begin at multiples of them."""
DEPTH_BLOCK = 512
"""Pairs that are summed before the next panel: a block of a panel stays in the first cache."""
ROW_BLOCK = 224
"""Rows of the left side that are multiplied before the next block: they stay in the second cache."""

WORD = ir.IntType(32)
WORDS = ir.VectorType(WORD, LANES)


class _BFloat(ir.Type):  # type: ignore[misc]  # llvmlite has no types
    """The type of LLVM, which llvmlite does not define."""

    def __str__(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


NUMBERS = ir.VectorType(_BFloat(), 2 * LANES)


def unsupported() -> str | None:
    """Why this processor cannot run the functions; None if it can."""
    if jit_cache.has_cpu_feature("avx512bf16") and jit_cache.vector_bytes() == LINE:
        return None
    return "this processor has no instructions for bfloat16 products (AVX512_BF16)"


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
    return Bfloat16Functions(*jit_cache.load("bfloat16 products", _emit, Bfloat16Functions._fields))


def row_bytes(depth: int) -> int:
    """Bytes between rounded rows; an odd number of lines, so that rows use different cache sets."""
    lines = -(-depth // (2 * LANES))
    return (lines + 1 - lines % 2) * LINE


def packed_words(depth: int, columns: int) -> int:
    """Words of a packed matrix."""
    return -(-columns // WIDTH) * WIDTH * -(-depth // (2 * LANES)) * LANES


def _emit() -> str:
    module = ir.Module("bfloat16")
    _round_rows(module)
    _pack_rows(module)
    _pack_columns(module)
    for rows in range(1, gemm.tile_rows() + 1):
        _tile(module, rows, transposed=False)
        _tile(module, rows, transposed=True)
    _multiply(module)
    _contract(module)
    return str(module)


def _round(emit: Emitter, low: Value, high: Value) -> Value:
    """Two vectors of floats as one of words: first the numbers of the low one, then those of the high one."""
    kind = ir.FunctionType(NUMBERS, [emit.vector] * 2)
    numbers = emit.builder.call(emit.declare("llvm.x86.avx512bf16.cvtne2ps2bf16.512", kind), [high, low])
    return emit.builder.bitcast(numbers, WORDS)


def _store(emit: Emitter, words: Value, address: Value) -> None:
    emit.builder.store(words, emit.builder.inttoptr(address, POINTER), align=WORD_BYTES)


def _load(emit: Emitter, address: Value, kind: Value = WORDS) -> Value:
    return emit.builder.load(emit.builder.inttoptr(address, POINTER), align=WORD_BYTES, typ=kind)


def _panel_bytes(emit: Emitter, depth: Value) -> Value:
    blocks = emit.builder.udiv(emit.builder.add(depth, integer(2 * LANES - 1)), integer(2 * LANES))
    return emit.builder.mul(blocks, integer(LANES * WIDTH * WORD_BYTES))


def _round_rows(module: ir.Module) -> None:
    """left (rows, depth) of floats, rounded into out, whose rows are ``out_stride`` bytes apart."""
    emit = Emitter(module, "round_rows", 6, "float")
    left, left_stride, depth, rows, out, out_stride = emit.arguments
    builder = emit.builder
    with emit.loop(0, rows) as row:
        source = emit.advance(left, builder.mul(row, left_stride))
        target = builder.add(out, builder.mul(row, out_stride))
        with emit.loop(0, depth, 2 * LANES) as index:
            words = _rounded(emit, source, index, depth)
            _store(emit, words, builder.add(target, builder.mul(index, integer(WORD_BYTES // 2))))
    emit.finish()


def _rounded(emit: Emitter, source: Value, index: Value, size: Value) -> Value:
    """The floats from an index on as words, zero beyond the size."""
    rest = emit.builder.sub(size, index)
    low = emit.masked_load(emit.address(source, index), rest)
    second = emit.builder.add(index, integer(LANES))
    high = emit.masked_load(emit.address(source, second), emit.builder.sub(rest, integer(LANES)))
    return _round(emit, low, high)


def _pack_rows(module: ir.Module) -> None:
    """Panels [first, last) of matrix (depth, columns), whose rows are ``stride`` floats apart."""
    emit = Emitter(module, "pack_rows", 7, "float")
    matrix, stride, depth, columns, packed, first, last = emit.arguments
    builder = emit.builder
    size = _panel_bytes(emit, depth)
    pairs = builder.mul(builder.udiv(size, integer(WIDTH * WORD_BYTES)), integer(2))
    numbers = ir.VectorType(ir.IntType(16), 2 * LANES)
    order = [lane // 2 + LANES * (lane % 2) for lane in range(2 * LANES)]
    with emit.loop(first, last) as panel:
        begin = builder.mul(panel, integer(WIDTH))
        target = builder.add(packed, builder.mul(panel, size))
        with emit.loop(0, pairs, 2) as row:
            at = builder.add(target, builder.mul(row, integer(WIDTH * WORD_BYTES // 2)))
            for vector in range(gemm.PANEL_VECTORS):
                column = builder.add(begin, integer(LANES * vector))
                sides = []
                for side in range(2):
                    position = builder.add(row, integer(side))
                    exists = builder.icmp_signed("<", position, depth)
                    count = builder.select(exists, builder.sub(columns, column), integer(0))
                    source = builder.add(builder.mul(position, stride), column)
                    sides.append(emit.masked_load(emit.address(matrix, source), count))
                joined = builder.bitcast(_round(emit, *sides), numbers)
                shuffle = ir.Constant(ir.VectorType(WORD, 2 * LANES), order)
                words = builder.shuffle_vector(joined, ir.Constant(numbers, ir.Undefined), shuffle)
                _store(emit, words, builder.add(at, integer(LANES * vector * WORD_BYTES)))
    emit.finish()


def _pack_columns(module: ir.Module) -> None:
    """Panels [first, last) of matrix (depth, columns), whose columns are ``stride`` floats apart."""
    emit = Emitter(module, "pack_columns", 7, "float")
    matrix, stride, depth, columns, packed, first, last = emit.arguments
    builder = emit.builder
    size = _panel_bytes(emit, depth)
    with emit.loop(first, last) as panel:
        target = builder.add(packed, builder.mul(panel, size))
        with emit.loop(0, depth, 2 * LANES) as row:
            at = builder.add(target, builder.mul(row, integer(WIDTH * WORD_BYTES // 2)))
            for vector in range(gemm.PANEL_VECTORS):
                begin = builder.add(builder.mul(panel, integer(WIDTH)), integer(LANES * vector))
                vectors = []
                for lane in range(LANES):
                    column = builder.add(begin, integer(lane))
                    exists = builder.icmp_signed("<", column, columns)
                    source = emit.advance(matrix, builder.mul(column, stride))
                    vectors.append(_rounded(emit, source, row, builder.select(exists, depth, integer(0))))
                for pair, words in enumerate(gemm.transpose(emit, vectors)):
                    _store(emit, words, builder.add(at, integer((pair * WIDTH + LANES * vector) * WORD_BYTES)))
    emit.finish()


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
                builder.bitcast(_load(emit, builder.add(base, integer(LINE * vector))), NUMBERS)
                for vector in range(vectors)
            ]
            offset = builder.mul(pair, integer(WORD_BYTES * (WIDTH if transposed else 1)))
            for row in range(rows):
                word = _load(emit, builder.add(starts[row], offset), WORD)
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
    size = _panel_bytes(emit, depth)
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
    size = _panel_bytes(emit, depth)
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
