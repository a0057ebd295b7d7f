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

FLOAT32, INT64, INT32 = ir.FloatType(), ir.IntType(64), ir.IntType(32)
LANES = (8, 4, 1)  # vector widths in which a row is processed: 8 as long as possible, then 4, then 1


def _type(lanes: int) -> Any:
    return FLOAT32 if lanes == 1 else ir.VectorType(FLOAT32, lanes)


def _zero(lanes: int) -> Any:
    return ir.Constant(_type(lanes), 0.0 if lanes == 1 else [0.0] * lanes)


def _pointer(builder: Any, address: Any, offset: Any, lanes: int) -> Any:
    return builder.inttoptr(builder.add(address, builder.shl(offset, INT64(2))), _type(lanes).as_pointer())


def _load(builder: Any, address: Any, offset: Any, lanes: int = 1) -> Any:
    return builder.load(_pointer(builder, address, offset, lanes), align=4)


def _store(builder: Any, value: Any, address: Any, offset: Any, lanes: int = 1) -> None:
    builder.store(value, _pointer(builder, address, offset, lanes), align=4)


def _multiply_add(builder: Any, x: Any, y: Any, z: Any) -> Any:
    kind = x.type
    name = "llvm.fma.f32" if kind == FLOAT32 else f"llvm.fma.v{kind.count}f32"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name)
    return builder.call(function, [x, y, z])


def _shuffle(builder: Any, value: Any, order: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(INT32, len(order)), order)
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)


def _broadcast(builder: Any, value: Any, lanes: int) -> Any:
    """Broadcast a number to all lanes."""
    if lanes == 1:
        return value
    return _shuffle(
        builder, builder.insert_element(ir.Constant(_type(lanes), ir.Undefined), value, INT32(0)), [0] * lanes
    )


def _sum_lanes(builder: Any, value: Any, lanes: int) -> Any:
    """The sum of all lanes."""
    if lanes == 1:
        return value
    while lanes > 1:
        lanes //= 2
        lower, upper = (_shuffle(builder, value, list(range(start, start + lanes))) for start in (0, lanes))
        value = builder.fadd(lower, upper)
    return builder.extract_element(value, INT32(0))


def _loop(builder: Any, start: Any, stop: Any, *, step: int, body: Callable[[Any], None]) -> None:
    before = builder.block
    head, inside, after = (builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(INT64)
    index.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("<", index, stop), inside, after)
    builder.position_at_end(inside)
    body(index)
    index.add_incoming(builder.add(index, INT64(step)), builder.block)
    builder.branch(head)
    builder.position_at_end(after)


def _call_swapped(body: Callable[[Any, int], None], number: int, index: Any) -> None:
    body(index, number)


def _for_each_vector(builder: Any, width: Any, body: Callable[[Any, int], None]) -> None:
    """Emit ``body(offset, lanes)`` for all elements of a row."""
    start = INT64(0)
    for lanes in LANES:
        stop = builder.and_(width, INT64(-lanes))
        _loop(builder, start, stop, step=lanes, body=partial(_call_swapped, body, lanes))
        start = stop


def _for_each_group(builder: Any, count: Any, body: Callable[[Any, int], None]) -> None:
    """Emit ``body(first, rows)`` for groups of rows, the largest first."""
    start = INT64(0)
    for size in (GROUP, 2, 1):
        stop = builder.add(start, builder.mul(builder.sdiv(builder.sub(count, start), INT64(size)), INT64(size)))
        _loop(builder, start, stop, step=size, body=partial(_call_swapped, body, size))
        start = stop


def _addresses(builder: Any, matrix: Any, rows: Any, first: Any, count: int, width: Any) -> list[Any]:
    """Addresses of the rows whose int64 indices are at ``rows``."""
    result = []
    for index in range(count):
        address = builder.add(rows, builder.shl(builder.add(first, INT64(index)), INT64(3)))
        number = builder.load(builder.inttoptr(address, INT64.as_pointer()))
        result.append(builder.add(matrix, builder.shl(builder.mul(number, width), INT64(2))))
    return result


def _dot_rows(_: Any, vector: Any, matrix: Any, rows: Any, count: Any, width: Any, result: Any) -> Any:
    """result[j] = vector · matrix[rows[j]]."""

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        vector, matrix, rows, count, width, result = arguments

        def group(first: Any, size: int) -> None:
            row_starts = _addresses(builder, matrix, rows, first, size, width)
            sums = {lanes: [cgutils.alloca_once(builder, _type(lanes)) for _ in row_starts] for lanes in LANES}
            for lanes, slots in sums.items():
                for slot in slots:
                    builder.store(_zero(lanes), slot)

            def vector_slice(offset: Any, lanes: int) -> None:
                value = _load(builder, vector, offset, lanes)
                for row_start, slot in zip(row_starts, sums[lanes], strict=True):
                    builder.store(
                        _multiply_add(builder, value, _load(builder, row_start, offset, lanes), builder.load(slot)),
                        slot,
                    )

            _for_each_vector(builder, width, vector_slice)
            for index in range(size):
                eights, fours, ones = (_sum_lanes(builder, builder.load(sums[lanes][index]), lanes) for lanes in LANES)
                _store(
                    builder, builder.fadd(eights, builder.fadd(fours, ones)), result, builder.add(first, INT64(index))
                )

        _for_each_group(builder, count, group)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), generate


def _update_rows(_: Any, vector: Any, into: Any, matrix: Any, rows: Any, count: Any, width: Any, factors: Any) -> Any:
    """For each j: into += factors[j] matrix[rows[j]], then matrix[rows[j]] += factors[j] vector.

    ``into`` may be ``vector`` where there are ``GROUP`` rows.
    """

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        vector, into, matrix, rows, count, width, factors = arguments

        def group(first: Any, size: int) -> None:
            row_starts = _addresses(builder, matrix, rows, first, size, width)
            scalars = [_load(builder, factors, builder.add(first, INT64(index))) for index in range(size)]

            def vector_slice(offset: Any, lanes: int) -> None:
                value, total = _load(builder, vector, offset, lanes), _load(builder, into, offset, lanes)
                for row_start, factor in zip(row_starts, scalars, strict=True):
                    row, splat = _load(builder, row_start, offset, lanes), _broadcast(builder, factor, lanes)
                    total = _multiply_add(builder, splat, row, total)
                    _store(builder, _multiply_add(builder, splat, value, row), row_start, offset, lanes)
                _store(builder, total, into, offset, lanes)

            _for_each_vector(builder, width, vector_slice)

        _for_each_group(builder, count, group)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), generate


def _prefetch(_: Any, address: Any) -> Any:
    """Prefetch a cache line for writing."""

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, INT32, INT32, INT32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(function, [builder.inttoptr(arguments[0], byte), INT32(1), INT32(2), INT32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


dot_rows: Any = intrinsic(_dot_rows)
update_rows: Any = intrinsic(_update_rows)
prefetch: Any = intrinsic(_prefetch)
