"""LLVM code of the loops over the elements of a row."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from seqloom.kernels.fuse.expression import REDUCTIONS, ExpressionNode
from seqloom.kernels.fuse.layout import Block
from seqloom.kernels.fuse.schedule import MemoryLocation
from seqloom.kernels.llvm import vector_math
from seqloom.kernels.llvm.ir_builder import Value, integer

if TYPE_CHECKING:
    from seqloom.kernels.fuse.codegen import ScanBuilder

ROWS_AHEAD = 2
"""Rows by which arguments are requested ahead: the processor cannot guess where the next row of a batch is."""

ARGUMENTS = ("out_gradient", "sequence", "saved", "projected", "projected_gradient")
"""Kinds of memory that are arguments of a kernel, with a row for each row and step; so are states in a gradient."""


class RowLoops:
    """The loops of one stage over the elements of one row."""

    def __init__(self, scan: "ScanBuilder", number: int, row: Value) -> None:
        self.scan = scan
        self.emitter = scan.emitter
        self.builder = scan.builder
        self.number = number
        self.row = row
        self.batch_row = scan.batch_row(row)
        self.time = scan.time(row, scan.step)
        self.position = self.builder.add(self.builder.mul(self.time, scan.values["batch"]), self.batch_row)
        self.scalars: dict[ExpressionNode, Value] = {}  # scalars, broadcast to a vector
        self.ahead: dict[Block, Value] = {}  # addresses of later rows

    def emit(self) -> None:
        for ready, loop in self.scan.schedule.stages[self.number].loops:
            nodes = [node for node, _ in loop.stores] + [node.arguments[0] for node in loop.reductions]
            self.ready = ready
            self.size = loop.width
            self._compute_scalars(nodes)
            if loop.width == 1:
                with self.emitter.if_then(self.scan.is_last):
                    for node, location in loop.stores:
                        self._store(self.scalars[node], location, 0, 1, loop.width)
                continue
            lanes = self.emitter.lanes
            whole = loop.width - loop.width % lanes
            low, high = (self.builder.mul(end, integer(lanes)) for end in self.scan.thread_range(loop.width // lanes))
            sums = tuple(self._identity(node) for node in loop.reductions)
            totals = list(sums)
            bases = self._base_addresses(nodes, [location for _, location in loop.stores])
            self.ahead = self._addresses_ahead(bases)
            if whole:
                with self.emitter.loop_carrying(low, high, lanes, sums) as (index, values, advance):
                    updated = self._body(loop.stores, loop.reductions, bases, index, None, values)
                    totals = advance(*updated)
            rest = loop.width - whole
            if rest and loop.reductions:
                totals = self._body(loop.stores, loop.reductions, bases, whole, rest, totals)
            elif rest:
                with self.emitter.if_then(self.scan.is_last):
                    self._body(loop.stores, [], bases, whole, rest, [])
            for node, total in zip(loop.reductions, totals, strict=True):
                self.scalars[node] = self.emitter.splat(self._reduce_lanes(node, total))

    def _identity(self, node: ExpressionNode) -> Value:
        return self.emitter.splat(0.0 if node.operation == "sum" else -math.inf)

    def _reduce_lanes(self, node: ExpressionNode, total: Value) -> Value:
        return self.emitter.sum_lanes(total) if node.operation == "sum" else self.emitter.max_lanes(total)

    def _compute_scalars(self, roots: Iterable[ExpressionNode]) -> None:
        """Compute the scalars that a loop uses before it."""
        for node in self._needed(roots):
            if node.width > 1 or node in self.scalars:
                continue
            if node in self.scan.schedule.temporaries and self.scan.schedule.ready_times[node][0] != self.number:
                location = MemoryLocation("temporary", "", self.scan.schedule.temporaries[node])
                self.scalars[node] = self._broadcast(self._base_address(location), location.offset)
            elif node.operation == "constant":
                self.scalars[node] = self.emitter.splat(node.constant)
            elif node.operation == "position":
                self.scalars[node] = self.emitter.splat(float(node.source[1]))
            elif not node.arguments:
                self.scalars[node] = self._read(node, self._base_address(_location(node)), None, 1)
            elif all(argument in self.scalars for argument in node.arguments) and node.operation not in REDUCTIONS:
                self.scalars[node] = self._apply(node, [self.scalars[argument] for argument in node.arguments])

    def _needed(self, roots: Iterable[ExpressionNode]) -> list[ExpressionNode]:
        """The nodes below the roots in topological order; the search stops at values that are stored already."""
        nodes: set[ExpressionNode] = set()
        waiting = list(roots)
        while waiting:
            node = waiting.pop()
            if node in nodes:
                continue
            nodes.add(node)
            if not self._is_stored(node) and not (node.width == 1 and node in self.scalars):
                waiting.extend(node.arguments)
        return sorted(nodes, key=lambda node: node.number)

    def _is_stored(self, node: ExpressionNode) -> bool:
        schedule = self.scan.schedule
        if node not in schedule.temporaries:
            return False
        own = schedule.ready_times[node]
        if node.width == 1:
            return own[0] != self.number
        return (own, node.width) != (self.ready, self.size)

    def _base_addresses(self, roots: list[ExpressionNode], targets: list[MemoryLocation]) -> dict[Block, Value]:
        """The addresses of all rows that a loop accesses, computed before it."""
        locations = list(targets)
        for node in self._needed(roots):
            if self._is_stored(node) and node.width > 1:
                locations.append(MemoryLocation("temporary", "", self.scan.schedule.temporaries[node]))
            elif not node.arguments and node.operation not in ("constant", "position"):
                locations.append(_location(node))
        bases = {}
        for location in locations:
            if (location.kind, location.name) not in bases:
                bases[(location.kind, location.name)] = self._base_address(location)
        return bases

    def _addresses_ahead(self, bases: dict[Block, Value]) -> dict[Block, Value]:
        """The addresses of the same arguments a few rows later; without gradients, their rows are adjacent anyway."""
        scan, builder = self.scan, self.builder
        if scan.kind == "forward":
            return {}
        blocks = [("out_gradient", 0) if block == ("cotangent", 0) else block for block in bases]
        kinds = [*ARGUMENTS, *(["state"] if scan.kind == "backward" else [])]
        row = builder.add(self.row, integer(ROWS_AHEAD))
        exists = builder.icmp_signed("<", row, scan.active_rows)
        later = RowLoops(scan, self.number, builder.select(exists, row, self.row))
        return {
            (kind, name): later._base_address(MemoryLocation(kind, name, 0))
            for kind, name in blocks
            if kind in kinds and not (kind == "projected" and scan.plan.linear)
        }

    def _prefetch(self, block: Block, offset: int, index: Value | int, *, written: bool) -> None:
        if block in self.ahead:
            self.emitter.prefetch(self._pointer(self.ahead[block], offset, index), written=written)

    def _base_address(self, location: MemoryLocation) -> Value:
        """The address of element 0 of the row that contains a location."""
        scan = self.scan
        traced = scan.plan.traced
        kind, name = location.kind, location.name
        backward = scan.kind == "backward"
        linear = scan.plan.linear is not None
        match kind:
            case "operand" | "product" | "temporary":
                return scan.scratch_row((kind, name), self.row)
            case "factor" | "input" | "passed_gradient":
                return scan.scratch_row((kind, name), scan.chunk_row(self.row))
            case "projected" if linear:
                return scan.scratch_row((kind, name), scan.chunk_row(self.row))
            case "projected" | "projected_gradient":
                return scan.argument_row(kind, self.position, traced.projected_width)
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
                size = traced.state_widths[int(name)]
                earlier = self._sequence(int(name), before=True)
                is_first = self.builder.icmp_signed("==", scan.step, integer(0))
                return self.builder.select(
                    is_first, scan.argument_row(f"initial {name}", self.batch_row, size), earlier
                )
            case "sequence":
                return self._sequence(int(name), before=False)
            case "out_gradient":
                return scan.strided_row(kind, self.time, self.batch_row)
        return scan.argument_row("saved", self.position, scan.plan.saved_width)

    def _sequence(self, index: int, *, before: bool) -> Value:
        """The address of this row in a sequence of the state, or of the same row one step before."""
        scan, builder = self.scan, self.builder
        if index == 0 and scan.kind != "forward":
            time = builder.sub(self.time, scan.values["direction"]) if before else self.time
            return scan.strided_row("sequence 0", time, self.batch_row)
        distance = builder.mul(scan.values["batch"], scan.values["direction"])
        position = builder.sub(self.position, distance) if before else self.position
        return scan.argument_row(f"sequence {index}", position, scan.plan.traced.state_widths[index])

    def _read(self, node: ExpressionNode, base: Value, index: Value | int | None, lanes: int | None) -> Value:
        """Load a leaf: a vector at ``index``, its first ``lanes`` if given; a broadcast scalar if index is None."""
        name, offset = node.source
        value = self._broadcast(base, offset) if index is None else self._vector(base, offset, index, lanes)
        if index is not None:
            self._prefetch(_location(node)[:2], offset, index, written=False)
        if node.operation == "cotangent" and name == 0:
            other = self._base_address(MemoryLocation("out_gradient", 0, 0))
            extra = self._broadcast(other, offset) if index is None else self._vector(other, offset, index, lanes)
            if index is not None:
                self._prefetch(("out_gradient", 0), offset, index, written=False)
            return self.builder.fadd(value, extra)
        return value

    def _positions(self, offset: int, index: Value | int) -> Value:
        """The numbers of the elements from ``offset`` + ``index`` on."""
        lanes = [self.emitter.scalar(float(offset + lane)) for lane in range(self.emitter.lanes)]
        first = self.builder.sitofp(integer(index) if isinstance(index, int) else index, self.emitter.scalar)
        return self.builder.fadd(self.emitter.splat(first), self.emitter.vector(lanes))

    def _broadcast(self, base: Value, offset: int) -> Value:
        return self.emitter.splat(self.emitter.load_scalar(self.emitter.address(base, offset)))

    def _vector(self, base: Value, offset: int, index: Value | int, lanes: int | None) -> Value:
        pointer = self._pointer(base, offset, index)
        return self.emitter.load(pointer) if lanes is None else self.emitter.masked_load(pointer, lanes)

    def _pointer(self, base: Value, offset: int, index: Value | int) -> Value:
        location = offset + index if isinstance(index, int) else self.builder.add(index, integer(offset))
        return self.emitter.address(base, location)

    def _store(self, value: Value, location: MemoryLocation, index: Value | int, lanes: int | None, size: int) -> None:
        bases = [self._base_address(location)] if size == 1 else [self.bases[(location.kind, location.name)]]
        if location.kind == "column":
            old = self._vector(bases[0], location.offset, index, lanes)
            value = self.builder.fadd(old, value)
        for base in bases:
            pointer = self._pointer(base, location.offset, index)
            if lanes is None:
                self.emitter.store(value, pointer)
            else:
                self.emitter.masked_store(value, pointer, lanes)
        if size > 1:
            self._prefetch((location.kind, location.name), location.offset, index, written=True)

    def _body(
        self,
        stores: list[tuple[ExpressionNode, MemoryLocation]],
        reductions: list[ExpressionNode],
        bases: dict[Block, Value],
        index: Value | int,
        lanes: int | None,
        sums: Iterable[Value],
    ) -> list[Value]:
        """The body of a loop for one vector: compute, store, and update the reductions."""
        self.bases = bases
        values: dict[ExpressionNode, Value] = {}
        roots = [node for node, _ in stores] + [node.arguments[0] for node in reductions]
        for node in self._needed(roots):
            if node.width == 1:
                continue
            if self._is_stored(node):
                base = bases[("temporary", "")]
                values[node] = self._vector(base, self.scan.schedule.temporaries[node], index, lanes)
            elif node.operation == "position":
                values[node] = self._positions(node.source[1], index)
            elif not node.arguments:
                values[node] = self._read(node, bases[_location(node)[:2]], index, lanes)
            else:
                operands = [self._value(values, argument) for argument in node.arguments]
                values[node] = self._apply(node, operands)
        for node, location in stores:
            self._store(self._value(values, node), location, index, lanes, self.size)
        updated = []
        for node, total in zip(reductions, sums, strict=True):
            value = self._value(values, node.arguments[0])
            if lanes is not None:
                value = self.builder.select(self.emitter.mask(lanes), value, self._identity(node))
            both = (total, value)
            updated.append(
                self.builder.fadd(*both) if node.operation == "sum" else vector_math.maximum(self.emitter, *both)
            )
        return updated

    def _value(self, values: dict[ExpressionNode, Value], node: ExpressionNode) -> Value:
        return values[node] if node in values else self.scalars[node]

    def _apply(self, node: ExpressionNode, operands: list[Value]) -> Value:
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
                return vector_math.maximum(emitter, *operands)
            case "min":
                return vector_math.minimum(emitter, *operands)
            case "abs":
                return emitter.intrinsic("fabs", *operands)
            case "sqrt":
                return emitter.intrinsic("sqrt", *operands)
        return getattr(vector_math, node.operation)(emitter, *operands)


def _location(leaf: ExpressionNode) -> MemoryLocation:
    """The location of a leaf."""
    return MemoryLocation(leaf.operation, *leaf.source)
