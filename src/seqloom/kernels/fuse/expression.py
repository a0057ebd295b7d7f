"""Expression graph of one step for one row of the batch."""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

LEAVES = (
    "constant",
    "position",
    "parameter",
    "projected",
    "input",
    "state",
    "sequence",
    "saved",
    "product",
    "cotangent",
)
EXPENSIVE = ("exp", "expm1", "log", "sin", "cos", "erf", "tanh", "sigmoid", "sqrt", "div")
CONDITIONS = ("less", "equal", "and", "or", "not")
REDUCTIONS = ("sum", "amax")


Data = tuple[()] | tuple[float] | tuple[str | int, int]


class ExpressionNode:
    """An elementwise operation or reduction; width 1 is a scalar that is broadcast over the row.

    Leaves name where they are read from: ``data`` is (name, offset), or (value,) for constants. A ``position`` is the
    number of an element in its row.
    """

    __slots__ = ("arguments", "data", "number", "operation", "width")

    def __init__(
        self,
        operation: str,
        arguments: tuple["ExpressionNode", ...],
        data: Data,
        width: int,
        number: int,
    ) -> None:
        self.operation = operation
        self.arguments = arguments
        self.data = data
        self.width = width
        self.number = number  # in topological order: arguments have lower numbers

    @property
    def source(self) -> tuple[str | int, int]:
        """Where a leaf is read from: name and offset."""
        if len(self.data) != 2:
            raise ValueError(f"{self.operation} has no source")
        return self.data

    @property
    def constant(self) -> float:
        """The value of a constant."""
        if len(self.data) != 1:
            raise ValueError(f"{self.operation} is not a constant")
        return self.data[0]

    @property
    def is_expensive(self) -> bool:
        """Whether it is better stored than computed twice."""
        return self.operation in EXPENSIVE or self.operation in REDUCTIONS


class Segment(NamedTuple):
    """A node as part of a row; a node of width 1 is broadcast over the segment."""

    node: ExpressionNode
    width: int


Row = tuple[Segment, ...]


def row_width(row: Row) -> int:
    return sum(segment.width for segment in row)


class Graph:
    """Creates nodes; equal expressions share one node (hash consing)."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[object, ...], ExpressionNode] = {}

    def _make(self, operation: str, arguments: tuple[ExpressionNode, ...], data: Data, width: int) -> ExpressionNode:
        key = (operation, *[argument.number for argument in arguments], data, width)
        if key not in self._nodes:
            self._nodes[key] = ExpressionNode(operation, arguments, data, width, len(self._nodes))
        return self._nodes[key]

    def constant(self, number: float) -> ExpressionNode:
        return self._make("constant", (), (float(number),), 1)

    def leaf(self, operation: str, name: str | int, *, width: int, offset: int = 0) -> ExpressionNode:
        return self._make(operation, (), (name, offset), width)

    def apply(self, operation: str, *arguments: ExpressionNode) -> ExpressionNode:
        """An elementwise operation; x + 0, x - 0 and 1 · x, frequent in gradients, are simplified."""
        zero, one = self.constant(0), self.constant(1)
        if operation == "add" and zero in arguments:
            left, right = arguments
            return right if left is zero else left
        if operation == "sub" and arguments[1] is zero:
            return arguments[0]
        if operation == "mul" and one in arguments:
            left, right = arguments
            return right if left is one else left
        return self._make(operation, arguments, (), max(argument.width for argument in arguments))

    def reduce(self, operation: str, argument: ExpressionNode) -> ExpressionNode:
        return self._make(operation, (argument,), (), 1)

    def slice_node(self, node: ExpressionNode, offset: int, width: int) -> ExpressionNode:
        """Elements [offset, offset + width) of a node; the slice moves down to the leaves."""
        if node.width == 1 or (offset == 0 and width == node.width):
            return node
        if node.operation in LEAVES:
            name, start = node.source
            return self.leaf(node.operation, name, width=width, offset=start + offset)
        parts = [self.slice_node(argument, offset, width) for argument in node.arguments]
        return self._make(node.operation, tuple(parts), (), width)

    def slice_row(self, row: Row, offset: int, width: int) -> Row:
        """Columns [offset, offset + width) of a row."""
        parts = []
        for segment in row:
            low, high = max(offset, 0), min(offset + width, segment.width)
            if low < high:
                parts.append(Segment(self.slice_node(segment.node, low, high - low), high - low))
            offset -= segment.width
        return self.concatenate(parts)

    def concatenate(self, parts: Iterable[Segment]) -> Row:
        """Concatenate segments; adjacent slices of one leaf are merged, so that equal rows are equal tuples."""
        joined: list[Segment] = []
        for part in parts:
            whole = self._merge(joined[-1], part) if joined else None
            if whole is None:
                joined.append(part)
            else:
                joined[-1] = whole
        return tuple(joined)

    def _merge(self, left: Segment, right: Segment) -> Segment | None:
        """Two segments as one if they are adjacent slices of one leaf."""
        for node, size in (left, right):
            if node.operation not in LEAVES or node.operation == "constant" or node.width != size:
                return None
        (name, start), (other, after) = left.node.source, right.node.source
        if left.node.operation != right.node.operation or name != other or start + left.width != after:
            return None
        whole = left.width + right.width
        return Segment(self.leaf(left.node.operation, name, width=whole, offset=start), whole)

    def elementwise(self, operation: str, *rows: Row) -> Row:
        """An elementwise operation on rows of one width; rows of width 1 are broadcast."""
        total = max(row_width(row) for row in rows)
        borders = {0, total}
        for row in rows:
            if row_width(row) == total:
                end = 0
                for segment in row:
                    end += segment.width
                    borders.add(end)
        ordered = sorted(borders)
        parts = []
        for low, high in pairwise(ordered):
            pieces = [row if row_width(row) == 1 else self.slice_row(row, low, high - low) for row in rows]
            parts.append(Segment(self.apply(operation, *[piece[0].node for piece in pieces]), high - low))
        return tuple(parts)


def topological_order(roots: Iterable[ExpressionNode]) -> list[ExpressionNode]:
    """All nodes below the roots in topological order, arguments first."""
    visited: dict[int, ExpressionNode] = {}
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node.number not in visited:
            visited[node.number] = node
            waiting.extend(node.arguments)
    return [visited[number] for number in sorted(visited)]
