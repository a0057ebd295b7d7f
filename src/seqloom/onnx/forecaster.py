"""Forecasters: they read and answer in the units of the data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from seqloom.models.forecaster import Forecaster
from seqloom.onnx import forecast_distributions as distributions
from seqloom.onnx.encoders import encode
from seqloom.onnx.forecast_distributions import Reference
from seqloom.onnx.graph import DOUBLE, FLOAT, Graph, Value
from seqloom.onnx.inputs import Scale, lengths_input
from seqloom.onnx.models import restored
from seqloom.onnx.modules import Rows, array, emit_module
from seqloom.onnx.pooling import at
from seqloom.onnx.pretrained import take_elements


@dataclass(frozen=True)
class Covariates:
    """What is known in advance."""

    count: int
    read: int  # the encoder reads this many of them
    scale: Scale


def forecaster(
    model: Forecaster,
    *,
    columns: int,
    scale: Scale | None,  # of the columns; None: binary values
    rms_changes: Sequence[float] | None,  # of each column; None: the model reads values only
    covariates: Covariates | None = None,  # what is known in advance; None: nothing
) -> Graph:
    """The forecast at each row, (B, T, horizon, targets), or after the last one, (B, 1, horizon, targets).

    Quantiles have one more axis. The input ``previous`` is the row before the first: changes are computed from it. If
    there is none, it is the first row itself. The input ``covariates`` has the rows of the history, then those of the
    steps to forecast.
    """
    graph = Graph()
    raw = graph.input("values", DOUBLE, ["batch", "time", columns])
    rows = Rows.of(raw, lengths_input(graph))
    standardized = _standardize(raw, scale)
    features = [standardized]
    if rms_changes is not None:
        before = _standardize(graph.input("previous", DOUBLE, ["batch", columns]), scale).unsqueeze(1)
        earlier = graph.concatenate([before, standardized.part(1, 0, -1)], axis=1)
        features.append((standardized - earlier) / graph.constant(rms_changes, DOUBLE))
    inputs = [rows.clear_padding(feature.cast(FLOAT)) for feature in features]
    ahead = None if covariates is None else _ahead(graph, model, covariates, rows)
    numbers = (_separate if model.separate else _together)(model, inputs[model.first :], rows, ahead)
    point, quantiles = _forecast(model, numbers, _reference(model, inputs[0], rows))
    real = None if model.last is not None else rows.mask.unsqueeze(2, 3)
    axes = ["batch", 1 if model.last is not None else "time", model.horizon, len(model.targets)]
    targets = None if scale is None else tuple(np.array(part)[array(model.targets)] for part in scale)
    exact = point.cast(DOUBLE)
    exact = exact.apply("Sigmoid") if targets is None else restored(exact, targets)
    graph.output("forecast", exact if real is None else graph.where(real, exact, 0.0), axes)
    if quantiles is not None and targets is not None:
        restored_quantiles = restored(quantiles.cast(DOUBLE), tuple(part[:, np.newaxis] for part in targets))
        if real is not None:
            restored_quantiles = graph.where(real.unsqueeze(4), restored_quantiles, 0.0)
        graph.output("quantiles", restored_quantiles, [*axes, len(model.levels)])
    return graph


def _standardize(values: Value, scale: Scale | None) -> Value:
    if scale is None:
        return values
    means, deviations = (values.graph.constant(part, DOUBLE) for part in scale)
    return (values - means) / deviations


class _Ahead(NamedTuple):
    """Covariates, scaled."""

    known: Value | None  # (B, T, K), of the history, those that the encoder reads; None: it reads none
    future: Value  # (B, T or 1, horizon, C), of the steps to forecast

    def repeated(self, count: int) -> "_Ahead":
        """The same for each of several targets, which are rows of the batch."""
        return _Ahead(None if self.known is None else _repeated(self.known, count), _repeated(self.future, count))


def _repeated(values: Value, count: int) -> Value:  # (B, …) → (B × count, …)
    rows = values.graph.range(values.size(0) * count) / count
    return values.take(rows)


def _ahead(graph: Graph, model: Forecaster, covariates: Covariates, rows: Rows) -> _Ahead:
    raw = graph.input("covariates", DOUBLE, ["batch", "rows", covariates.count])
    values = _standardize(raw, covariates.scale).cast(FLOAT)
    time = rows.mask.size(1)
    known = rows.clear_padding(values.part(1, 0, time).part(2, 0, covariates.read)) if covariates.read else None
    steps = graph.range(graph.constant(model.horizon, np.int64))
    if model.last is None:
        places = (graph.range(time).unsqueeze(1) + 1 + steps).reshape(1, -1)  # after each row
    else:
        places = rows.lengths.unsqueeze(1) + steps
    last = (rows.lengths + (model.horizon - 1)).unsqueeze(1)
    future = take_elements(values, graph.call("Min", places, last))  # the padding repeats the last row
    return _Ahead(known, future.reshape(raw.size(0), -1, model.horizon, covariates.count))


def _head(model: Forecaster, hidden: Value, ahead: _Ahead | None) -> Value:  # (B, T or 1, D) → (…, horizon, outputs)
    numbers = emit_module(model.head, hidden).reshape(0, 0, model.horizon, -1)
    if model.future is None or ahead is None:
        return numbers
    mixed = emit_module(model.future.hidden, hidden).unsqueeze(2) + emit_module(model.future.covariates, ahead.future)
    return numbers + emit_module(model.future.outputs, mixed.apply("Tanh"))


def _together(
    model: Forecaster, inputs: list[Value], rows: Rows, ahead: _Ahead | None
) -> Value:  # (B, T or 1, horizon, targets, size)
    """What the network gives for each value; all columns are one sequence of vectors."""
    known = [] if ahead is None or ahead.known is None else [ahead.known]
    source = encode(model.encoder, rows.lengths.graph.concatenate([*inputs, *known]), rows)
    outputs = _head(model, _steps(model, source.values, rows), ahead)
    return outputs.reshape(0, 0, model.horizon, len(model.targets), model.distribution.size)


def _separate(model: Forecaster, inputs: list[Value], rows: Rows, ahead: _Ahead | None) -> Value:
    """The same; each target is a row of the batch."""
    graph, targets = rows.lengths.graph, array(model.targets)
    batch, time = inputs[0].size(0), inputs[0].size(1)
    stacked = graph.concatenate([part.take(targets, axis=2).unsqueeze(2) for part in inputs], axis=2)
    values = stacked.transpose(0, 3, 1, 2).reshape(batch * len(targets), time, len(inputs))
    lengths = rows.lengths.unsqueeze(1).expand(batch, len(targets)).reshape(-1)
    repeated = Rows.of(values, lengths)
    ahead = None if ahead is None else ahead.repeated(len(targets))
    if ahead is not None and ahead.known is not None:
        values = graph.concatenate([values, ahead.known])
    source = encode(model.encoder, values, repeated)
    numbers = _head(model, _steps(model, source.values, repeated), ahead)  # (B × targets, T or 1, horizon, size)
    shaped = numbers.reshape(batch, len(targets), numbers.size(1), model.horizon, model.distribution.size)
    return shaped.transpose(0, 2, 3, 1, 4)


def _steps(model: Forecaster, values: Value, rows: Rows) -> Value:
    return values if model.last is None else at(values, rows.lengths - 1).unsqueeze(1)


def _reference(model: Forecaster, values: Value, rows: Rows) -> Reference:
    if model.horizon_changes is None:
        return Reference(None, np.ones((model.horizon, len(model.targets)), np.float32))
    graph, unit = values.graph, array(model.horizon_changes)
    targets = values.take(array(model.targets), axis=2)  # (B, T, targets)
    if model.linear_weight is None or model.linear_bias is None:
        return Reference(_steps(model, targets, rows).unsqueeze(2), unit)
    weight, bias = array(model.linear_weight), array(model.linear_bias)
    length = weight.shape[1]
    # The end of each history; one that is too short starts with its first value, repeated.
    places = rows.lengths.unsqueeze(1) + np.arange(-length, 0)
    places = graph.call("Max", places, graph.constant(0, np.int64)).unsqueeze(2)
    indices = places.expand(targets.size(0), length, len(model.targets))
    recent = graph.call("GatherElements", targets, indices, axis=1)  # (B, length, targets)
    base = (recent.transpose(0, 2, 1) @ weight.T + bias).transpose(0, 2, 1)  # (B, horizon, targets)
    return Reference(base.unsqueeze(1), unit)


def _forecast(model: Forecaster, numbers: Value, reference: Reference) -> tuple[Value, Value | None]:
    """The point forecast and the quantiles, both scaled."""
    point = moved = distributions.point(model.distribution, numbers, reference)
    if model.shrinkage is not None and reference.base is not None:
        moved = reference.base + (point - reference.base) * float(model.shrinkage)
    elif model.shrinkage is not None:
        moved = point * float(model.shrinkage)
    if not model.levels:
        return moved, None
    quantiles = distributions.quantiles(model.distribution, numbers, model.levels, reference)
    if quantiles is not None and model.interval_shifts is not None:
        quantiles = quantiles + (moved - point).unsqueeze(4)
        spread = quantiles.part(-1, -1) - quantiles.part(-1, 0, 1)
        shifted = quantiles + spread * array(model.interval_shifts)
        quantiles = distributions.ascending(shifted, len(model.levels))
    return moved, quantiles
