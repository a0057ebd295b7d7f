"""Matrix products of int8 numbers with register tiles: sums are exact, whatever the processor.

``quantize``   rows of floats → rows of integers from −127 to 127, each with its own scale
``multiply``   out = left · packed, with a left side that is quantized and a matrix that is packed and quantized

A panel of the matrix holds, for its columns, the start of the sums (int32), the scales (float), and the integers (int8)
in groups of four rows. A row of the left side holds its scale and then its integers.
"""

import platform
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

from llvmlite import ir

from seqloom.kernels.linalg import gemm
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm.ir_builder import POINTER, Emitter, Value, VectorSlice, integer, vector_loop

GROUP = 4
"""Products that one lane of an instruction sums."""
LIMIT = 127
"""The largest integer; −128 is not used, so that a number and its negative are treated alike."""
OFFSET = 128
"""Added to the left side where an instruction multiplies unsigned by signed integers."""
SMALLEST = 1e-30
"""Rows without a larger absolute value are taken for zero: the inverse of their scale would overflow."""
MAX_DEPTH = 65_000
"""Rows of a matrix up to which no sum of products (at most 255 · 127 each) can overflow 32 bits."""
ROUNDING = 1.5 * 2**23
"""A float to which a small number is added to round it, half to even: the result ends with the bits of the integer."""
LINE = 64
"""Bytes: rows of the left side, and their integers, begin at multiples of them."""

BYTE, SHORT, WORD = ir.IntType(8), ir.IntType(16), ir.IntType(32)


@dataclass(frozen=True)
class Instructions:
    """How a processor sums products of int8 numbers.

    ``vpdpbusd`` (x86) and ``sdot`` (ARM) sum four products per lane; ``pmaddwd`` and its portable form multiply 16-bit
    integers and sum two.
    """

    name: str
    left_bytes: int  # of an integer of the left side
    offset: int  # that is added to the left side
    sums: int  # vectors of sums for a vector of columns

    @property
    def tallest(self) -> int:
        """Rows of the tallest tile."""
        return max(1, gemm.tile_rows() // self.sums)

    def row_bytes(self, depth: int) -> int:
        """Bytes between rows of the left side; an odd number of lines, so that rows use different cache sets."""
        lines = 1 + -(-_round_up(depth, GROUP) * self.left_bytes // LINE)
        return (lines + 1 - lines % 2) * LINE


VNNI = Instructions("vpdpbusd", left_bytes=1, offset=OFFSET, sums=1)
SDOT = Instructions("sdot", left_bytes=1, offset=0, sums=1)
PMADDWD = Instructions("pmaddwd", left_bytes=2, offset=0, sums=2)
PORTABLE = Instructions("portable", left_bytes=2, offset=0, sums=2)


@cache
def instructions() -> Instructions:
    """The fastest instructions of this processor."""
    has = jit_cache.has_cpu_feature
    if jit_cache.vector_bytes() == 64 and has("avx512vnni"):
        return VNNI
    if jit_cache.vector_bytes() == 32 and (has("avxvnni") or (has("avx512vnni") and has("avx512vl"))):
        return VNNI
    if platform.machine().lower() in ("x86_64", "amd64"):
        return PMADDWD if jit_cache.vector_bytes() < 64 or has("avx512bw") else PORTABLE
    return SDOT if has("dotprod") else PORTABLE


class QuantizedFunctions(NamedTuple):
    """Addresses of the compiled functions."""

    quantize: int
    multiply_quantized: int


@cache
def functions(kind: Instructions) -> QuantizedFunctions:
    """The compiled functions."""
    addresses = jit_cache.load(f"quantized products {kind}", lambda: _emit(kind), QuantizedFunctions._fields)
    return QuantizedFunctions(*addresses)


def panel_bytes(depth: int) -> int:
    """Bytes of a panel of the matrix."""
    return gemm.panel_width("float") * (8 + _round_up(depth, GROUP))


def _round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _emit(kind: Instructions) -> str:
    module = ir.Module("quantized")
    _quantize(module, kind)
    for rows in range(1, kind.tallest + 1):
        _tile(module, kind, rows)
    _multiply(module, kind)
    return str(module)


def _quantize(module: ir.Module, kind: Instructions) -> None:
    """left (rows, depth) of floats, rounded into out, whose rows are ``out_stride`` bytes apart."""
    emit = Emitter(module, "quantize", 6, "float")
    left, left_stride, depth, rows, out, out_stride = emit.arguments
    builder, lanes = emit.builder, emit.lanes
    words = ir.VectorType(WORD, lanes)
    largest_of = emit.declare(f"llvm.smax.v{lanes}i32", ir.FunctionType(words, [words, words]))
    largest_lane = emit.declare(f"llvm.vector.reduce.smax.v{lanes}i32", ir.FunctionType(WORD, [words]))
    with emit.loop(0, rows) as row:
        source = emit.advance(left, builder.mul(row, left_stride))
        target = builder.add(out, builder.mul(row, out_stride))

        def largest(vector: VectorSlice, index: Value, values: tuple[Value, ...], source: Value) -> list[Value]:
            # As integers, absolute values have the same order, and NaN is the largest.
            size = emit.intrinsic("fabs", vector.load(emit.address(source, index)))
            return [builder.call(largest_of, [values[0], builder.bitcast(size, words)])]

        zeros = ir.Constant(words, [0] * lanes)
        (sizes,) = vector_loop(emit, depth, partial(largest, source=source), (zeros,))
        size = builder.bitcast(builder.call(largest_lane, [sizes]), emit.scalar)
        limit = ir.Constant(emit.scalar, float(LIMIT))
        is_large = builder.fcmp_ordered(">", size, ir.Constant(emit.scalar, SMALLEST))
        inverse = builder.select(is_large, builder.fdiv(limit, size), ir.Constant(emit.scalar, 0.0))
        builder.store(builder.fdiv(size, limit), builder.inttoptr(target, POINTER), align=4)
        factor, integers = emit.splat(inverse), builder.add(target, integer(LINE))

        def store(vector: VectorSlice, index: Value, _: tuple[Value, ...], *known: Value) -> tuple[()]:
            source, factor, integers = known
            scaled = builder.fmul(vector.load(emit.address(source, index)), factor)
            rounded = builder.bitcast(builder.fadd(scaled, emit.splat(ROUNDING)), words)
            if kind.offset:
                rounded = builder.add(rounded, ir.Constant(words, [kind.offset] * lanes))
            narrow = builder.trunc(rounded, ir.VectorType(BYTE if kind.left_bytes == 1 else SHORT, lanes))
            at = builder.add(integers, builder.mul(index, integer(kind.left_bytes)))
            # Beyond the end of a row, where the matrix is zero.
            builder.store(narrow, builder.inttoptr(at, POINTER), align=1)
            return ()

        vector_loop(emit, depth, lambda *step, known=(source, factor, integers): store(*step, *known))
    emit.finish()


def _tile(module: ir.Module, kind: Instructions, rows: int) -> None:
    """One tile of out (rows, panel)."""
    emit = Emitter(module, f"tile{rows}", 6, "float")
    emit.function.linkage = "internal"
    left, left_stride, panel, groups, out, out_stride = emit.arguments
    builder, lanes, vectors = emit.builder, emit.lanes, gemm.PANEL_VECTORS
    width = vectors * lanes
    words = ir.VectorType(WORD, lanes)
    unroll = 4 if rows == 1 else 2 if rows == 2 else 1
    starts = [builder.add(left, builder.mul(left_stride, integer(row))) for row in range(rows)]
    matrix = builder.add(panel, integer(8 * width))

    def load(address: Value, kind: Value) -> Value:
        return builder.load(builder.inttoptr(address, POINTER), align=1, typ=kind)

    def accumulate(index: Value, sums: tuple[Value, ...], repeats: int) -> list[Value]:
        updated = list(sums)
        for repeat in range(repeats):
            group = builder.add(index, integer(repeat))
            base = builder.add(matrix, builder.mul(group, integer(width * GROUP)))
            parts = [
                load(builder.add(base, integer(position * kind_bytes)), ir.VectorType(BYTE, kind_bytes))
                for position in range(vectors * kind.sums)
            ]
            offset = builder.add(builder.mul(group, integer(GROUP * kind.left_bytes)), integer(LINE))
            for row in range(rows):
                word = load(builder.add(starts[row], offset), ir.IntType(8 * GROUP * kind.left_bytes))
                for position, part in enumerate(parts):
                    slot = (repeat * rows + row) * len(parts) + position
                    updated[slot] = _add_products(emit, kind, updated[slot], word, part)
        return updated

    kind_bytes = lanes * GROUP // kind.sums
    count = rows * vectors * kind.sums
    zeros = ir.Constant(words, [0] * lanes)
    initial = [zeros] * (count * unroll)
    if kind.offset:
        begin = [load(builder.add(panel, integer(4 * lanes * vector)), words) for vector in range(vectors)]
        initial[:count] = begin * rows
    even = builder.and_(groups, integer(-unroll))
    with emit.loop_carrying(0, even, unroll, tuple(initial)) as (index, sums, advance):
        final = advance(*accumulate(index, sums, unroll))
    totals = final[:count]
    for repeat in range(1, unroll):
        totals = [builder.add(a, b) for a, b in zip(totals, final[repeat * count :][:count], strict=True)]
    if unroll > 1:
        with emit.loop_carrying(even, groups, 1, tuple(totals)) as (index, sums, advance):
            totals = advance(*accumulate(index, sums, 1))
    for row in range(rows):
        row_scale = emit.splat(load(starts[row], emit.scalar))
        target = emit.advance(out, builder.mul(out_stride, integer(row)))
        for vector in range(vectors):
            first = (row * vectors + vector) * kind.sums
            total = _join_sums(emit, totals[first : first + kind.sums])
            scale = load(builder.add(panel, integer(4 * (width + lanes * vector))), emit.vector)
            value = builder.fmul(builder.fmul(builder.sitofp(total, emit.vector), scale), row_scale)
            emit.store(value, emit.address(target, vector * lanes))
    emit.finish()


def _add_products(emit: Emitter, kind: Instructions, sums: Value, word: Value, part: Value) -> Value:
    """sums + the products of a group of the left side, in one word, with a group of each column."""
    builder, lanes = emit.builder, emit.lanes
    words, repeats = ir.VectorType(WORD, lanes), lanes // kind.left_bytes
    undefined = ir.Constant(ir.VectorType(word.type, repeats), ir.Undefined)
    single = builder.insert_element(undefined, word, WORD(0))
    copies = builder.shuffle_vector(single, undefined, ir.Constant(ir.VectorType(WORD, repeats), [0] * repeats))
    if kind is VNNI:
        name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
        function = emit.declare(name, ir.FunctionType(words, [words] * 3))
        return builder.call(function, [sums, copies, builder.bitcast(part, words)])
    if kind is SDOT:
        function = emit.declare(
            "llvm.aarch64.neon.sdot.v4i32.v16i8", ir.FunctionType(words, [words, part.type, part.type])
        )
        return builder.call(function, [sums, builder.bitcast(copies, part.type), part])
    shorts = ir.VectorType(SHORT, 2 * lanes)
    pair = builder.bitcast(copies, shorts), builder.sext(part, shorts)
    if kind is PMADDWD:
        name = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}[lanes]
        function = emit.declare(f"llvm.x86.{name}", ir.FunctionType(words, [shorts] * 2))
        return builder.add(sums, builder.call(function, pair))
    products = builder.mul(*[builder.sext(side, ir.VectorType(WORD, 2 * lanes)) for side in pair])
    return builder.add(sums, _add_neighbours(emit, products, ir.Constant(products.type, ir.Undefined)))


def _join_sums(emit: Emitter, sums: list[Value]) -> Value:
    """A sum for each column from vectors with one or two sums for each."""
    return sums[0] if len(sums) == 1 else _add_neighbours(emit, *sums)


def _add_neighbours(emit: Emitter, left: Value, right: Value) -> Value:
    """The sums of neighbours among the lanes of two vectors, as many as a vector has lanes."""
    kind = ir.VectorType(WORD, emit.lanes)
    even, odd = (
        emit.builder.shuffle_vector(left, right, ir.Constant(kind, [2 * lane + side for lane in range(emit.lanes)]))
        for side in (0, 1)
    )
    return emit.builder.add(even, odd)


def _multiply(module: ir.Module, kind: Instructions) -> None:
    """left (rows, depth) times panels [first, last) into out, whose rows are padded to whole panels."""
    emit = Emitter(module, "multiply_quantized", 9, "float")
    left, left_stride, right, depth, out, out_stride, rows, first, last = emit.arguments
    builder = emit.builder
    width = gemm.PANEL_VECTORS * emit.lanes
    groups = builder.udiv(builder.add(depth, integer(GROUP - 1)), integer(GROUP))
    size = builder.mul(builder.add(builder.mul(groups, integer(GROUP)), integer(8)), integer(width))
    tiles = gemm.tile_count(emit, rows, tallest=kind.tallest)
    with emit.loop(first, last) as number:
        panel = builder.add(right, builder.mul(number, size))
        column = builder.mul(number, integer(width))
        with emit.loop(0, tiles) as tile:
            low, count = gemm.tile_bounds(emit, rows, tile, tiles)
            source = builder.add(left, builder.mul(low, left_stride))
            target = emit.advance(out, builder.add(builder.mul(low, out_stride), column))
            arguments = source, left_stride, panel, groups, target, out_stride
            gemm.call_tile(emit, "tile", count, *arguments, tallest=kind.tallest)
    emit.finish()
