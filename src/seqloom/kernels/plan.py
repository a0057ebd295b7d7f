"""The order of work in a fused step: what is computed in which loop, what is kept for the gradient, what is put off.

A step is a list of stages. A stage begins with the products whose operands are ready and goes on with loops over the
elements of each row; a loop begins where an earlier one had to finish because it sums over the row.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from seqloom.kernels.expression import COMPARISONS, LEAVES, REDUCTIONS, Graph, Node, Row, Segment, visit, width
from seqloom.kernels.trace import Column, Outer, Program

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
    products: list[int] = field(default_factory=list)
    loops: list[tuple[Moment, Loop]] = field(default_factory=list)


@dataclass
class Schedule:
    """What one direction of a kernel does at each step."""

    stages: list[Stage]
    temporaries: dict[Node, int]  # offsets of values that outlive their loop
    temporary_width: int
    moments: dict[Node, Moment]


class Factor(NamedTuple):
    """One side of a product that is put off: some columns of a block with one row for each row and step."""

    block: str | int
    offset: int
    size: int


class Deferred(NamedTuple):
    """One term of a matrix gradient, leftᵀ right over all rows of some steps; ``swapped`` if its transpose is computed."""

    parameter: str
    left: Factor
    right: Factor
    swapped: bool


@dataclass
class Plan:
    """A program as two schedules, and what lies between them."""

    program: Program
    forward: Schedule  # keeps nothing
    training: Schedule
    backward: Schedule
    saved_width: int
    factors: list[int]  # widths; the first one is the gradient of the projected input
    deferred: list[Deferred]
    columns: list[tuple[str, int, int]]  # vector gradients: parameter, offset, width
    column_width: int
    forward_products: list[int]
    backward_products: list[int]
    operands: dict[int, Factor]  # backward products whose operand is a factor already
    linear: str | None  # the matrix that projects the input, if the kernel does that
    input: int  # width of the input, if so
    bias: str | None  # the vector that is added to it

    @property
    def shareable(self) -> bool:
        """Whether several threads may share the elements of a row: no sum runs over all of them."""
        schedules = (self.forward, self.training, self.backward)
        return not any(loop.reductions for schedule in schedules for stage in schedule.stages for _, loop in stage.loops)

    def describe(self) -> str:
        """A text that two plans share only if they lead to the same code."""
        program = self.program
        text = [
            f"{program.projected} {program.state} {self.saved_width} {self.factors} {self.column_width}",
            f"{self.deferred} {self.operands} {self.linear} {self.input} {self.bias}",
        ]
        text += [f"{product.matrix} {product.transposed} {product.size}" for product in program.products]
        text += [f"{name}" for name in program.parameter_gradient]
        nodes: set[Node] = set()
        for schedule in (self.forward, self.training, self.backward):
            for stage in schedule.stages:
                text.append(f"stage {stage.products}")
                for moment, loop in stage.loops:
                    reductions = [node.number for node in loop.reductions]
                    stores = [(node.number, *place) for node, place in loop.stores]
                    text.append(f"{moment} {loop.width} {reductions} {stores}")
                    nodes.update(visit([node for node, _ in loop.stores] + loop.reductions))
            text.append(f"{sorted((node.number, offset) for node, offset in schedule.temporaries.items())}")
        for index, product in enumerate(program.products):
            text.append(f"{index} {[(segment.node.number, segment.width) for segment in product.operand]}")
            nodes.update(visit([segment.node for segment in product.operand]))
        for node in sorted(nodes, key=lambda node: node.number):
            arguments = [argument.number for argument in node.arguments]
            text.append(f"{node.number} {node.operation} {arguments} {node.data} {node.width}")
        return "\n".join(text)


def plan(program: Program, *, linear: str | None = None, input_size: int = 0, narrow: int = 0) -> Plan:
    """Decide what is kept and what is put off, and order both directions.

    With ``linear``, the kernel projects an input of ``input_size`` by that matrix parameter. Factors of fewer than
    ``narrow`` columns stand on the left of a product that is put off.
    """
    graph = program.graph
    forward_products = _reached(program, [segment.node for row in program.following for segment in row])
    results = [
        (Place("next", index, offset), segment)
        for index, row in enumerate(program.following)
        for offset, segment in _offsets(row)
    ]
    outputs = [(Place("following", 0, place.offset), segment) for place, segment in results if place.name == 0]
    saved = [(Place("following", place.name, place.offset), segment) for place, segment in results]
    replaced = {
        segment.node: graph.leaf("following", place.name, width=segment.width, offset=place.offset)
        for place, segment in results
        if segment.node.width == segment.width and segment.node.operation not in LEAVES
    }
    saved_width = 0
    for node in _kept(program, set(forward_products)):
        saved.append((Place("saved", "", saved_width), Segment(node, node.width)))
        replaced[node] = graph.leaf("saved", "", width=node.width, offset=saved_width)
        saved_width += node.width
    operands = _operands(program, forward_products)

    def later(row: Row) -> Row:
        return tuple(Segment(_substitute(graph, segment.node, replaced), segment.width) for segment in row)

    backward_products = [index for index in range(len(program.products)) if index not in forward_products]
    for index in backward_products:
        product = program.products[index]
        program.products[index] = product._replace(operand=later(product.operand))
    zero = graph.constant(0)
    factors = _Factors(graph, later(program.projected_gradient or (Segment(zero, program.projected),)))
    outcome: list[tuple[Place, Segment]] = []
    for index, gradient in enumerate(program.state_gradient):
        row = later(gradient or (Segment(zero, program.state[index]),))
        outcome += [(Place("state_gradient", index, offset), segment) for offset, segment in _offsets(row)]

    deferred: list[Deferred] = []
    columns: list[tuple[str, int, int]] = []
    column_width = 0
    bias: str | None = None
    for name, symbol in program.parameter_gradient.items():
        if isinstance(symbol, Outer):
            for left, right in symbol.terms:
                sides = factors.find(later(left)), factors.find(later(right))
                deferred.append(_put_off(name, *sides, narrow))
        elif isinstance(symbol, Column):
            row = later(symbol.row)
            if linear and bias is None and row == factors.rows[0]:
                bias = name
                continue
            columns.append((name, column_width, width(row)))
            outcome += [(Place("column", "", column_width + offset), segment) for offset, segment in _offsets(row)]
            column_width += width(row)
    if linear:
        size = input_size + (bias is not None)
        deferred.append(_put_off(linear, Factor(0, 0, program.projected), Factor("input", 0, size), narrow))
    known = {index: factors.held(program.products[index].operand) for index in backward_products}
    taken = {index: factor for index, factor in known.items() if factor is not None}
    computed = [index for index in backward_products if index not in taken]
    for index, row in enumerate(factors.rows):
        outcome += [(Place("factor", index, offset), segment) for offset, segment in _offsets(row)]
    if not linear:
        first = _offsets(factors.rows[0])
        outcome += [(Place("projected_gradient", "", offset), segment) for offset, segment in first]
    moments = _Moments(program)
    return Plan(
        program=program,
        forward=_schedule(moments, forward_products, operands + results + outputs),
        training=_schedule(moments, forward_products, operands + results + saved),
        backward=_schedule(moments, backward_products, _operands(program, computed) + outcome),
        saved_width=saved_width,
        factors=[width(row) for row in factors.rows],
        deferred=deferred,
        columns=columns,
        column_width=column_width,
        forward_products=forward_products,
        backward_products=backward_products,
        operands=taken,
        linear=linear,
        input=input_size,
        bias=bias,
    )


def _put_off(parameter: str, left: Factor, right: Factor, narrow: int) -> Deferred:
    if right.size < narrow and right.size < left.size:
        return Deferred(parameter, right, left, swapped=True)
    return Deferred(parameter, left, right, swapped=False)


class _Factors:
    """Rows that are written out for all steps; the first one is the gradient of the projected input."""

    def __init__(self, graph: Graph, first: Row) -> None:
        self._graph = graph
        self.rows = [first]

    def held(self, row: Row) -> Factor | None:
        """Where this row stands already."""
        size = width(row)
        for index, whole in enumerate(self.rows):
            for offset, _ in _offsets(whole):
                if offset + size <= width(whole) and self._graph.cut(whole, offset, size) == row:
                    return Factor(index, offset, size)
        return None

    def find(self, row: Row) -> Factor:
        """Where this row stands, written out anew if nowhere."""
        found = self.held(row)
        if found is None:
            self.rows.append(row)
            found = Factor(len(self.rows) - 1, 0, width(row))
        return found


def direct(program: Program, index: int) -> int | None:
    """The state that a product multiplies as it is, or None if its operand is computed."""
    operand = program.products[index].operand
    node = operand[0].node
    if len(operand) == 1 and node.operation == "state" and node.width == program.state[int(node.data[0])]:
        return int(node.data[0])
    return None


def _offsets(row: Row) -> list[tuple[int, Segment]]:
    result = []
    offset = 0
    for segment in row:
        result.append((offset, segment))
        offset += segment.width
    return result


def _operands(program: Program, products: list[int]) -> list[tuple[Place, Segment]]:
    return [
        (Place("operand", index, offset), segment)
        for index in products
        if direct(program, index) is None
        for offset, segment in _offsets(program.products[index].operand)
    ]


def _reached(program: Program, roots: list[Node]) -> list[int]:
    """Products that the roots depend on, in order of computation."""
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        for node in visit(waiting):
            if node.operation == "product":
                found.add(int(node.data[0]))
        waiting = [
            segment.node
            for index in found
            for segment in program.products[index].operand
            if any(n.operation == "product" and int(n.data[0]) not in found for n in visit([segment.node]))
        ]
    return sorted(found)


def _kept(program: Program, forward_products: set[int]) -> list[Node]:
    """Values of the forward step that its gradient needs and cannot easily compute again."""
    backward_roots: list[Node] = []
    for index, product in enumerate(program.products):
        if index not in forward_products:
            backward_roots += [segment.node for segment in product.operand]
    for row in (program.projected_gradient, *program.state_gradient):
        backward_roots += [segment.node for segment in row or ()]
    for symbol in program.parameter_gradient.values():
        if isinstance(symbol, Outer):
            backward_roots += [segment.node for term in symbol.terms for row in term for segment in row]
        elif isinstance(symbol, Column):
            backward_roots += [segment.node for segment in symbol.row]
    late: set[Node] = set()
    for node in visit(backward_roots):
        product = node.operation == "product" and int(node.data[0]) not in forward_products
        if node.operation == "cotangent" or product or any(argument in late for argument in node.arguments):
            late.add(node)
    needed = {argument for node in late for argument in node.arguments if argument not in late}
    needed |= {node for node in backward_roots if node not in late}
    free = {"constant", "parameter", "state"}
    available = {node for node in visit(needed) if node.operation in free}
    available |= {
        segment.node
        for row in program.following
        for segment in row
        if segment.node.width == segment.width and segment.node.operation not in LEAVES
    }
    kept: list[Node] = []

    def cheap(node: Node) -> bool:
        if node in available:
            return True
        if node.operation in LEAVES or node.operation in REDUCTIONS:
            return False
        if node.heavy:
            return all(argument in available for argument in node.arguments)
        return all(cheap(argument) for argument in node.arguments)

    def provide(node: Node) -> None:
        if cheap(node):
            return
        if node.operation in (*COMPARISONS, "or"):
            for argument in node.arguments:
                provide(argument)
            return
        kept.append(node)
        available.add(node)

    for node in sorted(needed, key=lambda node: node.number):
        provide(node)
    return kept


def _substitute(graph: Graph, root: Node, replaced: dict[Node, Node]) -> Node:
    for node in visit([root]):
        if node in replaced or node.operation in LEAVES:
            continue
        arguments = [replaced.get(argument, argument) for argument in node.arguments]
        if any(new is not old for new, old in zip(arguments, node.arguments, strict=True)):
            make = graph.reduce if node.operation in REDUCTIONS else graph.apply
            replaced[node] = make(node.operation, *arguments)
    return replaced.get(root, root)


class _Moments:
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
                moment = (self.stage(int(node.data[0])), 0)
            elif node.operation in REDUCTIONS:
                moment = (moment[0], moment[1] + 1)
            self._known[node] = moment
        return self._known[root]

    def stage(self, product: int) -> int:
        """Products whose operand is the state as it is come first; others one stage after their operands."""
        if direct(self._program, product) is not None:
            return 0
        return 1 + max(self(segment.node)[0] for segment in self._program.products[product].operand)


def _schedule(moments: _Moments, products: list[int], results: list[tuple[Place, Segment]]) -> Schedule:
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
    known = {node: moments(node) for loop in loops.values() for node in visit([n for n, _ in loop.stores] + loop.reductions)}
    return Schedule(stages, temporaries, total, known)
