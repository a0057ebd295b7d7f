"""Point forecasts and quantiles of each distribution, from the numbers that a network gives for each value."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from seqloom.export_check import ExportError
from seqloom.models.forecast_distributions import (
    BISECTIONS,
    COMPONENTS,
    EMPTY_SHARE,
    MAX_LOG_RATIO,
    MAX_SUMMED,
    MIN_SCALE,
    ForecastDistribution,
    Gaussian,
    GaussianMixture,
    NegativeBinomial,
    Point,
    Quantiles,
    StudentT,
    normal_quantile,
    student_quantiles,
)
from seqloom.onnx.graph import DOUBLE, Graph, Value
from seqloom.onnx.modules import array

LARGEST_COUNT = 100 * int(MAX_SUMMED)  # at which the sums over counts end
ERFC_TERMS = 28  # Chebyshev polynomials, with which erfc is exact to float64's rounding


class Reference(NamedTuple):
    """What the numbers of the network refer to."""

    base: Value | None  # (B, T or 1, 1 or horizon, targets); None: 0
    unit: NDArray[Any]  # (horizon, targets)

    def restored(self, numbers: Value) -> Value:  # (B, T or 1, horizon, targets, …)
        """Numbers as scaled values."""
        scaled = numbers * self.unit.reshape(*self.unit.shape, 1)
        return scaled if self.base is None else scaled + self.base.unsqueeze(4)


def point(distribution: ForecastDistribution, numbers: Value, reference: Reference) -> Value:
    """The point forecast, scaled: (B, T or 1, horizon, targets)."""
    if isinstance(distribution, NegativeBinomial):
        expected, _ = _count_parameters(distribution, numbers, reference)
        return (expected - array(distribution.mean)) / array(distribution.deviation)
    located = numbers.part(-1, 0, 1)
    if isinstance(distribution, GaussianMixture):
        log_weights, locations, _ = _mixture_parts(numbers)
        located = (log_weights.apply("Exp") * locations).sum(-1, keep=True)
    return reference.restored(located).squeeze(4)


def quantiles(
    distribution: ForecastDistribution, numbers: Value, levels: Sequence[float], reference: Reference
) -> Value | None:
    """The quantiles, scaled and in ascending order: (B, T or 1, horizon, targets, levels); None: there are none."""
    if type(distribution) not in QUANTILES:
        name = type(distribution).__name__
        raise ExportError(f"forecasts of the distribution {name} cannot be exported to ONNX")
    return QUANTILES[type(distribution)](distribution, numbers, levels, reference)


def ascending(values: Value, count: int) -> Value:
    """The last axis, of this size, sorted."""
    return values.graph.calls("TopK", values, np.array([count]), outputs=2, axis=-1, largest=0, sorted=1)[0]


def _quantiles(_: Quantiles, numbers: Value, levels: Sequence[float], reference: Reference) -> Value:
    return ascending(reference.restored(numbers.part(-1, 1)), len(levels))


def _gaussian(_: Gaussian, numbers: Value, levels: Sequence[float], reference: Reference) -> Value:
    return _from_deviates(numbers, array(normal_quantile(torch.tensor(levels))), reference)


def _student(distribution: StudentT, numbers: Value, levels: Sequence[float], reference: Reference) -> Value:
    freedom = distribution.freedom.detach().double().numpy()[:, 0]
    deviates = np.stack([student_quantiles(levels, float(each)) for each in freedom]).astype(np.float32)
    return _from_deviates(numbers, deviates[:, np.newaxis], reference)


def _from_deviates(numbers: Value, deviates: Any, reference: Reference) -> Value:
    return reference.restored(numbers.part(-1, 0, 1) + _scale(numbers.part(-1, 1, 2)) * deviates)


def _scale(numbers: Value) -> Value:
    return numbers.apply("Softplus") + MIN_SCALE


def _mixture_parts(numbers: Value) -> tuple[Value, Value, Value]:  # each (..., components)
    logits, locations, scales = (numbers.part(-1, first, first + COMPONENTS) for first in range(0, 9, COMPONENTS))
    return logits.apply("LogSoftmax", axis=-1), locations, _scale(scales)


def _mixture(_: GaussianMixture, numbers: Value, levels: Sequence[float], reference: Reference) -> Value:
    """By bisection between the quantiles of the components, in double precision."""
    graph = numbers.graph
    log_weights, locations, scales = (part.cast(DOUBLE).unsqueeze(5) for part in _mixture_parts(numbers))
    weights = log_weights.apply("Exp")
    probabilities = graph.constant(np.array(levels), DOUBLE)
    ends = locations + scales * array(normal_quantile(torch.tensor(levels, dtype=torch.float64)))  # (..., C, levels)
    low, high = (graph.call(name, ends, np.array([4]), keepdims=0) for name in ("ReduceMin", "ReduceMax"))

    def bisect(ends: list[Value], _step: list[Value]) -> tuple[list[Value], list[Value]]:
        low, high = ends
        middle = (low + high) * 0.5
        below = (weights * normal_probability((middle.unsqueeze(4) - locations) / scales)).sum(4) < probabilities
        return [graph.where(below, middle, low), graph.where(below, high, middle)], []

    limits, _outputs = graph.scan(bisect, [low, high], [graph.constant(np.zeros(BISECTIONS), DOUBLE)])
    low, high = limits
    return reference.restored(((low + high) * 0.5).cast(numbers.dtype))


def normal_probability(deviates: Value) -> Value:
    """The distribution function of the standard normal distribution, in double precision.

    onnxruntime has erf in single precision only. erfc z = t exp(-z² + p(t)) with t = 2 / (2 + z) for z ≥ 0, where p is
    smooth: a sum of Chebyshev polynomials.
    """
    graph = deviates.graph
    z = deviates.apply("Abs") * math.sqrt(0.5)
    t = graph.constant(2.0, DOUBLE) / (z + 2.0)
    x = t * 2.0 - 1.0
    *others, first = _erfc_coefficients()[::-1].tolist()
    later, last = graph.constant(0.0, DOUBLE), graph.constant(0.0, DOUBLE)
    for coefficient in others:  # Clenshaw 1955
        last, later = x * last * 2.0 - later + coefficient, last
    exponent = x * last - later + first - z * z
    tail = t * exponent.apply("Exp") * 0.5
    return graph.where(deviates > 0.0, tail * -1.0 + 1.0, tail)


def _erfc_coefficients() -> NDArray[np.float64]:
    def smooth(x: NDArray[np.float64]) -> Any:  # x = 2 t - 1
        t = torch.from_numpy((x + 1) / 2)
        return (torch.special.erfcx(2 / t - 2) / t).log().numpy()

    coefficients: NDArray[np.float64] = chebyshev.chebinterpolate(smooth, ERFC_TERMS - 1)
    return coefficients


def _count_parameters(
    distribution: NegativeBinomial, numbers: Value, reference: Reference
) -> tuple[Value, Value]:  # (B, T or 1, horizon, targets), each
    """The expected counts, and their dispersion."""
    graph, mean = numbers.graph, array(distribution.mean)
    zero = numbers.part(-1, 0, 1).squeeze(4) * 0.0
    base = zero + mean if reference.base is None else zero + reference.base * array(distribution.deviation) + mean
    base = graph.call("Max", base, graph.constant(0.0, base.dtype))
    base = base + (EMPTY_SHARE * np.maximum(mean, MIN_SCALE)).astype(np.float32)
    ratio = graph.call("Clip", numbers.part(-1, 0, 1), np.float32(-MAX_LOG_RATIO), np.float32(MAX_LOG_RATIO))
    return base * ratio.squeeze(4).apply("Exp"), _scale(numbers.part(-1, 1, 2)).squeeze(4)


def _counts(distribution: NegativeBinomial, numbers: Value, levels: Sequence[float], reference: Reference) -> Value:
    """By summing up probabilities, those of large counts from their moments; as ``count_quantiles``."""
    parameters = _count_parameters(distribution, numbers, reference)
    expected, dispersion = (part.cast(DOUBLE).unsqueeze(4) for part in parameters)
    counts = _count_quantiles(numbers.graph, expected, dispersion, levels)
    mean, deviation = (array(part).astype(np.float64)[:, None] for part in (distribution.mean, distribution.deviation))
    return ((counts - mean) / deviation).cast(numbers.dtype)


def _count_quantiles(graph: Graph, expected: Value, dispersion: Value, levels: Sequence[float]) -> Value:
    probabilities = np.array(levels)
    deviates = array(normal_quantile(torch.tensor(levels, dtype=torch.float64)))
    variance = expected + dispersion * expected * expected
    bounded = graph.call("Max", variance, graph.constant(MIN_SCALE, DOUBLE))
    skewness = (dispersion * expected * 2.0 + 1.0) / bounded.apply("Sqrt")
    moved = skewness * ((deviates**2 - 1) / 6) + deviates
    from_moments = (expected + variance.apply("Sqrt") * moved).apply("Floor")
    from_moments = graph.call("Max", from_moments, graph.constant(0.0, DOUBLE))
    small = expected <= MAX_SUMMED
    mean, shape = graph.where(small, expected, 1.0), graph.constant(1.0, DOUBLE) / dispersion
    failure = (mean / (mean + shape)).apply("Log").apply("Exp")
    first = (shape * (shape / (mean + shape)).apply("Log")).apply("Exp")

    def add(number: Value, states: list[Value]) -> tuple[Value, list[Value], list[Value]]:
        probability, total, reached = states
        count = number.cast(DOUBLE)
        # Not total < p instead of total >= p: NaN ends the sum.
        arrived = (reached < 0.0) & ~(total < graph.constant(probabilities, DOUBLE))
        reached = graph.where(arrived, count, reached)
        probability = probability * failure * (shape + count) / (count + 1.0)
        missing = (small & (reached < 0.0)).cast(DOUBLE).reshape(-1)
        return missing.max(0) > 0.0, [probability, total + probability, reached], []

    none = first * 0.0 - np.ones(len(levels))
    (_, _, reached), _ = graph.loop(add, [first, first, none], graph.constant(LARGEST_COUNT + 1, np.int64))
    return graph.where(small & ~(reached < 0.0), reached, from_moments)


QUANTILES: dict[type[ForecastDistribution], Callable[..., Value | None]] = {
    Point: lambda _distribution, _numbers, _levels, _reference: None,
    Quantiles: _quantiles,
    Gaussian: _gaussian,
    StudentT: _student,
    GaussianMixture: _mixture,
    NegativeBinomial: _counts,
}
