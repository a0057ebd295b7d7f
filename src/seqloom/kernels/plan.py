"""What is done with a program: what is kept for the gradient, what is put off until some steps are known, and when."""

from dataclasses import dataclass
from typing import NamedTuple

from seqloom.kernels.expression import CONDITIONS, LEAVES, REDUCTIONS, Graph, Node, Row, Segment, visit, width
from seqloom.kernels.schedule import Moments, Place, Schedule, direct, offsets, schedule
from seqloom.kernels.symbols import Column, Outer, Program


class Factor(NamedTuple):
    """One side of a product that is put off: some columns of a block with one row for each row and step."""

    block: str | int
    offset: int
    size: int


class Deferred(NamedTuple):
    """One term of a matrix gradient: leftᵀ right over the rows of some steps, or its transpose if ``swapped``."""

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
    factors: dict[int, int]  # widths; number 0 is the gradient of the projected input
    deferred: list[Deferred]
    columns: list[tuple[str, int, int]]  # vector gradients: parameter, offset, width
    column_width: int
    forward_products: list[int]
    backward_products: list[int]
    operands: dict[int, Factor]  # backward products whose operand is a factor already
    linear: str | None  # the matrix that projects the input, if the kernel does that
    input: int  # width of the input, if so

    @property
    def shareable(self) -> bool:
        """Whether several threads may share the elements of a row: no sum runs over all of them."""
        schedules = (self.forward, self.training, self.backward)
        return not any(
            loop.reductions for schedule in schedules for stage in schedule.stages for _, loop in stage.loops
        )

    def describe(self) -> str:
        """A text that two plans share only if they lead to the same code."""
        program = self.program
        text = [
            f"{program.projected} {program.state} {self.saved_width} {self.factors} {self.column_width}",
            f"{self.deferred} {self.operands} {self.linear} {self.input}",
        ]
        text += [f"{product.matrix} {product.transposed} {product.size}" for product in program.products]
        text += [f"{name}" for name in program.parameter_gradient]
        nodes: set[Node] = set()
        for direction in (self.forward, self.training, self.backward):
            for stage in direction.stages:
                text.append(f"stage {stage.products}")
                for moment, loop in stage.loops:
                    reductions = [node.number for node in loop.reductions]
                    stores = [(node.number, *place) for node, place in loop.stores]
                    text.append(f"{moment} {loop.width} {reductions} {stores}")
                    nodes.update(visit([node for node, _ in loop.stores] + loop.reductions))
            text.append(f"{sorted((node.number, offset) for node, offset in direction.temporaries.items())}")
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
        for offset, segment in offsets(row)
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
        outcome += [(Place("state_gradient", index, offset), segment) for offset, segment in offsets(row)]

    deferred: list[Deferred] = []
    columns: list[tuple[str, int, int]] = []
    column_width = 0
    for name, symbol in program.parameter_gradient.items():
        if isinstance(symbol, Outer):
            for left, right in symbol.terms:
                sides = factors.find(later(left)), factors.find(later(right))
                deferred.append(_put_off(name, *sides, narrow))
        elif isinstance(symbol, Column):
            row = later(symbol.row)
            columns.append((name, column_width, width(row)))
            outcome += [(Place("column", "", column_width + offset), segment) for offset, segment in offsets(row)]
            column_width += width(row)
    if linear:
        sides = Factor(0, 0, program.projected), Factor("input", 0, input_size)
        deferred.append(_put_off(linear, *sides, narrow))
    known = {index: factors.held(program.products[index].operand) for index in backward_products}
    taken = {index: factor for index, factor in known.items() if factor is not None}
    computed = [index for index in backward_products if index not in taken]
    used = {factor.block for term in deferred for factor in (term.left, term.right)}
    used |= {factor.block for factor in taken.values()}
    for index, row in enumerate(factors.rows):
        if index in used:
            outcome += [(Place("factor", index, offset), segment) for offset, segment in offsets(row)]
    if not linear:
        first = offsets(factors.rows[0])
        outcome += [(Place("projected_gradient", "", offset), segment) for offset, segment in first]
    moments = Moments(program)
    return Plan(
        program=program,
        forward=schedule(moments, forward_products, operands + results + outputs),
        training=schedule(moments, forward_products, operands + results + saved),
        backward=schedule(moments, backward_products, _operands(program, computed) + outcome),
        saved_width=saved_width,
        factors={index: width(row) for index, row in enumerate(factors.rows) if index in used},
        deferred=deferred,
        columns=columns,
        column_width=column_width,
        forward_products=forward_products,
        backward_products=backward_products,
        operands=taken,
        linear=linear,
        input=input_size,
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
            for offset, _ in offsets(whole):
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


def _operands(program: Program, products: list[int]) -> list[tuple[Place, Segment]]:
    return [
        (Place("operand", index, offset), segment)
        for index in products
        if direct(program, index) is None
        for offset, segment in offsets(program.products[index].operand)
    ]


def _reached(program: Program, roots: list[Node]) -> list[int]:
    """Products that the roots depend on, in order of computation."""
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        for node in visit(waiting):
            if node.operation == "product":
                found.add(int(node.source[0]))
        waiting = [
            segment.node
            for index in found
            for segment in program.products[index].operand
            if any(n.operation == "product" and n.source[0] not in found for n in visit([segment.node]))
        ]
    return sorted(found)


def _roots(program: Program, forward_products: set[int]) -> list[Node]:
    """What the gradient consists of."""
    rows: list[Row | None] = [program.projected_gradient, *program.state_gradient]
    rows += [product.operand for index, product in enumerate(program.products) if index not in forward_products]
    for symbol in program.parameter_gradient.values():
        if isinstance(symbol, Outer):
            rows += [row for term in symbol.terms for row in term]
        elif isinstance(symbol, Column):
            rows.append(symbol.row)
    return [segment.node for row in rows for segment in row or ()]


def _needed(program: Program, forward_products: set[int]) -> set[Node]:
    """Values of the forward step that its gradient refers to."""
    roots = _roots(program, forward_products)
    late: set[Node] = set()
    for node in visit(roots):
        after = node.operation == "product" and node.source[0] not in forward_products
        if node.operation == "cotangent" or after or any(argument in late for argument in node.arguments):
            late.add(node)
    needed = {argument for node in late for argument in node.arguments if argument not in late}
    return needed | {node for node in roots if node not in late}


def _kept(program: Program, forward_products: set[int]) -> list[Node]:
    """Those that cannot easily be computed again."""
    needed = _needed(program, forward_products)
    available = {node for node in visit(needed) if node.operation in ("constant", "parameter", "state")}
    for row in program.following:
        available |= {node for node, size in row if node.width == size and node.operation not in LEAVES}
    kept: list[Node] = []

    def cheap(node: Node) -> bool:
        if node in available:
            return True
        if node.operation in LEAVES or node.operation in REDUCTIONS:
            return False
        return all(cheap(argument) for argument in node.arguments)

    def provide(node: Node) -> None:
        if cheap(node):
            return
        if node.operation in CONDITIONS:
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
