"""The order of computation in one direction of a fused step.

A step is a list of stages. A stage starts with the matrix products whose operands are ready and continues with loops
over the elements of each row; a new loop starts where it needs a reduction over the row by an earlier one.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from seqloom.kernels.fuse.expression import REDUCTIONS, ExpressionNode, Row, Segment, topological_order
from seqloom.kernels.fuse.symbols import TracedStep

ReadyTime = tuple[int, int]
"""When a value is ready: (stage, number of reductions over the row before it)."""


class MemoryLocation(NamedTuple):
    """Where elements are stored: kind of memory, its name, and the offset in its row."""

    kind: str
    name: str | int
    offset: int


@dataclass
class Loop:
    """One pass over ``width`` elements of a row."""

    width: int
    stores: list[tuple[ExpressionNode, MemoryLocation]] = field(default_factory=list)
    reductions: list[ExpressionNode] = field(default_factory=list)


@dataclass
class Stage:
    """Products, then loops in order."""

    products: list[int] = field(default_factory=list)
    loops: list[tuple[ReadyTime, Loop]] = field(default_factory=list)


@dataclass
class Schedule:
    """What one direction of a kernel computes at each step."""

    stages: list[Stage]
    temporaries: dict[ExpressionNode, int]  # offsets of values that later loops read
    temporary_width: int
    ready_times: dict[ExpressionNode, ReadyTime]


def unchanged_state(traced: TracedStep, index: int) -> int | None:
    """The state that a product reads unchanged, or None if its operand is computed."""
    operand = traced.products[index].operand
    node = operand[0].node
    if len(operand) == 1 and node.operation == "state" and node.width == traced.state_widths[int(node.source[0])]:
        return int(node.source[0])
    return None


def with_offsets(row: Row) -> list[tuple[int, Segment]]:
    result = []
    offset = 0
    for segment in row:
        result.append((offset, segment))
        offset += segment.width
    return result


class ReadyTimes:
    """Computes when each node is ready."""

    def __init__(self, traced: TracedStep) -> None:
        self._traced = traced
        self._known: dict[ExpressionNode, ReadyTime] = {}

    def __call__(self, root: ExpressionNode) -> ReadyTime:
        for node in topological_order([root]):
            if node in self._known:
                continue
            ready: ReadyTime = max((self._known[argument] for argument in node.arguments), default=(0, 0))
            if node.operation == "product":
                ready = (self.stage(int(node.source[0])), 0)
            elif node.operation in REDUCTIONS:
                ready = (ready[0], ready[1] + 1)
            self._known[node] = ready
        return self._known[root]

    def stage(self, product: int) -> int:
        """Products of an unchanged state are in stage 0, others one stage after their operands."""
        if unchanged_state(self._traced, product) is not None:
            return 0
        return 1 + max(self(segment.node)[0] for segment in self._traced.products[product].operand)


def schedule(ready_times: ReadyTimes, products: list[int], results: list[tuple[MemoryLocation, Segment]]) -> Schedule:
    """Compute each result in the earliest loop that can."""
    loops: dict[tuple[ReadyTime, int], Loop] = {}

    def loop_at(ready: ReadyTime, size: int) -> Loop:
        return loops.setdefault((ready, size), Loop(size))

    for location, segment in results:
        loop_at(ready_times(segment.node), segment.width).stores.append((segment.node, location))
    reductions: set[ExpressionNode] = set()
    uses: dict[ExpressionNode, set[tuple[ReadyTime, int]]] = defaultdict(set)
    for (ready, size), loop in list(loops.items()):
        for node in topological_order([node for node, _ in loop.stores]):
            if node.operation in REDUCTIONS:
                reductions.add(node)
            if node.is_expensive:
                uses[node].add((ready, size))
    for node in sorted(reductions, key=lambda node: node.number):
        (argument,) = node.arguments
        ready = ready_times(argument)
        loop_at(ready, argument.width).reductions.append(node)
        for inner in topological_order([argument]):
            if inner.is_expensive:
                uses[inner].add((ready, argument.width))
    temporaries: dict[ExpressionNode, int] = {}
    total = 0
    for node, uses_of_node in sorted(uses.items(), key=lambda item: item[0].number):
        own = ready_times(node)
        elsewhere = (
            {ready[0] for ready, _ in uses_of_node} - {own[0]}
            if node.width == 1
            else uses_of_node - {(own, node.width)}
        )
        if elsewhere:
            temporaries[node] = total
            loop_at(own, node.width).stores.insert(0, (node, MemoryLocation("temporary", "", total)))
            total += node.width
    count = 1 + max([0, *[ready[0] for ready, _ in loops], *[ready_times.stage(index) for index in products]])
    stages = [Stage() for _ in range(count)]
    for index in products:
        stages[ready_times.stage(index)].products.append(index)
    for (ready, _), loop in sorted(loops.items(), key=lambda item: item[0]):
        stages[ready[0]].loops.append((ready, loop))
    known = {
        node: ready_times(node)
        for loop in loops.values()
        for node in topological_order([n for n, _ in loop.stores] + loop.reductions)
    }
    return Schedule(stages, temporaries, total, known)
