"""The loops over the elements of a row, as LLVM assembly."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from seqloom.kernels import mathematics
from seqloom.kernels.emit import Value, integer
from seqloom.kernels.expression import REDUCTIONS, Node
from seqloom.kernels.memory import Block
from seqloom.kernels.schedule import Place

if TYPE_CHECKING:
    from seqloom.kernels.code import Scan


class Elements:
    """The loops of one stage over the elements of one row."""

    def __init__(self, scan: "Scan", number: int, row: Value) -> None:
        self.scan = scan
        self.emitter = scan.emitter
        self.builder = scan.builder
        self.number = number
        self.row = row
        self.batch_row = scan.order(row)
        time = scan.time(row, scan.step)
        self.position = self.builder.add(self.builder.mul(time, scan.values["batch"]), self.batch_row)
        self.single: dict[Node, Value] = {}  # values that are the same for the whole row

    def emit(self) -> None:
        for moment, loop in self.scan.schedule.stages[self.number].loops:
            nodes = [node for node, _ in loop.stores] + [node.arguments[0] for node in loop.reductions]
            self.moment = moment
            self.size = loop.width
            self._prepare(nodes)
            if loop.width == 1:
                with self.emitter.when(self.scan.last):
                    for node, place in loop.stores:
                        self._store(self.single[node], place, 0, 1, loop.width)
                continue
            lanes = self.emitter.lanes
            whole = loop.width - loop.width % lanes
            low, high = (self.builder.mul(end, integer(lanes)) for end in self.scan.share(loop.width // lanes))
            sums = tuple(self._neutral(node) for node in loop.reductions)
            totals = list(sums)
            bases = self._bases(nodes, [place for _, place in loop.stores])
            if whole:
                with self.emitter.carry(low, high, lanes, sums) as (index, values, advance):
                    updated = self._body(loop.stores, loop.reductions, bases, index, None, values)
                    totals = advance(*updated)
            rest = loop.width - whole
            if rest and loop.reductions:
                totals = self._body(loop.stores, loop.reductions, bases, whole, rest, totals)
            elif rest:
                with self.emitter.when(self.scan.last):
                    self._body(loop.stores, [], bases, whole, rest, [])
            for node, total in zip(loop.reductions, totals, strict=True):
                self.single[node] = self.emitter.splat(self._collapse(node, total))

    def _neutral(self, node: Node) -> Value:
        return self.emitter.splat(0.0 if node.operation == "sum" else -math.inf)

    def _collapse(self, node: Node, total: Value) -> Value:
        return self.emitter.total(total) if node.operation == "sum" else self.emitter.largest(total)

    def _prepare(self, roots: Iterable[Node]) -> None:
        """Compute, before a loop, what is the same for all its elements."""
        for node in self._needed(roots):
            if node.width > 1 or node in self.single:
                continue
            if node in self.scan.schedule.temporaries and self.scan.schedule.moments[node][0] != self.number:
                place = Place("temporary", "", self.scan.schedule.temporaries[node])
                self.single[node] = self._spread(self._base(place), place.offset)
            elif node.operation == "constant":
                self.single[node] = self.emitter.splat(node.constant)
            elif not node.arguments:
                self.single[node] = self._read(node, self._base(_place(node)), None, 1)
            elif all(argument in self.single for argument in node.arguments) and node.operation not in REDUCTIONS:
                self.single[node] = self._operate(node, [self.single[argument] for argument in node.arguments])

    def _needed(self, roots: Iterable[Node]) -> list[Node]:
        """What the roots are made of, arguments first, without what is hidden behind a value that is there already."""
        found: set[Node] = set()
        waiting = list(roots)
        while waiting:
            node = waiting.pop()
            if node in found:
                continue
            found.add(node)
            if not self._loaded(node) and not (node.width == 1 and node in self.single):
                waiting.extend(node.arguments)
        return sorted(found, key=lambda node: node.number)

    def _loaded(self, node: Node) -> bool:
        schedule = self.scan.schedule
        if node not in schedule.temporaries:
            return False
        own = schedule.moments[node]
        if node.width == 1:
            return own[0] != self.number
        return (own, node.width) != (self.moment, self.size)

    def _bases(self, roots: list[Node], targets: list[Place]) -> dict[Block, Value]:
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
        program = scan.plan.program
        kind, name = place.kind, place.name
        backward = scan.kind == "backward"
        linear = scan.plan.linear is not None
        match kind:
            case "operand" | "product" | "temporary":
                return scan.block((kind, name), self.row)
            case "factor":
                return scan.block((kind, name), scan.chunk_row(self.row))
            case "projected" if linear:
                return scan.block((kind, name), scan.chunk_row(self.row))
            case "projected" | "projected_gradient":
                return scan.at(kind, self.position, program.projected)
            case "parameter":
                return scan.values[f"parameter {name}"]
            case "column":
                return scan.sums
            case "cotangent":
                return scan.state(int(name), self.row, written=False)
            case "state_gradient" | "next":
                return scan.state(int(name), self.row, written=True)
            case "state" if not backward:
                return scan.state(int(name), self.row, written=False)
            case "state":
                size = program.state[int(name)]
                distance = self.builder.mul(scan.values["batch"], scan.values["direction"])
                earlier = scan.at(f"sequence {name}", self.builder.sub(self.position, distance), size)
                begun = self.builder.icmp_signed("==", scan.step, integer(0))
                return self.builder.select(begun, scan.at(f"initial {name}", self.batch_row, size), earlier)
            case "following":
                return scan.at(f"sequence {name}", self.position, program.state[int(name)])
            case "out_gradient":
                return scan.at(kind, self.position, program.state[0])
        return scan.at("saved", self.position, scan.plan.saved_width)

    def _read(self, node: Node, base: Value, index: Value | int | None, lanes: int | None) -> Value:
        """Elements of a leaf: a vector at ``index``, its first ``lanes`` if given; one for all if index is None."""
        name, offset = node.source
        value = self._spread(base, offset) if index is None else self._vector(base, offset, index, lanes)
        if node.operation == "cotangent" and name == 0:
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

    def _body(
        self,
        stores: list[tuple[Node, Place]],
        reductions: list[Node],
        bases: dict[Block, Value],
        index: Value | int,
        lanes: int | None,
        sums: Iterable[Value],
    ) -> list[Value]:
        """One vector of a loop: compute, store, and add to the sums."""
        self.bases = bases
        known: dict[Node, Value] = {}
        roots = [node for node, _ in stores] + [node.arguments[0] for node in reductions]
        for node in self._needed(roots):
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
            updated.append(
                self.builder.fadd(*both) if node.operation == "sum" else mathematics.maximum(self.emitter, *both)
            )
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
            case "and":
                return builder.and_(*operands)
            case "not":
                return builder.not_(*operands)
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
    return Place(leaf.operation, *leaf.source)
