"""Symbolic rules of ATen operators: products, views and reductions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from seqloom.kernels.fuse import contraction_rules as contractions
from seqloom.kernels.fuse.expression import CONDITIONS, Graph, Row, Segment, row_width
from seqloom.kernels.fuse.symbols import (
    BatchRows,
    BatchSum,
    MatrixParameter,
    OuterProductSum,
    Product,
    StridedRows,
    Symbol,
    TracedStep,
    TransposedRows,
    Unfusable,
)

RULES: dict[str, Callable[..., Any]] = {}

ROWS = 3  # batch size of the traced call


class OperatorCall:
    """One call of an operator: its name, its result, for shapes, and the symbols of its arguments."""

    def __init__(
        self, traced: TracedStep, find: Callable[[Tensor], Symbol], name: str, result: Any, *, batch: int
    ) -> None:
        self.traced = traced
        self.graph: Graph = traced.graph
        self.name = name
        self.result = result
        self.batch = batch
        self._find = find

    def symbol(self, value: Any) -> Symbol:
        if isinstance(value, int | float):
            return BatchRows(self.number(value), uniform=True)
        return self._find(value)

    def row_symbol(self, value: Any) -> Symbol:
        """The symbol of a tensor that is used element by element: a matrix of one row is a vector."""
        symbol = value if isinstance(value, Symbol) else self.symbol(value)
        if isinstance(symbol, MatrixParameter) and symbol.shape[0] == 1 and not symbol.transposed:
            size = symbol.shape[1]
            return BatchRows((Segment(self.graph.leaf("parameter", symbol.name, width=size), size),), uniform=True)
        return contractions.materialize(self.traced, symbol) if isinstance(symbol, StridedRows) else symbol

    def view(self, x: Tensor) -> StridedRows:
        """A tensor as a strided view of rows."""
        symbol = self.symbol(x)
        symbol = symbol if isinstance(symbol, StridedRows) else self.rows(x)
        return contractions.view(symbol, x.shape, self.batch)

    def expanded(self, value: Any) -> Any:
        """A tensor broadcast to the shape of the result, if that has more than two dimensions."""
        if not contractions.is_broadcast(value, self.result) or isinstance(self.symbol(value), BatchSum):
            return value
        strided = self.view(value)
        if row_width(strided.rows.row) == 1:
            return strided.rows
        return contractions.materialize(self.traced, contractions.expand(strided, self.result.shape, self.batch))

    def number(self, value: float) -> Row:
        return (Segment(self.graph.constant(value), 1),)

    def positions(self, size: int) -> BatchRows:
        """The numbers 0, 1, … of the elements of a row."""
        node = self.graph.leaf("position", "", width=size) if size > 1 else self.graph.constant(0)
        return BatchRows((Segment(node, size),), uniform=True)

    def apply(self, operation: str, *values: Any) -> Symbol:
        """An elementwise operation; on sums over the batch, a linear operation is applied to the summands."""
        symbols = [self.row_symbol(self.expanded(value)) for value in values]
        if operation not in CONDITIONS:
            first = int(operation == "select")  # the first argument is a condition
            symbols[first:] = [self._conditions_to_numbers(symbol) for symbol in symbols[first:]]
        if any(isinstance(symbol, BatchSum) for symbol in symbols):
            return self._linear(operation, symbols)
        if operation == "add" and all(isinstance(symbol, OuterProductSum) for symbol in symbols):
            return OuterProductSum(
                tuple(term for symbol in symbols if isinstance(symbol, OuterProductSum) for term in symbol.terms)
            )
        rows = [symbol for symbol in symbols if isinstance(symbol, BatchRows)]
        if len(rows) != len(symbols):
            raise Unfusable("arithmetic with a whole matrix; a step may only multiply a parameter matrix by a state")
        uniform = all(symbol.uniform for symbol in rows)
        widths = {row_width(symbol.row) for symbol in rows} - {1}
        if len(widths) > 1:
            raise Unfusable(f"rows of different widths: {', '.join(map(str, sorted(widths)))}")
        return BatchRows(self.graph.elementwise(operation, *[symbol.row for symbol in rows]), uniform=uniform)

    def _conditions_to_numbers(self, symbol: Symbol) -> Symbol:
        """Conditions as ones and zeros, to be used as numbers."""
        if not isinstance(symbol, BatchRows) or not any(node.operation in CONDITIONS for node, _ in symbol.row):
            return symbol
        one, zero = self.graph.constant(1), self.graph.constant(0)
        row = []
        for node, size in symbol.row:
            condition = node.operation in CONDITIONS
            row.append(Segment(self.graph.apply("select", node, one, zero) if condition else node, size))
        return BatchRows(tuple(row), symbol.uniform)

    def _linear(self, operation: str, symbols: Sequence[Symbol]) -> Symbol:
        """An operation on sums over the batch, which must be linear in them."""
        sums = [isinstance(symbol, BatchSum) for symbol in symbols]
        linear = (
            (operation in ("add", "sub") and all(sums))
            or (operation == "mul" and sum(sums) == 1)
            or (operation == "div" and sums == [True, False])
        )
        rows = []
        for symbol in symbols:
            if not isinstance(symbol, BatchSum) and not (isinstance(symbol, BatchRows) and symbol.uniform):
                linear = False
            elif isinstance(symbol, BatchSum | BatchRows):
                rows.append(symbol.row)
        if not linear:
            raise Unfusable("a computation with a sum over the batch")
        return BatchSum(self.graph.elementwise(operation, *rows))

    def rows(self, value: Any) -> BatchRows:
        symbol = self.row_symbol(value)
        if not isinstance(symbol, BatchRows):
            raise Unfusable("a computation that mixes the rows of a batch")
        return symbol

    def reduce(self, value: Any, operation: str = "sum") -> BatchRows:
        """Reduce each row to one number ("sum" or "amax")."""
        symbol = self.rows(self._conditions_to_numbers(self.rows(value)))
        parts = []
        for node, size in symbol.row:
            whole = node if node.width == size else self.graph.apply("mul", node, self.graph.constant(size))
            single = size == 1 or (node.width == 1 and operation == "amax")
            parts.append(node if single else whole if node.width == 1 else self.graph.reduce(operation, node))
        total = parts[0]
        for part in parts[1:]:
            total = self.graph.apply("add" if operation == "sum" else "max", total, part)
        return BatchRows((Segment(total, 1),), uniform=symbol.uniform)

    def broadcast(self, value: Any, size: int) -> Row:
        row = self.rows(value).row
        return (Segment(row[0].node, size),) if row_width(row) == 1 else row


def register(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            RULES[name] = function
        return function

    return add


@register("_to_copy")
def _to(call: OperatorCall, x: Tensor, **_: Any) -> Symbol:
    if not call.result.is_floating_point():
        raise Unfusable(f"a conversion to {call.result.dtype}")
    return call.apply("add", x, 0.0)


@register("detach", "alias", "clone", "contiguous", "lift_fresh")
def _identity(call: OperatorCall, x: Tensor, **_: Any) -> Symbol:
    return call.symbol(x)


@register("t", "transpose", "permute")
def _transpose(call: OperatorCall, x: Tensor, *dimensions: Any) -> Symbol:
    symbol = call.symbol(x)
    if call.result.shape == x.shape and call.result.stride() == x.stride():
        return symbol
    if isinstance(symbol, MatrixParameter):
        return replace(symbol, transposed=not symbol.transposed)
    if isinstance(symbol, TransposedRows):
        return symbol.rows
    if isinstance(symbol, OuterProductSum):
        return OuterProductSum(tuple((right, left) for left, right in symbol.terms))
    if isinstance(symbol, BatchRows) and not symbol.uniform and x.dim() == 2 and len(x) == call.batch:
        return TransposedRows(symbol)
    if isinstance(symbol, BatchRows | StridedRows) and x.dim() > 2:
        order = contractions.permutation(x, call.name, dimensions)
        strided = contractions.permute(call.view(x), order)
        in_order = strided.strides == contractions.contiguous(strided.sizes)
        return strided.rows if in_order and row_width(strided.rows.row) > 1 else strided
    raise Unfusable(f"a transposed tensor of shape {describe_shape(x)}")


@register("mm")
def _mm(call: OperatorCall, left: Tensor, right: Tensor) -> Symbol:
    first, second = call.symbol(left), call.symbol(right)
    own_rows = isinstance(first, BatchRows) and not first.uniform and len(left) == call.batch
    if own_rows and isinstance(first, BatchRows) and isinstance(second, MatrixParameter):
        size = right.shape[1]
        products = call.traced.products
        product = Product(first.row, second.name, second.transposed, size)
        if product not in products:
            products.append(product)
        return BatchRows((Segment(call.graph.leaf("product", products.index(product), width=size), size),))
    if isinstance(first, TransposedRows) and isinstance(second, BatchRows) and not second.uniform:
        return OuterProductSum(((first.rows.row, second.row),))
    raise Unfusable("a product of two computed matrices; a step may multiply a state by a parameter matrix")


@register("bmm")
def _bmm(call: OperatorCall, left: Tensor, right: Tensor) -> Symbol:
    return contractions.multiply_matrices(call.traced, call.view(left), call.view(right))


@register("addmm")
def _addmm(call: OperatorCall, bias: Any, left: Tensor, right: Tensor) -> Symbol:
    return call.apply("add", bias, _mm(call, left, right))


@register("split", "split_with_sizes")
def _split(call: OperatorCall, x: Tensor, _size: Any, dimension: int = 0) -> list[Symbol]:
    require_last_dimension(call, x, dimension)
    symbol = call.rows(x)
    parts: list[Symbol] = []
    offset = 0
    for piece in call.result:
        size = piece.shape[-1]
        parts.append(
            BatchRows(call.graph.slice_row(call.broadcast(symbol, x.shape[-1]), offset, size), uniform=symbol.uniform)
        )
        offset += size
    return parts


def require_last_dimension(call: OperatorCall, x: Tensor, dimension: int) -> None:
    """Only the last dimension may be split or reduced, in a tensor that has one row for each row of the batch."""
    is_matrix = x.dim() == 1 or (x.dim() == 2 and len(x) in (1, call.batch))
    if not is_matrix or dimension % x.dim() != x.dim() - 1:
        raise Unfusable(f"an operation along dimension {dimension} of a tensor of shape {describe_shape(x)}")


def describe_shape(x: Tensor) -> str:
    """A shape in which B stands for the size of the batch."""
    sizes = ["B" if not index and size == ROWS else str(size) for index, size in enumerate(x.shape)]
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"


@register("slice")
def _slice(
    call: OperatorCall, x: Tensor, dimension: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Symbol:
    if call.result.shape == x.shape:
        return call.symbol(x)
    require_last_dimension(call, x, dimension)
    if step != 1:
        raise Unfusable(f"a slice with step {step}")
    symbol = call.rows(x)
    low = slice(start, end).indices(x.shape[-1])[0]
    return BatchRows(
        call.graph.slice_row(call.broadcast(symbol, x.shape[-1]), low, call.result.shape[-1]), uniform=symbol.uniform
    )


@register("slice_backward")
def _slice_backward(
    call: OperatorCall, gradient: Tensor, sizes: Sequence[int], dimension: int, start: int, _end: int, step: int
) -> Symbol:
    require_last_dimension(call, call.result, dimension)
    if step != 1:
        raise Unfusable(f"a slice with step {step}")
    return _embed(call, gradient, slice(start, None).indices(sizes[-1])[0], gradient.shape[-1])


def _embed(call: OperatorCall, gradient: Tensor, start: int, size: int) -> Symbol:
    """A row that is zero but for ``size`` columns from ``start`` on."""
    zero = call.graph.constant(0)
    inner = call.symbol(gradient)
    if not isinstance(inner, BatchRows | BatchSum):
        raise Unfusable("a slice of a matrix")
    parts = (Segment(zero, start), *inner.row, Segment(zero, call.result.shape[-1] - start - size))
    row = tuple(segment for segment in parts if segment.width > 0)
    return BatchSum(row) if isinstance(inner, BatchSum) else BatchRows(row, uniform=inner.uniform)


@register("select")
def _select(call: OperatorCall, x: Tensor, dimension: int, index: int) -> Symbol:
    symbol = call.rows(x)
    if symbol.uniform and x.dim() == 2 and dimension % 2 == 0:
        return symbol
    require_last_dimension(call, x, dimension)
    row = call.graph.slice_row(call.broadcast(symbol, x.shape[-1]), index % x.shape[-1], 1)
    return BatchRows(row, uniform=symbol.uniform)


@register("select_backward")
def _select_backward(call: OperatorCall, gradient: Tensor, sizes: Sequence[int], dimension: int, index: int) -> Symbol:
    if len(sizes) == 2 and sizes[0] == 1 and dimension % 2 == 0:
        return call.symbol(gradient)
    require_last_dimension(call, call.result, dimension)
    return _embed(call, gradient, index % sizes[-1], 1)


@register("cat")
def _cat(call: OperatorCall, tensors: Sequence[Tensor], dimension: int = 0) -> Symbol:
    require_last_dimension(call, tensors[0], dimension)
    parts = [segment for tensor in tensors for segment in call.broadcast(tensor, tensor.shape[-1])]
    uniform = all(call.rows(tensor).uniform for tensor in tensors)
    return BatchRows(call.graph.concatenate(parts), uniform=uniform)


@register("unsqueeze", "squeeze", "view", "_unsafe_view", "reshape")
def _view(call: OperatorCall, x: Tensor, *_: Any) -> Symbol:
    symbol = call.symbol(x)
    symbol = call.rows(symbol) if isinstance(symbol, StridedRows) else symbol
    is_row_major = bool(call.result.dim()) and not call.result.shape[0] % call.batch
    keeps_batch_rows = isinstance(symbol, BatchRows) and not symbol.uniform and is_row_major
    sizes, viewed = ([size for size in shape if size > 1] for shape in (x.shape, call.result.shape))
    if not keeps_batch_rows and sizes != viewed:
        raise Unfusable(f"a tensor of shape {describe_shape(x)} viewed as {describe_shape(call.result)}")
    return symbol


@register("expand")
def _expand(call: OperatorCall, x: Tensor, *_: Any, **__: Any) -> Symbol:
    if call.result.dim() > 2:
        strided = call.view(x)
        if row_width(strided.rows.row) == 1:
            return strided.rows
        return contractions.expand(strided, call.result.shape, call.batch)
    symbol = call.rows(x)
    require_last_dimension(call, call.result, -1)
    return BatchRows(call.broadcast(symbol, call.result.shape[-1]), uniform=symbol.uniform)


def reduce_dimensions(
    call: OperatorCall,
    symbol: Symbol,
    like: Tensor,  # its shape is that of the symbol
    dimensions: Any,
    *,
    operation: str = "sum",
) -> Symbol:
    """Reduce a symbol over dimensions of its tensor, all if None."""
    if not like.dim():
        return symbol
    reduced_dimensions = (
        range(like.dim()) if dimensions is None else [dimensions] if isinstance(dimensions, int) else dimensions
    )
    axes = {dimension % like.dim() for dimension in reduced_dimensions}
    if like.dim() > 2:
        return _reduce_many(call, symbol, like, axes, operation)
    if isinstance(symbol, BatchRows) and not symbol.uniform and len(like) != call.batch:
        raise Unfusable(f"a reduction of a tensor of shape {describe_shape(like)}")
    last = like.dim() - 1 in axes
    if isinstance(symbol, BatchSum):
        return BatchSum(call.reduce(BatchRows(symbol.row), operation).row) if operation == "sum" and last else symbol
    if not isinstance(symbol, BatchRows):
        raise Unfusable("a sum over a matrix")
    over_batch = 0 in axes and (like.dim() == 2 or not symbol.uniform) and like.shape[0] > 1
    if over_batch and (symbol.uniform or operation != "sum"):
        raise Unfusable("a reduction over the batch")
    columns = last and (like.dim() == 2 or symbol.uniform)
    expanded = BatchRows(
        call.broadcast(symbol, like.shape[-1]) if like.dim() == 2 or symbol.uniform else symbol.row, symbol.uniform
    )
    reduced = call.reduce(expanded, operation) if columns else expanded
    return BatchSum(reduced.row) if over_batch else reduced


def _reduce_many(call: OperatorCall, symbol: Symbol, like: Tensor, axes: set[int], operation: str) -> Symbol:
    """A sum over some of more than two dimensions."""
    if operation != "sum" or not isinstance(symbol, BatchRows) or symbol.uniform:
        raise Unfusable(f"a reduction of a tensor of shape {describe_shape(like)}")
    strided = contractions.view(symbol, like.shape, call.batch)
    if 0 in axes and len(like) != call.batch:
        raise Unfusable(f"a reduction of a tensor of shape {describe_shape(like)}")
    within = axes - {0}
    reduced = contractions.add_up(call.traced, strided, within) if within else symbol
    return BatchSum(reduced.row) if 0 in axes else reduced


def _reduce(call: OperatorCall, x: Tensor, dimensions: Any, *, operation: str = "sum") -> Symbol:
    return reduce_dimensions(call, call.row_symbol(x), x, dimensions, operation=operation)


@register("sum")
def _sum_rule(call: OperatorCall, x: Tensor, dimensions: Any = None, keepdim: bool = False, **_: Any) -> Symbol:
    return _reduce(call, x, dimensions)


@register("amax")
def _amax(call: OperatorCall, x: Tensor, dimensions: Any = (), keepdim: bool = False) -> Symbol:
    return _reduce(call, x, dimensions or None, operation="amax")


@register("mean")
def _mean(call: OperatorCall, x: Tensor, dimensions: Any = None, keepdim: bool = False, **_: Any) -> Symbol:
    return call.apply("mul", _reduce(call, x, dimensions), call.result.numel() / x.numel())


@register(
    "zeros_like",
    "ones_like",
    "full_like",
    "zeros",
    "ones",
    "full",
    "new_zeros",
    "new_ones",
    "new_full",
    "scalar_tensor",
)
def _constant(call: OperatorCall, *_: Any, **__: Any) -> Symbol:
    if not torch.is_floating_point(call.result):
        raise Unfusable(f"a constant of {call.result.dtype}")
    size = call.result.shape[-1] if call.result.dim() in (1, 2) else 1
    return BatchRows((Segment(call.graph.constant(float(call.result.flatten()[0])), size),), uniform=True)
