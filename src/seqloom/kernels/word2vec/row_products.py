"""Products and updates of several rows of a float32 matrix with one vector, as intrinsics for numba with explicit SIMD.

Matrices are passed as the address of their first element and the width of a row.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

GROUP = 6
"""Rows whose sums are kept in registers at once: a word and five negative samples."""

SINGLE, LONG, SHORT = ir.FloatType(), ir.IntType(64), ir.IntType(32)
LANES = (8, 4, 1)  # vector widths in which a row is processed: 8 as long as possible, then 4, then 1


def _type(lanes: int) -> Any:
    return SINGLE if lanes == 1 else ir.VectorType(SINGLE, lanes)


def _zero(lanes: int) -> Any:
    return ir.Constant(_type(lanes), 0.0 if lanes == 1 else [0.0] * lanes)


def _pointer(b: Any, address: Any, offset: Any, lanes: int) -> Any:
    return b.inttoptr(b.add(address, b.shl(offset, LONG(2))), _type(lanes).as_pointer())


def _load(b: Any, address: Any, offset: Any, lanes: int = 1) -> Any:
    return b.load(_pointer(b, address, offset, lanes), align=4)


def _store(b: Any, value: Any, address: Any, offset: Any, lanes: int = 1) -> None:
    b.store(value, _pointer(b, address, offset, lanes), align=4)


def _multiply_add(b: Any, x: Any, y: Any, z: Any) -> Any:
    kind = x.type
    name = "llvm.fma.f32" if kind == SINGLE else f"llvm.fma.v{kind.count}f32"
    function = cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [kind] * 3), name)
    return b.call(function, [x, y, z])


def _shuffle(b: Any, value: Any, order: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(SHORT, len(order)), order)
    return b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)


def _broadcast(b: Any, value: Any, lanes: int) -> Any:
    """Broadcast a number to all lanes."""
    if lanes == 1:
        return value
    return _shuffle(b, b.insert_element(ir.Constant(_type(lanes), ir.Undefined), value, SHORT(0)), [0] * lanes)


def _sum_lanes(b: Any, value: Any, lanes: int) -> Any:
    """The sum of all lanes."""
    if lanes == 1:
        return value
    while lanes > 1:
        lanes //= 2
        lower, upper = (_shuffle(b, value, list(range(start, start + lanes))) for start in (0, lanes))
        value = b.fadd(lower, upper)
    return b.extract_element(value, SHORT(0))


def _loop(b: Any, start: Any, stop: Any, *, step: int, body: Callable[[Any], None]) -> None:
    before = b.block
    head, inside, after = (b.append_basic_block() for _ in range(3))
    b.branch(head)
    b.position_at_end(head)
    index = b.phi(LONG)
    index.add_incoming(start, before)
    b.cbranch(b.icmp_signed("<", index, stop), inside, after)
    b.position_at_end(inside)
    body(index)
    index.add_incoming(b.add(index, LONG(step)), b.block)
    b.branch(head)
    b.position_at_end(after)


def _call_swapped(body: Callable[[Any, int], None], number: int, index: Any) -> None:
    body(index, number)


def _for_each_vector(b: Any, width: Any, body: Callable[[Any, int], None]) -> None:
    """Emit ``body(offset, lanes)`` for all elements of a row."""
    start = LONG(0)
    for lanes in LANES:
        stop = b.and_(width, LONG(-lanes))
        _loop(b, start, stop, step=lanes, body=partial(_call_swapped, body, lanes))
        start = stop


def _for_each_group(b: Any, count: Any, body: Callable[[Any, int], None]) -> None:
    """Emit ``body(first, rows)`` for groups of rows, the largest first."""
    start = LONG(0)
    for size in (GROUP, 2, 1):
        stop = b.add(start, b.mul(b.sdiv(b.sub(count, start), LONG(size)), LONG(size)))
        _loop(b, start, stop, step=size, body=partial(_call_swapped, body, size))
        start = stop


def _addresses(b: Any, matrix: Any, rows: Any, first: Any, count: int, width: Any) -> list[Any]:
    """Addresses of the rows whose int64 indices are at ``rows``."""
    result = []
    for index in range(count):
        place = b.add(rows, b.shl(b.add(first, LONG(index)), LONG(3)))
        number = b.load(b.inttoptr(place, LONG.as_pointer()))
        result.append(b.add(matrix, b.shl(b.mul(number, width), LONG(2))))
    return result


def _dot_rows(_: Any, vector: Any, matrix: Any, rows: Any, count: Any, width: Any, result: Any) -> Any:
    """result[j] = vector · matrix[rows[j]]."""

    def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
        vector, matrix, rows, count, width, result = arguments

        def group(first: Any, size: int) -> None:
            begins = _addresses(b, matrix, rows, first, size, width)
            sums = {lanes: [cgutils.alloca_once(b, _type(lanes)) for _ in begins] for lanes in LANES}
            for lanes, slots in sums.items():
                for slot in slots:
                    b.store(_zero(lanes), slot)

            def piece(offset: Any, lanes: int) -> None:
                value = _load(b, vector, offset, lanes)
                for begin, slot in zip(begins, sums[lanes], strict=True):
                    b.store(_multiply_add(b, value, _load(b, begin, offset, lanes), b.load(slot)), slot)

            _for_each_vector(b, width, piece)
            for index in range(size):
                wide, half, single = (_sum_lanes(b, b.load(sums[lanes][index]), lanes) for lanes in LANES)
                _store(b, b.fadd(wide, b.fadd(half, single)), result, b.add(first, LONG(index)))

        _for_each_group(b, count, group)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), generate


def _update_rows(_: Any, vector: Any, into: Any, matrix: Any, rows: Any, count: Any, width: Any, factors: Any) -> Any:
    """For each j: into += factors[j] matrix[rows[j]], then matrix[rows[j]] += factors[j] vector.

    ``into`` may be ``vector`` where there are ``GROUP`` rows.
    """

    def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
        vector, into, matrix, rows, count, width, factors = arguments

        def group(first: Any, size: int) -> None:
            begins = _addresses(b, matrix, rows, first, size, width)
            scalars = [_load(b, factors, b.add(first, LONG(index))) for index in range(size)]

            def piece(offset: Any, lanes: int) -> None:
                value, total = _load(b, vector, offset, lanes), _load(b, into, offset, lanes)
                for begin, factor in zip(begins, scalars, strict=True):
                    row, splat = _load(b, begin, offset, lanes), _broadcast(b, factor, lanes)
                    total = _multiply_add(b, splat, row, total)
                    _store(b, _multiply_add(b, splat, value, row), begin, offset, lanes)
                _store(b, total, into, offset, lanes)

            _for_each_vector(b, width, piece)

        _for_each_group(b, count, group)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), generate


def _prefetch(_: Any, address: Any) -> Any:
    """Prefetch a cache line for writing."""

    def generate(context: Any, b: Any, _: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, SHORT, SHORT, SHORT])
        function = b.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        b.call(function, [b.inttoptr(arguments[0], byte), SHORT(1), SHORT(2), SHORT(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


dot_rows: Any = intrinsic(_dot_rows)
update_rows: Any = intrinsic(_update_rows)
prefetch: Any = intrinsic(_prefetch)
