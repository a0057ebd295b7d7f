"""The order of work in one direction of a fused step.

A step is a list of stages. A stage begins with the products whose operands are ready and goes on with loops over the
elements of each row; a loop begins where an earlier one had to finish because it sums over the row.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from seqloom.kernels.expression import REDUCTIONS, Node, Row, Segment, visit
from seqloom.kernels.symbols import Program

Moment = tuple[int, int]
"""(stage, how many sums over the row come before)."""


class Place(NamedTuple):
    """Where elements are kept: a kind of memory, which one of it, and the offset in its row."""

    kind: str
    name: str | int
    offset: int


@dataclass
class Loop:
    """One pass over ``width`` elements of a row."""

    width: int
    stores: list[tuple[Node, Place]] = field(default_factory=list)
    reductions: list[Node] = field(default_factory=list)


@dataclass
class Stage:
    """Products, then loops in their order."""

    products: list[int] = field(default_factory=list)
    loops: list[tuple[Moment, Loop]] = field(default_factory=list)


@dataclass
class Schedule:
    """What one direction of a kernel does at each step."""

    stages: list[Stage]
    temporaries: dict[Node, int]  # offsets of values that outlive their loop
    temporary_width: int
    moments: dict[Node, Moment]


def direct(program: Program, index: int) -> int | None:
    """The state that a product multiplies as it is, or None if its operand is computed."""
    operand = program.products[index].operand
    node = operand[0].node
    if len(operand) == 1 and node.operation == "state" and node.width == program.state[int(node.source[0])]:
        return int(node.source[0])
    return None


def offsets(row: Row) -> list[tuple[int, Segment]]:
    result = []
    offset = 0
    for segment in row:
        result.append((offset, segment))
        offset += segment.width
    return result


class Moments:
    """When each node can be computed."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[Node, Moment] = {}

    def __call__(self, root: Node) -> Moment:
        for node in visit([root]):
            if node in self._known:
                continue
            moment: Moment = max((self._known[argument] for argument in node.arguments), default=(0, 0))
            if node.operation == "product":
                moment = (self.stage(int(node.source[0])), 0)
            elif node.operation in REDUCTIONS:
                moment = (moment[0], moment[1] + 1)
            self._known[node] = moment
        return self._known[root]

    def stage(self, product: int) -> int:
        """Products whose operand is the state as it is come first; others one stage after their operands."""
        if direct(self._program, product) is not None:
            return 0
        return 1 + max(self(segment.node)[0] for segment in self._program.products[product].operand)


def schedule(moments: Moments, products: list[int], results: list[tuple[Place, Segment]]) -> Schedule:
    """Each result in the earliest loop that can compute it."""
    loops: dict[tuple[Moment, int], Loop] = {}

    def at(moment: Moment, size: int) -> Loop:
        return loops.setdefault((moment, size), Loop(size))

    for place, segment in results:
        at(moments(segment.node), segment.width).stores.append((segment.node, place))
    reductions: set[Node] = set()
    uses: dict[Node, set[tuple[Moment, int]]] = defaultdict(set)
    for (moment, size), loop in list(loops.items()):
        for node in visit([node for node, _ in loop.stores]):
            if node.operation in REDUCTIONS:
                reductions.add(node)
            if node.heavy:
                uses[node].add((moment, size))
    for node in sorted(reductions, key=lambda node: node.number):
        (argument,) = node.arguments
        moment = moments(argument)
        at(moment, argument.width).reductions.append(node)
        for inner in visit([argument]):
            if inner.heavy:
                uses[inner].add((moment, argument.width))
    temporaries: dict[Node, int] = {}
    total = 0
    for node, places in sorted(uses.items(), key=lambda item: item[0].number):
        own = moments(node)
        elsewhere = {moment[0] for moment, _ in places} - {own[0]} if node.width == 1 else places - {(own, node.width)}
        if elsewhere:
            temporaries[node] = total
            at(own, node.width).stores.insert(0, (node, Place("temporary", "", total)))
            total += node.width
    count = 1 + max([0, *[moment[0] for moment, _ in loops], *[moments.stage(index) for index in products]])
    stages = [Stage() for _ in range(count)]
    for index in products:
        stages[moments.stage(index)].products.append(index)
    for (moment, _), loop in sorted(loops.items(), key=lambda item: item[0]):
        stages[moment[0]].loops.append((moment, loop))
    known = {
        node: moments(node) for loop in loops.values() for node in visit([n for n, _ in loop.stores] + loop.reductions)
    }
    return Schedule(stages, temporaries, total, known)
