"""The products of ``bfloat16_gemm`` with AMX: one instruction multiplies tiles of 16 × 32 and 32 × 16 numbers.

A tile of left is 16 rows of 16 words, a tile of a panel 16 pairs of 16 columns, a tile of out 16 rows of 16 columns.
Tiles 0 to 3 are sums, 4 and 5 rows of left, 6 and 7 columns of a panel.
"""

import ctypes
import platform
import sys
from functools import cache

from llvmlite import ir

from seqloom.kernels.linalg import gemm
from seqloom.kernels.linalg.bfloat16_packing import (
    LANES,
    LINE,
    WIDTH,
    WORD_BYTES,
    WORDS,
    load_words,
    panel_bytes,
    store_words,
)
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm.ir_builder import POINTER, Emitter, Value, integer

ROWS = 16
"""Rows of a tile."""
PAIRS = 16
"""Pairs in a tile."""
DEPTH_BLOCK = 256
"""Pairs that are summed before the next panel: a block of a panel stays in the first cache."""
ROW_BLOCK = 8 * 2 * ROWS
"""Rows of the left side that are multiplied before the next block: they stay in the second cache."""

PALETTE_BYTES, ROW_SIZES, ROW_COUNTS = 64, 16, 48
"""A configuration of tiles: its size, and where the bytes in a row (16 bits each) and the rows (8 bits each) begin."""
SUMS, LEFT, RIGHT = (0, 1, 2, 3), (4, 5), (6, 7)

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18

_BYTE = ir.IntType(8)


@cache
def is_available() -> bool:
    """Whether the processor has the instructions, and the system lets this process use them."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or jit_cache.vector_bytes() != LINE:
        return False
    if not all(map(jit_cache.has_cpu_feature, ("amx-tile", "amx-bf16"))):
        return False
    # Linux saves the registers of tiles only for processes that have asked for them.
    return bool(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0)


def emit_products(module: ir.Module) -> None:
    """Add the functions to a module."""
    for count in (1, 2):
        _tiles(module, count)
    _multiply(module)
    _contract(module)


def _call(emit: Emitter, name: str, *arguments: Value | int) -> None:
    """Call an instruction; integers are numbers of tiles."""
    values = [_BYTE(value) if isinstance(value, int) else value for value in arguments]
    kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
    emit.builder.call(emit.declare(f"llvm.x86.{name}", kind), values)


def _pointer(emit: Emitter, address: Value) -> Value:
    return emit.builder.inttoptr(address, POINTER)


class _Configuration:
    """The sizes of the tiles, in memory of the function that uses them."""

    def __init__(self, emit: Emitter) -> None:
        self._emit = emit
        self._memory = emit.builder.alloca(_BYTE, size=PALETTE_BYTES, name="tiles")
        for index in range(PALETTE_BYTES):
            self._store(index, _BYTE(1 if index == 0 else 0))
        for tile in (*SUMS, *LEFT, *RIGHT):
            self._store(ROW_SIZES + 2 * tile, _BYTE(LINE))
            self._store(ROW_COUNTS + tile, _BYTE(ROWS))

    def _store(self, index: int, value: Value) -> None:
        place = self._emit.builder.gep(self._memory, [integer(index)], source_etype=_BYTE)
        self._emit.builder.store(value, place, align=1)

    def use(self, rows: Value) -> None:
        """Configure tiles for at most 32 rows: the first ones of each pair have 16 of them."""
        builder = self._emit.builder
        first = _smaller(self._emit, rows, integer(ROWS))
        second = builder.sub(rows, first)
        second = builder.select(builder.icmp_signed(">", second, integer(0)), second, integer(1))  # not used
        for count, tiles in ((first, (*SUMS[:2], LEFT[0])), (second, (*SUMS[2:], LEFT[1]))):
            for tile in tiles:
                self._store(ROW_COUNTS + tile, builder.trunc(count, _BYTE))
        _call(self._emit, "ldtilecfg", self._memory)


def _tiles(module: ir.Module, count: int) -> None:
    """Tiles of out (rows, panel), ``count`` below each other, added to out if ``add``: rounded rows times a panel."""
    emit = Emitter(module, f"tiles{count}", 7, "float")
    emit.function.linkage = "internal"
    left, stride, panel, pairs, out, out_stride, add = emit.arguments
    builder, vectors = emit.builder, gemm.PANEL_VECTORS
    out_bytes = builder.mul(out_stride, integer(WORD_BYTES))
    places = [
        (
            SUMS[vectors * row + vector],
            _pointer(
                emit,
                builder.add(builder.add(out, builder.mul(out_bytes, integer(ROWS * row))), integer(LINE * vector)),
            ),
        )
        for row in range(count)
        for vector in range(vectors)
    ]
    with builder.if_else(builder.icmp_signed("!=", add, integer(0))) as (then, otherwise):
        with then:
            for tile, place in places:
                _call(emit, "tileloadd64", tile, place, out_bytes)
        with otherwise:
            for tile, _ in places:
                _call(emit, "tilezero", tile)
    tops = [builder.add(left, builder.mul(stride, integer(ROWS * row))) for row in range(count)]
    with emit.loop(0, pairs, PAIRS) as pair:
        base = builder.add(panel, builder.mul(pair, integer(WIDTH * WORD_BYTES)))
        for vector in range(vectors):
            source = _pointer(emit, builder.add(base, integer(LINE * vector)))
            _call(emit, "tileloadd64", RIGHT[vector], source, integer(WIDTH * WORD_BYTES))
        for row, top in enumerate(tops):
            source = _pointer(emit, builder.add(top, builder.mul(pair, integer(WORD_BYTES))))
            _call(emit, "tileloadd64", LEFT[row], source, stride)
            for vector in range(vectors):
                _call(emit, "tdpbf16ps", SUMS[vectors * row + vector], LEFT[row], RIGHT[vector])
    for tile, place in places:
        _call(emit, "tilestored64", tile, place, out_bytes)
    emit.finish()


def _smaller(emit: Emitter, left: Value, right: Value) -> Value:
    return emit.builder.select(emit.builder.icmp_signed("<", left, right), left, right)


def _all_pairs(emit: Emitter, depth: Value) -> Value:
    """Pairs of whole tiles: both sides are zero beyond the depth."""
    return emit.builder.udiv(panel_bytes(emit, depth), integer(WIDTH * WORD_BYTES))


def _call_tiles(emit: Emitter, rows: Value, *arguments: Value) -> None:
    """Multiply at most 32 rows, for which the tiles are configured."""
    with emit.builder.if_else(emit.builder.icmp_signed(">", rows, integer(ROWS))) as (then, otherwise):
        with then:
            emit.call("tiles2", *arguments)
        with otherwise:
            emit.call("tiles1", *arguments)


def _multiply(module: ir.Module) -> None:
    """left (rows, depth), rounded, times panels [first, last) into out, whose rows are padded to whole panels."""
    emit = Emitter(module, "multiply_bfloat16", 9, "float")
    left, left_stride, right, depth, out, out_stride, rows, first, last = emit.arguments
    builder, configuration = emit.builder, _Configuration(emit)
    size, all_pairs = panel_bytes(emit, depth), _all_pairs(emit, depth)
    height = integer(2 * ROWS)

    def multiply_rows(row: Value, count: Value, panel: Value, pair: Value) -> None:
        pairs = _smaller(emit, builder.sub(all_pairs, pair), integer(DEPTH_BLOCK))
        source = builder.add(builder.add(left, builder.mul(pair, integer(WORD_BYTES))), builder.mul(row, left_stride))
        inside = builder.mul(pair, integer(WIDTH * WORD_BYTES))
        start = builder.add(builder.add(right, builder.mul(panel, size)), inside)
        target = emit.advance(out, builder.add(builder.mul(row, out_stride), builder.mul(panel, integer(WIDTH))))
        _call_tiles(emit, count, source, left_stride, start, pairs, target, out_stride, pair)

    whole = builder.and_(rows, integer(-2 * ROWS))
    with emit.if_then(builder.icmp_signed(">", whole, integer(0))):
        configuration.use(height)
        with emit.loop(0, all_pairs, DEPTH_BLOCK) as pair, emit.loop(0, whole, ROW_BLOCK) as top:
            bottom = _smaller(emit, whole, builder.add(top, integer(ROW_BLOCK)))
            with emit.loop(first, last) as panel, emit.loop(top, bottom, 2 * ROWS) as row:
                multiply_rows(row, height, panel, pair)
    rest = builder.sub(rows, whole)
    with emit.if_then(builder.icmp_signed(">", rest, integer(0))):
        configuration.use(rest)
        with emit.loop(0, all_pairs, DEPTH_BLOCK) as pair, emit.loop(first, last) as panel:
            multiply_rows(whole, rest, panel, pair)
    _call(emit, "tilerelease")
    emit.finish()


def _contract(module: ir.Module) -> None:
    """left (depth, rows) transposed, its panels [first, last) only, times ``number`` panels, into or added to out."""
    emit = Emitter(module, "contract_bfloat16", 10, "float")
    left, right, depth, out, out_stride, rows, first, last, number, add = emit.arguments
    builder, configuration = emit.builder, _Configuration(emit)
    stride = (DEPTH_BLOCK * WORD_BYTES) + LINE  # an odd number of lines, so that rows use different cache sets
    memory = builder.alloca(_BYTE, size=WIDTH * stride, name="transposed")
    transposed = builder.ptrtoint(memory, emit.arguments[0].type)
    size, all_pairs = panel_bytes(emit, depth), _all_pairs(emit, depth)
    with emit.loop(first, last) as panel:
        top = builder.mul(panel, integer(WIDTH))
        height = _smaller(emit, builder.sub(rows, top), integer(WIDTH))
        configuration.use(height)
        with emit.loop(0, all_pairs, DEPTH_BLOCK) as pair:
            pairs = _smaller(emit, builder.sub(all_pairs, pair), integer(DEPTH_BLOCK))
            inside = builder.mul(pair, integer(WIDTH * WORD_BYTES))
            block = builder.add(builder.add(left, builder.mul(panel, size)), inside)
            _transpose(emit, block, pairs, transposed, stride)
            with emit.loop(0, number) as other:
                start = builder.add(builder.add(right, builder.mul(other, size)), inside)
                column = builder.mul(other, integer(WIDTH))
                target = emit.advance(out, builder.add(builder.mul(top, out_stride), column))
                arguments = transposed, integer(stride), start, pairs, target, out_stride, builder.or_(pair, add)
                _call_tiles(emit, height, *arguments)
    _call(emit, "tilerelease")
    emit.finish()


def _transpose(emit: Emitter, panel: Value, pairs: Value, out: Value, stride: int) -> None:
    """The words of a panel (pairs, columns) as rows (columns, pairs) that are ``stride`` bytes apart."""
    builder = emit.builder
    with emit.loop(0, pairs, PAIRS) as pair:
        source = builder.add(panel, builder.mul(pair, integer(WIDTH * WORD_BYTES)))
        target = builder.add(out, builder.mul(pair, integer(WORD_BYTES)))
        for vector in range(gemm.PANEL_VECTORS):
            places = [integer(WIDTH * WORD_BYTES * row + LINE * vector) for row in range(PAIRS)]
            words = [load_words(emit, builder.add(source, place), WORDS) for place in places]
            for row, column in enumerate(gemm.transpose(emit, words)):
                store_words(emit, column, builder.add(target, integer(stride * (LANES * vector + row))))
