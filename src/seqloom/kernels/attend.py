"""Attention of one query per row, an operation of a program: over a store of keys and values, or a shared table.

The new key and value of a row are written to the last slot before it looks. Neighbouring features of queries and keys
are turned as complex numbers where a table of turns is given.
"""

import math
from functools import partial

from llvmlite import ir

from seqloom.kernels import mathematics
from seqloom.kernels.emit import Emitter, Value, integer
from seqloom.kernels.operations import Operation, bits, look, number
from seqloom.kernels.sweep import Span, sweep

ATTEND = (
    *("query", "stride", "new_keys", "new_values", "keys", "values", "row_stride", "slot_stride", "length", "read"),
    *("mask", "mask_stride", "heads", "size", "scale", "turns", "positions", "noted", "out", "out_stride"),
)
LINE = 64
"""Bytes of a line of the cache."""
TOGETHER = 4
"""Slots, or vectors of values, that are worked on at once: one alone would wait for its own additions."""


def room(real: str, size: int, length: int) -> int:
    """Elements of scratch that attention needs: the query and the weights, each in whole vectors."""
    most = 64 if real == "float" else 32
    return size + length + 2 * most


def attend(module: ir.Module, real: str) -> None:
    """out = softmax(query · keysᵀ · scale) · values for each head; zero where nothing can be seen."""
    for emit_part in (_fetch, put, score, hide, weigh, note, gather):
        emit_part(module, real)
    emit = Operation(module, "attend", ATTEND, real)
    builder = emit.builder
    word = {name: emit.word(name) for name in ATTEND}
    size, heads, length, slot_stride = word["size"], word["heads"], word["length"], word["slot_stride"]
    is_new, turned, shared, hidden, noted = (
        builder.icmp_signed("!=", word[name], integer(0)) for name in ("new_keys", "turns", "read", "mask", "noted")
    )
    weights = emit.advance(emit.scratch, builder.and_(builder.add(size, integer(emit.lanes - 1)), integer(-emit.lanes)))
    # Members share heads, but not those of one row where their weights are added up.
    rows = builder.sub(emit.high, emit.low)
    unit = builder.select(noted, heads, integer(1))
    first, last = emit.share(builder.udiv(builder.mul(rows, heads), unit), emit.member, emit.members)
    begin = builder.mul(emit.low, heads)
    first, last = (builder.add(begin, builder.mul(border, unit)) for border in (first, last))
    with emit.loop(first, last) as item:
        row, head = builder.udiv(item, heads), builder.urem(item, heads)
        read = look(emit, word["read"], row, shared)
        within = builder.mul(head, size)
        there = builder.add(builder.mul(row, word["stride"]), within)
        store = builder.add(builder.mul(read, word["row_stride"]), within)
        keys, values = emit.advance(word["keys"], store), emit.advance(word["values"], store)
        following = builder.add(row, integer(1))
        with emit.when(builder.icmp_signed("<", following, emit.high)):
            ahead = builder.mul(look(emit, word["read"], following, shared), word["row_stride"])
            ahead = builder.add(ahead, within)
            for base in (word["keys"], word["values"]):
                emit.call("fetch", emit.advance(base, ahead), slot_stride, length, size)
        place = look(emit, word["positions"], row, turned)
        turn = emit.advance(word["turns"], builder.mul(place, builder.mul(size, integer(2))))
        turn = builder.select(turned, turn, integer(0))
        emit.call("put", emit.advance(word["query"], there), emit.scratch, size, word["scale"], turn)
        with emit.when(is_new):
            slot = builder.mul(builder.sub(length, integer(1)), slot_stride)
            one = integer(bits(1.0))
            emit.call("put", emit.advance(word["new_keys"], there), emit.advance(keys, slot), size, one, turn)
            zero = integer(0)
            emit.call("put", emit.advance(word["new_values"], there), emit.advance(values, slot), size, one, zero)
        emit.call("score", emit.scratch, keys, slot_stride, length, size, weights)
        with emit.when(hidden):
            emit.call("hide", weights, builder.add(word["mask"], builder.mul(read, word["mask_stride"])), length)
        emit.call("weigh", weights, length)
        with emit.when(noted):
            emit.call("note", weights, emit.advance(word["noted"], builder.mul(row, length)), length, heads)
        target = emit.advance(word["out"], builder.add(builder.mul(row, word["out_stride"]), within))
        emit.call("gather", weights, values, slot_stride, length, size, target)
    emit.finish()


def _inner(module: ir.Module, name: str, arguments: int, real: str) -> Emitter:
    emit = Emitter(module, name, arguments, real)
    emit.function.linkage = "internal"
    return emit


def _fetch(module: ir.Module, real: str) -> None:
    """Ask for what the next row will look at: a store is mostly too large for the cache, and its heads lie apart."""
    emit = _inner(module, "fetch", 4, real)
    base, stride, length, size = emit.arguments
    builder = emit.builder
    number = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), number, number, number])
    prefetch = emit.declare("llvm.prefetch.p0", kind)
    with emit.loop(0, length) as slot:
        start = emit.advance(base, builder.mul(slot, stride))
        with emit.loop(0, size, LINE // emit.bytes) as index:
            builder.call(prefetch, [emit.address(start, index), number(0), number(2), number(1)])
    emit.finish()


def put(module: ir.Module, real: str) -> None:
    """target = source · scale, turned if there is a turn: cosines, then sines with alternating signs."""
    emit = _inner(module, "put", 5, real)
    source, target, size, scale, turn = emit.arguments
    builder = emit.builder
    factor = number(emit, scale)
    swapped = [lane ^ 1 for lane in range(emit.lanes)]

    def copy(span: Span, index: Value, _: tuple[Value, ...], *, turned: bool) -> tuple[()]:
        x = builder.fmul(span.load(emit.address(source, index)), factor)
        if turned:
            cosine = span.load(emit.address(turn, index))
            sine = span.load(emit.address(turn, builder.add(size, index)))
            other = builder.fmul(emit.shuffle(x, x, swapped), sine)
            x = emit.intrinsic("fma", x, cosine, other)
        span.store(x, emit.address(target, index))
        return ()

    with builder.if_else(builder.icmp_signed("!=", turn, integer(0))) as (then, otherwise):
        with then:
            sweep(emit, size, partial(copy, turned=True))
        with otherwise:
            sweep(emit, size, partial(copy, turned=False))
    emit.finish()


def score(module: ir.Module, real: str) -> None:
    """out = keys (length, size) · query."""
    emit = _inner(module, "score", 6, real)
    query, keys, stride, length, size, out = emit.arguments
    builder = emit.builder

    def some(slot: Value, count: int) -> None:
        starts = [emit.advance(keys, builder.mul(builder.add(slot, integer(index)), stride)) for index in range(count)]

        def add(span: Span, index: Value, sums: tuple[Value, ...]) -> list[Value]:
            x = span.load(emit.address(query, index))
            return [
                emit.intrinsic("fma", x, span.load(emit.address(start, index)), total)
                for start, total in zip(starts, sums, strict=True)
            ]

        totals = sweep(emit, size, add, (emit.splat(0.0),) * count)
        for index, total in enumerate(totals):
            builder.store(emit.total(total), emit.address(out, builder.add(slot, integer(index))))

    grouped = builder.and_(length, integer(-TOGETHER))
    with emit.loop(0, grouped, TOGETHER) as slot:
        some(slot, TOGETHER)
    with emit.loop(grouped, length) as slot:
        some(slot, 1)
    emit.finish()


def hide(module: ir.Module, real: str) -> None:
    """Minus infinity where the mask, a byte for each slot, is zero."""
    emit = _inner(module, "hide", 3, real)
    scores, mask, length = emit.arguments
    builder = emit.builder
    byte = ir.IntType(8)
    start = builder.inttoptr(mask, ir.PointerType())
    with emit.loop(0, length) as slot:
        seen = builder.load(builder.gep(start, [slot], source_etype=byte), align=1, typ=byte)
        place = emit.address(scores, slot)
        lowest = ir.Constant(emit.scalar, -math.inf)
        score = builder.select(builder.icmp_signed("!=", seen, byte(0)), emit.load_scalar(place), lowest)
        builder.store(score, place)
    emit.finish()


def weigh(module: ir.Module, real: str) -> None:
    """Scores → softmax, in place; zeros if all are minus infinity."""
    emit = _inner(module, "weigh", 2, real)
    scores, length = emit.arguments
    builder = emit.builder
    lowest = emit.splat(-math.inf)

    def highest(span: Span, index: Value, values: tuple[Value, ...]) -> list[Value]:
        x = span.only(span.load(emit.address(scores, index)), -math.inf)
        return [mathematics.maximum(emit, values[0], x)]

    top = emit.splat(emit.largest(sweep(emit, length, highest, (lowest,))[0]))
    nothing = builder.fcmp_ordered("==", top, lowest)
    top = builder.select(nothing, emit.splat(0.0), top)

    def power(span: Span, index: Value, sums: tuple[Value, ...]) -> list[Value]:
        place = emit.address(scores, index)
        x = span.only(mathematics.exp(emit, builder.fsub(span.load(place), top)))
        span.store(x, place)
        return [builder.fadd(sums[0], x)]

    total = emit.splat(emit.total(sweep(emit, length, power, (emit.splat(0.0),))[0]))
    total = builder.select(nothing, emit.splat(1.0), total)

    def divide(span: Span, index: Value, _: tuple[Value, ...]) -> tuple[()]:
        place = emit.address(scores, index)
        span.store(builder.fdiv(span.load(place), total), place)
        return ()

    sweep(emit, length, divide)
    emit.finish()


def note(module: ir.Module, real: str) -> None:
    """Add the weights' part of a mean over all heads to what was noted."""
    emit = _inner(module, "note", 4, real)
    weights, noted, length, heads = emit.arguments
    builder = emit.builder
    count = emit.splat(builder.sitofp(heads, emit.scalar))

    def add(span: Span, index: Value, _: tuple[Value, ...]) -> tuple[()]:
        place = emit.address(noted, index)
        part = builder.fdiv(span.load(emit.address(weights, index)), count)
        span.store(builder.fadd(span.load(place), part), place)
        return ()

    sweep(emit, length, add)
    emit.finish()


def gather(module: ir.Module, real: str) -> None:
    """out = weights · values (length, size); what has no weight is not looked at."""
    emit = _inner(module, "gather", 6, real)
    weights, values, stride, length, size, out = emit.arguments
    builder = emit.builder
    zero = emit.splat(0.0)

    def some(span: Span, index: Value, count: int) -> None:
        places = [builder.add(index, integer(turn * emit.lanes)) for turn in range(count)]
        with emit.carry(0, length, 1, (zero,) * count) as (slot, sums, advance):
            weight = emit.splat(emit.load_scalar(emit.address(weights, slot)))
            unseen = builder.fcmp_ordered("==", weight, zero)
            start = emit.advance(values, builder.mul(slot, stride))
            final = advance(
                *[
                    emit.intrinsic(
                        "fma", weight, builder.select(unseen, zero, span.load(emit.address(start, place))), total
                    )
                    for place, total in zip(places, sums, strict=True)
                ]
            )
        for place, total in zip(places, final, strict=True):
            span.store(total, emit.address(out, place))

    grouped = builder.and_(size, integer(-TOGETHER * emit.lanes))
    with emit.loop(0, grouped, TOGETHER * emit.lanes) as index:
        some(Span(emit), index, TOGETHER)

    def one(span: Span, index: Value, _: tuple[Value, ...]) -> tuple[()]:
        some(span, builder.add(grouped, index), 1)
        return ()

    sweep(emit, builder.sub(size, grouped), one)
    emit.finish()
