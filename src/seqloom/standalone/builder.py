"""The code of a compiled model: operations on rows of numbers for one sequence, in memory that the caller provides."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from seqloom.kernels.fuse.codegen import ScanBuilder
from seqloom.kernels.fuse.expression import topological_order
from seqloom.kernels.fuse.layout import NO_ROUNDING
from seqloom.kernels.fuse.plan import Plan
from seqloom.kernels.linalg import gemm
from seqloom.kernels.llvm import vector_math
from seqloom.kernels.llvm.ir_builder import INTEGER, POINTER, Emitter, Value, integer
from seqloom.standalone.constants import SLACK, Constants, packed

Array = NDArray[Any]
Addresses = Mapping[str, Value]
"""The inputs and outputs of a model, by name."""
FLOAT_BYTES = 4
ALIGNMENT = 64
ROUNDING = 16
"""Bytes to which addresses in the workspace are aligned."""
CHUNK = 128
"""Steps whose input is projected at once."""
SHORT = ir.IntType(32)
DOUBLE = ir.DoubleType()


class Count(NamedTuple):
    """A number of rows, of which there are at most ``per_element`` for each element of the input, and ``constant``."""

    value: Value
    per_element: int | Fraction
    constant: int


ONE = Count(integer(1), 0, 1)


@dataclass(frozen=True)
class Rows:
    """Rows of float32 numbers in memory. What follows a row up to the next one may be anything."""

    address: Value
    count: Count
    size: int
    stride: int  # elements from one row to the next; 0: all rows are the same


class Workspace:
    """Memory for one call; it grows with the length of the input."""

    def __init__(self, emit: Emitter, address: Value, length: Value) -> None:
        self._emit, self._address, self._length = emit, address, length
        self._used = Fraction(0), 0  # bytes for each element, and for all
        self._needed = Fraction(0), 0

    def reserve(self, per_element: int | Fraction, constant: int) -> Value:
        """The address of new memory: bytes for each element of the input, and for all together."""
        builder, used = self._emit.builder, self._used
        # What rounding takes away here is part of the slack.
        variable = builder.udiv(builder.mul(self._length, integer(used[0].numerator)), integer(used[0].denominator))
        start = builder.add(integer(used[1]), builder.and_(variable, integer(-ROUNDING)))
        self._used = used[0] + per_element, used[1] + round_up(constant + SLACK + 2 * ROUNDING, ALIGNMENT)
        self._needed = max(self._needed[0], self._used[0]), max(self._needed[1], self._used[1])
        return builder.add(self._address, start)

    @contextmanager
    def temporary(self) -> Iterator[None]:
        """What is reserved in this context is free again after it."""
        before = self._used
        yield
        self._used = before

    @property
    def size(self) -> tuple[Fraction, int]:
        """Bytes for each element of the input, and for all together, those for aligning the start included."""
        return self._needed[0], self._needed[1] + ALIGNMENT


def round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


class ModelBuilder:
    """Writes the function of a model: its inputs, outputs and workspace are addresses."""

    def __init__(self, emit: Emitter, constants: Constants, *, length: Value, workspace: Value) -> None:
        self.emit, self.builder, self.constants = emit, emit.builder, constants
        start = self.builder.and_(self.builder.add(workspace, integer(ALIGNMENT - 1)), integer(-ALIGNMENT))
        self.workspace = Workspace(emit, start, length)
        self.length = Count(length, 1, 0)
        self._scans: dict[str, tuple[str, ScanBuilder]] = {}

    def constant(self, values: Any, dtype: Any = np.float32) -> Value:
        """The address of constant numbers."""
        return self.constants.address(self.builder, np.asarray(values, dtype=dtype))

    def constant_rows(self, values: Any, count: Count = ONE) -> Rows:
        """A constant row, the same at each position."""
        array = np.asarray(values, dtype=np.float32).reshape(-1)
        return Rows(self.constant(array), count, len(array), 0)

    def allocate(self, count: Count, size: int, *, compact: bool = False) -> Rows:
        """New rows, whose content is undefined: padded, so that products can write them, or without gaps."""
        stride = size if compact else gemm.panel_width("float") * gemm.panel_count("float", size)
        bytes_per_row = FLOAT_BYTES * stride
        address = self.workspace.reserve(bytes_per_row * count.per_element, bytes_per_row * count.constant)
        return Rows(address, count, size, stride)

    def row_address(self, rows: Rows, index: Value | int) -> Value:
        number = integer(index) if isinstance(index, int) else index
        return self.emit.advance(rows.address, self.builder.mul(number, integer(rows.stride)))

    def row(self, rows: Rows, index: Value | int) -> Rows:
        """One of the rows."""
        return Rows(self.row_address(rows, index), ONE, rows.size, rows.stride)

    def columns(self, rows: Rows, start: int, size: int) -> Rows:
        """Some columns of rows, in place."""
        return Rows(self.emit.advance(rows.address, start), rows.count, size, rows.stride)

    def map(self, function: Callable[..., Value], *inputs: Rows, out: Rows | None = None) -> Rows:
        """Apply a function of vectors to all numbers of rows of one size, into new rows, or into ``out``, padded."""
        emit, first = self.emit, inputs[0]
        target = out or self.allocate(first.count, first.size)
        with emit.loop(0, target.count.value) as row:
            sources = [self.row_address(rows, row) for rows in inputs]
            written = self.row_address(target, row)
            with emit.loop(0, round_up(first.size, emit.lanes), emit.lanes) as index:
                values = [emit.load(emit.address(source, index)) for source in sources]
                emit.store(function(*values), emit.address(written, index))
        return target

    def copy(self, source: Rows, target: Rows) -> None:
        """Copy rows, without a change of what follows each of them."""
        emit, size = self.emit, source.size
        whole = size - size % emit.lanes
        with emit.loop(0, target.count.value) as row:
            read, written = self.row_address(source, row), self.row_address(target, row)
            with emit.loop(0, whole, emit.lanes) as index:
                emit.store(emit.load(emit.address(read, index)), emit.address(written, index))
            if size > whole:
                value = emit.masked_load(emit.address(read, whole), size - whole)
                emit.masked_store(value, emit.address(written, whole), size - whole)

    def fill(self, rows: Rows, value: float) -> None:
        """Set all numbers."""
        self.copy(self.constant_rows(np.full(rows.size, value), rows.count), rows)

    def concatenate(self, parts: Sequence[Rows]) -> Rows:
        """The columns of several rows side by side."""
        if len(parts) == 1:
            return parts[0]
        target = self.allocate(parts[0].count, sum(part.size for part in parts))
        start = 0
        for part in parts:
            self.copy(part, self.columns(target, start, part.size))
            start += part.size
        return target

    def add(self, left: Rows, right: Rows) -> Rows:
        return self.map(self.builder.fadd, left, right)

    def multiply(self, left: Rows, right: Rows) -> Rows:
        return self.map(self.builder.fmul, left, right)

    def sigmoid(self, value: Value) -> Value:
        """The sigmoid of a vector."""
        return vector_math.sigmoid(self.emit, value)

    def linear(
        self,
        x: Rows,
        weight: Array,  # (output size, input size)
        bias: Array | None,
        function: Callable[[Value], Value] | None = None,  # of vectors
    ) -> Rows:
        """function(W x + b)."""
        columns, depth = weight.shape
        out = self.allocate(x.count, columns)
        panels = self.constant(packed(weight.T))
        count = gemm.panel_count("float", columns)
        self.emit.call("multiply", x.address, x.stride, panels, depth, out.address, out.stride, x.count.value, 0, count)
        if bias is not None:
            shift = self.constant_rows(bias, x.count)

            def shifted(value: Value, added: Value) -> Value:
                total = self.builder.fadd(value, added)
                return total if function is None else function(total)

            return self.map(shifted, out, shift, out=out)
        return out if function is None else self.map(function, out, out=out)

    def reduce(self, function: Callable[[Value, Value, Value], Value], rows: Rows, start: float) -> Rows:
        """Combine all rows into one: function(result so far, vector of a row, number of the row)."""
        emit = self.emit
        target = self.allocate(ONE, rows.size)
        with emit.loop(0, round_up(rows.size, emit.lanes), emit.lanes) as index:
            with emit.loop_carrying(0, rows.count.value, 1, (emit.splat(start),)) as (row, totals, advance):
                value = emit.load(emit.address(self.row_address(rows, row), index))
                final = advance(function(totals[0], value, row))
            emit.store(final[0], emit.address(target.address, index))
        return target

    def scan(
        self,
        plan: Plan,
        parameters: dict[str, Array],
        x: Rows,
        initial: Sequence[Rows],
        *,
        reverse: bool = False,
    ) -> tuple[Rows, list[Rows]]:  # the first field of the state at each step, and the last state
        """Run a planned step over the rows by the kernel that ``kernels/fuse`` writes."""
        name, scan = self._scan_function(plan)
        widths = plan.traced.state_widths
        out = self.allocate(x.count, widths[0], compact=True)
        final = [self.allocate(ONE, width) for width in widths]
        for before, after in zip(initial, final, strict=True):  # of an empty sequence
            self.copy(before, after)
        with self.workspace.temporary():
            values = self._scan_arguments(plan, parameters, x, scan, reverse=reverse)
            values["sequence 0"] = out.address
            for index, (before, after) in enumerate(zip(initial, final, strict=True)):
                values[f"initial {index}"], values[f"final {index}"] = before.address, after.address
            table = self.workspace.reserve(0, 8 * len(scan.values))
            for index, argument in enumerate(scan.values):
                self.store_integer(values.get(argument, 0), table, index)
            self.emit.call(name, table, 0, 0, 1)
        return out, final

    def _scan_function(self, plan: Plan) -> tuple[str, ScanBuilder]:
        key = plan.describe()
        if key not in self._scans:
            name = f"scan{len(self._scans)}"
            scan = ScanBuilder(self.emit.module, plan, "forward", "float", NO_ROUNDING, name=name, packed=True)
            scan.emit()
            scan.emitter.function.linkage = "internal"
            self._scans[key] = name, scan
        return self._scans[key]

    def _scan_arguments(
        self, plan: Plan, parameters: dict[str, Array], x: Rows, scan: ScanBuilder, *, reverse: bool
    ) -> dict[str, Value | int]:
        """One row, on one thread; the names are those of ``kernels/fuse/layout``."""
        builder, steps = self.builder, x.count.value
        numbers = self.workspace.reserve(0, 8 * 3)
        last = builder.sub(steps, integer(1))
        for index, number in enumerate((0, last if reverse else 0, steps)):
            self.store_integer(number, numbers, index)
        zero, first_time, lengths = (builder.add(numbers, integer(8 * index)) for index in range(3))
        active, active_before = self._active_rows(x.count)
        is_short = builder.icmp_signed("<", steps, integer(CHUNK))
        is_empty = builder.icmp_signed("<", steps, integer(1))
        chunk = builder.select(is_empty, integer(1), builder.select(is_short, steps, integer(CHUNK)))
        values: dict[str, Value | int] = {
            "batch": 1,
            "direction": -1 if reverse else 1,
            "steps": steps,
            "max_rows": 1,
            "chunk": chunk,
            "order": zero,
            "first_time": first_time,
            "lengths": lengths,
            "part_starts": zero,
            "active": active,
            "active_before": active_before,
            "scratch": self.workspace.reserve(0, FLOAT_BYTES * scan.layout.size(1, CHUNK)),
            "sums": zero,
        }
        for index in plan.forward_products:
            product: Any = plan.traced.products[index]
            if f"packed {index}" in scan.values:
                matrix = parameters[product.matrix]
                values[f"packed {index}"] = self.constant(packed(matrix.T if product.transposed else matrix))
        for parameter in _vectors(plan):
            values[f"parameter {parameter}"] = self.constant(parameters[parameter])
        if plan.linear:
            values |= {"x": x.address, "x_time": x.stride, "x_row": 0}
            values["packed input"] = self.constant(packed(parameters[plan.linear].T))
        else:
            values["projected"] = x.address
        return values

    def _active_rows(self, count: Count) -> tuple[Value, Value]:
        """For each step whether it is computed, and the number of those before it."""
        emit, builder = self.emit, self.builder
        tables = [self.workspace.reserve(8 * count.per_element, 8 * (count.constant + 1)) for _ in range(2)]
        steps = builder.add(count.value, integer(1))
        with emit.loop(0, steps) as step:
            is_real = builder.icmp_signed("<", step, count.value)
            self.store_integer(builder.zext(is_real, step.type), tables[0], step)
            self.store_integer(step, tables[1], step)
        return tables[0], tables[1]

    def store_integer(self, value: Value | int, base: Value, index: Value | int) -> None:
        """Store a 64-bit integer in a table."""
        number = integer(value) if isinstance(value, int) else value
        self.builder.store(number, self.pointer(base, index, number.type), align=8)

    def pointer(self, base: Value, index: Value | int, kind: Any) -> Value:
        """A pointer to an element of an array of any type, by its address."""
        return pointer(self.builder, base, index, kind)

    def load_token(self, base: Value, index: Value | int) -> Value:
        """A 32-bit integer of an array, as 64 bits."""
        return load_token(self.builder, base, index)

    def load_double(self, base: Value, index: Value | int) -> Value:
        return self.builder.load(self.pointer(base, index, DOUBLE), align=8, typ=DOUBLE)

    def store_double(self, value: Value, base: Value, index: Value | int) -> None:
        self.builder.store(value, self.pointer(base, index, DOUBLE), align=8)


def _vectors(plan: Plan) -> list[str]:
    """The parameters that the loops over elements read; the others are matrices of products."""
    loops = [loop for stage in plan.forward.stages for _, loop in stage.loops]
    roots = [node for loop in loops for node in (*(stored for stored, _ in loop.stores), *loop.reductions)]
    leaves = (node for node in topological_order(roots) if node.operation == "parameter")
    return sorted({str(leaf.source[0]) for leaf in leaves})


def pointer(builder: ir.IRBuilder, base: Value, index: Value | int, kind: Any) -> Value:
    """A pointer to an element of an array of any type, by its address."""
    position = integer(index) if isinstance(index, int) else index
    return builder.gep(builder.inttoptr(base, POINTER), [position], source_etype=kind)


def load_token(builder: ir.IRBuilder, base: Value, index: Value | int) -> Value:
    """A 32-bit integer of an array, as 64 bits."""
    return builder.sext(builder.load(pointer(builder, base, index, SHORT), align=4, typ=SHORT), INTEGER)
