"""The most probable token of each row, an operation of a program that is repeated: greedy search in compiled code."""

import math
from functools import partial

from llvmlite import ir

from seqloom.kernels.llvm.ir_builder import BIT, INTEGER, POINTER, Value, VectorSlice, integer, vector_loop
from seqloom.kernels.program.operations import OperationEmitter

CHOICE_OPERANDS = (
    *("scores", "stride", "size", "suppressed", "suppressed_count", "end", "highest"),
    *("tokens", "chosen", "chosen_scores", "stop"),
)


def choose(module: ir.Module, real: str) -> None:
    """Write the token of the highest score, the first of ties, to ``tokens`` and ``chosen``, and its score.

    Suppressed tokens get a score of -inf. ``stop`` becomes 1 where the token is the end, where no token is possible
    (-inf), and where the score is NaN or above ``highest``. A row with a NaN has the value NaN.
    """
    emit = OperationEmitter(module, "choose", CHOICE_OPERANDS, real)
    builder, size, lanes = emit.builder, emit.operand("size"), emit.lanes
    number = ir.IntType(emit.bits)
    numbers = ir.VectorType(number, lanes)
    highest = builder.extract_element(emit.float_operand("highest"), ir.IntType(32)(0))
    lowest = ir.Constant(emit.scalar, -math.inf)
    places = ir.Constant(numbers, list(range(lanes)))

    def splat(value: Value) -> Value:
        undefined = ir.Constant(numbers, ir.Undefined)
        single = builder.insert_element(undefined, value, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        return builder.shuffle_vector(single, undefined, zeros)

    def compare(vector: VectorSlice, index: Value, known: tuple[Value, ...], row_start: Value) -> list[Value]:
        best, columns, invalid = known
        x = vector.fill_rest(vector.load(emit.address(row_start, index)), -math.inf)
        higher = builder.fcmp_ordered(">", x, best)
        column = builder.add(splat(builder.trunc(index, number) if emit.bits < 64 else index), places)
        return [
            builder.select(higher, x, best),
            builder.select(higher, column, columns),
            builder.or_(invalid, builder.fcmp_unordered("uno", x, x)),
        ]

    first, last = emit.rows()
    with emit.loop(first, last) as row:
        row_start = emit.advance(emit.operand("scores"), builder.mul(row, emit.operand("stride")))
        with emit.loop(0, emit.operand("suppressed_count")) as index:
            token = emit.load_integer(emit.operand("suppressed"), index)
            builder.store(lowest, emit.address(row_start, token))
        none = ir.Constant(ir.VectorType(BIT, lanes), [False] * lanes)
        initial = (emit.splat(-math.inf), ir.Constant(numbers, [0] * lanes), none)
        best, columns, invalid = vector_loop(emit, size, partial(compare, row_start=row_start), initial)
        is_best = builder.fcmp_ordered("==", best, emit.splat(emit.max_lanes(best)))
        candidates = builder.select(is_best, columns, ir.Constant(numbers, [2**31 - 1] * lanes))
        smallest = emit.declare(f"llvm.vector.reduce.umin.v{lanes}i{emit.bits}", ir.FunctionType(number, [numbers]))
        column = builder.call(smallest, [candidates])
        chosen = builder.zext(column, INTEGER) if emit.bits < 64 else column
        has_nan = builder.icmp_unsigned("!=", builder.bitcast(invalid, ir.IntType(lanes)), ir.IntType(lanes)(0))
        at_column = emit.load_scalar(emit.address(row_start, chosen))
        value = builder.select(has_nan, ir.Constant(emit.scalar, math.nan), at_column)
        builder.store(value, emit.address(emit.operand("chosen_scores"), row), align=emit.bytes)
        for name in ("tokens", "chosen"):
            start = builder.inttoptr(emit.operand(name), POINTER)
            builder.store(chosen, builder.gep(start, [row], source_etype=INTEGER), align=8)
        is_end = builder.icmp_signed("==", chosen, emit.operand("end"))
        is_invalid = builder.fcmp_unordered(">", value, highest)
        is_impossible = builder.fcmp_ordered("==", value, lowest)
        with emit.if_then(builder.or_(is_end, builder.or_(is_invalid, is_impossible))):
            builder.store(integer(1), builder.inttoptr(emit.operand("stop"), POINTER), align=8)
    emit.finish()
