"""Operations of a program on rows: products with what follows them, norms, looking up vectors, the softmax.

Each is a function of (instruction, low, high, member, members, scratch): members share its columns, or its rows from
low to high where it has no columns to share; the scratch is a thread's own.
"""

import math
import struct
from collections.abc import Callable
from functools import partial

from llvmlite import ir

from seqloom.kernels import gemm, mathematics
from seqloom.kernels.emit import INTEGER, Emitter, Value, integer
from seqloom.kernels.sweep import Span, sweep

BEGIN = 2
"""The word of an instruction that its operands begin with, after the number of the operation and "meet"."""

LINEAR = (
    *("left", "left_stride", "left_own", "packed", "depth", "panels", "columns", "bias", "finish", "slope"),
    *("residual", "residual_stride", "residual_own", "out", "out_stride"),
)
NORM = ("source", "source_stride", "source_own", "weight", "bias", "epsilon", "out", "out_stride", "out_own", "size")
LOOK_UP = ("source", "index", "source_stride", "scale", "places", "positions", "out", "out_stride", "size")
LOG_SOFTMAX = ("out", "out_stride", "size")

GROUP = 4
"""Panels that are multiplied before what follows the product is done, while they are in the cache."""


def block() -> int:
    """The most rows that are multiplied before what follows is done."""
    return 4 * gemm.tile_rows()


def room(real: str) -> int:
    """Elements of scratch that a product needs."""
    return block() * GROUP * gemm.panel(real)


class Operation(Emitter):
    """A builder of one operation."""

    def __init__(self, module: ir.Module, name: str, fields: tuple[str, ...], real: str) -> None:
        super().__init__(module, name, 6, real)
        self.function.linkage = "internal"
        self._fields = fields
        self.instruction, self.low, self.high, self.member, self.members, self.scratch = self.arguments

    def word(self, name: str) -> Value:
        return self.load_integer(self.instruction, BEGIN + self._fields.index(name))

    def number(self, name: str) -> Value:
        """A vector of the number that is written in a word as the bits of a double."""
        return number(self, self.word(name))

    def rows(self) -> tuple[Value, Value]:
        """The member's part of the rows."""
        first, last = self.share(self.builder.sub(self.high, self.low), self.member, self.members)
        return self.builder.add(self.low, first), self.builder.add(self.low, last)


def bits(value: float) -> int:
    """A number as a word of an instruction."""
    return int.from_bytes(struct.pack("<d", value), "little", signed=True)


def number(emit: Emitter, word: Value) -> Value:
    value = emit.builder.bitcast(word, ir.DoubleType())
    return emit.splat(emit.builder.fptrunc(value, emit.scalar) if emit.bits == 32 else value)


def _sum(emit: Emitter, value: Value) -> Value:
    return emit.splat(emit.total(value))


def _leaky(emit: Emitter, x: Value, slope: Value) -> Value:
    return emit.builder.select(emit.builder.fcmp_ordered(">", x, emit.splat(0.0)), x, emit.builder.fmul(slope, x))


def _elu(emit: Emitter, x: Value, slope: Value) -> Value:
    below = emit.builder.fmul(slope, mathematics.expm1(emit, x))
    return emit.builder.select(emit.builder.fcmp_ordered(">", x, emit.splat(0.0)), x, below)


def _gelu(emit: Emitter, x: Value) -> Value:
    """x Φ(x), with Φ(−|x|) = ½ erfc(|x| / √2)."""
    builder = emit.builder
    size = emit.intrinsic("fabs", x)
    half = builder.fmul(emit.splat(0.5), mathematics.erfc(emit, builder.fmul(size, emit.splat(math.sqrt(0.5)))))
    above = builder.fcmp_ordered(">", x, emit.splat(0.0))
    return builder.fmul(x, builder.select(above, builder.fsub(emit.splat(1.0), half), half))


def _alone(function: Callable[[Emitter, Value], Value]) -> "Finish":
    return lambda emit, x, _slope: function(emit, x)


def _same(_emit: Emitter, x: Value) -> Value:
    return x


Finish = Callable[[Emitter, Value, Value], Value]
FINISHES: dict[str, Finish] = {
    "none": _alone(_same),
    "add": _alone(_same),  # to the residual
    "relu": _alone(lambda emit, x: mathematics.at_least(emit, x, emit.splat(0.0))),
    "tanh": _alone(mathematics.tanh),
    "sigmoid": _alone(mathematics.sigmoid),
    "leaky_relu": _leaky,
    "elu": _elu,
    "gelu": _alone(_gelu),
}
"""What follows a product and its bias, by its number in this table."""


def linear(module: ir.Module, real: str) -> None:
    """out = f(left · packed + bias), or residual + that."""
    for name in FINISHES:
        _finish(module, real, name)
    emit = Operation(module, "linear", LINEAR, real)
    builder = emit.builder
    stride, depth, packed, columns = (emit.word(name) for name in ("left_stride", "depth", "packed", "columns"))
    left = emit.advance(emit.word("left"), builder.mul(emit.member, emit.word("left_own")))
    residual = emit.advance(emit.word("residual"), builder.mul(emit.member, emit.word("residual_own")))
    first, last = emit.share(emit.word("panels"), emit.member, emit.members)
    width = gemm.panel(real)
    rows = builder.sub(emit.high, emit.low)
    blocks = builder.udiv(builder.add(rows, integer(block() - 1)), integer(block()))
    with emit.loop(first, last, GROUP) as panel:
        end = builder.add(panel, integer(GROUP))
        end = builder.select(builder.icmp_signed("<", end, last), end, last)
        column = builder.mul(panel, integer(width))
        behind = builder.mul(end, integer(width))
        behind = builder.select(builder.icmp_signed("<", behind, columns), behind, columns)
        base = emit.advance(emit.scratch, builder.neg(column))  # the product counts columns from the first panel on
        with emit.loop(0, blocks) as part:
            begin, after = emit.share(rows, part, blocks)
            begin = builder.add(emit.low, begin)
            count = builder.sub(builder.add(emit.low, after), begin)
            source = emit.advance(left, builder.mul(begin, stride))
            emit.call("multiply", source, stride, packed, depth, base, GROUP * width, count, panel, end)

            def place(address: Value, step: Value, begin: Value = begin, column: Value = column) -> Value:
                return emit.advance(address, builder.add(builder.mul(begin, step), column))

            arguments = (
                emit.scratch,
                count,
                builder.sub(behind, column),
                emit.advance(emit.word("bias"), column),
                emit.word("slope"),
                place(residual, emit.word("residual_stride")),
                emit.word("residual_stride"),
                place(emit.word("out"), emit.word("out_stride")),
                emit.word("out_stride"),
            )
            choose(emit, emit.word("finish"), [f"finish_{name}" for name in FINISHES], arguments)
    emit.finish()


def choose(emit: Emitter, number: Value, names: list[str], arguments: tuple[Value, ...]) -> None:
    """Call the function with the given number among ``names``."""
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


def _finish(module: ir.Module, real: str, name: str) -> None:
    emit = Emitter(module, f"finish_{name}", 9, real)
    emit.function.linkage = "internal"
    source, rows, columns, bias, slope, residual, residual_stride, out, out_stride = emit.arguments
    builder = emit.builder
    parameter = number(emit, slope)
    with emit.loop(0, rows) as row:
        start = emit.advance(source, builder.mul(row, integer(GROUP * gemm.panel(real))))
        target = emit.advance(out, builder.mul(row, out_stride))
        around = emit.advance(residual, builder.mul(row, residual_stride))

        def element(span: Span, index: Value, _: tuple[Value, ...], *places: Value) -> tuple[()]:
            begin, end, beside = places
            x = builder.fadd(emit.load(emit.address(begin, index)), span.load(emit.address(bias, index)))
            x = FINISHES[name](emit, x, parameter)
            if name == "add":
                x = builder.fadd(span.load(emit.address(beside, index)), x)
            span.store(x, emit.address(end, index))
            return ()

        sweep(emit, columns, lambda *found, places=(start, target, around): element(*found, *places))
    emit.finish()


def norm(module: ir.Module, real: str) -> None:
    """out = (x − mean) / √(variance + ε) · weight + bias. Each member has a result of its own."""
    emit = Operation(module, "norm", NORM, real)
    builder = emit.builder
    size, weight, bias, epsilon = emit.word("size"), emit.word("weight"), emit.word("bias"), emit.number("epsilon")
    count = emit.splat(builder.sitofp(size, emit.scalar))
    read, written = (
        emit.advance(emit.word(name), builder.mul(emit.member, emit.word(f"{name}_own"))) for name in ("source", "out")
    )
    with emit.loop(emit.low, emit.high) as row:
        source = emit.advance(read, builder.mul(row, emit.word("source_stride")))
        target = emit.advance(written, builder.mul(row, emit.word("out_stride")))

        def add(span: Span, index: Value, sums: tuple[Value, ...], source: Value) -> list[Value]:
            return [builder.fadd(sums[0], span.load(emit.address(source, index)))]

        def spread(span: Span, index: Value, sums: tuple[Value, ...], source: Value, mean: Value) -> list[Value]:
            x = span.only(builder.fsub(span.load(emit.address(source, index)), mean))
            return [emit.intrinsic("fma", x, x, sums[0])]

        def write(span: Span, index: Value, _: tuple[Value, ...], *known: Value) -> tuple[()]:
            source, target, mean, factor = known
            x = builder.fmul(builder.fsub(span.load(emit.address(source, index)), mean), factor)
            scale, shift = (span.load(emit.address(table, index)) for table in (weight, bias))
            span.store(emit.intrinsic("fma", x, scale, shift), emit.address(target, index))
            return ()

        zero = (emit.splat(0.0),)
        mean = builder.fdiv(_sum(emit, sweep(emit, size, partial(add, source=source), zero)[0]), count)
        squares = sweep(emit, size, partial(spread, source=source, mean=mean), zero)[0]
        variance = builder.fdiv(_sum(emit, squares), count)
        deviation = emit.intrinsic("sqrt", builder.fadd(variance, epsilon))
        factor = builder.fdiv(emit.splat(1.0), deviation)
        sweep(emit, size, lambda *found, known=(source, target, mean, factor): write(*found, *known))
    emit.finish()


def look_up(module: ir.Module, real: str) -> None:
    """out = source[index] · scale + places[positions]; the own row without an index, nothing added without places."""
    emit = Operation(module, "look_up", LOOK_UP, real)
    builder = emit.builder
    index, places, positions, size = (emit.word(name) for name in ("index", "places", "positions", "size"))
    scale = emit.number("scale")
    given, added = (builder.icmp_signed("!=", address, integer(0)) for address in (index, places))
    first, last = emit.rows()
    with emit.loop(first, last) as row:
        chosen = look(emit, index, row, given)
        source = emit.advance(emit.word("source"), builder.mul(chosen, emit.word("source_stride")))
        target = emit.advance(emit.word("out"), builder.mul(row, emit.word("out_stride")))

        def copy(span: Span, at: Value, _: tuple[Value, ...], *known: Value) -> tuple[()]:
            source, target = known[:2]
            x = builder.fmul(span.load(emit.address(source, at)), scale)
            if len(known) > 2:
                x = builder.fadd(x, span.load(emit.address(known[2], at)))
            span.store(x, emit.address(target, at))
            return ()

        with builder.if_else(added) as (then, otherwise):
            with then:
                place = emit.advance(places, builder.mul(emit.load_integer(positions, row), size))
                sweep(emit, size, lambda *found, known=(source, target, place): copy(*found, *known))
            with otherwise:
                sweep(emit, size, lambda *found, known=(source, target): copy(*found, *known))
    emit.finish()


def look(emit: Emitter, index: Value, row: Value, given: Value) -> Value:
    """index[row], or the row itself where no index is given."""
    builder = emit.builder
    before = builder.block
    with emit.when(given):
        found = emit.load_integer(index, row)
        inside = builder.block
    chosen = builder.phi(INTEGER)
    chosen.add_incoming(row, before)
    chosen.add_incoming(found, inside)
    return chosen


def log_softmax(module: ir.Module, real: str) -> None:
    """x − log Σ exp x, in place."""
    emit = Operation(module, "log_softmax", LOG_SOFTMAX, real)
    builder = emit.builder
    size = emit.word("size")
    first, last = emit.rows()
    with emit.loop(first, last) as row:
        place = emit.advance(emit.word("out"), builder.mul(row, emit.word("out_stride")))

        def highest(span: Span, index: Value, values: tuple[Value, ...], place: Value) -> list[Value]:
            x = span.only(span.load(emit.address(place, index)), -math.inf)
            return [mathematics.maximum(emit, values[0], x)]

        def add(span: Span, index: Value, sums: tuple[Value, ...], place: Value, top: Value) -> list[Value]:
            x = mathematics.exp(emit, builder.fsub(span.load(emit.address(place, index)), top))
            return [builder.fadd(sums[0], span.only(x))]

        def write(span: Span, index: Value, _: tuple[Value, ...], place: Value, less: Value) -> tuple[()]:
            at = emit.address(place, index)
            span.store(builder.fsub(span.load(at), less), at)
            return ()

        found = sweep(emit, size, partial(highest, place=place), (emit.splat(-math.inf),))[0]
        top = emit.splat(emit.largest(found))
        total = _sum(emit, sweep(emit, size, partial(add, place=place, top=top), (emit.splat(0.0),))[0])
        less = builder.fadd(top, mathematics.log(emit, total))
        sweep(emit, size, partial(write, place=place, less=less))
    emit.finish()
