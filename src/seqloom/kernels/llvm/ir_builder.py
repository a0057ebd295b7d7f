"""A builder of LLVM IR on top of llvmlite: loops, pointers, and vectors of one floating-point type."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from seqloom.kernels.llvm import jit_cache

INTEGER = ir.IntType(64)
BIT = ir.IntType(1)
POINTER = ir.PointerType()
Value = Any  # llvmlite has no types


def integer(value: int) -> ir.Constant:
    return ir.Constant(INTEGER, value)


class Emitter:
    """Builds one void function of int64 arguments; ``real`` is its floating-point type, "float" or "double"."""

    def __init__(self, module: ir.Module, name: str, arguments: int, real: str) -> None:
        self.module = module
        self.real = real
        self.bits = 32 if real == "float" else 64
        self.scalar = ir.FloatType() if real == "float" else ir.DoubleType()
        self.lanes = jit_cache.vector_bytes() * 8 // self.bits
        self.vector = ir.VectorType(self.scalar, self.lanes)
        self.bytes = self.bits // 8
        self._has_fma = jit_cache.has_fma()
        kind = ir.FunctionType(ir.VoidType(), [INTEGER] * arguments)
        self.function = ir.Function(module, kind, name)
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.arguments: tuple[Value, ...] = self.function.args

    def finish(self) -> None:
        self.builder.ret_void()

    def address(self, base: Value, offset: Value | int) -> Value:
        """A pointer ``offset`` elements after the integer address ``base``."""
        position = integer(offset) if isinstance(offset, int) else offset
        return self.builder.gep(self.builder.inttoptr(base, POINTER), [position], source_etype=self.scalar)

    def advance(self, base: Value, offset: Value | int) -> Value:
        """The integer address ``offset`` elements after ``base``."""
        position = integer(offset) if isinstance(offset, int) else offset
        return self.builder.add(base, self.builder.mul(position, integer(self.bytes)))

    def load(self, pointer: Value) -> Value:
        """Load a vector; it need not be aligned."""
        return self.builder.load(pointer, align=self.bytes, typ=self.vector)

    def store(self, value: Value, pointer: Value) -> None:
        self.builder.store(value, pointer, align=self.bytes)

    def load_scalar(self, pointer: Value) -> Value:
        return self.builder.load(pointer, align=self.bytes, typ=self.scalar)

    def load_integer(self, base: Value, index: Value | int) -> Value:
        position = integer(index) if isinstance(index, int) else index
        pointer = self.builder.gep(self.builder.inttoptr(base, POINTER), [position], source_etype=INTEGER)
        return self.builder.load(pointer, align=8, typ=INTEGER)

    def splat(self, value: Value | float) -> Value:
        """A vector with ``value`` in every lane."""
        if isinstance(value, int | float):
            return ir.Constant(self.vector, [ir.Constant(self.scalar, float(value))] * self.lanes)
        lane = ir.IntType(32)
        single = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), value, lane(0))
        zeros = ir.Constant(ir.VectorType(lane, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(single, ir.Constant(self.vector, ir.Undefined), zeros)

    def shuffle(self, left: Value, right: Value, lanes: list[int]) -> Value:
        """Select lanes of two vectors; those of the right one are numbered after those of the left one."""
        kind = ir.VectorType(ir.IntType(32), self.lanes)
        return self.builder.shuffle_vector(left, right, ir.Constant(kind, lanes))

    def mask(self, lanes: Value | int) -> Value:
        """True in the first ``lanes`` lanes."""
        if isinstance(lanes, int):
            return ir.Constant(ir.VectorType(BIT, self.lanes), [lane < lanes for lane in range(self.lanes)])
        short = ir.IntType(32)
        kind = ir.VectorType(short, self.lanes)
        undefined = ir.Constant(kind, ir.Undefined)
        single = self.builder.insert_element(undefined, self.builder.trunc(lanes, short), short(0))
        count = self.builder.shuffle_vector(single, undefined, ir.Constant(kind, [0] * self.lanes))
        return self.builder.icmp_signed(">", count, ir.Constant(kind, list(range(self.lanes))))

    def _suffix(self) -> str:
        return f"v{self.lanes}f{self.bits}"

    def intrinsic(self, name: str, *values: Value) -> Value:
        """Call an LLVM intrinsic on vectors, such as fma or sqrt."""
        if name == "fma" and not self._has_fma:
            left, right, added = values
            return self.builder.fadd(self.builder.fmul(left, right), added)
        kind = ir.FunctionType(self.vector, [self.vector] * len(values))
        return self.builder.call(self.declare(f"llvm.{name}.{self._suffix()}", kind), values)

    def masked_load(self, pointer: Value, lanes: Value | int) -> Value:
        """Load the first ``lanes`` lanes; the others are zero."""
        mask = self.mask(lanes)
        kind = ir.FunctionType(self.vector, [POINTER, ir.IntType(32), mask.type, self.vector])
        load = self.declare(f"llvm.masked.load.{self._suffix()}.p0", kind)
        return self.builder.call(load, [pointer, ir.IntType(32)(self.bytes), mask, self.splat(0.0)])

    def masked_store(self, value: Value, pointer: Value, lanes: Value | int) -> None:
        mask = self.mask(lanes)
        kind = ir.FunctionType(ir.VoidType(), [self.vector, POINTER, ir.IntType(32), mask.type])
        store = self.declare(f"llvm.masked.store.{self._suffix()}.p0", kind)
        self.builder.call(store, [value, pointer, ir.IntType(32)(self.bytes), mask])

    def prefetch(self, pointer: Value, *, written: bool) -> None:
        """Request the cache line at an address, which will be read or ``written`` soon."""
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [POINTER, word, word, word])
        everywhere, data = 3, 1  # into all levels of the cache
        values = [pointer, word(int(written)), word(everywhere), word(data)]
        self.builder.call(self.declare("llvm.prefetch.p0", kind), values)

    def sum_lanes(self, value: Value) -> Value:
        """The sum of all lanes."""
        kind = ir.FunctionType(self.scalar, [self.scalar, self.vector])
        add = self.declare(f"llvm.vector.reduce.fadd.{self._suffix()}", kind)
        return self.builder.call(add, [ir.Constant(self.scalar, 0.0), value], fastmath=("reassoc",))

    def max_lanes(self, value: Value) -> Value:
        """The largest of all lanes."""
        kind = ir.FunctionType(self.scalar, [self.vector])
        return self.builder.call(self.declare(f"llvm.vector.reduce.fmaximum.{self._suffix()}", kind), [value])

    def declare(self, name: str, kind: ir.FunctionType) -> ir.Function:
        function = self.module.globals.get(name)
        return function if function is not None else ir.Function(self.module, kind, name)

    def call(self, name: str, *arguments: Value | int) -> None:
        """Call a void function of integer arguments, in this module or an external one."""
        kind = ir.FunctionType(ir.VoidType(), [INTEGER] * len(arguments))
        values = [integer(value) if isinstance(value, int) else value for value in arguments]
        self.builder.call(self.declare(name, kind), values)

    @contextmanager
    def loop(self, start: Value | int, stop: Value | int, step: int = 1) -> Iterator[Value]:
        """``for index in range(start, stop, step)``, for a positive step."""
        with self.loop_carrying(start, stop, step) as (index, _, _):
            yield index

    @contextmanager
    def loop_carrying(
        self, start: Value | int, stop: Value | int, step: int = 1, initial: tuple[Value, ...] = ()
    ) -> Iterator[tuple[Value, tuple[Value, ...], Callable[..., list[Value]]]]:
        """A loop with loop-carried values: yields the index, the values, and a function to call with their updates.

        That function returns a list, which holds the final values after the loop.
        """
        builder = self.builder
        first = integer(start) if isinstance(start, int) else start
        last = integer(stop) if isinstance(stop, int) else stop
        before = builder.block
        body = self.function.append_basic_block("body")
        after = self.function.append_basic_block("after")
        builder.cbranch(builder.icmp_signed("<", first, last), body, after)
        builder.position_at_end(body)
        index = builder.phi(INTEGER)
        index.add_incoming(first, before)
        values = []
        for value in initial:
            phi = builder.phi(value.type)
            phi.add_incoming(value, before)
            values.append(phi)
        following: list[Value] = list(values)
        final: list[Value] = []

        def advance(*updated: Value) -> list[Value]:
            following[:] = updated
            return final

        yield index, tuple(values), advance
        end = builder.block
        next_index = builder.add(index, integer(step))
        index.add_incoming(next_index, end)
        for phi, value in zip(values, following, strict=True):
            phi.add_incoming(value, end)
        builder.cbranch(builder.icmp_signed("<", next_index, last), body, after)
        builder.position_at_end(after)
        for value, updated in zip(initial, following, strict=True):
            phi = builder.phi(value.type)
            phi.add_incoming(value, before)
            phi.add_incoming(updated, end)
            final.append(phi)

    def part_range(self, size: Value | int, member: Value, members: Value) -> tuple[Value, Value]:
        """The range [begin, end) of ``size`` items that is the part of one of ``members`` threads."""
        whole = integer(size) if isinstance(size, int) else size
        after = self.builder.add(member, integer(1))
        return (
            self.builder.udiv(self.builder.mul(whole, member), members),
            self.builder.udiv(self.builder.mul(whole, after), members),
        )

    @contextmanager
    def if_then(self, condition: Value) -> Iterator[None]:
        with self.builder.if_then(condition):
            yield


class VectorSlice:
    """Access to one vector of elements, or, with ``count``, to only the first elements of it."""

    def __init__(self, emit: Emitter, count: Value | None = None) -> None:
        self._emit, self._count = emit, count

    def load(self, pointer: Value) -> Value:
        """Load the elements, zero in the rest of the vector."""
        return self._emit.load(pointer) if self._count is None else self._emit.masked_load(pointer, self._count)

    def store(self, value: Value, pointer: Value) -> None:
        if self._count is None:
            self._emit.store(value, pointer)
        else:
            self._emit.masked_store(value, pointer, self._count)

    def fill_rest(self, value: Value, other: float = 0.0) -> Value:
        """The value, with ``other`` in the rest of the vector."""
        if self._count is None:
            return value
        return self._emit.builder.select(self._emit.mask(self._count), value, self._emit.splat(other))


Body = Callable[[VectorSlice, Value, tuple[Value, ...]], Sequence[Value]]
"""(slice, index of its first element, loop-carried values) → their updates."""


def vector_loop(emit: Emitter, size: Value, body: Body, initial: tuple[Value, ...] = ()) -> list[Value]:
    """Emit a loop over ``size`` elements, a vector at a time, the last one masked; the final loop-carried values."""
    whole = emit.builder.and_(size, integer(-emit.lanes))
    with emit.loop_carrying(0, whole, emit.lanes, initial) as (index, values, advance):
        final = advance(*body(VectorSlice(emit), index, values))
    with emit.loop_carrying(whole, size, emit.lanes, tuple(final)) as (index, values, advance):
        vector = VectorSlice(emit, emit.builder.sub(size, whole))
        final = advance(*body(vector, index, values))
    return [*final]
