"""Rounding and packing matrices for products in bfloat16.

``round_rows``    rows of floats → rows of bfloat16, the left side of a product
``pack_rows``     a matrix of contiguous rows → panels of columns
``pack_columns``  a matrix of contiguous columns → panels of columns

Rounding is to the nearest even. A word is a pair of numbers that follow each other in depth, the dimension that is
summed over. A panel holds the words of its columns, pair by pair; beyond the depth and the last column it is zero, as
are the ends of rounded rows.
"""

from llvmlite import ir

from seqloom.kernels.linalg import gemm
from seqloom.kernels.llvm.ir_builder import POINTER, Emitter, Value, integer

LANES = 16
"""Words in a vector: the instructions need vectors of 512 bits."""
WIDTH = gemm.PANEL_VECTORS * LANES
"""Columns in a panel."""
WORD_BYTES = 4
LINE = 64
"""Bytes: rounded rows begin at multiples of them."""
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


def row_bytes(depth: int) -> int:
    """Bytes between rounded rows; an odd number of lines, so that rows use different cache sets."""
    lines = -(-depth // (2 * LANES))
    return (lines + 1 - lines % 2) * LINE


def packed_words(depth: int, columns: int) -> int:
    """Words of a packed matrix."""
    return -(-columns // WIDTH) * WIDTH * -(-depth // (2 * LANES)) * LANES


def emit_packing(module: ir.Module) -> None:
    """Add the functions to a module."""
    _round_rows(module)
    _pack_rows(module)
    _pack_columns(module)


def _round(emit: Emitter, low: Value, high: Value) -> Value:
    """Two vectors of floats as one of words: first the numbers of the low one, then those of the high one."""
    kind = ir.FunctionType(NUMBERS, [emit.vector] * 2)
    numbers = emit.builder.call(emit.declare("llvm.x86.avx512bf16.cvtne2ps2bf16.512", kind), [high, low])
    return emit.builder.bitcast(numbers, WORDS)


def store_words(emit: Emitter, words: Value, address: Value) -> None:
    emit.builder.store(words, emit.builder.inttoptr(address, POINTER), align=WORD_BYTES)


def load_words(emit: Emitter, address: Value, kind: Value = WORDS) -> Value:
    return emit.builder.load(emit.builder.inttoptr(address, POINTER), align=WORD_BYTES, typ=kind)


def panel_bytes(emit: Emitter, depth: Value) -> Value:
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
            store_words(emit, words, builder.add(target, builder.mul(index, integer(WORD_BYTES // 2))))
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
    size = panel_bytes(emit, depth)
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
                store_words(emit, words, builder.add(at, integer(LANES * vector * WORD_BYTES)))
    emit.finish()


def _pack_columns(module: ir.Module) -> None:
    """Panels [first, last) of matrix (depth, columns), whose columns are ``stride`` floats apart."""
    emit = Emitter(module, "pack_columns", 7, "float")
    matrix, stride, depth, columns, packed, first, last = emit.arguments
    builder = emit.builder
    size = panel_bytes(emit, depth)
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
                    store_words(emit, words, builder.add(at, integer((pair * WIDTH + LANES * vector) * WORD_BYTES)))
    emit.finish()
