"""The loop over time of a planned step, as LLVM assembly.

A part of the batch is carried through the whole sequence by a thread of its own, or, where there are fewer rows than
threads, by a team of threads that share the columns of each product and the elements of each row, and wait for each
other in between. Rows are sorted by length, longest first, so that the rows which still run at a step are always the
first ones, and padding costs nothing. Products that do not wait for the step before (the projection of the input, the
gradients of matrices) are done for a chunk of steps at once, while what they read is still in the cache.
"""

from llvmlite import ir

from seqloom.kernels import gemm
from seqloom.kernels.elements import Elements
from seqloom.kernels.emit import Emitter, Value, integer
from seqloom.kernels.memory import Block, Layout, arguments
from seqloom.kernels.plan import Plan
from seqloom.kernels.schedule import Schedule, direct


def emit(plan: Plan, kind: str, real: str) -> str:
    """The module of one kernel: scan(address of its arguments, number of the part, member of its team, members)."""
    module = ir.Module("scan")
    Scan(module, plan, kind, real).emit()
    return str(module)


class Scan:
    """The function under construction."""

    def __init__(self, module: ir.Module, plan: Plan, kind: str, real: str) -> None:
        self.plan = plan
        self.kind = kind
        self.schedule: Schedule = getattr(plan, kind)
        self.layout = Layout(plan, kind, real)
        self.emitter = Emitter(module, "scan", 4, real)
        self.builder = self.emitter.builder
        table, part, self.member, self.members = self.emitter.arguments
        self.values = {
            name: self.emitter.load_integer(table, index) for index, name in enumerate(arguments(plan, kind))
        }
        self.scratch = self.builder.add(self.values["scratch"], self.builder.mul(part, self.values["scratch_bytes"]))
        self.sums = self.emitter.load_integer(self.values["sums"], part)
        self.slot = self.emitter.load_integer(self.values["slots"], part)
        line = self.builder.mul(part, self.builder.add(self.values["steps"], integer(1)))
        self._active = self._integers("active", line)
        self._before = self._integers("before", line)
        self._chunk_row: Value = integer(0)  # rows run before the chunk
        self._shares: dict[int, tuple[Value, Value]] = {}
        for size in self._sizes():
            self._shares[size] = self.emitter.share(size, self.member, self.members)
        self._alone = self.builder.icmp_signed("==", self.members, integer(1))
        self._first = self.builder.icmp_signed("==", self.member, integer(0))
        self.last = self.builder.icmp_signed("==", self.builder.add(self.member, integer(1)), self.members)

    def _sizes(self) -> set[int]:
        """Numbers of vectors, panels and columns that a team shares out."""
        lanes, real = self.layout.lanes, self.emitter.real
        sizes = {self.layout.sum // lanes, gemm.panels(real, self.plan.program.projected)}
        sizes |= {gemm.panels(real, self.plan.input), self.plan.program.projected}
        for stage in self.schedule.stages:
            sizes |= {loop.width // lanes for _, loop in stage.loops}
        for product in self.plan.program.products:
            sizes |= {product.size, gemm.panels(real, product.size)}
        for deferred in self.plan.deferred:
            sizes |= {deferred.left.size, gemm.panels(real, deferred.right.size)}
        return sizes

    def share(self, size: int) -> tuple[Value, Value]:
        """Where the member's part of so many things begins and ends."""
        return self._shares[size]

    def _wait(self) -> None:
        """Until all members of the team are here."""
        with self.builder.if_then(self.builder.not_(self._alone)):
            self.emitter.call("barrier", self.values["barrier"], self.members)

    def _integers(self, name: str, index: Value) -> Value:
        return self.builder.add(self.values[name], self.builder.mul(index, integer(8)))

    def _mul(self, left: Value, right: int) -> Value:
        return self.builder.mul(left, integer(right))

    def block(self, name: Block, row: Value) -> Value:
        """The address of a row of this thread's own memory."""
        layout, builder = self.layout, self.builder
        rows = self.values["rows"]
        start = self._mul(rows, layout.starts[name])
        if name[0] in ("input", "projected", "input_gradient", "factor"):
            capacity = builder.mul(rows, self.values["chunk"])
            start = builder.add(self._mul(rows, layout.row), self._mul(capacity, layout.starts[name]))
        return self.emitter.advance(self.scratch, builder.add(start, self._mul(row, layout.strides[name])))

    def at(self, name: str, position: Value, size: int) -> Value:
        """The address of a row of an argument."""
        return self.emitter.advance(self.values[name], self._mul(position, size))

    def state(self, index: int, row: Value, *, written: bool) -> Value:
        """The address of a state of this thread: the one that is read at this step, or the one that is written."""
        distance = self.layout.starts[("state1", 0)] - self.layout.starts[("state0", 0)]
        side = self.builder.sub(integer(1), self._parity) if written else self._parity
        offset = self.builder.mul(self._mul(side, distance), self.values["rows"])
        return self.emitter.advance(self.block(("state0", index), row), offset)

    def order(self, row: Value) -> Value:
        """The row of the batch."""
        return self.emitter.load_integer(self.values["order"], self.builder.add(self.slot, row))

    def chunk_row(self, row: Value) -> Value:
        """The number of a row and step within the chunk."""
        before = self.emitter.load_integer(self._before, self.step)
        return self.builder.add(self.builder.sub(before, self._chunk_row), row)

    def time(self, row: Value, step: Value) -> Value:
        first = self.emitter.load_integer(self.values["first"], self.builder.add(self.slot, row))
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
        self._begin()
        chunks = builder.udiv(builder.sub(builder.add(steps, chunk), integer(1)), chunk)
        with emitter.loop(0, chunks) as turn:
            number = builder.sub(builder.sub(chunks, integer(1)), turn) if backward else turn
            start = builder.mul(number, chunk)
            end = builder.add(start, chunk)
            stop = builder.select(builder.icmp_signed("<", end, steps), end, steps)
            self._chunk_row = emitter.load_integer(self._before, start)
            rows = builder.sub(emitter.load_integer(self._before, stop), self._chunk_row)
            if self.plan.linear:
                self._each(start, stop, "x", "input", out=False)
            if self.plan.linear and not backward:
                self._multiply(
                    "input", ("input", ""), self.plan.input, ("projected", ""), self.plan.program.projected, rows
                )
            with emitter.loop(start, stop) as index:
                self._step(builder.sub(builder.sub(builder.add(start, stop), integer(1)), index) if backward else index)
            if backward:
                self._multiply_gradients(rows, start, stop)
        if backward:
            self._parity = builder.and_(steps, integer(1))
            with emitter.when(self._first), emitter.loop(0, emitter.load_integer(self._active, 0)) as row:
                for index, size in enumerate(self.plan.program.state):
                    target = self.at(f"initial_gradient {index}", self.order(row), size)
                    self.copy(self.state(index, row, written=False), target, size)
        emitter.finish()

    def _begin(self) -> None:
        emitter = self.emitter
        if self.kind == "backward":
            low, high = self.share(self.layout.sum // emitter.lanes)
            with emitter.loop(self._mul(low, emitter.lanes), self._mul(high, emitter.lanes), emitter.lanes) as index:
                emitter.store(emitter.splat(0.0), emitter.address(self.sums, index))
        else:
            with emitter.when(self._first), emitter.loop(0, emitter.load_integer(self._active, 0)) as row:
                for index, size in enumerate(self.plan.program.state):
                    source = self.at(f"initial {index}", self.order(row), size)
                    self.copy(source, self.block(("state0", index), row), size)
        self._wait()

    def _each(self, start: Value, stop: Value, name: str, block: str, *, out: bool) -> None:
        """Copy rows of a chunk from an argument, or to it."""
        low, high = self.emitter.share(self.builder.sub(stop, start), self.member, self.members)
        with self.emitter.loop(self.builder.add(start, low), self.builder.add(start, high)) as step:
            self.step = step
            with self.emitter.loop(0, self.emitter.load_integer(self._active, step)) as row:
                time = self.builder.mul(self.time(row, step), self.values[f"{name}_time"])
                place = self.builder.add(time, self.builder.mul(self.order(row), self.values[f"{name}_row"]))
                outside = self.emitter.advance(self.values[name], place)
                inside = self.block((block, ""), self.chunk_row(row))
                source, target = (inside, outside) if out else (outside, inside)
                self.copy(source, target, self.plan.input)
        self._wait()

    def _multiply(self, matrix: str, left: Block, depth: int, out: Block, size: int, rows: Value) -> None:
        nothing = integer(0)
        self._product(
            matrix,
            (self.block(left, nothing), self.layout.strides[left]),
            depth,
            (self.block(out, nothing), self.layout.strides[out]),
            size,
            rows,
        )

    def _product(
        self, matrix: str, left: tuple[Value, int], depth: int, out: tuple[Value, int], size: int, rows: Value
    ) -> None:
        """left times a matrix: packed, or as it lies in memory if the caller says so."""
        packed = self.values[f"packed {matrix}"]
        first, last = self.share(gemm.panels(self.emitter.real, size))
        if self.kind == "backward" and size < gemm.lanes(self.emitter.real):
            low, high = self.emitter.share(rows, self.member, self.members)
            (source, stride), (target, target_stride) = left, out
            source = self.emitter.advance(source, self._mul(low, stride))
            target = self.emitter.advance(target, self._mul(low, target_stride))
            count = self.builder.sub(high, low)
            self.emitter.call("dot", source, stride, packed, depth, target, target_stride, count, size)
        elif self.kind != "forward":
            self.emitter.call("multiply", *left, packed, depth, *out, rows, first, last)
        else:
            few = self.builder.icmp_signed("!=", self.values["dot"], integer(0))
            with self.builder.if_else(few) as (then, otherwise):
                with then:
                    low, high = self.share(size)
                    plain = self.emitter.advance(self.values[f"matrix {matrix}"], self._mul(low, depth))
                    target = self.emitter.advance(out[0], low)
                    count = self.builder.sub(high, low)
                    self.emitter.call("dot", *left, plain, depth, target, out[1], rows, count)
                with otherwise:
                    self.emitter.call("multiply", *left, packed, depth, *out, rows, first, last)
        self._wait()

    def _multiply_gradients(self, rows: Value, start: Value, stop: Value) -> None:
        """What was put off: gradients of matrices, and of the input."""
        layout, emitter, builder = self.layout, self.emitter, self.builder
        nothing = integer(0)
        capacity = builder.mul(self.values["rows"], self.values["chunk"])
        place = builder.add(self._mul(self.values["rows"], layout.row), self._mul(capacity, layout.step))
        packed = emitter.advance(self.scratch, place)
        for deferred, total in zip(self.plan.deferred, layout.sums, strict=True):
            sides = []
            for factor in (deferred.left, deferred.right):
                name: Block = ("input", "") if factor.block == "input" else ("factor", factor.block)
                address = emitter.advance(self.block(name, nothing), factor.offset)
                sides.append((address, layout.strides[name], factor.size))
            (left, left_stride, count), (right, right_stride, columns) = sides
            panels = gemm.panels(emitter.real, columns)
            emitter.call("pack", right, right_stride, 1, rows, columns, packed, *self.share(panels))
            self._wait()
            width = panels * gemm.panel(emitter.real)
            low, high = self.share(count)
            left = emitter.advance(left, low)
            out = emitter.advance(self.sums, builder.add(integer(total), self._mul(low, width)))
            emitter.call("contract", left, left_stride, packed, rows, out, width, builder.sub(high, low), panels)
            self._wait()
        if self.plan.linear:
            with emitter.when(builder.icmp_signed("!=", self.values["x_gradient"], integer(0))):
                block: Block = ("input_gradient", "")
                self._multiply("input", ("factor", 0), self.plan.program.projected, block, self.plan.input, rows)
                self._each(start, stop, "x_gradient", "input_gradient", out=True)

    def _step(self, step: Value) -> None:
        builder, emitter = self.builder, self.emitter
        backward = self.kind == "backward"
        self.step = step
        active = emitter.load_integer(self._active, step)
        last = builder.sub(self.values["steps"], integer(1))
        self._parity = builder.and_(builder.sub(last, step) if backward else step, integer(1))
        if backward:
            after = emitter.load_integer(self._active, builder.add(step, integer(1)))
            with emitter.when(builder.icmp_signed("<", after, active)):
                with emitter.when(self._first), emitter.loop(after, active) as row:
                    for index, size in enumerate(self.plan.program.state):
                        source = self.at(f"final_gradient {index}", self.order(row), size)
                        self.copy(source, self.state(index, row, written=False), size)
                self._wait()
        for number in range(len(self.schedule.stages)):
            self._stage(number, active)

    def _stage(self, number: int, active: Value) -> None:
        stage = self.schedule.stages[number]
        for index in stage.products:
            product = self.plan.program.products[index]
            out: Block = ("product", index)
            target = self.block(out, integer(0)), self.layout.strides[out]
            depth = sum(segment.width for segment in product.operand)
            self._product(str(index), self._operand(index), depth, target, product.size, active)
        if not stage.loops:
            return
        ends = number == len(self.schedule.stages) - 1 and self.kind != "backward"
        with self.emitter.loop(0, active) as row:
            Elements(self, number, row).emit()
            if ends:
                with self.emitter.when(self._alone):
                    self._end(row)
        self._wait()
        if ends:
            team = self.builder.and_(self._first, self.builder.not_(self._alone))
            with self.emitter.when(team), self.emitter.loop(0, active) as row:
                self._end(row)

    def _operand(self, index: int) -> tuple[Value, int]:
        """Address and stride of a product's left side."""
        state = direct(self.plan.program, index)
        if state is not None:
            return self.state(state, integer(0), written=False), self.layout.strides[("state0", state)]
        factor = self.plan.operands.get(index)
        if self.kind == "backward" and factor is not None:
            name: Block = ("factor", factor.block)
            start = self.block(name, self.chunk_row(integer(0)))
            return self.emitter.advance(start, factor.offset), self.layout.strides[name]
        name = ("operand", index)
        return self.block(name, integer(0)), self.layout.strides[name]

    def _end(self, row: Value) -> None:
        """After a row's last step its state is the final one."""
        length = self.emitter.load_integer(self.values["lengths"], self.builder.add(self.slot, row))
        done = self.builder.add(self.step, integer(1))
        with self.emitter.when(self.builder.icmp_signed("==", done, length)):
            for index, size in enumerate(self.plan.program.state):
                target = self.at(f"final {index}", self.order(row), size)
                self.copy(self.state(index, row, written=True), target, size)
