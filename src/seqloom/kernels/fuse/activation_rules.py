"""Symbolic rules of ATen operators: elementwise functions, normalisation, softmax, and their gradients."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from seqloom.kernels.fuse.expression import row_width
from seqloom.kernels.fuse.operator_rules import RULES, OperatorCall, register, require_last_dimension
from seqloom.kernels.fuse.symbols import BatchRows, BatchSum, Symbol, Unfusable

__all__ = ["RULES"]  # includes those of operator_rules


def _register_elementwise(name: str, *operations: str) -> None:
    def function(call: OperatorCall, *values: Any) -> Symbol:
        result: Any = values
        for operation in operations:
            result = (call.apply(operation, *result),)
        symbol: Symbol = result[0]
        return symbol

    RULES[name] = function


for _name in ("mul", "div", "sigmoid", "tanh", "exp", "expm1", "log", "sqrt", "abs"):
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


@register("pow")
def _pow(call: OperatorCall, x: Any, exponent: Any) -> Symbol:
    if not isinstance(exponent, int | float) or exponent * 2 != int(exponent * 2) or abs(exponent) > 8:
        raise Unfusable(f"power {exponent}")
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


def _blocks(call: OperatorCall, value: Tensor, count: int) -> list[BatchRows]:
    """A row in equal pieces, each of which is normalised separately."""
    symbol = call.rows(value)
    size = row_width(symbol.row) // count
    return [BatchRows(call.graph.slice_row(symbol.row, index * size, size), symbol.uniform) for index in range(count)]


def _require_one_dimension(shape: Sequence[int], weight: Any) -> None:
    if len(shape) != 1 or (weight is not None and weight.dim() != 1):
        raise Unfusable(f"layer normalisation over a shape {tuple(shape)}")


def _concatenate(call: OperatorCall, parts: Sequence[Symbol]) -> BatchRows:
    return BatchRows(call.graph.concatenate(segment for part in parts for segment in call.rows(part).row))


@register("native_layer_norm")
def _layer_norm(
    call: OperatorCall, x: Tensor, shape: Sequence[int], weight: Any, bias: Any, epsilon: float
) -> list[Symbol]:
    _require_one_dimension(shape, weight)
    size = shape[-1]
    outs, means, scales = [], [], []
    for part in _blocks(call, x, x.numel() // len(x) // size):
        mean = call.apply("mul", call.reduce(part), 1 / size)
        centred = call.apply("sub", part, mean)
        variance = call.apply("mul", call.reduce(call.apply("mul", centred, centred)), 1 / size)
        scale = call.apply("div", 1.0, call.apply("sqrt", call.apply("add", variance, epsilon)))
        out = call.apply("mul", centred, scale)
        out = out if weight is None else call.apply("mul", out, weight)
        outs.append(out if bias is None else call.apply("add", out, bias))
        means.append(mean)
        scales.append(scale)
    return [_concatenate(call, outs), _concatenate(call, means), _concatenate(call, scales)]


@register("native_layer_norm_backward")
def _layer_norm_backward(
    call: OperatorCall,
    gradient: Tensor,
    x: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    scale: Tensor,
    weight: Any,
    _bias: Any,
    output_mask: Sequence[bool],
) -> list[Symbol | None]:
    _require_one_dimension(shape, weight)
    size = shape[-1]
    count = x.numel() // len(x) // size
    outs: list[Symbol] = []
    weight_gradient: Symbol | None = None
    bias_gradient: Symbol | None = None
    for part, part_gradient, part_mean, part_scale in zip(
        *[_blocks(call, value, count) for value in (x, gradient, mean, scale)], strict=True
    ):
        normalized = call.apply("mul", call.apply("sub", part, part_mean), part_scale)
        inner: Symbol = part_gradient if weight is None else call.apply("mul", part_gradient, weight)
        mean_product = call.apply("mul", call.reduce(call.apply("mul", inner, normalized)), 1 / size)
        mean_gradient = call.apply("mul", call.reduce(inner), 1 / size)
        centred = call.apply(
            "sub", call.apply("sub", inner, mean_gradient), call.apply("mul", normalized, mean_product)
        )
        outs.append(call.apply("mul", centred, part_scale))
        product = call.apply("mul", part_gradient, normalized)
        weight_gradient = product if weight_gradient is None else call.apply("add", weight_gradient, product)
        bias_gradient = part_gradient if bias_gradient is None else call.apply("add", bias_gradient, part_gradient)
    return [
        _concatenate(call, outs),
        BatchSum(call.rows(weight_gradient).row) if output_mask[1] else None,
        BatchSum(call.rows(bias_gradient).row) if output_mask[2] else None,
    ]


@register("_softmax")
def _softmax(call: OperatorCall, x: Tensor, dimension: int, _half: bool) -> Symbol:
    require_last_dimension(x, dimension)
    exponential = call.apply("exp", call.apply("sub", x, call.reduce(x, "amax")))
    return call.apply("div", exponential, call.reduce(exponential))


@register("_softmax_backward_data")
def _softmax_backward(call: OperatorCall, gradient: Any, y: Any, dimension: int, _dtype: Any) -> Symbol:
    product = call.apply("mul", gradient, y)
    return call.apply("sub", product, call.apply("mul", y, call.reduce(product)))
