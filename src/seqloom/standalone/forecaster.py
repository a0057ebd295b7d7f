"""Forecasters: they read and answer in the units of the data."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch

from seqloom.kernels.llvm import vector_math
from seqloom.kernels.llvm.ir_builder import Value, integer
from seqloom.models.forecast_distributions import (
    MIN_SCALE,
    Gaussian,
    Point,
    Quantiles,
    StudentT,
    normal_quantile,
    student_quantiles,
)
from seqloom.models.forecaster import Forecaster
from seqloom.standalone.builder import DOUBLE, ONE, Addresses, Count, ModelBuilder, Rows
from seqloom.standalone.models import Scale, scaled
from seqloom.standalone.modules import array, emit_layer, unsupported
from seqloom.standalone.pooling import last


def forecaster(
    b: ModelBuilder,
    arguments: Addresses,
    *,
    model: Forecaster,
    columns: int,
    scale: Scale | None,  # of the columns; None: binary values
    rms_changes: Sequence[float] | None,  # of each column; None: the model reads values only
) -> None:
    """The forecast at each row, or after the last one, and its quantiles."""
    if model.future is not None:
        raise unsupported("a forecaster that reads covariates")
    values = scaled(b, arguments["values"], b.length, size=columns, scale=scale)
    features = [values]
    if rms_changes is not None and scale is not None:
        features.append(_changes(b, arguments, columns=columns, scale=scale, rms_changes=rms_changes))
    inputs = features[model.first :]
    numbers = (_separate if model.separate else _together)(b, model, inputs)
    _Forecast(b, model, numbers, values, scale).store(arguments)


def _changes(
    b: ModelBuilder, arguments: Addresses, *, columns: int, scale: Scale, rms_changes: Sequence[float]
) -> Rows:
    """The changes from row to row, in double precision; the row before the first one is ``previous``."""
    builder, target = b.builder, b.allocate(b.length, columns)
    means, deviations, units = (b.constant(part, np.float64) for part in (*scale, rms_changes))

    def standardized(base: Value, index: Value, column: Value) -> Value:
        value = builder.fsub(b.load_double(base, index), b.load_double(means, column))
        return builder.fdiv(value, b.load_double(deviations, column))

    with b.emit.loop(0, b.length.value) as row, b.emit.loop(0, columns) as column:
        place = builder.add(builder.mul(row, integer(columns)), column)
        is_first = builder.icmp_signed("==", row, integer(0))
        before = builder.select(is_first, column, builder.sub(place, integer(columns)))
        base = builder.select(is_first, arguments["previous"], arguments["values"])
        change = builder.fsub(standardized(arguments["values"], place, column), standardized(base, before, column))
        change = builder.fdiv(change, b.load_double(units, column))
        builder.store(builder.fptrunc(change, b.emit.scalar), b.emit.address(b.row_address(target, row), column))
    return target


def _planes(model: Forecaster, targets: int) -> tuple[Any, Any]:
    """Weight and bias of the head, so that its outputs are ordered by their part of the distribution first."""
    size = model.distribution.size
    order = np.arange(model.horizon * targets * size).reshape(model.horizon * targets, size).T.reshape(-1)
    return array(model.head.weight)[order], array(model.head.bias)[order]


def _steps(b: ModelBuilder, model: Forecaster, values: Rows) -> Rows:
    return values if model.last is None else last(b, values)


def _together(b: ModelBuilder, model: Forecaster, inputs: list[Rows]) -> Rows:
    """What the network gives, (distribution size × horizon × targets); all columns are one sequence of vectors."""
    values, _ = emit_layer(b, model.encoder.layer, b.concatenate(inputs))
    return b.linear(_steps(b, model, values), *_planes(model, len(model.targets)))


def _separate(b: ModelBuilder, model: Forecaster, inputs: list[Rows]) -> Rows:
    """The same; each target is a sequence of its own."""
    emit, builder = b.emit, b.builder
    targets, size = len(model.targets), model.horizon * model.distribution.size
    count = b.length if model.last is None else ONE
    out = b.allocate(count, size * targets)
    table = b.constant(array(model.targets), np.int64)
    with emit.loop(0, targets) as target, b.workspace.temporary():
        column = emit.load_integer(table, target)
        own = b.allocate(b.length, len(inputs))
        with emit.loop(0, b.length.value) as row:
            for index, feature in enumerate(inputs):
                value = emit.load_scalar(emit.address(b.row_address(feature, row), column))
                builder.store(value, emit.address(b.row_address(own, row), index))
        values, _ = emit_layer(b, model.encoder.layer, own)
        numbers = b.linear(_steps(b, model, values), *_planes(model, 1))
        with emit.loop(0, count.value) as row, emit.loop(0, size) as index:
            value = emit.load_scalar(emit.address(b.row_address(numbers, row), index))
            place = builder.add(builder.mul(index, integer(targets)), target)
            builder.store(value, emit.address(b.row_address(out, row), place))
    return out


class _Forecast:
    """From the numbers of the network to forecasts; a row has a number for each step of the horizon and target."""

    def __init__(self, b: ModelBuilder, model: Forecaster, numbers: Rows, values: Rows, scale: Scale | None) -> None:
        self._b, self._model, self._numbers = b, model, numbers
        self._targets = array(model.targets)
        self._size = model.horizon * len(self._targets)
        self._count = numbers.count
        self._scale = None if scale is None else tuple(np.array(part)[self._targets] for part in scale)
        self._unit: Rows | None = None
        self._base: Rows | None = None
        if model.horizon_changes is not None:
            self._unit = b.constant_rows(array(model.horizon_changes), self._count)
            self._base = self._reference(values)

    def _reference(self, values: Rows) -> Rows:
        """What forecasts are relative to: the last value, or a linear forecast."""
        b, model = self._b, self._model
        if model.linear_weight is not None and model.linear_bias is not None:
            return self._linear(values, array(model.linear_weight), array(model.linear_bias))
        steps, base = _steps(b, model, values), b.allocate(self._count, self._size)
        table = b.constant(self._targets, np.int64)
        with b.emit.loop(0, self._count.value) as row, b.emit.loop(0, len(self._targets)) as target:
            column = b.emit.load_integer(table, target)
            value = b.emit.load_scalar(b.emit.address(b.row_address(steps, row), column))
            with b.emit.loop(0, model.horizon) as step:
                place = b.builder.add(b.builder.mul(step, integer(len(self._targets))), target)
                b.builder.store(value, b.emit.address(b.row_address(base, row), place))
        return base

    def _linear(self, values: Rows, weight: Any, bias: Any) -> Rows:
        """The linear forecast of each target; a history that is too short starts with its first value, repeated."""
        b, emit, builder = self._b, self._b.emit, self._b.builder
        targets, length = len(self._targets), weight.shape[1]
        table = b.constant(self._targets, np.int64)
        recent = b.allocate(Count(integer(targets), 0, targets), length)
        with emit.loop(0, targets) as target, emit.loop(0, length) as place:
            column = emit.load_integer(table, target)
            step = builder.add(builder.sub(b.length.value, integer(length)), place)
            step = builder.select(builder.icmp_signed("<", step, integer(0)), integer(0), step)
            value = emit.load_scalar(emit.address(b.row_address(values, step), column))
            builder.store(value, emit.address(b.row_address(recent, target), place))
        forecasts = b.linear(recent, weight, bias)
        base = b.allocate(ONE, self._size)
        with emit.loop(0, targets) as target, emit.loop(0, self._model.horizon) as step:
            value = emit.load_scalar(emit.address(b.row_address(forecasts, target), step))
            place = builder.add(builder.mul(step, integer(targets)), target)
            builder.store(value, emit.address(base.address, place))
        return base

    def _plane(self, index: int) -> Rows:
        return self._b.columns(self._numbers, index * self._size, self._size)

    def _restored(self, numbers: Rows) -> Rows:
        """Numbers as scaled values."""
        if self._unit is None or self._base is None:
            return numbers
        return self._b.add(self._b.multiply(numbers, self._unit), self._base)

    def store(self, arguments: Addresses) -> None:
        """Write the point forecast and the quantiles."""
        point = self._restored(self._plane(0))
        moved = self._moved(point)
        self._store([moved], arguments["forecast"])
        if self._model.levels and self._scale is not None and "quantiles" in arguments:
            self._store(self._calibrated(self._quantiles(), point, moved), arguments["quantiles"])

    def _moved(self, point: Rows) -> Rows:
        """The point forecast, closer to its base where that was better on the development data."""
        b, shrinkage = self._b, self._model.shrinkage
        if shrinkage is None:
            return point
        factor = b.emit.splat(float(shrinkage))
        if self._base is None:
            return b.map(lambda value: b.builder.fmul(value, factor), point)

        def closer(value: Value, base: Value) -> Value:
            return b.builder.fadd(base, b.builder.fmul(b.builder.fsub(value, base), factor))

        return b.map(closer, point, self._base)

    def _quantiles(self) -> list[Rows]:
        """One row of numbers for each level."""
        distribution, levels = self._model.distribution, self._model.levels
        match distribution:
            case Quantiles():
                return self._sorted([self._restored(self._plane(1 + index)) for index in range(len(levels))])
            case Gaussian():
                deviates = array(normal_quantile(torch.tensor(levels))).reshape(-1, 1).repeat(self._size, axis=1)
            case StudentT():
                freedom = distribution.freedom.detach().double().numpy()[:, 0]
                by_step = np.stack([student_quantiles(levels, float(each)) for each in freedom], axis=1)
                deviates = np.repeat(by_step, self._size // by_step.shape[1], axis=1)
            case _:
                raise unsupported(f"a forecast of the distribution {type(distribution).__name__}")
        b = self._b
        spread = b.map(self._spread, self._plane(1))
        moved = [b.multiply(spread, b.constant_rows(row, self._count)) for row in deviates]
        return [self._restored(b.add(self._plane(0), row)) for row in moved]

    def _spread(self, value: Value) -> Value:
        """Softplus plus the smallest scale: max(x, 0) + log(1 + exp −|x|)."""
        b, emit = self._b.builder, self._b.emit
        small = vector_math.exp(emit, b.fneg(emit.intrinsic("fabs", value)))
        logarithm = vector_math.log(emit, b.fadd(emit.splat(1.0), small))
        positive = vector_math.at_least(emit, value, emit.splat(0.0))
        return b.fadd(b.fadd(positive, logarithm), emit.splat(MIN_SCALE))

    def _sorted(self, rows: list[Rows]) -> list[Rows]:
        """Numbers in increasing order from row to row."""
        b, ordered = self._b, [*rows]
        for low, high in combinations(range(len(rows)), 2):
            pair = ordered[low], ordered[high]
            ordered[low] = b.map(lambda x, y: vector_math.minimum(b.emit, x, y), *pair)
            ordered[high] = b.map(lambda x, y: vector_math.maximum(b.emit, x, y), *pair)
        return ordered

    def _calibrated(self, quantiles: list[Rows], point: Rows, moved: Rows) -> list[Rows]:
        b, shifts = self._b, self._model.interval_shifts
        if shifts is None:
            return quantiles
        follow = b.map(b.builder.fsub, moved, point)
        placed = [b.add(row, follow) for row in quantiles]
        spread = b.map(b.builder.fsub, placed[-1], placed[0])
        numbers = [b.emit.splat(float(shift)) for shift in shifts]
        widened = [
            b.map(lambda x, wide, shift=shift: b.builder.fadd(x, b.builder.fmul(wide, shift)), row, spread)
            for row, shift in zip(placed, numbers, strict=True)
        ]
        return self._sorted(widened)

    def _store(self, rows: list[Rows], target: Value) -> None:
        """Doubles in the units of the data, (rows, horizon, targets, number of ``rows``)."""
        b, emit, builder = self._b, self._b.emit, self._b.builder
        targets = len(self._targets)
        tables = None if self._scale is None else [b.constant(part, np.float64) for part in self._scale]
        if tables is None:
            rows = [b.map(b.sigmoid, row) for row in rows]
        for index, values in enumerate(rows):
            with emit.loop(0, self._count.value) as row, emit.loop(0, self._size) as column:
                value = builder.fpext(emit.load_scalar(emit.address(b.row_address(values, row), column)), DOUBLE)
                if tables is not None:
                    means, deviations = (b.load_double(t, builder.urem(column, integer(targets))) for t in tables)
                    value = builder.fadd(builder.fmul(value, deviations), means)
                place = builder.add(builder.mul(row, integer(self._size)), column)
                place = builder.add(builder.mul(place, integer(len(rows))), integer(index))
                b.store_double(value, target, place)


SUPPORTED = (Point, Quantiles, Gaussian, StudentT)
"""The distributions that can be compiled."""
