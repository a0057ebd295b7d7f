"""Symbolic rules of ATen operators: elementwise functions and their gradients."""

import math
from typing import Any

from seqloom.kernels.fuse.contraction_rules import expand, is_broadcast, multiply
from seqloom.kernels.fuse.expression import row_width
from seqloom.kernels.fuse.operator_rules import RULES, OperatorCall, register
from seqloom.kernels.fuse.symbols import BatchRows, StridedRows, Symbol, Unfusable

__all__ = ["RULES"]  # includes those of operator_rules


def _register_elementwise(name: str, *operations: str) -> None:
    def function(call: OperatorCall, *values: Any) -> Symbol:
        result: Any = values
        for operation in operations:
            result = (call.apply(operation, *result),)
        symbol: Symbol = result[0]
        return symbol

    RULES[name] = function


@register("mul")
def _mul(call: OperatorCall, x: Any, y: Any) -> Symbol:
    tensors = [value for value in (x, y) if is_broadcast(value, call.result)]
    rows = [isinstance(call.symbol(value), BatchRows | StridedRows) for value in (x, y)]
    if tensors and all(rows) and all(row_width(call.rows(value).row) > 1 for value in (x, y)):
        left, right = (expand(call.view(value), call.result.shape, call.batch) for value in (x, y))
        return multiply(call.traced, left, right)
    return call.apply("mul", x, y)


for _name in ("div", "sigmoid", "tanh", "exp", "expm1", "log", "sqrt", "abs", "sin", "cos", "erf"):
    _register_elementwise(_name, _name)
_register_elementwise("maximum", "max")
_register_elementwise("minimum", "min")


@register("add")
def _add(call: OperatorCall, x: Any, y: Any, *, alpha: float = 1) -> Symbol:
    return call.apply("add", x, y if alpha == 1 else call.apply("mul", y, alpha))


@register("sub")
def _sub(call: OperatorCall, x: Any, y: Any, *, alpha: float = 1) -> Symbol:
    return call.apply("sub", x, y if alpha == 1 else call.apply("mul", y, alpha))


@register("rsub")
def _rsub(call: OperatorCall, x: Any, y: Any, alpha: float = 1) -> Symbol:
    return call.apply("sub", y, x if alpha == 1 else call.apply("mul", x, alpha))


@register("neg")
def _neg(call: OperatorCall, x: Any) -> Symbol:
    return call.apply("mul", x, -1.0)


@register("reciprocal")
def _reciprocal(call: OperatorCall, x: Any) -> Symbol:
    return call.apply("div", 1.0, x)


@register("rsqrt")
def _rsqrt(call: OperatorCall, x: Any) -> Symbol:
    return call.apply("div", 1.0, call.apply("sqrt", x))


@register("log1p")
def _log1p(call: OperatorCall, x: Any) -> Symbol:
    return call.apply("log", call.apply("add", 1.0, x))


@register("tan")
def _tan(call: OperatorCall, x: Any) -> Symbol:
    return call.apply("div", call.apply("sin", x), call.apply("cos", x))


@register("erfc")
def _erfc(call: OperatorCall, x: Any) -> Symbol:
    return call.apply("sub", 1.0, call.apply("erf", x))


@register("pow")
def _pow(call: OperatorCall, x: Any, exponent: Any) -> Symbol:
    if not isinstance(exponent, int | float) or exponent * 2 != int(exponent * 2) or abs(exponent) > 8:
        shown = exponent if isinstance(exponent, int | float) else "that is a tensor"
        raise Unfusable(f"an exponent {shown}; exponents are numbers such as 3, -1 or 0.5, up to 8")
    result = call.symbol(1.0)
    for _ in range(int(abs(exponent))):
        result = call.apply("mul", result, x)
    if exponent != int(exponent):
        result = call.apply("mul", result, call.apply("sqrt", x))
    return call.apply("div", 1.0, result) if exponent < 0 else result


@register("lerp")
def _lerp(call: OperatorCall, start: Any, end: Any, weight: Any) -> Symbol:
    return call.apply("add", start, call.apply("mul", weight, call.apply("sub", end, start)))


@register("addcmul")
def _addcmul(call: OperatorCall, x: Any, left: Any, right: Any, *, value: float = 1) -> Symbol:
    product = call.apply("mul", left, right)
    return call.apply("add", x, product if value == 1 else call.apply("mul", product, value))


@register("sgn", "sign")
def _sign(call: OperatorCall, x: Any) -> Symbol:
    positive = call.apply("select", call.apply("less", 0.0, x), 1.0, 0.0)
    return call.apply("select", call.apply("less", x, 0.0), -1.0, positive)


@register("gt")
def _gt(call: OperatorCall, x: Any, y: Any) -> Symbol:
    return call.apply("less", y, x)


@register("lt")
def _lt(call: OperatorCall, x: Any, y: Any) -> Symbol:
    return call.apply("less", x, y)


@register("ge")
def _ge(call: OperatorCall, x: Any, y: Any) -> Symbol:
    return call.apply("or", call.apply("less", y, x), call.apply("equal", x, y))


@register("le")
def _le(call: OperatorCall, x: Any, y: Any) -> Symbol:
    return call.apply("or", call.apply("less", x, y), call.apply("equal", x, y))


@register("eq")
def _eq(call: OperatorCall, x: Any, y: Any) -> Symbol:
    return call.apply("equal", x, y)


@register("where")
def _where(call: OperatorCall, condition: Any, x: Any, y: Any) -> Symbol:
    return call.apply("select", condition, x, y)


@register("masked_fill")
def _masked_fill(call: OperatorCall, x: Any, mask: Any, value: Any) -> Symbol:
    return call.apply("select", mask, value, x)


@register("logical_or", "bitwise_or")
def _or(call: OperatorCall, x: Any, y: Any) -> Symbol:
    return call.apply("or", x, y)


@register("logical_and", "bitwise_and")
def _and(call: OperatorCall, x: Any, y: Any) -> Symbol:
    return call.apply("and", x, y)


@register("logical_not", "bitwise_not")
def _not(call: OperatorCall, x: Any) -> Symbol:
    return call.apply("not", x)


@register("logical_xor", "bitwise_xor")
def _xor(call: OperatorCall, x: Any, y: Any) -> Symbol:
    both = call.apply("and", x, y)
    return call.apply("and", call.apply("or", x, y), call.apply("not", both))


@register("isnan")
def _isnan(call: OperatorCall, x: Any) -> Symbol:
    return call.apply("not", call.apply("equal", x, x))


@register("ne")
def _ne(call: OperatorCall, x: Any, y: Any) -> Symbol:
    return call.apply("not", call.apply("equal", x, y))


@register("clamp", "clamp_min")
def _clamp(call: OperatorCall, x: Any, low: Any = None, high: Any = None) -> Symbol:
    bounded = call.symbol(x) if low is None else call.apply("max", x, low)
    return bounded if high is None else call.apply("min", bounded, high)


@register("clamp_max")
def _clamp_max(call: OperatorCall, x: Any, high: Any) -> Symbol:
    return call.apply("min", x, high)


@register("hardtanh")
def _hardtanh(call: OperatorCall, x: Any, low: float = -1, high: float = 1) -> Symbol:
    return call.apply("min", call.apply("max", x, low), high)


@register("hardtanh_backward")
def _hardtanh_backward(call: OperatorCall, gradient: Any, x: Any, low: float, high: float) -> Symbol:
    inside = call.apply("and", call.apply("less", low, x), call.apply("less", x, high))
    return call.apply("select", inside, gradient, 0.0)


@register("relu")
def _relu(call: OperatorCall, x: Any) -> Symbol:
    return call.apply("max", x, 0.0)


@register("threshold_backward")
def _threshold_backward(call: OperatorCall, gradient: Any, x: Any, threshold: float) -> Symbol:
    return call.apply("select", call.apply("less", threshold, x), gradient, 0.0)


@register("leaky_relu")
def _leaky_relu(call: OperatorCall, x: Any, slope: float = 0.01) -> Symbol:
    return call.apply("select", call.apply("less", 0.0, x), x, call.apply("mul", x, slope))


@register("leaky_relu_backward")
def _leaky_relu_backward(call: OperatorCall, gradient: Any, x: Any, slope: float, _is_result: bool) -> Symbol:
    return call.apply("select", call.apply("less", 0.0, x), gradient, call.apply("mul", gradient, slope))


@register("elu")
def _elu(call: OperatorCall, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Symbol:
    negative = call.apply("mul", call.apply("expm1", call.apply("mul", x, input_scale)), alpha)
    return call.apply("mul", call.apply("select", call.apply("less", 0.0, x), x, negative), scale)


@register("elu_backward")
def _elu_backward(
    call: OperatorCall, gradient: Any, alpha: float, scale: float, input_scale: float, is_result: bool, x: Any
) -> Symbol:
    exponential = (
        call.apply("add", x, alpha * scale)
        if is_result
        else call.apply("mul", call.apply("exp", call.apply("mul", x, input_scale)), alpha * scale)
    )
    slope = call.apply("select", call.apply("less", 0.0, x), scale, call.apply("mul", exponential, input_scale))
    return call.apply("mul", gradient, slope)


@register("sigmoid_backward")
def _sigmoid_backward(call: OperatorCall, gradient: Any, y: Any) -> Symbol:
    return call.apply("mul", gradient, call.apply("mul", y, call.apply("sub", 1.0, y)))


@register("tanh_backward")
def _tanh_backward(call: OperatorCall, gradient: Any, y: Any) -> Symbol:
    return call.apply("mul", gradient, call.apply("sub", 1.0, call.apply("mul", y, y)))


@register("silu")
def _silu(call: OperatorCall, x: Any) -> Symbol:
    return call.apply("mul", x, call.apply("sigmoid", x))


@register("silu_backward")
def _silu_backward(call: OperatorCall, gradient: Any, x: Any) -> Symbol:
    gate = call.apply("sigmoid", x)
    factor = call.apply("add", 1.0, call.apply("mul", x, call.apply("sub", 1.0, gate)))
    return call.apply("mul", gradient, call.apply("mul", gate, factor))


@register("softplus")
def _softplus(call: OperatorCall, x: Any, beta: float = 1, threshold: float = 20) -> Symbol:
    scaled = call.apply("mul", x, beta)
    soft = call.apply("div", call.apply("log", call.apply("add", 1.0, call.apply("exp", scaled))), beta)
    return call.apply("select", call.apply("less", threshold, scaled), x, soft)


@register("softplus_backward")
def _softplus_backward(call: OperatorCall, gradient: Any, x: Any, beta: float, threshold: float) -> Symbol:
    scaled = call.apply("mul", x, beta)
    slope = call.apply("mul", gradient, call.apply("sigmoid", scaled))
    return call.apply("select", call.apply("less", threshold, scaled), gradient, slope)


@register("log_sigmoid_forward")
def _log_sigmoid(call: OperatorCall, x: Any) -> list[Symbol]:
    exponential = call.apply("exp", call.apply("mul", call.apply("abs", x), -1.0))
    value = call.apply("sub", call.apply("min", x, 0.0), call.apply("log", call.apply("add", 1.0, exponential)))
    return [value, exponential]  # the second for the gradient


@register("log_sigmoid_backward")
def _log_sigmoid_backward(call: OperatorCall, gradient: Any, x: Any, exponential: Any) -> Symbol:
    share = call.apply("div", exponential, call.apply("add", 1.0, exponential))
    slope = call.apply("select", call.apply("less", x, 0.0), call.apply("sub", 1.0, share), share)
    return call.apply("mul", gradient, slope)


@register("logaddexp")
def _logaddexp(call: OperatorCall, x: Any, y: Any) -> Symbol:
    distance = call.apply("abs", call.apply("sub", x, y))
    rest = call.apply("log", call.apply("add", 1.0, call.apply("exp", call.apply("mul", distance, -1.0))))
    total = call.apply("add", call.apply("max", x, y), rest)
    return call.apply("select", call.apply("equal", x, y), call.apply("add", x, math.log(2)), total)  # ∞ − ∞


@register("gelu")
def _gelu(call: OperatorCall, x: Any, *, approximate: str = "none") -> Symbol:
    return call.apply("mul", x, _gelu_gate(call, x, approximate))


def _gelu_gate(call: OperatorCall, x: Any, approximate: str) -> Symbol:
    """Φ(x), or its approximation by tanh."""
    if approximate == "tanh":
        curve = call.apply("tanh", _gelu_argument(call, x))
    else:
        curve = call.apply("erf", call.apply("mul", x, math.sqrt(0.5)))
    return call.apply("mul", call.apply("add", 1.0, curve), 0.5)


def _gelu_argument(call: OperatorCall, x: Any) -> Symbol:
    """√(2/π) (x + 0.044715 x³)."""
    cubic = call.apply("add", 1.0, call.apply("mul", call.apply("mul", x, x), 0.044715))
    return call.apply("mul", call.apply("mul", x, cubic), math.sqrt(2 / math.pi))


@register("gelu_backward")
def _gelu_backward(call: OperatorCall, gradient: Any, x: Any, *, approximate: str = "none") -> Symbol:
    square = call.apply("mul", x, x)
    if approximate == "tanh":
        curve = call.apply("tanh", _gelu_argument(call, x))
        inner = call.apply("add", 1.0, call.apply("mul", square, 3 * 0.044715))
        density = call.apply("mul", call.apply("sub", 1.0, call.apply("mul", curve, curve)), inner)
        density = call.apply("mul", density, math.sqrt(0.5 / math.pi))
    else:
        density = call.apply("mul", call.apply("exp", call.apply("mul", square, -0.5)), math.sqrt(0.5 / math.pi))
    slope = call.apply("add", _gelu_gate(call, x, approximate), call.apply("mul", x, density))
    return call.apply("mul", gradient, slope)
