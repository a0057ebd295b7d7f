"""What the operators that a step may use mean for one row: functions of elements, norms, and their gradients."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from seqloom.kernels.expression import width
from seqloom.kernels.rules import RULES, Call, columns, rule
from seqloom.kernels.symbols import Column, Rows, Symbol, Unfusable

__all__ = ["RULES"]  # all of them, those of rules.py too


def _elements(name: str, *operations: str) -> None:
    def function(call: Call, *values: Any) -> Symbol:
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


@rule("add")
def _add(call: Call, x: Any, y: Any, *, alpha: float = 1) -> Symbol:
    return call.on("add", x, y if alpha == 1 else call.on("mul", y, alpha))


@rule("sub")
def _sub(call: Call, x: Any, y: Any, *, alpha: float = 1) -> Symbol:
    return call.on("sub", x, y if alpha == 1 else call.on("mul", y, alpha))


@rule("rsub")
def _rsub(call: Call, x: Any, y: Any, alpha: float = 1) -> Symbol:
    return call.on("sub", y, x if alpha == 1 else call.on("mul", x, alpha))


@rule("neg")
def _neg(call: Call, x: Any) -> Symbol:
    return call.on("mul", x, -1.0)


@rule("reciprocal")
def _reciprocal(call: Call, x: Any) -> Symbol:
    return call.on("div", 1.0, x)


@rule("rsqrt")
def _rsqrt(call: Call, x: Any) -> Symbol:
    return call.on("div", 1.0, call.on("sqrt", x))


@rule("log1p")
def _log1p(call: Call, x: Any) -> Symbol:
    return call.on("log", call.on("add", 1.0, x))


@rule("pow")
def _pow(call: Call, x: Any, exponent: Any) -> Symbol:
    if not isinstance(exponent, int | float) or exponent * 2 != int(exponent * 2) or abs(exponent) > 8:
        raise Unfusable(f"power {exponent}")
    result = call.symbol(1.0)
    for _ in range(int(abs(exponent))):
        result = call.on("mul", result, x)
    if exponent != int(exponent):
        result = call.on("mul", result, call.on("sqrt", x))
    return call.on("div", 1.0, result) if exponent < 0 else result


@rule("lerp")
def _lerp(call: Call, start: Any, end: Any, weight: Any) -> Symbol:
    return call.on("add", start, call.on("mul", weight, call.on("sub", end, start)))


@rule("addcmul")
def _addcmul(call: Call, x: Any, left: Any, right: Any, *, value: float = 1) -> Symbol:
    product = call.on("mul", left, right)
    return call.on("add", x, product if value == 1 else call.on("mul", product, value))


@rule("sgn", "sign")
def _sign(call: Call, x: Any) -> Symbol:
    positive = call.on("select", call.on("less", 0.0, x), 1.0, 0.0)
    return call.on("select", call.on("less", x, 0.0), -1.0, positive)


@rule("gt")
def _gt(call: Call, x: Any, y: Any) -> Symbol:
    return call.on("less", y, x)


@rule("lt")
def _lt(call: Call, x: Any, y: Any) -> Symbol:
    return call.on("less", x, y)


@rule("ge")
def _ge(call: Call, x: Any, y: Any) -> Symbol:
    return call.on("or", call.on("less", y, x), call.on("equal", x, y))


@rule("le")
def _le(call: Call, x: Any, y: Any) -> Symbol:
    return call.on("or", call.on("less", x, y), call.on("equal", x, y))


@rule("eq")
def _eq(call: Call, x: Any, y: Any) -> Symbol:
    return call.on("equal", x, y)


@rule("where")
def _where(call: Call, condition: Any, x: Any, y: Any) -> Symbol:
    return call.on("select", condition, x, y)


@rule("masked_fill")
def _masked_fill(call: Call, x: Any, mask: Any, value: Any) -> Symbol:
    return call.on("select", mask, value, x)


@rule("logical_or", "bitwise_or")
def _or(call: Call, x: Any, y: Any) -> Symbol:
    return call.on("or", x, y)


@rule("logical_and", "bitwise_and")
def _and(call: Call, x: Any, y: Any) -> Symbol:
    return call.on("and", x, y)


@rule("logical_not", "bitwise_not")
def _not(call: Call, x: Any) -> Symbol:
    return call.on("not", x)


@rule("ne")
def _ne(call: Call, x: Any, y: Any) -> Symbol:
    return call.on("not", call.on("equal", x, y))


@rule("clamp", "clamp_min")
def _clamp(call: Call, x: Any, low: Any = None, high: Any = None) -> Symbol:
    bounded = call.symbol(x) if low is None else call.on("max", x, low)
    return bounded if high is None else call.on("min", bounded, high)


@rule("clamp_max")
def _clamp_max(call: Call, x: Any, high: Any) -> Symbol:
    return call.on("min", x, high)


@rule("hardtanh")
def _hardtanh(call: Call, x: Any, low: float = -1, high: float = 1) -> Symbol:
    return call.on("min", call.on("max", x, low), high)


@rule("hardtanh_backward")
def _hardtanh_backward(call: Call, gradient: Any, x: Any, low: float, high: float) -> Symbol:
    inside = call.on("and", call.on("less", low, x), call.on("less", x, high))
    return call.on("select", inside, gradient, 0.0)


@rule("relu")
def _relu(call: Call, x: Any) -> Symbol:
    return call.on("max", x, 0.0)


@rule("threshold_backward")
def _threshold_backward(call: Call, gradient: Any, x: Any, threshold: float) -> Symbol:
    return call.on("select", call.on("less", threshold, x), gradient, 0.0)


@rule("leaky_relu")
def _leaky_relu(call: Call, x: Any, slope: float = 0.01) -> Symbol:
    return call.on("select", call.on("less", 0.0, x), x, call.on("mul", x, slope))


@rule("leaky_relu_backward")
def _leaky_relu_backward(call: Call, gradient: Any, x: Any, slope: float, _is_result: bool) -> Symbol:
    return call.on("select", call.on("less", 0.0, x), gradient, call.on("mul", gradient, slope))


@rule("elu")
def _elu(call: Call, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Symbol:
    bent = call.on("mul", call.on("expm1", call.on("mul", x, input_scale)), alpha)
    return call.on("mul", call.on("select", call.on("less", 0.0, x), x, bent), scale)


@rule("elu_backward")
def _elu_backward(
    call: Call, gradient: Any, alpha: float, scale: float, input_scale: float, is_result: bool, x: Any
) -> Symbol:
    grown = (
        call.on("add", x, alpha) if is_result else call.on("mul", call.on("exp", call.on("mul", x, input_scale)), alpha)
    )
    slope = call.on("select", call.on("less", 0.0, x), scale, call.on("mul", grown, scale * input_scale))
    return call.on("mul", gradient, slope)


@rule("sigmoid_backward")
def _sigmoid_backward(call: Call, gradient: Any, y: Any) -> Symbol:
    return call.on("mul", gradient, call.on("mul", y, call.on("sub", 1.0, y)))


@rule("tanh_backward")
def _tanh_backward(call: Call, gradient: Any, y: Any) -> Symbol:
    return call.on("mul", gradient, call.on("sub", 1.0, call.on("mul", y, y)))


@rule("silu")
def _silu(call: Call, x: Any) -> Symbol:
    return call.on("mul", x, call.on("sigmoid", x))


@rule("silu_backward")
def _silu_backward(call: Call, gradient: Any, x: Any) -> Symbol:
    gate = call.on("sigmoid", x)
    grown = call.on("add", 1.0, call.on("mul", x, call.on("sub", 1.0, gate)))
    return call.on("mul", gradient, call.on("mul", gate, grown))


@rule("softplus")
def _softplus(call: Call, x: Any, beta: float = 1, threshold: float = 20) -> Symbol:
    scaled = call.on("mul", x, beta)
    soft = call.on("div", call.on("log", call.on("add", 1.0, call.on("exp", scaled))), beta)
    return call.on("select", call.on("less", threshold, scaled), x, soft)


@rule("softplus_backward")
def _softplus_backward(call: Call, gradient: Any, x: Any, beta: float, threshold: float) -> Symbol:
    scaled = call.on("mul", x, beta)
    slope = call.on("mul", gradient, call.on("sigmoid", scaled))
    return call.on("select", call.on("less", threshold, scaled), gradient, slope)


def _blocks(call: Call, value: Tensor, count: int) -> list[Rows]:
    """A row in so many equal pieces, which a norm treats alike."""
    symbol = call.rows(value)
    size = width(symbol.row) // count
    return [Rows(call.graph.cut(symbol.row, index * size, size), symbol.uniform) for index in range(count)]


def _join(call: Call, parts: Sequence[Symbol]) -> Rows:
    return Rows(call.graph.join(segment for part in parts for segment in call.rows(part).row))


@rule("native_layer_norm")
def _layer_norm(call: Call, x: Tensor, shape: Sequence[int], weight: Any, bias: Any, epsilon: float) -> list[Symbol]:
    size = shape[-1]
    outs, means, scales = [], [], []
    for part in _blocks(call, x, x.numel() // len(x) // size):
        mean = call.on("mul", call.total(part), 1 / size)
        centred = call.on("sub", part, mean)
        variance = call.on("mul", call.total(call.on("mul", centred, centred)), 1 / size)
        scale = call.on("div", 1.0, call.on("sqrt", call.on("add", variance, epsilon)))
        out = call.on("mul", centred, scale)
        out = out if weight is None else call.on("mul", out, weight)
        outs.append(out if bias is None else call.on("add", out, bias))
        means.append(mean)
        scales.append(scale)
    return [_join(call, outs), _join(call, means), _join(call, scales)]


@rule("native_layer_norm_backward")
def _layer_norm_backward(
    call: Call,
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
    count = x.numel() // len(x) // size
    outs: list[Symbol] = []
    steep: Symbol | None = None
    level_sum: Symbol | None = None
    for part, slope, middle, spread in zip(
        *[_blocks(call, value, count) for value in (x, gradient, mean, scale)], strict=True
    ):
        normal = call.on("mul", call.on("sub", part, middle), spread)
        inner: Symbol = slope if weight is None else call.on("mul", slope, weight)
        along = call.on("mul", call.total(call.on("mul", inner, normal)), 1 / size)
        level = call.on("mul", call.total(inner), 1 / size)
        outs.append(call.on("mul", call.on("sub", call.on("sub", inner, level), call.on("mul", normal, along)), spread))
        both = call.on("mul", slope, normal)
        steep = both if steep is None else call.on("add", steep, both)
        level_sum = slope if level_sum is None else call.on("add", level_sum, slope)
    return [
        _join(call, outs),
        Column(call.rows(steep).row) if wanted[1] else None,
        Column(call.rows(level_sum).row) if wanted[2] else None,
    ]


@rule("_softmax")
def _softmax(call: Call, x: Tensor, dimension: int, _half: bool) -> Symbol:
    columns(x, dimension)
    grown = call.on("exp", call.on("sub", x, call.total(x, "largest")))
    return call.on("div", grown, call.total(grown))


@rule("_softmax_backward_data")
def _softmax_backward(call: Call, gradient: Any, y: Any, dimension: int, _dtype: Any) -> Symbol:
    product = call.on("mul", gradient, y)
    return call.on("sub", product, call.on("mul", y, call.total(product)))
