"""The loop over time of a planned step, as LLVM assembly.

A thread carries its rows of the batch through the whole sequence. Rows are sorted by length, longest first, so that
the rows which still run at a step are always the first ones, and padding costs nothing.
"""

import math
from collections.abc import Iterable

from llvmlite import ir

from seqloom.kernels import gemm, mathematics
from seqloom.kernels.emit import INTEGER, Emitter, Value, integer
from seqloom.kernels.expression import REDUCTIONS, Node, visit
from seqloom.kernels.plan import Place, Plan, Schedule, direct

COMMON = ("batch", "direction", "steps", "rows", "order", "first", "lengths", "slots", "active", "scratch", "scratch_bytes")
"""Arguments of every kernel.

direction: 1 or −1 · rows: the most that a thread has · order, first, lengths: of each slot its row in the batch, the
time of its first step, its number of steps · slots: where each thread's slots begin, and the end of the last ·
active: for each thread and step how many of its rows still run.
"""


def arguments(plan: Plan, kind: str) -> tuple[str, ...]:
    """Names of a kernel's arguments in their order; kind is forward, training or backward."""
    states = range(len(plan.program.state))
    products = plan.backward_products if kind == "backward" else plan.forward_products
    names = [*COMMON, *[f"packed {index}" for index in products]]
    names += [f"parameter {name}" for name in plan.program.parameter_gradient]
    names += [f"initial {index}" for index in states]
    if kind == "forward":
        return (*names, "projected", "sequence 0", *[f"final {index}" for index in states])
    names += ["saved", *[f"sequence {index}" for index in states]]
    if kind == "training":
        return (*names, "projected", *[f"final {index}" for index in states])
    names += ["out_gradient", "projected_gradient", *[f"factor {index}" for index in range(len(plan.sequences))]]
    names += [f"final_gradient {index}" for index in states]
    return (*names, *[f"initial_gradient {index}" for index in states])


class Layout:
    """A thread's own memory: blocks of rows. Sizes are in elements."""

    def __init__(self, plan: Plan, kind: str, real: str) -> None:
        program = plan.program
        schedule: Schedule = getattr(plan, kind)
        self.lanes = gemm.panel(real) // gemm.COLUMNS
        self.strides: dict[tuple[str, str | int], int] = {}
        self.starts: dict[tuple[str, str | int], int] = {}
        self.row = 0
        for turn in (0, 1):
            for index, size in enumerate(program.state):
                self._add((f"state{turn}", index), size)
        for index in plan.backward_products if kind == "backward" else plan.forward_products:
            if direct(program, index) is None:
                self._add(("operand", index), sum(segment.width for segment in program.products[index].operand))
            self._add(("product", index), gemm.panel(real) * math.ceil(program.products[index].size / gemm.panel(real)))
        self._add(("temporary", ""), schedule.temporary_width)
        self.column = -(-plan.column_width // self.lanes) * self.lanes if kind == "backward" else 0

    def _add(self, name: tuple[str, str | int], size: int) -> None:
        # One vector more than needed: rows a multiple of 4096 bytes apart would share one set of the cache.
        stride = -(-size // self.lanes) * self.lanes + self.lanes
        self.starts[name] = self.row
        self.strides[name] = stride
        self.row += stride

    def size(self, rows: int) -> int:
        """Elements of one thread, with its sums for vector gradients first."""
        return self.column + self.row * rows


def emit(plan: Plan, kind: str, real: str) -> str:
    """The module of one kernel, a function "scan" of the address of its arguments and the number of its thread."""
    module = ir.Module("scan")
    _Scan(module, plan, kind, real).emit()
    return str(module)


class _Scan:
    def __init__(self, module: ir.Module, plan: Plan, kind: str, real: str) -> None:
        self.plan = plan
        self.kind = kind
        self.schedule: Schedule = getattr(plan, kind)
        self.layout = Layout(plan, kind, real)
        self.emitter = Emitter(module, "scan", 2, real)
        self.builder = self.emitter.builder
        table, self.thread = self.emitter.arguments
        self.values = {
            name: self.emitter.load_integer(table, index) for index, name in enumerate(arguments(plan, kind))
        }
        self.scratch = self.builder.add(
            self.values["scratch"], self.builder.mul(self.thread, self.values["scratch_bytes"])
        )
        slot = self.emitter.load_integer(self.values["slots"], self.thread)
        self.slot = slot

    # -- addresses

    def _mul(self, left: Value, right: Value | int) -> Value:
        return self.builder.mul(left, integer(right) if isinstance(right, int) else right)

    def _block(self, name: tuple[str, str | int], row: Value) -> Value:
        """The address of a row of this thread's own memory."""
        layout = self.layout
        start = self.builder.add(integer(layout.column), self._mul(self.values["rows"], layout.starts[name]))
        place = self.builder.add(start, self._mul(row, layout.strides[name]))
        return self.emitter.advance(self.scratch, place)

    def _at(self, name: str, position: Value, size: int) -> Value:
        return self.emitter.advance(self.values[name], self._mul(position, size))

    # -- the loop over time

    def emit(self) -> None:
        builder = self.builder
        backward = self.kind == "backward"
        steps = self.values["steps"]
        active_table = self.emitter.advance(
            self.values["active"], self._mul(builder.mul(self.thread, steps), 8 // self.emitter.bytes)
        )
        none = integer(0)
        if backward:
            with self.emitter.loop(0, self.layout.column, self.layout.lanes) as index:
                self.emitter.store(self.emitter.splat(0.0), self.emitter.address(self.scratch, index))
        else:
            first = self.emitter.load_integer(active_table, 0)
            with self.emitter.loop(0, first) as row:
                for index, size in enumerate(self.plan.program.state):
                    source = self._at(f"initial {index}", self._order(row), size)
                    self._copy(source, self._block(("state0", index), row), size)
        with self.emitter.carry(0, steps, 1, (none, none)) as (turn, (before, parity), advance):
            step = builder.sub(builder.sub(steps, integer(1)), turn) if backward else turn
            active = self.emitter.load_integer(active_table, step)
            self.step = step
            self.current, self.other = self._buffers(parity)
            if backward:
                with self.emitter.loop(before, active) as row:
                    for index, size in enumerate(self.plan.program.state):
                        source = self._at(f"final_gradient {index}", self._order(row), size)
                        self._copy(source, self._state(self.current, index, row), size)
            for number in range(len(self.schedule.stages)):
                self._stage(number, active)
            flipped = builder.sub(integer(1), parity)
            final = advance(active, flipped)
        if backward:
            self.current, _ = self._buffers(final[1])
            with self.emitter.loop(0, final[0]) as row:
                for index, size in enumerate(self.plan.program.state):
                    target = self._at(f"initial_gradient {index}", self._order(row), size)
                    self._copy(self._state(self.current, index, row), target, size)
        self.emitter.finish()

    def _buffers(self, parity: Value) -> tuple[Value, Value]:
        """Start of the states that are read and of those that are written, in elements per row."""
        distance = self.layout.starts[("state1", 0)] - self.layout.starts[("state0", 0)]
        current = self._mul(parity, distance)
        return current, self.builder.sub(integer(distance), current)

    def _state(self, side: Value, index: int, row: Value) -> Value:
        base = self._block(("state0", index), row)
        return self.emitter.advance(base, self.builder.mul(side, self.values["rows"]))

    def _order(self, row: Value) -> Value:
        return self.emitter.load_integer(self.values["order"], self.builder.add(self.slot, row))

    def _copy(self, source: Value, target: Value, size: int) -> None:
        emitter = self.emitter
        whole = size - size % emitter.lanes
        if whole:
            with emitter.loop(0, whole, emitter.lanes) as index:
                emitter.store(emitter.load(emitter.address(source, index)), emitter.address(target, index))
        if size > whole:
            value = emitter.masked_load(emitter.address(source, whole), size - whole)
            emitter.masked_store(value, emitter.address(target, whole), size - whole)

    # -- one stage of a step

    def _stage(self, number: int, active: Value) -> None:
        stage = self.schedule.stages[number]
        program = self.plan.program
        panel = gemm.panel(self.emitter.real)
        for index in stage.products:
            product = program.products[index]
            state = direct(program, index)
            if state is None:
                left, stride = self._block(("operand", index), integer(0)), self.layout.strides[("operand", index)]
            else:
                left, stride = self._state(self.current, state, integer(0)), self.layout.strides[("state0", state)]
            out = ("product", index)
            depth = sum(segment.width for segment in product.operand)
            self.emitter.call(
                "multiply",
                left,
                stride,
                self.values[f"packed {index}"],
                depth,
                self._block(out, integer(0)),
                self.layout.strides[out],
                active,
                0,
                math.ceil(product.size / panel),
            )
        if not stage.loops:
            return
        with self.emitter.loop(0, active) as row:
            _Row(self, number, row).emit()
            last = number == len(self.schedule.stages) - 1
            if last and self.kind != "backward":
                slot = self.builder.add(self.slot, row)
                length = self.emitter.load_integer(self.values["lengths"], slot)
                with self.emitter.when(self.builder.icmp_signed("==", self.builder.add(self.step, integer(1)), length)):
                    for index, size in enumerate(program.state):
                        target = self._at(f"final {index}", self._order(row), size)
                        self._copy(self._state(self.other, index, row), target, size)


class _Row:
    """The loops of one stage over the elements of one row."""

    def __init__(self, scan: _Scan, number: int, row: Value) -> None:
        self.scan = scan
        self.emitter = scan.emitter
        self.builder = scan.builder
        self.number = number
        self.row = row
        slot = self.builder.add(scan.slot, row)
        self.batch_row = scan._order(row)
        first = self.emitter.load_integer(scan.values["first"], slot)
        time = self.builder.add(first, self.builder.mul(scan.step, scan.values["direction"]))
        self.position = self.builder.add(self.builder.mul(time, scan.values["batch"]), self.batch_row)
        self.single: dict[Node, Value] = {}  # values that are the same for the whole row

    def emit(self) -> None:
        for moment, loop in self.scan.schedule.stages[self.number].loops:
            nodes = [node for node, _ in loop.stores] + [node.arguments[0] for node in loop.reductions]
            self.moment = moment
            self.size = loop.width
            self._prepare(nodes)
            if loop.width == 1:
                for node, place in loop.stores:
                    self._store(self.single[node], place, 0, 1, loop.width)
                continue
            lanes = self.emitter.lanes
            whole = loop.width - loop.width % lanes
            sums = tuple(self._neutral(node) for node in loop.reductions)
            totals = list(sums)
            bases = self._bases(nodes, [place for _, place in loop.stores])
            if whole:
                with self.emitter.carry(0, whole, lanes, sums) as (index, values, advance):
                    updated = self._body(loop.stores, loop.reductions, bases, index, None, values)
                    totals = advance(*updated)
            if loop.width > whole:
                totals = self._body(loop.stores, loop.reductions, bases, whole, loop.width - whole, totals)
            for node, total in zip(loop.reductions, totals, strict=True):
                self.single[node] = self.emitter.splat(self._collapse(node, total))

    def _neutral(self, node: Node) -> Value:
        return self.emitter.splat(0.0 if node.operation == "sum" else -math.inf)

    def _collapse(self, node: Node, total: Value) -> Value:
        return self.emitter.total(total) if node.operation == "sum" else self.emitter.largest(total)

    def _prepare(self, roots: Iterable[Node]) -> None:
        """Compute, before a loop, what is the same for all its elements."""
        for node in visit(roots):
            if node.width > 1 or node in self.single or not self._wanted(node, roots):
                continue
            if node in self.scan.schedule.temporaries and self.scan.schedule.moments[node][0] != self.number:
                place = Place("temporary", "", self.scan.schedule.temporaries[node])
                self.single[node] = self._spread(self._base(place), 0)
            elif node.operation == "constant":
                self.single[node] = self.emitter.splat(float(node.data[0]))
            elif not node.arguments:
                self.single[node] = self._read(node, self._base(_place(node)), None, 1)
            elif all(argument in self.single for argument in node.arguments) and node.operation not in REDUCTIONS:
                self.single[node] = self._operate(node, [self.single[argument] for argument in node.arguments])

    def _wanted(self, node: Node, roots: Iterable[Node]) -> bool:
        """Not hidden behind a value that is loaded rather than computed."""
        return node in self._needed(roots)

    def _needed(self, roots: Iterable[Node]) -> set[Node]:
        found: set[Node] = set()
        waiting = list(roots)
        while waiting:
            node = waiting.pop()
            if node in found:
                continue
            found.add(node)
            if not self._loaded(node) and not (node.width == 1 and node in self.single):
                waiting.extend(node.arguments)
        return found

    def _loaded(self, node: Node) -> bool:
        schedule = self.scan.schedule
        if node not in schedule.temporaries:
            return False
        own = schedule.moments[node]
        if node.width == 1:
            return own[0] != self.number
        return (own, node.width) != (self.moment, self.size)

    # -- memory

    def _bases(self, roots: list[Node], targets: list[Place]) -> dict[tuple[str, str | int], Value]:
        """Addresses of all rows that a loop touches, found before it."""
        places = list(targets)
        for node in self._needed(roots):
            if self._loaded(node) and node.width > 1:
                places.append(Place("temporary", "", self.scan.schedule.temporaries[node]))
            elif not node.arguments and node.operation != "constant":
                places.append(_place(node))
        bases = {}
        for place in places:
            if (place.kind, place.name) not in bases:
                bases[(place.kind, place.name)] = self._base(place)
        return bases

    def _base(self, place: Place) -> Value:
        """The address of element 0 of the row that a place is in."""
        scan = self.scan
        kind, name = place.kind, place.name
        program = scan.plan.program
        if kind in ("operand", "product", "temporary"):
            return scan._block((kind, name), self.row)
        if kind == "parameter":
            return scan.values[f"parameter {name}"]
        if kind == "column":
            return scan.scratch
        if kind in ("cotangent", "state_gradient") or (kind in ("state", "next") and scan.kind != "backward"):
            side = scan.current if kind in ("cotangent", "state") else scan.other
            return scan._state(side, int(name), self.row)
        if kind == "state":
            size = program.state[int(name)]
            earlier = self.builder.sub(
                self.position, self.builder.mul(scan.values["batch"], scan.values["direction"])
            )
            begun = self.builder.icmp_signed("==", scan.step, integer(0))
            initial = scan._at(f"initial {name}", self.batch_row, size)
            return self.builder.select(begun, initial, scan._at(f"sequence {name}", earlier, size))
        if kind in ("following", "out_gradient"):
            return scan._at("out_gradient" if kind == "out_gradient" else f"sequence {name}", self.position, program.state[int(name)])
        if kind == "factor":
            return scan._at(f"factor {name}", self.position, scan.plan.sequences[int(name)])
        sizes = {"projected": program.projected, "projected_gradient": program.projected, "saved": scan.plan.saved_width}
        return scan._at(kind, self.position, sizes[kind])

    def _read(self, node: Node, base: Value, index: Value | int | None, lanes: int | None) -> Value:
        """Elements of a leaf: a vector at ``index``, only its first ``lanes`` if given; one for all if index is None."""
        offset = int(node.data[1])
        if index is None:
            value = self._spread(base, offset)
        else:
            value = self._vector(base, offset, index, lanes)
        if node.operation == "cotangent" and node.data[0] == 0:
            other = self._base(Place("out_gradient", 0, 0))
            extra = self._spread(other, offset) if index is None else self._vector(other, offset, index, lanes)
            return self.builder.fadd(value, extra)
        return value

    def _spread(self, base: Value, offset: int) -> Value:
        return self.emitter.splat(self.emitter.load_scalar(self.emitter.address(base, offset)))

    def _vector(self, base: Value, offset: int, index: Value | int, lanes: int | None) -> Value:
        pointer = self._pointer(base, offset, index)
        return self.emitter.load(pointer) if lanes is None else self.emitter.masked_load(pointer, lanes)

    def _pointer(self, base: Value, offset: int, index: Value | int) -> Value:
        place = offset + index if isinstance(index, int) else self.builder.add(index, integer(offset))
        return self.emitter.address(base, place)

    def _store(self, value: Value, place: Place, index: Value | int, lanes: int | None, size: int) -> None:
        bases = [self._base(place)] if size == 1 else [self.bases[(place.kind, place.name)]]
        if place.kind == "column":
            old = self._vector(bases[0], place.offset, index, lanes)
            value = self.builder.fadd(old, value)
        for base in bases:
            pointer = self._pointer(base, place.offset, index)
            if lanes is None:
                self.emitter.store(value, pointer)
            else:
                self.emitter.masked_store(value, pointer, lanes)

    # -- elements

    def _body(
        self,
        stores: list[tuple[Node, Place]],
        reductions: list[Node],
        bases: dict[tuple[str, str | int], Value],
        index: Value | int,
        lanes: int | None,
        sums: Iterable[Value],
    ) -> list[Value]:
        """One vector of a loop: compute, store, and add to the sums."""
        self.bases = bases
        known: dict[Node, Value] = {}
        roots = [node for node, _ in stores] + [node.arguments[0] for node in reductions]
        for node in sorted(self._needed(roots), key=lambda node: node.number):
            if node.width == 1:
                continue
            if self._loaded(node):
                base = bases[("temporary", "")]
                known[node] = self._vector(base, self.scan.schedule.temporaries[node], index, lanes)
            elif not node.arguments:
                known[node] = self._read(node, bases[_place(node)[:2]], index, lanes)
            else:
                operands = [self._value(known, argument) for argument in node.arguments]
                known[node] = self._operate(node, operands)
        for node, place in stores:
            self._store(self._value(known, node), place, index, lanes, self.size)
        updated = []
        for node, total in zip(reductions, sums, strict=True):
            value = self._value(known, node.arguments[0])
            if lanes is not None:
                value = self.builder.select(self.emitter.mask(lanes), value, self._neutral(node))
            both = (total, value)
            updated.append(self.builder.fadd(*both) if node.operation == "sum" else mathematics.at_least(self.emitter, *both))
        return updated

    def _value(self, known: dict[Node, Value], node: Node) -> Value:
        return known[node] if node in known else self.single[node]

    def _operate(self, node: Node, operands: list[Value]) -> Value:
        builder, emitter = self.builder, self.emitter
        match node.operation:
            case "add":
                return builder.fadd(*operands, flags=("contract",))
            case "sub":
                return builder.fsub(*operands, flags=("contract",))
            case "mul":
                return builder.fmul(*operands, flags=("contract",))
            case "div":
                return builder.fdiv(*operands)
            case "less":
                return builder.fcmp_ordered("<", *operands)
            case "equal":
                return builder.fcmp_ordered("==", *operands)
            case "or":
                return builder.or_(*operands)
            case "select":
                return builder.select(*operands)
            case "max":
                return mathematics.maximum(emitter, *operands)
            case "min":
                return mathematics.minimum(emitter, *operands)
            case "abs":
                return emitter.intrinsic("fabs", *operands)
            case "sqrt":
                return emitter.intrinsic("sqrt", *operands)
        return getattr(mathematics, node.operation)(emitter, *operands)


def _place(leaf: Node) -> Place:
    """Where a leaf is read from."""
    name, offset = leaf.data
    return Place(leaf.operation, name, int(offset))
