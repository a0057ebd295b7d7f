"""Conditional random fields: Viterbi and the probabilities of its labels."""

from collections.abc import Callable

import numpy as np
from llvmlite import ir

from seqloom.kernels.llvm import vector_math
from seqloom.kernels.llvm.ir_builder import Emitter, Value, integer
from seqloom.models.crf import CRF, EMISSION, Chain, scaled_exponentials
from seqloom.standalone.builder import DOUBLE, SHORT, Array, ModelBuilder, Rows, load_token, pointer
from seqloom.standalone.modules import array, largest

DOUBLES = 8
"""Doubles in the widest vector: rows are padded to a multiple of it."""

BYTES = 8


def decode(b: ModelBuilder, crf: CRF, emissions: Rows, *, labels: Value, probabilities: Value) -> None:
    """The best label of each element, and its probability."""
    chain = crf.allowed_chain
    _viterbi(b, chain, emissions, labels)
    _Marginals(b, chain, emissions.size).call(emissions, labels, probabilities)


def _viterbi(b: ModelBuilder, chain: Chain, emissions: Rows, labels: Value) -> None:
    emit, builder, size = b.emit, b.builder, emissions.size
    stride = -(-size // emit.lanes) * emit.lanes
    start, end = (b.constant(_padded(array(part)[np.newaxis], stride)) for part in (chain.start, chain.end))
    transitions = array(chain.transitions)
    onwards, into = (b.constant(_padded(table, stride)) for table in (transitions, transitions.T))
    best = b.allocate(emissions.count, size)
    steps = emissions.count.value

    def store(time: Value, score: Callable[[Value], Value]) -> None:
        """The scores of a step: those before it, and its emissions."""
        with emit.loop(0, stride, emit.lanes) as column:
            own = emit.load(emit.address(b.row_address(emissions, time), column))
            emit.store(builder.fadd(score(column), own), emit.address(b.row_address(best, time), column))

    with emit.if_then(builder.icmp_signed(">", steps, integer(0))):
        store(integer(0), lambda column: emit.load(emit.address(start, column)))
    with emit.loop(1, steps) as time:
        before = b.row_address(best, builder.sub(time, integer(1)))

        def reached(column: Value, before: Value = before) -> Value:
            lowest = emit.splat(-float("inf"))
            with emit.loop_carrying(0, size, 1, (lowest,)) as (label, tops, advance):
                known = emit.splat(emit.load_scalar(emit.address(before, label)))
                row = emit.advance(onwards, builder.mul(label, integer(stride)))
                score = builder.fadd(known, emit.load(emit.address(row, column)))
                final = advance(vector_math.maximum(emit, tops[0], score))
            return final[0]

        store(time, reached)
    with emit.loop_carrying(0, steps, 1, (integer(0),)) as (number, (following,), advance):
        time = builder.sub(builder.sub(steps, integer(1)), number)
        # Backpointers are recomputed on the way back.
        is_last = builder.icmp_signed("==", number, integer(0))
        row = emit.advance(into, builder.mul(following, integer(stride)))
        chosen, _ = largest(b, size, b.row_address(best, time), builder.select(is_last, end, row))
        builder.store(builder.trunc(chosen, SHORT), b.pointer(labels, time, SHORT), align=4)
        advance(chosen)


def _padded(table: Array, stride: int) -> Array:  # (rows, columns) → (rows, stride)
    return np.pad(table, ((0, 0), (0, stride - table.shape[1])))


class _Marginals:
    """Forward-backward in double precision, scaled to sum 1 at each position, as a function of its own."""

    def __init__(self, b: ModelBuilder, chain: Chain, size: int) -> None:
        self._b, self._size = b, size
        self._stride = -(-size // DOUBLES) * DOUBLES
        self._emit = emit = Emitter(b.emit.module, "marginals", 8, "double")
        self._builder = emit.builder
        self._emissions, self._emissions_stride, steps, labels, probabilities, *rows = emit.arguments
        self._factors, self._left, self._right = rows
        start = chain.start.detach().double().numpy()
        transitions, end = scaled_exponentials(chain.transitions), scaled_exponentials(chain.end)
        self._start = self._constant(start[np.newaxis])
        self._onwards, self._into = self._constant(transitions), self._constant(transitions.T)
        self._end = self._constant((end / end.sum())[np.newaxis])
        with emit.loop(0, steps) as time:
            self._forward(time)
        with emit.loop(0, steps) as number:
            self._backward(steps, number, labels, probabilities)
        emit.finish()

    def call(self, emissions: Rows, labels: Value, probabilities: Value) -> None:
        b, row = self._b, BYTES * self._stride
        per_element, constant = emissions.count.per_element, emissions.count.constant
        with b.workspace.temporary():
            tables = [b.workspace.reserve(row * per_element, row * constant) for _ in range(2)]
            right = b.workspace.reserve(0, 2 * row)
            emitted = emissions.address, emissions.stride, emissions.count.value
            b.emit.call("marginals", *emitted, labels, probabilities, *tables, right)

    def _constant(self, table: Array) -> Value:
        return self._b.constants.address(self._builder, _padded(np.asarray(table, np.float64), self._stride))

    def _row(self, base: Value, index: Value) -> Value:
        return self._emit.advance(base, self._builder.mul(index, integer(self._stride)))

    def _vectors(self, body: Callable[[Value], Value], target: Value) -> None:
        """Compute a row, a vector at a time."""
        with self._emit.loop(0, self._stride, self._emit.lanes) as column:
            self._emit.store(body(column), self._emit.address(target, column))

    def _load(self, row: Value, column: Value) -> Value:
        return self._emit.load(self._emit.address(row, column))

    def _sum(self, *rows: Value) -> Value:
        """The sum over a row, or over the products of two rows."""
        emit, builder = self._emit, self._builder
        with emit.loop_carrying(0, self._stride, emit.lanes, (emit.splat(0.0),)) as (column, sums, advance):
            value = self._load(rows[0], column)
            if len(rows) == 2:
                value = builder.fmul(value, self._load(rows[1], column))
            final = advance(builder.fadd(sums[0], value))
        return emit.sum_lanes(final[0])

    def _normalize(self, row: Value) -> None:
        total = self._emit.splat(self._sum(row))
        self._vectors(lambda column: self._builder.fdiv(self._load(row, column), total), row)

    def _product(self, row: Value, table: Value, column: Value) -> Value:
        """A vector of row · table."""
        emit = self._emit
        with emit.loop_carrying(0, self._size, 1, (emit.splat(0.0),)) as (index, sums, advance):
            factor = emit.splat(emit.load_scalar(emit.address(row, index)))
            final = advance(emit.intrinsic("fma", factor, self._load(self._row(table, index), column), sums[0]))
        return final[0]

    def _forward(self, time: Value) -> None:
        builder = self._builder
        factors, left = self._row(self._factors, time), self._row(self._left, time)
        is_first = builder.icmp_signed("==", time, integer(0))
        self._emit_factors(time, factors, is_first)
        before = self._row(self._left, builder.sub(time, integer(1)))
        with builder.if_else(is_first) as (then, otherwise):
            with then:
                self._vectors(lambda column: self._load(factors, column), left)
            with otherwise:
                self._vectors(
                    lambda column: builder.fmul(
                        self._product(before, self._onwards, column), self._load(factors, column)
                    ),
                    left,
                )
        self._normalize(left)

    def _emit_factors(self, time: Value, factors: Value, is_first: Value) -> None:
        """exp(emission − largest), at least exp(EMISSION) unless forbidden; the first with its start score."""
        emit, builder = self._emit, self._builder
        lowest = -float("inf")
        self._vectors(lambda _column: emit.splat(lowest), factors)
        start = builder.mul(builder.mul(time, self._emissions_stride), integer(4))
        scores = builder.add(self._emissions, start)
        with emit.loop_carrying(0, self._size, 1, (DOUBLE(lowest),)) as (label, (top,), advance):
            place = pointer(builder, scores, label, ir.FloatType())
            score = builder.fpext(builder.load(place, align=4, typ=ir.FloatType()), DOUBLE)
            first = builder.select(is_first, emit.load_scalar(emit.address(self._start, label)), DOUBLE(0.0))
            score = builder.fadd(score, first)
            builder.store(score, emit.address(factors, label))
            largest = advance(builder.select(builder.fcmp_ordered(">", score, top), score, top))
        highest = emit.splat(largest[0])

        def factor(column: Value) -> Value:
            below = builder.fsub(self._load(factors, column), highest)
            raised = vector_math.exp(emit, vector_math.maximum(emit, below, emit.splat(EMISSION)))
            is_forbidden = builder.fcmp_ordered("==", below, emit.splat(lowest))
            return builder.select(is_forbidden, emit.splat(0.0), raised)

        self._vectors(factor, factors)

    def _backward(self, steps: Value, number: Value, labels: Value, probabilities: Value) -> None:
        emit, builder = self._emit, self._builder
        time = builder.sub(builder.sub(steps, integer(1)), number)
        right, mixed = self._right, self._row(self._right, integer(1))
        with builder.if_else(builder.icmp_signed("==", number, integer(0))) as (then, otherwise):
            with then:
                self._vectors(lambda column: self._load(self._end, column), right)
            with otherwise:
                factors = self._row(self._factors, builder.add(time, integer(1)))
                self._vectors(
                    lambda column: builder.fmul(self._load(right, column), self._load(factors, column)), mixed
                )
                self._vectors(lambda column: self._product(mixed, self._into, column), right)
                self._normalize(right)
        left = self._row(self._left, time)
        label = load_token(builder, labels, time)
        chosen = (emit.load_scalar(emit.address(row, label)) for row in (left, right))
        probability = builder.fdiv(builder.fmul(*chosen), self._sum(left, right))
        place = pointer(builder, probabilities, time, ir.FloatType())
        builder.store(builder.fptrunc(probability, ir.FloatType()), place, align=4)
