"""Symbolic rules of ATen operators on whole rows: normalisation, softmax, maxima, norms, and their gradients."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from seqloom.kernels.fuse.activation_rules import RULES
from seqloom.kernels.fuse.expression import row_width
from seqloom.kernels.fuse.operator_rules import OperatorCall, reduce_dimensions, register, require_last_dimension
from seqloom.kernels.fuse.symbols import BatchRows, BatchSum, Symbol, Unfusable

__all__ = ["RULES"]  # includes those of operator_rules and activation_rules


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
    require_last_dimension(call, x, dimension)
    exponential = call.apply("exp", call.apply("sub", x, call.reduce(x, "amax")))
    return call.apply("div", exponential, call.reduce(exponential))


@register("_softmax_backward_data")
def _softmax_backward(call: OperatorCall, gradient: Any, y: Any, dimension: int, _dtype: Any) -> Symbol:
    product = call.apply("mul", gradient, y)
    return call.apply("sub", product, call.apply("mul", y, call.reduce(product)))


@register("_log_softmax")
def _log_softmax(call: OperatorCall, x: Tensor, dimension: int, _half: bool) -> Symbol:
    require_last_dimension(call, x, dimension)
    shifted = call.apply("sub", x, call.reduce(x, "amax"))
    return call.apply("sub", shifted, call.apply("log", call.reduce(call.apply("exp", shifted))))


@register("_log_softmax_backward_data")
def _log_softmax_backward(call: OperatorCall, gradient: Any, y: Any, dimension: int, _dtype: Any) -> Symbol:
    return call.apply("sub", gradient, call.apply("mul", call.apply("exp", y), call.reduce(gradient)))


@register("logsumexp")
def _logsumexp(call: OperatorCall, x: Tensor, dimensions: Any, keepdim: bool = False) -> Symbol:
    require_last_dimension(call, x, _single(dimensions))
    largest = call.reduce(x, "amax")
    infinite = call.apply("equal", call.apply("abs", largest), math.inf)
    largest = call.rows(call.apply("select", infinite, 0.0, largest))
    total = call.reduce(call.apply("exp", call.apply("sub", x, largest)))
    return call.apply("add", call.apply("log", total), largest)


def _single(dimensions: Any) -> int:
    """The one dimension that is reduced."""
    if isinstance(dimensions, int):
        return dimensions
    if dimensions is None or len(dimensions) != 1:
        raise Unfusable(f"a reduction over the dimensions {dimensions}")
    (dimension,) = dimensions
    return int(dimension)


@register("amin")
def _amin(call: OperatorCall, x: Tensor, dimensions: Any = (), keepdim: bool = False) -> Symbol:
    return _minimum_of_row(call, x, dimensions or None)


def _minimum_of_row(call: OperatorCall, x: Tensor, dimensions: Any) -> Symbol:
    require_last_dimension(call, x, _single(dimensions))
    return call.apply("mul", call.reduce(call.apply("mul", x, -1.0), "amax"), -1.0)


@register("max", "min")
def _max(call: OperatorCall, x: Tensor, dimension: int, keepdim: bool = False) -> list[Symbol]:
    """The largest (smallest) value of each row, and its first position."""
    require_last_dimension(call, x, dimension)
    if not x.is_floating_point():
        raise Unfusable("a maximum of conditions")
    value = call.reduce(x, "amax") if call.name == "max" else _minimum_of_row(call, x, dimension)
    same = call.apply("or", call.apply("equal", x, value), call.apply("not", call.apply("equal", x, x)))  # or NaN
    behind = call.apply("select", same, call.apply("mul", call.positions(x.shape[-1]), -1.0), -math.inf)
    return [value, call.apply("mul", call.reduce(behind, "amax"), -1.0)]


@register("scatter")
def _scatter(call: OperatorCall, x: Tensor, dimension: int, index: Tensor, source: Any) -> Symbol:
    require_last_dimension(call, x, dimension)
    shapes = {tensor.shape for tensor in (index, source) if isinstance(tensor, Tensor)}
    if shapes != {(x.shape[0], 1)}:
        raise Unfusable("several indices in a row")
    here = call.apply("equal", call.positions(x.shape[-1]), index)
    return call.apply("select", here, source, x)


@register("linalg_vector_norm")
def _vector_norm(
    call: OperatorCall, x: Tensor, order: float = 2, dimensions: Any = None, keepdim: bool = False
) -> Symbol:
    if order != 2:
        raise Unfusable(f"a norm of order {order}")
    return call.apply("sqrt", reduce_dimensions(call, call.apply("mul", x, x), x, dimensions))


@register("glu")
def _glu(call: OperatorCall, x: Tensor, dimension: int = -1) -> Symbol:
    require_last_dimension(call, x, dimension)
    value, gate = _blocks(call, x, 2)
    return call.apply("mul", value, call.apply("sigmoid", gate))


@register("glu_backward")
def _glu_backward(call: OperatorCall, gradient: Tensor, x: Tensor, dimension: int) -> Symbol:
    require_last_dimension(call, x, dimension)
    value, gate = _blocks(call, x, 2)
    share = call.apply("sigmoid", gate)
    first = call.apply("mul", gradient, share)
    second = call.apply("mul", call.apply("mul", first, call.apply("sub", 1.0, share)), value)
    return _concatenate(call, [first, second])
