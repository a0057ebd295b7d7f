"""The plan of a kernel: what is saved for the gradient, which products are deferred, and the order of computation."""

from dataclasses import dataclass
from typing import NamedTuple

from seqloom.kernels.fuse.expression import (
    CONDITIONS,
    LEAVES,
    REDUCTIONS,
    ExpressionNode,
    Graph,
    Row,
    Segment,
    row_width,
    topological_order,
)
from seqloom.kernels.fuse.schedule import MemoryLocation, ReadyTimes, Schedule, schedule, unchanged_state, with_offsets
from seqloom.kernels.fuse.symbols import BatchSum, Contraction, OuterProductSum, TracedStep


class Factor(NamedTuple):
    """One side of a deferred product: columns of a block that has one row for each row and step."""

    block: str | int
    offset: int
    size: int


class DeferredProduct(NamedTuple):
    """A term of a matrix gradient, computed for many steps at once: leftᵀ right, or its transpose if ``swapped``."""

    parameter: str
    left: Factor
    right: Factor
    swapped: bool


@dataclass
class Plan:
    """The schedules of a traced step, and the memory between them."""

    traced: TracedStep
    forward: Schedule  # for inference: saves nothing
    training: Schedule
    backward: Schedule
    saved_width: int
    factors: dict[int, int]  # width of each factor; factor 0 is the gradient of the projected input
    deferred: list[DeferredProduct]
    vector_gradients: list[tuple[str, int, int]]  # parameter, offset, width
    vector_gradient_width: int
    forward_products: list[int]
    backward_products: list[int]
    operands: dict[int, Factor]  # backward products whose operand is a factor anyway
    linear: str | None  # the matrix parameter with which the kernel projects its input, if it does
    input_size: int  # width of the input, if the kernel projects it

    @property
    def shareable(self) -> bool:
        """Whether a team of threads may split the elements of a row: there is no reduction over a row."""
        if any(isinstance(product, Contraction) for product in self.traced.products):
            return False
        schedules = (self.forward, self.training, self.backward)
        return not any(
            loop.reductions for schedule in schedules for stage in schedule.stages for _, loop in stage.loops
        )

    def describe(self) -> str:
        """A text that is equal for two plans only if they lead to the same code; the cache key."""
        traced = self.traced
        text = [
            f"{traced.projected_width} {traced.passed_width} {traced.state_widths} {self.saved_width}",
            f"{self.factors} {self.vector_gradient_width}",
            f"{self.deferred} {self.operands} {self.linear} {self.input_size}",
        ]
        text += [product.describe() for product in traced.products]
        text += [f"{name}" for name in traced.parameter_gradient]
        nodes: set[ExpressionNode] = set()
        for direction in (self.forward, self.training, self.backward):
            for stage in direction.stages:
                text.append(f"stage {stage.products}")
                for ready, loop in stage.loops:
                    reductions = [node.number for node in loop.reductions]
                    stores = [(node.number, *location) for node, location in loop.stores]
                    text.append(f"{ready} {loop.width} {reductions} {stores}")
                    nodes.update(topological_order([node for node, _ in loop.stores] + loop.reductions))
            text.append(f"{sorted((node.number, offset) for node, offset in direction.temporaries.items())}")
        for index, product in enumerate(traced.products):
            text.append(f"{index} {[(segment.node.number, segment.width) for segment in product.operand]}")
            nodes.update(topological_order([segment.node for segment in product.operand]))
        for node in sorted(nodes, key=lambda node: node.number):
            arguments = [argument.number for argument in node.arguments]
            text.append(f"{node.number} {node.operation} {arguments} {node.data} {node.width}")
        return "\n".join(text)


def plan(traced: TracedStep, *, linear: str | None = None, input_size: int = 0, narrow: int = 0) -> Plan:
    """Decide what is saved and what is deferred, and schedule both directions.

    With ``linear``, the kernel projects an input of ``input_size`` by that matrix parameter. Factors of fewer than
    ``narrow`` columns are the left side of a deferred product.
    """
    graph = traced.graph
    forward_products = _products_below(traced, [segment.node for row in traced.next_state for segment in row])
    results = [
        (MemoryLocation("next", index, offset), segment)
        for index, row in enumerate(traced.next_state)
        for offset, segment in with_offsets(row)
    ]
    outputs = [
        (MemoryLocation("sequence", 0, location.offset), segment) for location, segment in results if location.name == 0
    ]
    saved = [(MemoryLocation("sequence", location.name, location.offset), segment) for location, segment in results]
    replaced = {
        segment.node: graph.leaf("sequence", location.name, width=segment.width, offset=location.offset)
        for location, segment in results
        if segment.node.width == segment.width and segment.node.operation not in LEAVES
    }
    saved_width = 0
    for node in _saved_nodes(traced, set(forward_products)):
        saved.append((MemoryLocation("saved", "", saved_width), Segment(node, node.width)))
        replaced[node] = graph.leaf("saved", "", width=node.width, offset=saved_width)
        saved_width += node.width
    operands = _operands(traced, forward_products)

    def substituted(row: Row) -> Row:
        return tuple(Segment(_substitute(graph, segment.node, replaced), segment.width) for segment in row)

    backward_products = [index for index in range(len(traced.products)) if index not in forward_products]
    for index in backward_products:
        product = traced.products[index]
        traced.products[index] = product._replace(operand=substituted(product.operand))
    zero = graph.constant(0)
    width, passed = traced.projected_width, traced.passed_width
    input_gradient = substituted(traced.projected_gradient or (Segment(zero, width + passed),))
    factors = _Factors(graph, graph.slice_row(input_gradient, 0, width))
    gradients: list[tuple[MemoryLocation, Segment]] = [
        (MemoryLocation("passed_gradient", "", offset), segment)
        for offset, segment in with_offsets(graph.slice_row(input_gradient, width, passed))
    ]
    for index, gradient in enumerate(traced.state_gradient):
        row = substituted(gradient or (Segment(zero, traced.state_widths[index]),))
        gradients += [
            (MemoryLocation("state_gradient", index, offset), segment) for offset, segment in with_offsets(row)
        ]

    deferred: list[DeferredProduct] = []
    vector_gradients: list[tuple[str, int, int]] = []
    vector_gradient_width = 0
    for name, symbol in traced.parameter_gradient.items():
        if isinstance(symbol, OuterProductSum):
            for left, right in symbol.terms:
                sides = factors.find_or_add(substituted(left)), factors.find_or_add(substituted(right))
                deferred.append(_defer(name, *sides, narrow))
        elif isinstance(symbol, BatchSum):
            row = substituted(symbol.row)
            vector_gradients.append((name, vector_gradient_width, row_width(row)))
            gradients += [
                (MemoryLocation("column", "", vector_gradient_width + offset), segment)
                for offset, segment in with_offsets(row)
            ]
            vector_gradient_width += row_width(row)
    if linear:
        sides = Factor(0, 0, traced.projected_width), Factor("input", 0, input_size)
        deferred.append(_defer(linear, *sides, narrow))
    known = {index: factors.find(traced.products[index].operand) for index in backward_products}
    stored = {index: factor for index, factor in known.items() if factor is not None}
    computed = [index for index in backward_products if index not in stored]
    used = {factor.block for term in deferred for factor in (term.left, term.right)}
    used |= {factor.block for factor in stored.values()}
    for index, row in enumerate(factors.rows):
        if index in used:
            gradients += [(MemoryLocation("factor", index, offset), segment) for offset, segment in with_offsets(row)]
    if not linear:
        first = with_offsets(factors.rows[0])
        gradients += [(MemoryLocation("projected_gradient", "", offset), segment) for offset, segment in first]
    ready_times = ReadyTimes(traced)
    return Plan(
        traced=traced,
        forward=schedule(ready_times, forward_products, operands + results + outputs),
        training=schedule(ready_times, forward_products, operands + results + saved),
        backward=schedule(ready_times, backward_products, _operands(traced, computed) + gradients),
        saved_width=saved_width,
        factors={index: row_width(row) for index, row in enumerate(factors.rows) if index in used},
        deferred=deferred,
        vector_gradients=vector_gradients,
        vector_gradient_width=vector_gradient_width,
        forward_products=forward_products,
        backward_products=backward_products,
        operands=stored,
        linear=linear,
        input_size=input_size,
    )


def _defer(parameter: str, left: Factor, right: Factor, narrow: int) -> DeferredProduct:
    if right.size < narrow and right.size < left.size:
        return DeferredProduct(parameter, right, left, swapped=True)
    return DeferredProduct(parameter, left, right, swapped=False)


class _Factors:
    """Rows that are stored for all steps of a chunk; the first is the gradient of the projected input."""

    def __init__(self, graph: Graph, first: Row) -> None:
        self._graph = graph
        self.rows = [first]

    def find(self, row: Row) -> Factor | None:
        """Where this row is stored already, if it is."""
        size = row_width(row)
        for index, whole in enumerate(self.rows):
            for offset, _ in with_offsets(whole):
                if offset + size <= row_width(whole) and self._graph.slice_row(whole, offset, size) == row:
                    return Factor(index, offset, size)
        return None

    def find_or_add(self, row: Row) -> Factor:
        """Where this row is stored; it is added if necessary."""
        factor = self.find(row)
        if factor is None:
            self.rows.append(row)
            factor = Factor(len(self.rows) - 1, 0, row_width(row))
        return factor


def _operands(traced: TracedStep, products: list[int]) -> list[tuple[MemoryLocation, Segment]]:
    return [
        (MemoryLocation("operand", index, offset), segment)
        for index in products
        if unchanged_state(traced, index) is None
        for offset, segment in with_offsets(traced.products[index].operand)
    ]


def _products_below(traced: TracedStep, roots: list[ExpressionNode]) -> list[int]:
    """The products that the roots depend on, in order of computation."""
    products: set[int] = set()
    waiting = list(roots)
    while waiting:
        for node in topological_order(waiting):
            if node.operation == "product":
                products.add(int(node.source[0]))
        waiting = [
            segment.node
            for index in products
            for segment in traced.products[index].operand
            if any(n.operation == "product" and n.source[0] not in products for n in topological_order([segment.node]))
        ]
    return sorted(products)


def _gradient_roots(traced: TracedStep, forward_products: set[int]) -> list[ExpressionNode]:
    """The nodes that the gradient consists of."""
    rows: list[Row | None] = [traced.projected_gradient, *traced.state_gradient]
    rows += [product.operand for index, product in enumerate(traced.products) if index not in forward_products]
    for symbol in traced.parameter_gradient.values():
        if isinstance(symbol, OuterProductSum):
            rows += [row for term in symbol.terms for row in term]
        elif isinstance(symbol, BatchSum):
            rows.append(symbol.row)
    return [segment.node for row in rows for segment in row or ()]


def _values_read(traced: TracedStep, forward_products: set[int]) -> set[ExpressionNode]:
    """Values of the forward step that the gradient reads."""
    roots = _gradient_roots(traced, forward_products)
    late: set[ExpressionNode] = set()
    for node in topological_order(roots):
        after = node.operation == "product" and node.source[0] not in forward_products
        if node.operation == "cotangent" or after or any(argument in late for argument in node.arguments):
            late.add(node)
    needed = {argument for node in late for argument in node.arguments if argument not in late}
    return needed | {node for node in roots if node not in late}


def _saved_nodes(traced: TracedStep, forward_products: set[int]) -> list[ExpressionNode]:
    """The values that are saved, so that the gradient can be computed from them and from what is available anyway.

    These are the values that it reads, or the results of exponential functions below them if those take less memory.
    """
    needed = _values_read(traced, forward_products)
    given = ("constant", "position", "parameter", "input", "state")
    below = topological_order(needed)
    available = {node for node in below if node.operation in given}
    for row in traced.next_state:
        available |= {node for node, size in row if node.width == size and node.operation not in LEAVES}
    read = sorted(needed, key=lambda node: node.number)
    activations = [node for node in below if node.operation in ("exp", "sigmoid", "tanh")]
    choices = _provide(read, available), _provide([*activations, *read], available)
    return min(choices, key=lambda nodes: sum(node.width for node in nodes))


def _provide(needed: list[ExpressionNode], given: set[ExpressionNode]) -> list[ExpressionNode]:
    """The nodes among those needed to save, in this order, if others are recomputed from them and from those given."""
    kept: list[ExpressionNode] = []
    available = set(given)

    def cheap(node: ExpressionNode) -> bool:
        if node in available:
            return True
        if node.operation in LEAVES or node.operation in REDUCTIONS:
            return False
        return all(cheap(argument) for argument in node.arguments)

    def provide(node: ExpressionNode) -> None:
        if cheap(node):
            return
        if node.operation in CONDITIONS:
            for argument in node.arguments:
                provide(argument)
            return
        kept.append(node)
        available.add(node)

    for node in needed:
        provide(node)
    return kept


def _substitute(graph: Graph, root: ExpressionNode, replaced: dict[ExpressionNode, ExpressionNode]) -> ExpressionNode:
    for node in topological_order([root]):
        if node in replaced or node.operation in LEAVES:
            continue
        arguments = [replaced.get(argument, argument) for argument in node.arguments]
        if any(new is not old for new, old in zip(arguments, node.arguments, strict=True)):
            make = graph.reduce if node.operation in REDUCTIONS else graph.apply
            replaced[node] = make(node.operation, *arguments)
    return replaced.get(root, root)
