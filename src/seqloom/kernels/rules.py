"""What each operation that a step may use means for one row: tensors to symbols."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from seqloom.kernels.expression import Graph, Row, Segment, width
from seqloom.kernels.trace import Column, Matrix, Outer, Product, Rows, Symbol, Turned, Unfusable, _Recorder

RULES: dict[str, Callable[..., Any]] = {}


class Context:
    """One call: its result (for shapes) and the symbols of its arguments."""

    def __init__(self, recorder: _Recorder, result: Any) -> None:
        self.recorder = recorder
        self.graph: Graph = recorder.program.graph
        self.result = result

    def symbol(self, value: Any) -> Symbol:
        if isinstance(value, int | float):
            return Rows(self.number(value), uniform=True)
        return self.recorder.symbol(value)

    def number(self, value: float) -> Row:
        return (Segment(self.graph.constant(value), 1),)

    def on(self, operation: str, *values: Any) -> Symbol:
        """An operation on elements. Sums over the batch stay sums: linear operations move inside of them."""
        symbols = [value if isinstance(value, Symbol) else self.symbol(value) for value in values]
        if any(isinstance(symbol, Column) for symbol in symbols):
            return self._linear(operation, symbols)
        if operation == "add" and all(isinstance(symbol, Outer) for symbol in symbols):
            return Outer(tuple(term for symbol in symbols if isinstance(symbol, Outer) for term in symbol.terms))
        rows = [symbol for symbol in symbols if isinstance(symbol, Rows)]
        if len(rows) != len(symbols):
            raise Unfusable(f"{operation} of a whole matrix inside of a step")
        uniform = all(symbol.uniform for symbol in rows)
        return Rows(self.graph.elementwise(operation, *[symbol.row for symbol in rows]), uniform=uniform)

    def _linear(self, operation: str, symbols: Sequence[Symbol]) -> Symbol:
        sums = [isinstance(symbol, Column) for symbol in symbols]
        linear = (
            (operation in ("add", "sub") and all(sums))
            or (operation == "mul" and sum(sums) == 1)
            or (operation == "div" and sums == [True, False])
        )
        rows = []
        for symbol in symbols:
            if not isinstance(symbol, Column) and not (isinstance(symbol, Rows) and symbol.uniform):
                linear = False
            elif isinstance(symbol, Column | Rows):
                rows.append(symbol.row)
        if not linear:
            raise Unfusable(f"{operation} of a sum over the batch")
        return Column(self.graph.elementwise(operation, *rows))

    def rows(self, value: Any) -> Rows:
        symbol = value if isinstance(value, Symbol) else self.symbol(value)
        if not isinstance(symbol, Rows):
            raise Unfusable("a step mixes the rows of a batch")
        return symbol

    def total(self, value: Any, operation: str = "sum") -> Rows:
        """Reduce each row to one number."""
        symbol = self.rows(value)
        parts = []
        for node, size in symbol.row:
            whole = node if node.width == size else self.graph.apply("mul", node, self.graph.constant(size))
            single = size == 1 or (node.width == 1 and operation == "largest")
            parts.append(node if single else whole if node.width == 1 else self.graph.reduce(operation, node))
        total = parts[0]
        for part in parts[1:]:
            total = self.graph.apply("add" if operation == "sum" else "max", total, part)
        return Rows((Segment(total, 1),), uniform=symbol.uniform)

    def spread(self, value: Any, size: int) -> Row:
        row = self.rows(value).row
        return (Segment(row[0].node, size),) if width(row) == 1 else row


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            RULES[name] = function
        return function

    return register


def _elements(name: str, *operations: str) -> None:
    def function(call: Context, *values: Any) -> Symbol:
        result: Any = values
        for operation in operations:
            result = (call.on(operation, *result),)
        symbol: Symbol = result[0]
        return symbol

    RULES[name] = function


for _name in ("mul", "div", "sigmoid", "tanh", "exp", "expm1", "log", "sqrt", "abs"):
    _elements(_name, _name)
_elements("maximum", "max")
_elements("minimum", "min")


@rule("detach", "alias", "clone", "contiguous", "lift_fresh")
def _same(call: Context, x: Tensor, **_: Any) -> Symbol:
    return call.symbol(x)


@rule("add", "sub")
def _add(call: Context, x: Any, y: Any, *, alpha: float = 1, name: str = "add") -> Symbol:
    return call.on(name, x, y if alpha == 1 else call.on("mul", y, alpha))


RULES["sub"] = lambda call, x, y, alpha=1: _add(call, x, y, alpha=alpha, name="sub")
RULES["rsub"] = lambda call, x, y, alpha=1: _add(call, y, x, alpha=1, name="sub") if alpha == 1 else _refuse("rsub")


def _refuse(name: str) -> Symbol:
    raise Unfusable(f"this form of {name}")


@rule("neg")
def _neg(call: Context, x: Any) -> Symbol:
    return call.on("mul", x, -1.0)


@rule("reciprocal")
def _reciprocal(call: Context, x: Any) -> Symbol:
    return call.on("div", 1.0, x)


@rule("rsqrt")
def _rsqrt(call: Context, x: Any) -> Symbol:
    return call.on("div", 1.0, call.on("sqrt", x))


@rule("log1p")
def _log1p(call: Context, x: Any) -> Symbol:
    return call.on("log", call.on("add", 1.0, x))


@rule("pow")
def _pow(call: Context, x: Any, exponent: Any) -> Symbol:
    if exponent == 0.5:
        return call.on("sqrt", x)
    if not isinstance(exponent, int | float) or exponent != int(exponent) or not 1 <= abs(exponent) <= 8:
        raise Unfusable(f"power {exponent}")
    result: Any = x
    for _ in range(int(abs(exponent)) - 1):
        result = call.on("mul", result, x)
    return call.on("div", 1.0, result) if exponent < 0 else call.on("add", result, 0.0)


@rule("sgn", "sign")
def _sign(call: Context, x: Any) -> Symbol:
    positive = call.on("select", call.on("less", 0.0, x), 1.0, 0.0)
    return call.on("select", call.on("less", x, 0.0), -1.0, positive)


@rule("gt")
def _gt(call: Context, x: Any, y: Any) -> Symbol:
    return call.on("less", y, x)


@rule("lt")
def _lt(call: Context, x: Any, y: Any) -> Symbol:
    return call.on("less", x, y)


@rule("ge")
def _ge(call: Context, x: Any, y: Any) -> Symbol:
    return call.on("or", call.on("less", y, x), call.on("equal", x, y))


@rule("le")
def _le(call: Context, x: Any, y: Any) -> Symbol:
    return call.on("or", call.on("less", x, y), call.on("equal", x, y))


@rule("eq")
def _eq(call: Context, x: Any, y: Any) -> Symbol:
    return call.on("equal", x, y)


@rule("where")
def _where(call: Context, condition: Any, x: Any, y: Any) -> Symbol:
    return call.on("select", condition, x, y)


@rule("masked_fill")
def _masked_fill(call: Context, x: Any, mask: Any, value: Any) -> Symbol:
    return call.on("select", mask, value, x)


@rule("logical_or", "bitwise_or")
def _or(call: Context, x: Any, y: Any) -> Symbol:
    return call.on("or", x, y)


@rule("logical_and", "bitwise_and")
def _and(call: Context, x: Any, y: Any) -> Symbol:
    return call.on("select", x, y, x)


@rule("clamp", "clamp_min", "clamp_max", "hardtanh")
def _clamp(call: Context, x: Any, low: Any = None, high: Any = None) -> Symbol:
    bounded: Any = x if low is None else call.on("max", x, low)
    return call.on("add", bounded if high is None else call.on("min", bounded, high), 0.0)


RULES["clamp_max"] = lambda call, x, high: _clamp(call, x, None, high)


@rule("relu")
def _relu(call: Context, x: Any) -> Symbol:
    return call.on("max", x, 0.0)


@rule("threshold_backward")
def _threshold_backward(call: Context, gradient: Any, x: Any, threshold: float) -> Symbol:
    return call.on("select", call.on("less", threshold, x), gradient, 0.0)


@rule("leaky_relu")
def _leaky_relu(call: Context, x: Any, slope: float = 0.01) -> Symbol:
    return call.on("select", call.on("less", 0.0, x), x, call.on("mul", x, slope))


@rule("leaky_relu_backward")
def _leaky_relu_backward(call: Context, gradient: Any, x: Any, slope: float, _is_result: bool) -> Symbol:
    return call.on("select", call.on("less", 0.0, x), gradient, call.on("mul", gradient, slope))


@rule("elu")
def _elu(call: Context, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Symbol:
    bent = call.on("mul", call.on("expm1", call.on("mul", x, input_scale)), alpha)
    return call.on("mul", call.on("select", call.on("less", 0.0, x), x, bent), scale)


@rule("elu_backward")
def _elu_backward(
    call: Context, gradient: Any, alpha: float, scale: float, input_scale: float, is_result: bool, x: Any
) -> Symbol:
    grown = call.on("add", x, alpha) if is_result else call.on("mul", call.on("exp", call.on("mul", x, input_scale)), alpha)
    slope = call.on("select", call.on("less", 0.0, x), scale, call.on("mul", grown, scale * input_scale))
    return call.on("mul", gradient, slope)


@rule("sigmoid_backward")
def _sigmoid_backward(call: Context, gradient: Any, y: Any) -> Symbol:
    return call.on("mul", gradient, call.on("mul", y, call.on("sub", 1.0, y)))


@rule("tanh_backward")
def _tanh_backward(call: Context, gradient: Any, y: Any) -> Symbol:
    return call.on("mul", gradient, call.on("sub", 1.0, call.on("mul", y, y)))


@rule("silu")
def _silu(call: Context, x: Any) -> Symbol:
    return call.on("mul", x, call.on("sigmoid", x))


@rule("silu_backward")
def _silu_backward(call: Context, gradient: Any, x: Any) -> Symbol:
    gate = call.on("sigmoid", x)
    grown = call.on("add", 1.0, call.on("mul", x, call.on("sub", 1.0, gate)))
    return call.on("mul", gradient, call.on("mul", gate, grown))


@rule("softplus")
def _softplus(call: Context, x: Any, beta: float = 1, threshold: float = 20) -> Symbol:
    scaled = call.on("mul", x, beta)
    soft = call.on("div", call.on("log", call.on("add", 1.0, call.on("exp", scaled))), beta)
    return call.on("select", call.on("less", threshold, scaled), x, soft)


@rule("softplus_backward")
def _softplus_backward(call: Context, gradient: Any, x: Any, beta: float, threshold: float) -> Symbol:
    scaled = call.on("mul", x, beta)
    slope = call.on("mul", gradient, call.on("sigmoid", scaled))
    return call.on("select", call.on("less", threshold, scaled), gradient, slope)


@rule("t", "transpose", "permute")
def _turn(call: Context, x: Tensor, *dimensions: Any) -> Symbol:
    symbol = call.symbol(x)
    if call.result.shape == x.shape and call.result.stride() == x.stride():
        return symbol
    if isinstance(symbol, Matrix):
        return Matrix(symbol.name, transposed=not symbol.transposed)
    if isinstance(symbol, Turned):
        return symbol.rows
    if isinstance(symbol, Outer):
        return Outer(tuple((right, left) for left, right in symbol.terms))
    if isinstance(symbol, Rows) and not symbol.uniform and x.dim() == 2:
        return Turned(symbol)
    raise Unfusable(f"transposition {dimensions} of a tensor of shape {tuple(x.shape)}")


@rule("mm")
def _mm(call: Context, left: Tensor, right: Tensor) -> Symbol:
    first, second = call.symbol(left), call.symbol(right)
    if isinstance(first, Rows) and not first.uniform and isinstance(second, Matrix):
        size = right.shape[1]
        products = call.recorder.program.products
        product = Product(first.row, second.name, second.transposed, size)
        if product not in products:
            products.append(product)
        return Rows((Segment(call.graph.leaf("product", products.index(product), width=size), size),))
    if isinstance(first, Turned) and isinstance(second, Rows) and not second.uniform:
        return Outer(((first.rows.row, second.row),))
    raise Unfusable("a product that is neither of the rows with a parameter nor the gradient of one")


@rule("addmm")
def _addmm(call: Context, bias: Any, left: Tensor, right: Tensor) -> Symbol:
    return call.on("add", bias, _mm(call, left, right))


@rule("split", "split_with_sizes")
def _split(call: Context, x: Tensor, _size: Any, dimension: int = 0) -> list[Symbol]:
    _columns(x, dimension)
    symbol = call.rows(x)
    parts: list[Symbol] = []
    offset = 0
    for piece in call.result:
        size = piece.shape[-1]
        parts.append(Rows(call.graph.cut(call.spread(symbol, x.shape[-1]), offset, size), uniform=symbol.uniform))
        offset += size
    return parts


def _columns(x: Tensor, dimension: int) -> None:
    if dimension % x.dim() != x.dim() - 1:
        raise Unfusable(f"dimension {dimension} of a tensor of shape {tuple(x.shape)} is taken apart")


@rule("slice")
def _slice(call: Context, x: Tensor, dimension: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Symbol:
    if call.result.shape == x.shape:
        return call.symbol(x)
    _columns(x, dimension)
    if step != 1:
        raise Unfusable(f"a slice with step {step}")
    symbol = call.rows(x)
    low = slice(start, end).indices(x.shape[-1])[0]
    return Rows(call.graph.cut(call.spread(symbol, x.shape[-1]), low, call.result.shape[-1]), uniform=symbol.uniform)


@rule("slice_backward")
def _slice_backward(
    call: Context, gradient: Tensor, sizes: Sequence[int], dimension: int, start: int, _end: int, step: int
) -> Symbol:
    _columns(call.result, dimension)
    if step != 1:
        raise Unfusable(f"a slice with step {step}")
    total, size = sizes[-1], gradient.shape[-1]
    low = slice(start, None).indices(total)[0]
    zero = call.graph.constant(0)
    inner = call.symbol(gradient)
    if not isinstance(inner, Rows | Column):
        raise Unfusable("a slice of a matrix")
    row = tuple(
        segment
        for segment in (Segment(zero, low), *inner.row, Segment(zero, total - low - size))
        if segment.width > 0
    )
    return Column(row) if isinstance(inner, Column) else Rows(row, uniform=inner.uniform)


@rule("cat")
def _cat(call: Context, tensors: Sequence[Tensor], dimension: int = 0) -> Symbol:
    _columns(tensors[0], dimension)
    parts = [segment for tensor in tensors for segment in call.spread(tensor, tensor.shape[-1])]
    uniform = all(call.rows(tensor).uniform for tensor in tensors)
    return Rows(call.graph.join(parts), uniform=uniform)


@rule("unsqueeze", "squeeze", "view", "_unsafe_view", "reshape")
def _view(call: Context, x: Tensor, *_: Any) -> Symbol:
    if [size for size in x.shape if size > 1] != [size for size in call.result.shape if size > 1]:
        raise Unfusable(f"a tensor of shape {tuple(x.shape)} seen as {tuple(call.result.shape)}")
    if call.result.dim() > 2:
        raise Unfusable(f"a tensor of {call.result.dim()} dimensions")
    return call.symbol(x)


@rule("expand")
def _expand(call: Context, x: Tensor, *_: Any, **__: Any) -> Symbol:
    symbol = call.rows(x)
    return Rows(call.spread(symbol, call.result.shape[-1]), uniform=symbol.uniform)


def _sum(call: Context, x: Tensor, dimensions: Any, *, operation: str = "sum") -> Symbol:
    symbol = call.symbol(x)
    wanted = range(x.dim()) if dimensions is None else [dimensions] if isinstance(dimensions, int) else dimensions
    axes = {dimension % x.dim() for dimension in wanted}
    if isinstance(symbol, Column):
        return Column(call.total(Rows(symbol.row), operation).row) if operation == "sum" and axes else symbol
    if not isinstance(symbol, Rows):
        raise Unfusable("a sum over a matrix")
    columns = axes if symbol.uniform else {axis for axis in axes if axis == 1}
    spread = Rows(call.spread(symbol, x.shape[-1]) if x.dim() == 2 or symbol.uniform else symbol.row, symbol.uniform)
    reduced = call.total(spread, operation) if columns else spread
    if not symbol.uniform and 0 in axes:
        if operation != "sum":
            raise Unfusable("the largest value of a batch")
        return Column(reduced.row)
    return reduced


@rule("sum")
def _sum_rule(call: Context, x: Tensor, dimensions: Any = None, keepdim: bool = False, **_: Any) -> Symbol:
    return _sum(call, x, dimensions)


@rule("amax")
def _amax(call: Context, x: Tensor, dimensions: Any = (), keepdim: bool = False) -> Symbol:
    return _sum(call, x, dimensions or None, operation="largest")


@rule("mean")
def _mean(call: Context, x: Tensor, dimensions: Any = None, keepdim: bool = False, **_: Any) -> Symbol:
    return call.on("mul", _sum(call, x, dimensions), call.result.numel() / x.numel())


@rule("native_layer_norm")
def _layer_norm(call: Context, x: Tensor, shape: Sequence[int], weight: Any, bias: Any, epsilon: float) -> list[Symbol]:
    size = shape[-1]
    mean = call.on("mul", call.total(x), 1 / size)
    centred = call.on("sub", x, mean)
    variance = call.on("mul", call.total(call.on("mul", centred, centred)), 1 / size)
    scale = call.on("div", 1.0, call.on("sqrt", call.on("add", variance, epsilon)))
    out = call.on("mul", centred, scale)
    out = out if weight is None else call.on("mul", out, weight)
    out = out if bias is None else call.on("add", out, bias)
    return [out, mean, scale]


@rule("native_layer_norm_backward")
def _layer_norm_backward(
    call: Context,
    gradient: Tensor,
    x: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    scale: Tensor,
    weight: Any,
    _bias: Any,
    wanted: Sequence[bool],
) -> list[Symbol | None]:
    size = shape[-1]
    normal = call.on("mul", call.on("sub", x, mean), scale)
    inner = gradient if weight is None else call.on("mul", gradient, weight)
    along = call.on("mul", call.total(call.on("mul", inner, normal)), 1 / size)
    level = call.on("mul", call.total(inner), 1 / size)
    out = call.on("mul", call.on("sub", call.on("sub", inner, level), call.on("mul", normal, along)), scale)
    steep = Column(call.rows(call.on("mul", gradient, normal)).row) if wanted[1] else None
    return [out, steep, Column(call.rows(gradient).row) if wanted[2] else None]


@rule("_softmax")
def _softmax(call: Context, x: Tensor, dimension: int, _half: bool) -> Symbol:
    _columns(x, dimension)
    grown = call.on("exp", call.on("sub", x, call.total(x, "largest")))
    return call.on("div", grown, call.total(grown))


@rule("_softmax_backward_data")
def _softmax_backward(call: Context, gradient: Any, y: Any, dimension: int, _dtype: Any) -> Symbol:
    product = call.on("mul", gradient, y)
    return call.on("sub", product, call.on("mul", y, call.total(product)))


@rule("zeros_like", "ones_like", "full_like", "zeros", "ones", "full", "new_zeros", "new_ones", "new_full", "scalar_tensor")
def _constant(call: Context, *_: Any, **__: Any) -> Symbol:
    value = float(call.result.flatten()[0]) if torch.is_floating_point(call.result) else _refuse("constant")
    return Rows((Segment(call.graph.constant(float(value)), call.result.shape[-1] if call.result.dim() else 1),), uniform=True)
