"""Operations of a program: linear layers (float or int8) with an epilogue, layer norm, embedding, log-softmax.

Each is an LLVM function of (instruction, low, high, member, members, scratch) for the rows [low, high). The members of
a team split its columns, or its rows where it has no columns to split; each thread has its own scratch memory.
"""

import math
import struct
from collections.abc import Callable
from functools import partial

from llvmlite import ir

from seqloom.kernels.linalg import gemm, quantized_gemm
from seqloom.kernels.llvm import vector_math
from seqloom.kernels.llvm.ir_builder import INTEGER, Emitter, Value, VectorSlice, integer, vector_loop

OPERANDS_START = 2
"""First operand in the words of an instruction, after the opcode and the barrier flag."""

LINEAR_OPERANDS = (
    *("left", "left_stride", "left_thread_stride", "packed", "depth", "panels", "columns", "bias", "epilogue", "slope"),
    *("residual", "residual_stride", "residual_thread_stride", "out", "out_stride"),
)
NORM_OPERANDS = (
    "source",
    "source_stride",
    "source_thread_stride",
    "weight",
    "bias",
    "epsilon",
    "out",
    "out_stride",
    "out_thread_stride",
    "size",
)
EMBEDDING_OPERANDS = (
    "source",
    "index",
    "source_stride",
    "scale",
    "position_table",
    "positions",
    "out",
    "out_stride",
    "size",
)
LOG_SOFTMAX_OPERANDS = ("out", "out_stride", "size")
CALL_OPERANDS = ("function", "table", "parts", "team")

GROUP = 4
"""Panels that are multiplied before their epilogue runs, while they are in the cache."""


def max_block_rows() -> int:
    """The most rows that are multiplied before their epilogue runs."""
    return 4 * gemm.tile_rows()


def scratch_size(real: str) -> int:
    """Elements of scratch memory that a linear layer needs."""
    return max_block_rows() * GROUP * gemm.panel_width(real)


class OperationEmitter(Emitter):
    """Builds the function of one operation."""

    def __init__(self, module: ir.Module, name: str, fields: tuple[str, ...], real: str) -> None:
        super().__init__(module, name, 6, real)
        self.function.linkage = "internal"
        self._fields = fields
        self.instruction, self.low, self.high, self.member, self.members, self.scratch = self.arguments

    def operand(self, name: str) -> Value:
        return self.load_integer(self.instruction, OPERANDS_START + self._fields.index(name))

    def float_operand(self, name: str) -> Value:
        """An operand that is the bits of a double, broadcast to a vector."""
        return splat_float(self, self.operand(name))

    def rows(self) -> tuple[Value, Value]:
        """The rows that this thread computes."""
        first, last = self.part_range(self.builder.sub(self.high, self.low), self.member, self.members)
        return self.builder.add(self.low, first), self.builder.add(self.low, last)


def float_bits(value: float) -> int:
    """The bits of a double as an operand of an instruction."""
    return int.from_bytes(struct.pack("<d", value), "little", signed=True)


def splat_float(emit: Emitter, word: Value) -> Value:
    value = emit.builder.bitcast(word, ir.DoubleType())
    return emit.splat(emit.builder.fptrunc(value, emit.scalar) if emit.bits == 32 else value)


def _sum(emit: Emitter, value: Value) -> Value:
    return emit.splat(emit.sum_lanes(value))


def _leaky(emit: Emitter, x: Value, slope: Value) -> Value:
    return emit.builder.select(emit.builder.fcmp_ordered(">", x, emit.splat(0.0)), x, emit.builder.fmul(slope, x))


def _elu(emit: Emitter, x: Value, slope: Value) -> Value:
    below = emit.builder.fmul(slope, vector_math.expm1(emit, x))
    return emit.builder.select(emit.builder.fcmp_ordered(">", x, emit.splat(0.0)), x, below)


def _gelu(emit: Emitter, x: Value) -> Value:
    """x Φ(x), with Φ(−|x|) = ½ erfc(|x| / √2)."""
    builder = emit.builder
    size = emit.intrinsic("fabs", x)
    half = builder.fmul(emit.splat(0.5), vector_math.erfc(emit, builder.fmul(size, emit.splat(math.sqrt(0.5)))))
    above = builder.fcmp_ordered(">", x, emit.splat(0.0))
    return builder.fmul(x, builder.select(above, builder.fsub(emit.splat(1.0), half), half))


def _without_slope(function: Callable[[Emitter, Value], Value]) -> "Epilogue":
    return lambda emit, x, _slope: function(emit, x)


def _same(_emit: Emitter, x: Value) -> Value:
    return x


Epilogue = Callable[[Emitter, Value, Value], Value]
EPILOGUES: dict[str, Epilogue] = {
    "none": _without_slope(_same),
    "add": _without_slope(_same),  # then added to the residual
    "relu": _without_slope(lambda emit, x: vector_math.at_least(emit, x, emit.splat(0.0))),
    "tanh": _without_slope(vector_math.tanh),
    "sigmoid": _without_slope(vector_math.sigmoid),
    "leaky_relu": _leaky,
    "elu": _elu,
    "gelu": _without_slope(_gelu),
}
"""Functions applied after a product and its bias; the operand ``epilogue`` is an index in this table."""


def linear(module: ir.Module, real: str) -> None:
    """out = f(left · packed + bias), or out = residual + left · packed + bias."""
    for name in EPILOGUES:
        _epilogue(module, real, name)
    _linear(module, real, quantized=False)


def quantized_linear(module: ir.Module, real: str) -> None:
    """The same in int8. Each thread quantizes all of its rows first, after its scratch memory for products."""
    _linear(module, real, quantized=True)


def _linear(module: ir.Module, real: str, *, quantized: bool) -> None:
    emit = OperationEmitter(module, "quantized_linear" if quantized else "linear", LINEAR_OPERANDS, real)
    builder = emit.builder
    stride, depth, packed, columns = (emit.operand(name) for name in ("left_stride", "depth", "packed", "columns"))
    left = emit.advance(emit.operand("left"), builder.mul(emit.member, emit.operand("left_thread_stride")))
    residual = emit.advance(emit.operand("residual"), builder.mul(emit.member, emit.operand("residual_thread_stride")))
    first, last = emit.part_range(emit.operand("panels"), emit.member, emit.members)
    width = gemm.panel_width(real)
    rows = builder.sub(emit.high, emit.low)
    blocks = builder.udiv(builder.add(rows, integer(max_block_rows() - 1)), integer(max_block_rows()))
    integers, integers_stride = emit.advance(emit.scratch, scratch_size(real)), integer(0)
    if quantized:
        integers_stride = _row_bytes(emit, depth)
        source = emit.advance(left, builder.mul(emit.low, stride))
        emit.call("quantize", source, stride, depth, rows, integers, integers_stride)
    with emit.loop(first, last, GROUP) as panel:
        end = builder.add(panel, integer(GROUP))
        end = builder.select(builder.icmp_signed("<", end, last), end, last)
        column = builder.mul(panel, integer(width))
        column_end = builder.mul(end, integer(width))
        column_end = builder.select(builder.icmp_signed("<", column_end, columns), column_end, columns)
        base = emit.advance(emit.scratch, builder.neg(column))  # ``multiply`` counts columns from panel 0
        with emit.loop(0, blocks) as part:
            first_row, after = emit.part_range(rows, part, blocks)
            count, begin = builder.sub(after, first_row), builder.add(emit.low, first_row)
            if quantized:
                source = builder.add(integers, builder.mul(first_row, integers_stride))
                operands = source, integers_stride, packed, depth, base, GROUP * width, count, panel, end
                emit.call("multiply_quantized", *operands)
            else:
                source = emit.advance(left, builder.mul(begin, stride))
                emit.call("multiply", source, stride, packed, depth, base, GROUP * width, count, panel, end)

            def block_start(address: Value, stride: Value, begin: Value = begin, column: Value = column) -> Value:
                return emit.advance(address, builder.add(builder.mul(begin, stride), column))

            arguments = (
                emit.scratch,
                count,
                builder.sub(column_end, column),
                emit.advance(emit.operand("bias"), column),
                emit.operand("slope"),
                block_start(residual, emit.operand("residual_stride")),
                emit.operand("residual_stride"),
                block_start(emit.operand("out"), emit.operand("out_stride")),
                emit.operand("out_stride"),
            )
            call_by_index(emit, emit.operand("epilogue"), [f"epilogue_{name}" for name in EPILOGUES], arguments)
    emit.finish()


def _row_bytes(emit: Emitter, depth: Value) -> Value:
    """``row_bytes`` of the instructions for int8."""
    builder, kind = emit.builder, quantized_gemm.instructions()
    per_line = quantized_gemm.LINE // kind.left_bytes
    lines = builder.add(builder.udiv(builder.add(depth, integer(per_line - 1)), integer(per_line)), integer(1))
    return builder.mul(builder.or_(lines, integer(1)), integer(quantized_gemm.LINE))


def call_by_index(emit: Emitter, number: Value, names: list[str], arguments: tuple[Value, ...]) -> None:
    """Call the function ``names[number]``."""
    builder = emit.builder
    done = emit.function.append_basic_block("done")
    choice = builder.switch(number, done)
    for index, name in enumerate(names):
        block = emit.function.append_basic_block(name)
        choice.add_case(ir.Constant(INTEGER, index), block)
        builder.position_at_end(block)
        emit.call(name, *arguments)
        builder.branch(done)
    builder.position_at_end(done)


def _epilogue(module: ir.Module, real: str, name: str) -> None:
    emit = Emitter(module, f"epilogue_{name}", 9, real)
    emit.function.linkage = "internal"
    source, rows, columns, bias, slope, residual, residual_stride, out, out_stride = emit.arguments
    builder = emit.builder
    parameter = splat_float(emit, slope)
    with emit.loop(0, rows) as row:
        start = emit.advance(source, builder.mul(row, integer(GROUP * gemm.panel_width(real))))
        target = emit.advance(out, builder.mul(row, out_stride))
        residual_row = emit.advance(residual, builder.mul(row, residual_stride))

        def element(vector: VectorSlice, index: Value, _: tuple[Value, ...], *addresses: Value) -> tuple[()]:
            source_row, out_row, added = addresses
            x = builder.fadd(emit.load(emit.address(source_row, index)), vector.load(emit.address(bias, index)))
            x = EPILOGUES[name](emit, x, parameter)
            if name == "add":
                x = builder.fadd(vector.load(emit.address(added, index)), x)
            vector.store(x, emit.address(out_row, index))
            return ()

        vector_loop(emit, columns, lambda *step, addresses=(start, target, residual_row): element(*step, *addresses))
    emit.finish()


def norm(module: ir.Module, real: str) -> None:
    """out = (x − mean) / √(variance + ε) · weight + bias. Each thread has its own copy of the result."""
    emit = OperationEmitter(module, "norm", NORM_OPERANDS, real)
    builder = emit.builder
    size, weight, bias, epsilon = (
        emit.operand("size"),
        emit.operand("weight"),
        emit.operand("bias"),
        emit.float_operand("epsilon"),
    )
    count = emit.splat(builder.sitofp(size, emit.scalar))
    read, written = (
        emit.advance(emit.operand(name), builder.mul(emit.member, emit.operand(f"{name}_thread_stride")))
        for name in ("source", "out")
    )
    with emit.loop(emit.low, emit.high) as row:
        source = emit.advance(read, builder.mul(row, emit.operand("source_stride")))
        target = emit.advance(written, builder.mul(row, emit.operand("out_stride")))

        def add(vector: VectorSlice, index: Value, sums: tuple[Value, ...], source: Value) -> list[Value]:
            return [builder.fadd(sums[0], vector.load(emit.address(source, index)))]

        def add_squares(
            vector: VectorSlice, index: Value, sums: tuple[Value, ...], source: Value, mean: Value
        ) -> list[Value]:
            x = vector.fill_rest(builder.fsub(vector.load(emit.address(source, index)), mean))
            return [emit.intrinsic("fma", x, x, sums[0])]

        def write(vector: VectorSlice, index: Value, _: tuple[Value, ...], *known: Value) -> tuple[()]:
            source, target, mean, factor = known
            x = builder.fmul(builder.fsub(vector.load(emit.address(source, index)), mean), factor)
            scale, shift = (vector.load(emit.address(table, index)) for table in (weight, bias))
            vector.store(emit.intrinsic("fma", x, scale, shift), emit.address(target, index))
            return ()

        zero = (emit.splat(0.0),)
        mean = builder.fdiv(_sum(emit, vector_loop(emit, size, partial(add, source=source), zero)[0]), count)
        squares = vector_loop(emit, size, partial(add_squares, source=source, mean=mean), zero)[0]
        variance = builder.fdiv(_sum(emit, squares), count)
        deviation = emit.intrinsic("sqrt", builder.fadd(variance, epsilon))
        factor = builder.fdiv(emit.splat(1.0), deviation)
        vector_loop(emit, size, lambda *step, known=(source, target, mean, factor): write(*step, *known))
    emit.finish()


def embedding(module: ir.Module, real: str) -> None:
    """out = source[index] · scale + position_table[positions]; source[row] without an index, + 0 without a table."""
    emit = OperationEmitter(module, "embedding", EMBEDDING_OPERANDS, real)
    builder = emit.builder
    index, position_table, positions, size = (
        emit.operand(name) for name in ("index", "position_table", "positions", "size")
    )
    scale = emit.float_operand("scale")
    given, added = (builder.icmp_signed("!=", address, integer(0)) for address in (index, position_table))
    first, last = emit.rows()
    with emit.loop(first, last) as row:
        chosen = load_index(emit, index, row, given)
        source = emit.advance(emit.operand("source"), builder.mul(chosen, emit.operand("source_stride")))
        target = emit.advance(emit.operand("out"), builder.mul(row, emit.operand("out_stride")))

        def copy(vector: VectorSlice, at: Value, _: tuple[Value, ...], *known: Value) -> tuple[()]:
            source, target = known[:2]
            x = builder.fmul(vector.load(emit.address(source, at)), scale)
            if len(known) > 2:
                x = builder.fadd(x, vector.load(emit.address(known[2], at)))
            vector.store(x, emit.address(target, at))
            return ()

        with builder.if_else(added) as (then, otherwise):
            with then:
                position_row = emit.advance(position_table, builder.mul(emit.load_integer(positions, row), size))
                vector_loop(emit, size, lambda *step, known=(source, target, position_row): copy(*step, *known))
            with otherwise:
                vector_loop(emit, size, lambda *step, known=(source, target): copy(*step, *known))
    emit.finish()


def call(module: ir.Module, real: str) -> None:
    """A kernel with an argument table of its own, for all rows: by the whole team, or a part by each of its threads."""
    emit = OperationEmitter(module, "call", CALL_OPERANDS, real)
    builder = emit.builder
    function, table, parts, team = (emit.operand(name) for name in CALL_OPERANDS)
    kernel = builder.inttoptr(function, ir.FunctionType(ir.VoidType(), [INTEGER] * 4).as_pointer())
    with builder.if_else(builder.icmp_signed("!=", team, integer(0))) as (then, otherwise):
        with then:
            builder.call(kernel, [table, integer(0), emit.member, emit.members])
        with otherwise:
            first, last = emit.part_range(parts, emit.member, emit.members)
            with emit.loop(first, last) as part:
                builder.call(kernel, [table, part, integer(0), integer(1)])
    emit.finish()


def load_index(emit: Emitter, index: Value, row: Value, given: Value) -> Value:
    """index[row], or the row itself if there is no index."""
    builder = emit.builder
    before = builder.block
    with emit.if_then(given):
        loaded = emit.load_integer(index, row)
        inside = builder.block
    chosen = builder.phi(INTEGER)
    chosen.add_incoming(row, before)
    chosen.add_incoming(loaded, inside)
    return chosen


def log_softmax(module: ir.Module, real: str) -> None:
    """x − log Σ exp x, in place."""
    emit = OperationEmitter(module, "log_softmax", LOG_SOFTMAX_OPERANDS, real)
    builder = emit.builder
    size = emit.operand("size")
    first, last = emit.rows()
    with emit.loop(first, last) as row:
        row_start = emit.advance(emit.operand("out"), builder.mul(row, emit.operand("out_stride")))

        def highest(vector: VectorSlice, index: Value, values: tuple[Value, ...], row_start: Value) -> list[Value]:
            x = vector.fill_rest(vector.load(emit.address(row_start, index)), -math.inf)
            return [vector_math.maximum(emit, values[0], x)]

        def add(
            vector: VectorSlice, index: Value, sums: tuple[Value, ...], row_start: Value, top: Value
        ) -> list[Value]:
            x = vector_math.exp(emit, builder.fsub(vector.load(emit.address(row_start, index)), top))
            return [builder.fadd(sums[0], vector.fill_rest(x))]

        def write(
            vector: VectorSlice, index: Value, _: tuple[Value, ...], row_start: Value, normalizer: Value
        ) -> tuple[()]:
            at = emit.address(row_start, index)
            vector.store(builder.fsub(vector.load(at), normalizer), at)
            return ()

        maxima = vector_loop(emit, size, partial(highest, row_start=row_start), (emit.splat(-math.inf),))[0]
        top = emit.splat(emit.max_lanes(maxima))
        total = _sum(emit, vector_loop(emit, size, partial(add, row_start=row_start, top=top), (emit.splat(0.0),))[0])
        normalizer = builder.fadd(top, vector_math.log(emit, total))
        vector_loop(emit, size, partial(write, row_start=row_start, normalizer=normalizer))
    emit.finish()
