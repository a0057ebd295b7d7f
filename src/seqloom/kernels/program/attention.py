"""Attention with one query per row, an operation of a program: over a key-value cache, or over a shared memory.

The new key and value of a row are written to the last slot of the cache first. With a table of rotations, neighbouring
features of queries and keys are rotated as complex numbers (rotary positions). With a slope for each head, scores
decrease with the distance from the last slot (ALiBi).
"""

import math
from functools import partial

from llvmlite import ir

from seqloom.kernels.llvm import vector_math
from seqloom.kernels.llvm.ir_builder import Emitter, Value, VectorSlice, integer, vector_loop
from seqloom.kernels.program.operations import OperationEmitter, float_bits, load_index, splat_float

ATTENTION_OPERANDS = (
    *("query", "stride", "new_keys", "new_values", "keys", "values", "row_stride", "slot_stride", "length"),
    *("source_rows", "mask", "mask_stride", "heads", "size", "scale", "rotations", "positions"),
    *("slopes", "accumulated", "out", "out_stride"),
)
CACHE_LINE = 64
"""Bytes of a cache line."""
UNROLL = 4
"""Slots, or vectors of values, that are processed at once, to hide the latency of additions."""


def scratch_size(real: str, size: int, length: int) -> int:
    """Elements of scratch memory: the query and the weights, each rounded up to whole vectors."""
    padding = 64 if real == "float" else 32
    return size + length + 2 * padding


def attention(module: ir.Module, real: str) -> None:
    """out = softmax(query · keysᵀ · scale) · values for each head; zero where everything is masked."""
    for emit_part in (
        _prefetch,
        copy_scaled,
        score_keys,
        _add_distances,
        apply_mask,
        softmax,
        accumulate,
        weighted_sum,
    ):
        emit_part(module, real)
    emit = OperationEmitter(module, "attention", ATTENTION_OPERANDS, real)
    builder = emit.builder
    operand = {name: emit.operand(name) for name in ATTENTION_OPERANDS}
    size, heads, length, slot_stride = operand["size"], operand["heads"], operand["length"], operand["slot_stride"]
    is_new, rotated, shared, sloped, masked, accumulated = (
        builder.icmp_signed("!=", operand[name], integer(0))
        for name in ("new_keys", "rotations", "source_rows", "slopes", "mask", "accumulated")
    )
    weights = emit.advance(emit.scratch, builder.and_(builder.add(size, integer(emit.lanes - 1)), integer(-emit.lanes)))
    # Threads split heads; where the weights of all heads are summed, they split rows.
    rows = builder.sub(emit.high, emit.low)
    unit = builder.select(accumulated, heads, integer(1))
    first, last = emit.part_range(builder.udiv(builder.mul(rows, heads), unit), emit.member, emit.members)
    begin = builder.mul(emit.low, heads)
    first, last = (builder.add(begin, builder.mul(border, unit)) for border in (first, last))
    with emit.loop(first, last) as item:
        row, head = builder.udiv(item, heads), builder.urem(item, heads)
        source_row = load_index(emit, operand["source_rows"], row, shared)
        head_offset = builder.mul(head, size)
        query_offset = builder.add(builder.mul(row, operand["stride"]), head_offset)
        cache_offset = builder.add(builder.mul(source_row, operand["row_stride"]), head_offset)
        keys, values = emit.advance(operand["keys"], cache_offset), emit.advance(operand["values"], cache_offset)
        following = builder.add(row, integer(1))
        with emit.if_then(builder.icmp_signed("<", following, emit.high)):
            ahead = builder.mul(load_index(emit, operand["source_rows"], following, shared), operand["row_stride"])
            ahead = builder.add(ahead, head_offset)
            for base in (operand["keys"], operand["values"]):
                emit.call("prefetch", emit.advance(base, ahead), slot_stride, length, size)
        position = load_index(emit, operand["positions"], row, rotated)
        rotation = emit.advance(operand["rotations"], builder.mul(position, builder.mul(size, integer(2))))
        rotation = builder.select(rotated, rotation, integer(0))
        emit.call(
            "copy_scaled", emit.advance(operand["query"], query_offset), emit.scratch, size, operand["scale"], rotation
        )
        with emit.if_then(is_new):
            slot = builder.mul(builder.sub(length, integer(1)), slot_stride)
            one = integer(float_bits(1.0))
            for name, cache, turn in (("new_keys", keys, rotation), ("new_values", values, integer(0))):
                source = emit.advance(operand[name], query_offset)
                emit.call("copy_scaled", source, emit.advance(cache, slot), size, one, turn)
        emit.call("score_keys", emit.scratch, keys, slot_stride, length, size, weights)
        with emit.if_then(sloped):
            emit.call("add_distances", weights, length, emit.advance(operand["slopes"], head))
        with emit.if_then(masked):
            emit.call(
                "apply_mask",
                weights,
                builder.add(operand["mask"], builder.mul(source_row, operand["mask_stride"])),
                length,
            )
        emit.call("softmax", weights, length)
        with emit.if_then(accumulated):
            emit.call(
                "accumulate", weights, emit.advance(operand["accumulated"], builder.mul(row, length)), length, heads
            )
        target = emit.advance(operand["out"], builder.add(builder.mul(row, operand["out_stride"]), head_offset))
        emit.call("weighted_sum", weights, values, slot_stride, length, size, target)
    emit.finish()


def _internal_function(module: ir.Module, name: str, arguments: int, real: str) -> Emitter:
    emit = Emitter(module, name, arguments, real)
    emit.function.linkage = "internal"
    return emit


def _prefetch(module: ir.Module, real: str) -> None:
    """Prefetch keys or values of the next row: the key-value cache rarely fits into the CPU's cache."""
    emit = _internal_function(module, "prefetch", 4, real)
    base, stride, length, size = emit.arguments
    builder = emit.builder
    number = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), number, number, number])
    prefetch = emit.declare("llvm.prefetch.p0", kind)
    with emit.loop(0, length) as slot:
        start = emit.advance(base, builder.mul(slot, stride))
        with emit.loop(0, size, CACHE_LINE // emit.bytes) as index:
            builder.call(prefetch, [emit.address(start, index), number(0), number(2), number(1)])
    emit.finish()


def copy_scaled(module: ir.Module, real: str) -> None:
    """target = source · scale, rotated if a rotation is given: cosines, then sines with alternating signs."""
    emit = _internal_function(module, "copy_scaled", 5, real)
    source, target, size, scale, rotation = emit.arguments
    builder = emit.builder
    factor = splat_float(emit, scale)
    swapped = [lane ^ 1 for lane in range(emit.lanes)]

    def copy(vector: VectorSlice, index: Value, _: tuple[Value, ...], *, rotated: bool) -> tuple[()]:
        x = builder.fmul(vector.load(emit.address(source, index)), factor)
        if rotated:
            cosine = vector.load(emit.address(rotation, index))
            sine = vector.load(emit.address(rotation, builder.add(size, index)))
            other = builder.fmul(emit.shuffle(x, x, swapped), sine)
            x = emit.intrinsic("fma", x, cosine, other)
        vector.store(x, emit.address(target, index))
        return ()

    with builder.if_else(builder.icmp_signed("!=", rotation, integer(0))) as (then, otherwise):
        with then:
            vector_loop(emit, size, partial(copy, rotated=True))
        with otherwise:
            vector_loop(emit, size, partial(copy, rotated=False))
    emit.finish()


def score_keys(module: ir.Module, real: str) -> None:
    """out = keys (length, size) · query."""
    emit = _internal_function(module, "score_keys", 6, real)
    query, keys, stride, length, size, out = emit.arguments
    builder = emit.builder

    def group(slot: Value, count: int) -> None:
        starts = [emit.advance(keys, builder.mul(builder.add(slot, integer(index)), stride)) for index in range(count)]

        def add(vector: VectorSlice, index: Value, sums: tuple[Value, ...]) -> list[Value]:
            x = vector.load(emit.address(query, index))
            return [
                emit.intrinsic("fma", x, vector.load(emit.address(start, index)), total)
                for start, total in zip(starts, sums, strict=True)
            ]

        totals = vector_loop(emit, size, add, (emit.splat(0.0),) * count)
        for index, total in enumerate(totals):
            builder.store(emit.sum_lanes(total), emit.address(out, builder.add(slot, integer(index))))

    grouped = builder.and_(length, integer(-UNROLL))
    with emit.loop(0, grouped, UNROLL) as slot:
        group(slot, UNROLL)
    with emit.loop(grouped, length) as slot:
        group(slot, 1)
    emit.finish()


def _add_distances(module: ir.Module, real: str) -> None:
    """Subtract the slope times the distance from the last slot."""
    emit = _internal_function(module, "add_distances", 3, real)
    scores, length, slope_address = emit.arguments
    builder = emit.builder
    slope = emit.load_scalar(emit.address(slope_address, integer(0)))
    last = builder.sub(length, integer(1))
    with emit.loop(0, length) as slot:
        pointer = emit.address(scores, slot)
        distance = builder.sitofp(builder.sub(slot, last), emit.scalar)
        builder.store(builder.fadd(emit.load_scalar(pointer), builder.fmul(slope, distance)), pointer)
    emit.finish()


def apply_mask(module: ir.Module, real: str) -> None:
    """Set scores to -inf where the mask, one byte per slot, is zero."""
    emit = _internal_function(module, "apply_mask", 3, real)
    scores, mask, length = emit.arguments
    builder = emit.builder
    byte = ir.IntType(8)
    start = builder.inttoptr(mask, ir.PointerType())
    with emit.loop(0, length) as slot:
        real_byte = builder.load(builder.gep(start, [slot], source_etype=byte), align=1, typ=byte)
        pointer = emit.address(scores, slot)
        lowest = ir.Constant(emit.scalar, -math.inf)
        score = builder.select(builder.icmp_signed("!=", real_byte, byte(0)), emit.load_scalar(pointer), lowest)
        builder.store(score, pointer)
    emit.finish()


def softmax(module: ir.Module, real: str) -> None:
    """Softmax in place; zeros if all scores are -inf."""
    emit = _internal_function(module, "softmax", 2, real)
    scores, length = emit.arguments
    builder = emit.builder
    lowest = emit.splat(-math.inf)

    def highest(vector: VectorSlice, index: Value, values: tuple[Value, ...]) -> list[Value]:
        x = vector.fill_rest(vector.load(emit.address(scores, index)), -math.inf)
        return [vector_math.maximum(emit, values[0], x)]

    top = emit.splat(emit.max_lanes(vector_loop(emit, length, highest, (lowest,))[0]))
    all_masked = builder.fcmp_ordered("==", top, lowest)
    top = builder.select(all_masked, emit.splat(0.0), top)

    def exponentiate(vector: VectorSlice, index: Value, sums: tuple[Value, ...]) -> list[Value]:
        pointer = emit.address(scores, index)
        x = vector.fill_rest(vector_math.exp(emit, builder.fsub(vector.load(pointer), top)))
        vector.store(x, pointer)
        return [builder.fadd(sums[0], x)]

    total = emit.splat(emit.sum_lanes(vector_loop(emit, length, exponentiate, (emit.splat(0.0),))[0]))
    total = builder.select(all_masked, emit.splat(1.0), total)

    def divide(vector: VectorSlice, index: Value, _: tuple[Value, ...]) -> tuple[()]:
        pointer = emit.address(scores, index)
        vector.store(builder.fdiv(vector.load(pointer), total), pointer)
        return ()

    vector_loop(emit, length, divide)
    emit.finish()


def accumulate(module: ir.Module, real: str) -> None:
    """Add weights / heads to the accumulated attention, so that it is the mean over heads."""
    emit = _internal_function(module, "accumulate", 4, real)
    weights, accumulated, length, heads = emit.arguments
    builder = emit.builder
    count = emit.splat(builder.sitofp(heads, emit.scalar))

    def add(vector: VectorSlice, index: Value, _: tuple[Value, ...]) -> tuple[()]:
        pointer = emit.address(accumulated, index)
        part = builder.fdiv(vector.load(emit.address(weights, index)), count)
        vector.store(builder.fadd(vector.load(pointer), part), pointer)
        return ()

    vector_loop(emit, length, add)
    emit.finish()


def weighted_sum(module: ir.Module, real: str) -> None:
    """out = weights · values (length, size); values of weight zero may be NaN."""
    emit = _internal_function(module, "weighted_sum", 6, real)
    weights, values, stride, length, size, out = emit.arguments
    builder = emit.builder
    zero = emit.splat(0.0)

    def group(vector: VectorSlice, index: Value, count: int) -> None:
        offsets = [builder.add(index, integer(part * emit.lanes)) for part in range(count)]
        with emit.loop_carrying(0, length, 1, (zero,) * count) as (slot, sums, advance):
            weight = emit.splat(emit.load_scalar(emit.address(weights, slot)))
            skipped = builder.fcmp_ordered("==", weight, zero)
            start = emit.advance(values, builder.mul(slot, stride))
            final = advance(
                *[
                    emit.intrinsic(
                        "fma", weight, builder.select(skipped, zero, vector.load(emit.address(start, offset))), total
                    )
                    for offset, total in zip(offsets, sums, strict=True)
                ]
            )
        for offset, total in zip(offsets, final, strict=True):
            vector.store(total, emit.address(out, offset))

    grouped = builder.and_(size, integer(-UNROLL * emit.lanes))
    with emit.loop(0, grouped, UNROLL * emit.lanes) as index:
        group(VectorSlice(emit), index, UNROLL)

    def remainder(vector: VectorSlice, index: Value, _: tuple[Value, ...]) -> tuple[()]:
        group(vector, builder.add(grouped, index), 1)
        return ()

    vector_loop(emit, builder.sub(size, grouped), remainder)
    emit.finish()
