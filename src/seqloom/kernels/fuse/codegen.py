"""LLVM code of the loop over time of a planned step.

A thread carries its part of the batch through the whole sequence. Where there are fewer rows than threads, a team of
threads (in the sense of OpenMP) works on one part: it splits the columns of each product and the elements of each row,
with barriers in between. Rows are sorted by length, longest first, so that the active rows of a step are always the
first ones, and padding costs nothing. Products that do not depend on the step before (the projection of the input, the
gradients of matrices) are computed for a chunk of steps at once, while their operands are in the cache.
"""

from llvmlite import ir

from seqloom.kernels.fuse.contraction_loops import emit_contraction
from seqloom.kernels.fuse.elementwise_loops import RowLoops
from seqloom.kernels.fuse.layout import FLOAT_BYTES, NO_ROUNDING, Block, Rounding, ScratchLayout, arguments
from seqloom.kernels.fuse.plan import Factor, Plan
from seqloom.kernels.fuse.schedule import Schedule, unchanged_state
from seqloom.kernels.fuse.symbols import Contraction
from seqloom.kernels.linalg import gemm
from seqloom.kernels.llvm.ir_builder import Emitter, Value, VectorSlice, integer, vector_loop

CHUNK_BLOCKS = ("input", "input_rounded", "projected", "input_gradient", "passed_gradient", "factor")
"""Blocks of scratch memory with a row for each row and step of a chunk."""


def emit(plan: Plan, kind: str, real: str, rounding: Rounding = NO_ROUNDING) -> str:
    """The LLVM module of one kernel: scan(address of the argument table, part, member of its team, members)."""
    module = ir.Module("scan")
    ScanBuilder(module, plan, kind, real, rounding).emit()
    return str(module)


class ScanBuilder:
    """Builds the function ``scan``, or one of another name, for matrices that may or must be packed."""

    def __init__(
        self,
        module: ir.Module,
        plan: Plan,
        kind: str,
        real: str,
        rounding: Rounding,
        *,
        name: str = "scan",
        packed: bool = False,  # all matrices always are
    ) -> None:
        self.plan = plan
        self.kind = kind
        self._rounding = rounding
        self._packed = packed or kind != "forward"
        self.schedule: Schedule = getattr(plan, kind)
        self.layout = ScratchLayout(plan, kind, real, rounding)
        self.emitter = Emitter(module, name, 4, real)
        self.builder = self.emitter.builder
        table, part, self.member, self.members = self.emitter.arguments
        self.values = {
            name: self.emitter.load_integer(table, index) for index, name in enumerate(arguments(plan, kind))
        }
        self.scratch = self.builder.add(self.values["scratch"], self.builder.mul(part, self.values["scratch_bytes"]))
        self.sums = self.emitter.load_integer(self.values["sums"], part)
        self.slot = self.emitter.load_integer(self.values["part_starts"], part)
        first_count = self.builder.mul(part, self.builder.add(self.values["steps"], integer(1)))
        self._active = self._integers("active", first_count)
        self._active_before = self._integers("active_before", first_count)
        self._chunk_row: Value = integer(0)  # sum of active rows before the chunk
        self._ranges: dict[int, tuple[Value, Value]] = {}
        for size in self._sizes():
            self._ranges[size] = self.emitter.part_range(size, self.member, self.members)
        self._is_single = self.builder.icmp_signed("==", self.members, integer(1))
        self._is_first = self.builder.icmp_signed("==", self.member, integer(0))
        self.is_last = self.builder.icmp_signed("==", self.builder.add(self.member, integer(1)), self.members)

    def _sizes(self) -> set[int]:
        """All numbers of vectors, panels and columns that a team splits."""
        lanes, real = self.layout.lanes, self.emitter.real
        sizes = {self.layout.sums_size // lanes, gemm.panel_count(real, self.plan.traced.projected_width)}
        sizes |= {gemm.panel_count(real, self.plan.input_size), self.plan.traced.projected_width}
        for stage in self.schedule.stages:
            sizes |= {loop.width // lanes for _, loop in stage.loops}
        for product in self.plan.traced.products:
            sizes |= {product.size, gemm.panel_count(real, product.size)}
        for deferred in self.plan.deferred:
            sizes |= {deferred.left.size}
            sizes |= {gemm.panel_count(real, side.size) for side in (deferred.left, deferred.right)}
        return sizes

    def thread_range(self, size: int) -> tuple[Value, Value]:
        """The range of ``size`` items that is this thread's share."""
        return self._ranges[size]

    def _barrier(self) -> None:
        """Wait for all members of the team."""
        with self.builder.if_then(self.builder.not_(self._is_single)):
            self.emitter.call("barrier", self.values["barrier"], self.members)

    def _integers(self, name: str, index: Value) -> Value:
        return self.builder.add(self.values[name], self.builder.mul(index, integer(8)))

    def _mul(self, left: Value, right: int) -> Value:
        return self.builder.mul(left, integer(right))

    def scratch_row(self, name: Block, row: Value) -> Value:
        """Address of a row in the scratch memory of this part."""
        layout, builder = self.layout, self.builder
        rows = self.values["max_rows"]
        start = self._mul(rows, layout.starts[name])
        if name[0] in CHUNK_BLOCKS:
            capacity = builder.mul(rows, self.values["chunk"])
            start = builder.add(self._mul(rows, layout.row_size), self._mul(capacity, layout.starts[name]))
        return self.emitter.advance(self.scratch, builder.add(start, self._mul(row, layout.strides[name])))

    def argument_row(self, name: str, position: Value, size: int) -> Value:
        """Address of a row of an argument."""
        return self.emitter.advance(self.values[name], self._mul(position, size))

    def strided_row(self, name: str, time: Value, row: Value) -> Value:
        """Address of a row of an argument that has strides in time and in the batch."""
        times = self.builder.mul(time, self.values[f"{name}_time"])
        rows = self.builder.mul(row, self.values[f"{name}_row"])
        return self.emitter.advance(self.values[name], self.builder.add(times, rows))

    def state(self, index: int, row: Value, *, written: bool) -> Value:
        """Address of a state; there are two copies: one is read at this step, the other is written."""
        distance = self.layout.starts[("state1", 0)] - self.layout.starts[("state0", 0)]
        side = self.builder.sub(integer(1), self._parity) if written else self._parity
        offset = self.builder.mul(self._mul(side, distance), self.values["max_rows"])
        return self.emitter.advance(self.scratch_row(("state0", index), row), offset)

    def batch_row(self, row: Value) -> Value:
        """The row of the batch that a row of this part is."""
        return self.emitter.load_integer(self.values["order"], self.builder.add(self.slot, row))

    def chunk_row(self, row: Value) -> Value:
        """The index of a row at this step within the chunk."""
        before = self.emitter.load_integer(self._active_before, self.step)
        return self.builder.add(self.builder.sub(before, self._chunk_row), row)

    def time(self, row: Value, step: Value) -> Value:
        first = self.emitter.load_integer(self.values["first_time"], self.builder.add(self.slot, row))
        return self.builder.add(first, self.builder.mul(step, self.values["direction"]))

    def copy(self, source: Value, target: Value, size: int) -> None:
        """Copy ``size`` elements."""
        emitter = self.emitter
        whole = size - size % emitter.lanes
        if whole:
            with emitter.loop(0, whole, emitter.lanes) as index:
                emitter.store(emitter.load(emitter.address(source, index)), emitter.address(target, index))
        if size > whole:
            value = emitter.masked_load(emitter.address(source, whole), size - whole)
            emitter.masked_store(value, emitter.address(target, whole), size - whole)

    def emit(self) -> None:
        builder, emitter = self.builder, self.emitter
        backward = self.kind == "backward"
        steps, chunk = self.values["steps"], self.values["chunk"]
        self._initialize()
        chunks = builder.udiv(builder.sub(builder.add(steps, chunk), integer(1)), chunk)
        with emitter.loop(0, chunks) as iteration:
            number = builder.sub(builder.sub(chunks, integer(1)), iteration) if backward else iteration
            start = builder.mul(number, chunk)
            end = builder.add(start, chunk)
            stop = builder.select(builder.icmp_signed("<", end, steps), end, steps)
            self._chunk_row = emitter.load_integer(self._active_before, start)
            rows = builder.sub(emitter.load_integer(self._active_before, stop), self._chunk_row)
            if self.plan.linear:
                self._copy_chunk(start, stop, "x", "input", out=False)
            if self.plan.linear and not backward:
                self._multiply(
                    "input",
                    ("input", ""),
                    self.plan.input_size,
                    ("projected", ""),
                    self.plan.traced.projected_width,
                    rows,
                )
            with emitter.loop(start, stop) as index:
                self._step(builder.sub(builder.sub(builder.add(start, stop), integer(1)), index) if backward else index)
            if backward:
                self._multiply_gradients(rows, start, stop)
        if backward:
            self._parity = builder.and_(steps, integer(1))
            with emitter.if_then(self._is_first), emitter.loop(0, emitter.load_integer(self._active, 0)) as row:
                for index, size in enumerate(self.plan.traced.state_widths):
                    target = self.argument_row(f"initial_gradient {index}", self.batch_row(row), size)
                    self.copy(self.state(index, row, written=False), target, size)
        emitter.finish()

    def _initialize(self) -> None:
        emitter = self.emitter
        if self.kind == "backward":
            low, high = self.thread_range(self.layout.sums_size // emitter.lanes)
            with emitter.loop(self._mul(low, emitter.lanes), self._mul(high, emitter.lanes), emitter.lanes) as index:
                emitter.store(emitter.splat(0.0), emitter.address(self.sums, index))
        else:
            with emitter.if_then(self._is_first), emitter.loop(0, emitter.load_integer(self._active, 0)) as row:
                for index, size in enumerate(self.plan.traced.state_widths):
                    source = self.argument_row(f"initial {index}", self.batch_row(row), size)
                    self.copy(source, self.scratch_row(("state0", index), row), size)
        self._barrier()

    def _copy_chunk(self, start: Value, stop: Value, name: str, block: str, *, out: bool) -> None:
        """Copy all rows of a chunk from an argument to scratch memory, or, with ``out``, back."""
        low, high = self.emitter.part_range(self.builder.sub(stop, start), self.member, self.members)
        with self.emitter.loop(self.builder.add(start, low), self.builder.add(start, high)) as step:
            self.step = step
            with self.emitter.loop(0, self.emitter.load_integer(self._active, step)) as row:
                outside = self.strided_row(name, self.time(row, step), self.batch_row(row))
                inside = self.scratch_row((block, ""), self.chunk_row(row))
                source, target = (inside, outside) if out else (outside, inside)
                self.copy(source, target, self.plan.input_size)
        self._barrier()

    def _multiply(self, matrix: str, left: Block, depth: int, out: Block, size: int, rows: Value) -> None:
        zero = integer(0)
        self._product(
            matrix,
            (self.scratch_row(left, zero), self.layout.strides[left]),
            depth,
            (self.scratch_row(out, zero), self.layout.strides[out]),
            size,
            rows,
        )

    def _product(
        self, matrix: str, left: tuple[Value, int], depth: int, out: tuple[Value, int], size: int, rows: Value
    ) -> None:
        """left · matrix, packed, or unpacked if the kernel is given the matrix itself."""
        packed = self.values[f"packed {matrix}"]
        first, last = self.thread_range(gemm.panel_count(self.emitter.real, size))
        if matrix in self._rounding.products:
            rounded = self._round(matrix, left, depth, rows)
            function = "multiply_bfloat16" if self._rounding.precision == "bfloat16" else "multiply_quantized"
            self.emitter.call(function, *rounded, packed, depth, *out, rows, first, last)
        elif self.kind == "backward" and size < gemm.lanes(self.emitter.real):
            low, high = self.emitter.part_range(rows, self.member, self.members)
            (source, stride), (target, target_stride) = left, out
            source = self.emitter.advance(source, self._mul(low, stride))
            target = self.emitter.advance(target, self._mul(low, target_stride))
            count = self.builder.sub(high, low)
            operands = source, stride, packed, depth, target, target_stride, count, size
            self.emitter.call("dot", *operands, gemm.CACHED)
        elif self.kind != "forward":
            self._multiply_panels(left, packed, depth, out, rows, size)
        elif self._packed:
            self.emitter.call("multiply", *left, packed, depth, *out, rows, first, last)
        else:
            unpacked = self.values[f"matrix {matrix}"]
            with self.builder.if_else(self.builder.icmp_signed("!=", unpacked, integer(0))) as (then, otherwise):
                with then:
                    low, high = self.thread_range(size)
                    plain = self.emitter.advance(unpacked, self._mul(low, depth))
                    target = self.emitter.advance(out[0], low)
                    count = self.builder.sub(high, low)
                    order = self._order(matrix, self._mul(count, depth))
                    self.emitter.call("dot", *left, plain, depth, target, out[1], rows, count, order)
                with otherwise:
                    self.emitter.call("multiply", *left, packed, depth, *out, rows, first, last)
        self._barrier()

    def _multiply_panels(
        self, left: tuple[Value, int], packed: Value, depth: int, out: tuple[Value, int], rows: Value, size: int
    ) -> None:
        """left · packed; a last panel that is at most half full costs half."""
        real, builder, width = self.emitter.real, self.builder, gemm.panel_width(self.emitter.real)
        panels = gemm.panel_count(real, size)
        first, last = self.thread_range(panels)
        whole, rest = divmod(size, width)
        if not 0 < rest <= width // 2:
            self.emitter.call("multiply", *left, packed, depth, *out, rows, first, last)
            return
        has_edge = builder.icmp_signed("==", last, integer(panels))
        before = builder.select(has_edge, integer(whole), last)
        self.emitter.call("multiply", *left, packed, depth, *out, rows, first, before)
        # With fewer panels than threads, some have none.
        with self.emitter.if_then(builder.and_(has_edge, builder.icmp_signed("<", first, last))):
            panel = self.emitter.advance(packed, whole * width * depth)
            target = self.emitter.advance(out[0], whole * width), out[1]
            self.emitter.call("multiply_edge", *left, panel, depth, *target, rows, rest, 0)

    def _order(self, matrix: str, size: Value) -> Value:
        """The order in which a step reads ``size`` elements of a matrix that is not packed."""
        builder, capacity = self.builder, gemm.CORE_CACHE // self.emitter.bytes
        # In a call of one step, other matrices have been read since the last one.
        is_only = builder.icmp_signed("==", self.values["steps"], integer(1))
        limit = builder.select(is_only, integer(capacity // 2), integer(3 * capacity // 2))
        cached: Value = integer(gemm.CACHED)
        if matrix != "input":
            is_odd = builder.icmp_signed("==", self._parity, integer(1))
            cached = builder.select(is_odd, integer(gemm.CACHED_BACKWARDS), cached)
        return builder.select(builder.icmp_signed("<=", size, limit), cached, integer(gemm.STREAMED))

    def _round(self, matrix: str, left: tuple[Value, int], depth: int, rows: Value) -> tuple[Value, int]:
        """Address and stride in bytes of the left side of a product, rounded."""
        block: Block = ("input_rounded", "") if matrix == "input" else ("operand_rounded", int(matrix))
        stride = FLOAT_BYTES * self.layout.strides[block]
        rounded = self.scratch_row(block, integer(0))
        low, high = self.emitter.part_range(rows, self.member, self.members)
        source = self.emitter.advance(left[0], self._mul(low, left[1]))
        target = self.builder.add(rounded, self._mul(low, stride))
        function = "round_rows" if self._rounding.precision == "bfloat16" else "quantize"
        self.emitter.call(function, source, left[1], depth, self.builder.sub(high, low), target, stride)
        self._barrier()
        return rounded, stride

    def _multiply_gradients(self, rows: Value, start: Value, stop: Value) -> None:
        """The deferred products of a chunk: gradients of matrices and of the input."""
        layout, emitter, builder = self.layout, self.emitter, self.builder
        capacity = builder.mul(self.values["max_rows"], self.values["chunk"])
        offset = builder.add(self._mul(self.values["max_rows"], layout.row_size), self._mul(capacity, layout.step_size))
        packed = emitter.advance(self.scratch, offset)
        if self._rounding.defers:
            self._contract_rounded(rows, capacity, packed)
        else:
            self._contract(rows, packed)
        if self.plan.linear:
            with emitter.if_then(builder.icmp_signed("!=", self.values["x_gradient"], integer(0))):
                block: Block = ("input_gradient", "")
                self._multiply(
                    "input", ("factor", 0), self.plan.traced.projected_width, block, self.plan.input_size, rows
                )
                if self.plan.traced.passed_width:
                    self._add_passed_gradient(rows)
                self._copy_chunk(start, stop, "x_gradient", "input_gradient", out=True)

    def _add_passed_gradient(self, rows: Value) -> None:
        """Add the gradient of the input that the step reads directly to that of the projected one."""
        blocks: tuple[Block, Block] = ("input_gradient", ""), ("passed_gradient", "")
        low, high = self.emitter.part_range(rows, self.member, self.members)
        with self.emitter.loop(low, high) as row:
            target, added = (self.scratch_row(block, row) for block in blocks)

            def add(part: VectorSlice, index: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
                pointer = self.emitter.address(target, index)
                total = self.builder.fadd(part.load(pointer), part.load(self.emitter.address(added, index)))
                part.store(total, pointer)
                return ()

            vector_loop(self.emitter, integer(self.plan.input_size), add)
        self._barrier()

    def _factor_rows(self, factor: Factor) -> tuple[Value, int]:
        """Address and stride of the rows of a factor in a chunk."""
        name: Block = ("input", "") if factor.block == "input" else ("factor", factor.block)
        return self.emitter.advance(self.scratch_row(name, integer(0)), factor.offset), self.layout.strides[name]

    def _contract(self, rows: Value, packed: Value) -> None:
        """The gradients of matrices in a chunk."""
        emitter, builder = self.emitter, self.builder
        for deferred, total in zip(self.plan.deferred, self.layout.sum_starts, strict=True):
            (left, left_stride), right = self._factor_rows(deferred.left), self._factor_rows(deferred.right)
            size, width = deferred.right.size, gemm.panel_width(emitter.real)
            panels = gemm.panel_count(emitter.real, size)
            emitter.call("pack", *right, 1, rows, size, packed, *self.thread_range(panels))
            self._barrier()
            low, high = self.thread_range(deferred.left.size)
            left = emitter.advance(left, low)
            out = emitter.advance(self.sums, builder.add(integer(total), self._mul(low, size)))
            count, (whole, rest) = builder.sub(high, low), divmod(size, width)
            if whole:
                emitter.call("contract", left, left_stride, packed, rows, out, size, count, whole)
            if rest:
                panel = emitter.advance(packed, self._mul(rows, whole * width))
                target = emitter.advance(out, whole * width)
                emitter.call("contract_edge", left, left_stride, panel, rows, target, size, count, rest, 1)
            self._barrier()

    def _contract_rounded(self, rows: Value, capacity: Value, packed: Value) -> None:
        """The gradients of matrices in a chunk, in bfloat16; a factor that several of them share is packed once."""
        emitter, builder = self.emitter, self.builder
        pairs = builder.and_(builder.udiv(builder.add(capacity, integer(31)), integer(2)), integer(-16))
        areas = packed, emitter.advance(packed, self._mul(pairs, self.layout.words_per_pair[0]))
        in_areas: list[Factor | None] = [None, None]
        for deferred, total in zip(self.plan.deferred, self.layout.sum_starts, strict=True):
            sides = deferred.left, deferred.right
            counts = [gemm.panel_count(emitter.real, side.size) for side in sides]
            for index, side in enumerate(sides):
                if in_areas[index] != side:
                    share = self.thread_range(counts[index])
                    emitter.call("pack_rows", *self._factor_rows(side), rows, side.size, areas[index], *share)
                    in_areas[index] = side
            self._barrier()
            out = emitter.advance(self.sums, total)
            width = counts[1] * gemm.panel_width(emitter.real)
            share = self.thread_range(counts[0])
            emitter.call("contract_bfloat16", *areas, rows, out, width, sides[0].size, *share, counts[1], 1)
            self._barrier()

    def _step(self, step: Value) -> None:
        builder, emitter = self.builder, self.emitter
        backward = self.kind == "backward"
        self.step = step
        self.active_rows = active = emitter.load_integer(self._active, step)
        last = builder.sub(self.values["steps"], integer(1))
        self._parity = builder.and_(builder.sub(last, step) if backward else step, integer(1))
        if backward:
            after = emitter.load_integer(self._active, builder.add(step, integer(1)))
            with emitter.if_then(builder.icmp_signed("<", after, active)):
                with emitter.if_then(self._is_first), emitter.loop(after, active) as row:
                    for index, size in enumerate(self.plan.traced.state_widths):
                        source = self.argument_row(f"final_gradient {index}", self.batch_row(row), size)
                        self.copy(source, self.state(index, row, written=False), size)
                self._barrier()
        for number in range(len(self.schedule.stages)):
            self._stage(number, active)

    def _stage(self, number: int, active: Value) -> None:
        stage = self.schedule.stages[number]
        for index in stage.products:
            product = self.plan.traced.products[index]
            out: Block = ("product", index)
            if isinstance(product, Contraction):
                start, stride = self._operand(index)
                with self.emitter.loop(0, active) as row:
                    operand = self.emitter.advance(start, self._mul(row, stride))
                    emit_contraction(self.emitter, product, operand, self.scratch_row(out, row))
                continue
            target = self.scratch_row(out, integer(0)), self.layout.strides[out]
            depth = sum(segment.width for segment in product.operand)
            self._product(str(index), self._operand(index), depth, target, product.size, active)
        if not stage.loops:
            return
        ends = number == len(self.schedule.stages) - 1 and self.kind != "backward"
        with self.emitter.loop(0, active) as row:
            RowLoops(self, number, row).emit()
            if ends:
                with self.emitter.if_then(self._is_single):
                    self._store_final_state(row)
        self._barrier()
        if ends:
            team = self.builder.and_(self._is_first, self.builder.not_(self._is_single))
            with self.emitter.if_then(team), self.emitter.loop(0, active) as row:
                self._store_final_state(row)

    def _operand(self, index: int) -> tuple[Value, int]:
        """Address and stride of the left side of a product."""
        state = unchanged_state(self.plan.traced, index)
        if state is not None:
            return self.state(state, integer(0), written=False), self.layout.strides[("state0", state)]
        factor = self.plan.operands.get(index)
        if self.kind == "backward" and factor is not None:
            name: Block = ("factor", factor.block)
            start = self.scratch_row(name, self.chunk_row(integer(0)))
            return self.emitter.advance(start, factor.offset), self.layout.strides[name]
        name = ("operand", index)
        return self.scratch_row(name, integer(0)), self.layout.strides[name]

    def _store_final_state(self, row: Value) -> None:
        """Store the final state of a row after its last step."""
        length = self.emitter.load_integer(self.values["lengths"], self.builder.add(self.slot, row))
        done = self.builder.add(self.step, integer(1))
        with self.emitter.if_then(self.builder.icmp_signed("==", done, length)):
            for index, size in enumerate(self.plan.traced.state_widths):
                target = self.argument_row(f"final {index}", self.batch_row(row), size)
                self.copy(self.state(index, row, written=True), target, size)
