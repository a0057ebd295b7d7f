"""A traced step (``kernels/fuse``) as ONNX operators, for cells that ONNX has no operator for."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.fuse.expression import ExpressionNode, Row
from seqloom.kernels.fuse.symbols import Contraction, TracedStep
from seqloom.onnx.graph import BOOLEAN, FLOAT, Graph, Value

SAME_NAME = (
    "add",
    "sub",
    "mul",
    "div",
    "max",
    "min",
    "abs",
    "exp",
    "log",
    "sqrt",
    "sin",
    "cos",
    "erf",
    "tanh",
    "sigmoid",
)
OPERATORS = {name: name.capitalize() for name in SAME_NAME}
COMPARISONS = {"less": "Less", "equal": "Equal"}
LOGIC = {"and": "And", "or": "Or", "not": "Not"}


class TracedOperators:
    """Writes the rows of a traced step; leaves are (..., width), each with the same leading axes."""

    def __init__(
        self,
        graph: Graph,
        traced: TracedStep,
        parameters: Mapping[str, NDArray[Any]],
        *,
        projected: Value,  # (..., P)
        passed: Value | None = None,  # (..., D): the input, if the step reads it as well
        states: tuple[Value, ...] = (),  # (..., n) each
    ) -> None:
        self._graph, self._traced, self._parameters = graph, traced, parameters
        self._leaves = {"projected": {"": projected}, "input": {"": passed}, "state": dict(enumerate(states))}
        self._leading = graph.call("Shape", projected, dtype=np.dtype(np.int64), end=-1)
        self._values: dict[int, Value] = {}
        self._products: dict[int, Value] = {}

    def row(self, row: Row) -> Value:
        """A row of the step, (..., width)."""
        parts = []
        for node, width in row:
            value = self._emit(node)
            if node.width != width or not _depends_on_rows(node):
                sizes = self._graph.call("Concat", self._leading, np.array([width]), axis=0)
                value = self._graph.call("Expand", value, sizes)
            parts.append(value)
        return self._graph.concatenate(parts)

    def _emit(self, node: ExpressionNode) -> Value:
        if node.number not in self._values:
            self._values[node.number] = self._compute(node)
        return self._values[node.number]

    def _compute(self, node: ExpressionNode) -> Value:
        graph, operation = self._graph, node.operation
        match operation:
            case "constant":
                return graph.constant([node.constant], FLOAT)
            case "position":
                start = node.source[1]
                return graph.constant(np.arange(start, start + node.width), FLOAT)
            case "parameter":
                name, offset = node.source
                return graph.constant(self._parameters[str(name)].reshape(-1)[offset : offset + node.width])
            case "projected" | "input" | "state":
                name, offset = node.source
                return self._columns(self._leaves[operation][name], offset, node.width)  # type: ignore[index]
            case "product":
                name, offset = node.source
                return self._columns(self._product(int(name)), offset, node.width)
        arguments = [self._emit(argument) for argument in node.arguments]
        if operation in LOGIC:
            return graph.call(LOGIC[operation], *arguments, dtype=BOOLEAN)
        if operation == "select":
            return graph.where(arguments[0], arguments[1].cast(FLOAT), arguments[2].cast(FLOAT))
        numbers = [argument.cast(FLOAT) for argument in arguments]
        if operation in COMPARISONS:
            return graph.call(COMPARISONS[operation], *numbers, dtype=BOOLEAN)
        match operation:
            case "sum":
                return numbers[0].sum(-1, keep=True)
            case "amax":
                return numbers[0].max(-1, keep=True)
            case "expm1":
                return numbers[0].apply("Exp") - 1.0
        return graph.call(OPERATORS[operation], *numbers)

    def _columns(self, value: Value, offset: int, width: int) -> Value:
        return value.part(-1, offset, offset + width)

    def _product(self, index: int) -> Value:
        if index not in self._products:
            product = self._traced.products[index]
            operand = self.row(product.operand)
            if isinstance(product, Contraction):
                self._products[index] = _contract(product, operand)
            else:
                matrix = self._parameters[product.matrix]
                self._products[index] = operand @ (matrix.T if product.transposed else matrix)
        return self._products[index]


def _contract(contraction: Contraction, operand: Value) -> Value:
    """Σ left · right for each row, both taken from the operand by their strides."""
    sizes, summed = contraction.sizes, contraction.summed
    grid = np.indices(sizes).reshape(len(sizes), -1)  # (axes, elements)
    shape = contraction.size, int(np.prod(sizes[len(sizes) - summed :], dtype=np.int64))

    def indices(strides: tuple[int, ...], start: int) -> NDArray[np.int64]:
        return (start + np.array(strides, dtype=np.int64) @ grid).reshape(shape)

    terms = operand.take(indices(contraction.left, 0), axis=-1)
    if contraction.right is not None:
        terms = terms * operand.take(indices(contraction.right, contraction.right_start), axis=-1)
    return terms.sum(-1)


def _depends_on_rows(node: ExpressionNode) -> bool:
    """Whether a node has a value for each row, instead of one for all."""
    if node.arguments:
        return any(map(_depends_on_rows, node.arguments))
    return node.operation in ("projected", "input", "state", "product")
