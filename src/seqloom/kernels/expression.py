"""Expressions of one step for one row of a batch: what each element of a row is computed from."""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

LEAVES = ("constant", "parameter", "projected", "state", "following", "saved", "product", "cotangent")
HEAVY = ("exp", "expm1", "log", "tanh", "sigmoid", "sqrt", "div")
CONDITIONS = ("less", "equal", "and", "or", "not")
REDUCTIONS = ("sum", "largest")


Data = tuple[()] | tuple[float] | tuple[str | int, int]


class Node:
    """An operation on every element of a row of ``width``; width 1 stands for the same number everywhere.

    Leaves name where they are read from: ``data`` is (name, offset), or (number,) for constants.
    """

    __slots__ = ("arguments", "data", "number", "operation", "width")

    def __init__(
        self,
        operation: str,
        arguments: tuple["Node", ...],
        data: Data,
        width: int,
        number: int,
    ) -> None:
        self.operation = operation
        self.arguments = arguments
        self.data = data
        self.width = width
        self.number = number  # arguments have smaller numbers

    @property
    def source(self) -> tuple[str | int, int]:
        """Where a leaf is read from: a name and an offset."""
        if len(self.data) != 2:
            raise ValueError(f"{self.operation} is not read from anywhere")
        return self.data

    @property
    def constant(self) -> float:
        """The number that a constant is."""
        if len(self.data) != 1:
            raise ValueError(f"{self.operation} is not a constant")
        return self.data[0]

    @property
    def heavy(self) -> bool:
        """Too costly to be computed twice where it can be kept."""
        return self.operation in HEAVY or self.operation in REDUCTIONS


class Segment(NamedTuple):
    """A node as part of a row; a node of width 1 fills the segment."""

    node: Node
    width: int


Row = tuple[Segment, ...]


def width(row: Row) -> int:
    return sum(segment.width for segment in row)


class Graph:
    """Makes nodes, each distinct one once."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[object, ...], Node] = {}

    def _make(self, operation: str, arguments: tuple[Node, ...], data: Data, width: int) -> Node:
        key = (operation, *[argument.number for argument in arguments], data, width)
        if key not in self._nodes:
            self._nodes[key] = Node(operation, arguments, data, width, len(self._nodes))
        return self._nodes[key]

    def constant(self, number: float) -> Node:
        return self._make("constant", (), (float(number),), 1)

    def leaf(self, operation: str, name: str | int, *, width: int, offset: int = 0) -> Node:
        return self._make(operation, (), (name, offset), width)

    def apply(self, operation: str, *arguments: Node) -> Node:
        """The operation on elements, with the few simplifications that gradients call for."""
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

    def reduce(self, operation: str, argument: Node) -> Node:
        return self._make(operation, (argument,), (), 1)

    def narrow(self, node: Node, offset: int, width: int) -> Node:
        """Elements [offset, offset + width) of a node: operations move to the parts of their arguments."""
        if node.width == 1 or (offset == 0 and width == node.width):
            return node
        if node.operation in LEAVES:
            name, start = node.source
            return self.leaf(node.operation, name, width=width, offset=start + offset)
        parts = [self.narrow(argument, offset, width) for argument in node.arguments]
        return self._make(node.operation, tuple(parts), (), width)

    def cut(self, row: Row, offset: int, width: int) -> Row:
        """Columns [offset, offset + width) of a row."""
        parts = []
        for segment in row:
            low, high = max(offset, 0), min(offset + width, segment.width)
            if low < high:
                parts.append(Segment(self.narrow(segment.node, low, high - low), high - low))
            offset -= segment.width
        return self.join(parts)

    def join(self, parts: Iterable[Segment]) -> Row:
        """Neighbouring pieces of one leaf become one again, so that equal rows are equal tuples."""
        joined: list[Segment] = []
        for part in parts:
            whole = self._merge(joined[-1], part) if joined else None
            if whole is None:
                joined.append(part)
            else:
                joined[-1] = whole
        return tuple(joined)

    def _merge(self, left: Segment, right: Segment) -> Segment | None:
        """Two pieces as one, if they are neighbours in one place."""
        for node, size in (left, right):
            if node.operation not in LEAVES or node.operation == "constant" or node.width != size:
                return None
        (name, start), (other, after) = left.node.source, right.node.source
        if left.node.operation != right.node.operation or name != other or start + left.width != after:
            return None
        whole = left.width + right.width
        return Segment(self.leaf(left.node.operation, name, width=whole, offset=start), whole)

    def elementwise(self, operation: str, *rows: Row) -> Row:
        """The operation on rows of one width, or of width 1 that is spread."""
        total = max(width(row) for row in rows)
        borders = {0, total}
        for row in rows:
            if width(row) == total:
                end = 0
                for segment in row:
                    end += segment.width
                    borders.add(end)
        ordered = sorted(borders)
        parts = []
        for low, high in pairwise(ordered):
            pieces = [row if width(row) == 1 else self.cut(row, low, high - low) for row in rows]
            parts.append(Segment(self.apply(operation, *[piece[0].node for piece in pieces]), high - low))
        return tuple(parts)


def visit(roots: Iterable[Node]) -> list[Node]:
    """All nodes that the roots are made of, arguments first."""
    seen: dict[int, Node] = {}
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node.number not in seen:
            seen[node.number] = node
            waiting.extend(node.arguments)
    return [seen[number] for number in sorted(seen)]
