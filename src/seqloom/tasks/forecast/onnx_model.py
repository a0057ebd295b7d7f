"""Forecasters as ONNX graphs."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.series import Window, column_positions
from seqloom.export_check import padded_vectors
from seqloom.models.forecast_distributions import NegativeBinomial
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.forecaster import Covariates, forecaster
from seqloom.tasks.forecast.export_answers import count_bounds, expected, feed, units

if TYPE_CHECKING:
    from seqloom.tasks.forecast.forecast import Forecast


def onnx_model(task: "Forecast", model: Any) -> OnnxModel:
    """A forecaster, which reads and answers in the units of the data."""
    learned = task.fitted
    is_binary = task.data_type == "binary"
    has_changes = not is_binary and task.inputs != "values"
    covariates = _covariates(task)
    graph = forecaster(
        model,
        columns=len(learned.columns),
        scale=None if is_binary else (learned.means, learned.deviations),
        rms_changes=learned.rms_changes if has_changes else None,
        covariates=covariates,
    )
    names = [learned.columns[target] for target in model.targets.tolist()]
    deviations = [learned.deviations[target] for target in model.targets.tolist()]
    description: dict[str, Any] = {
        "task": task.name,
        "input": {"kind": "series", "columns": learned.columns, "history": task.history, "previous": has_changes},
        "output": {
            "kind": "forecast",
            "columns": names,
            "horizon": task.horizon,
            "every_step": task.output == "every_step",
            "deviations": None if is_binary else deviations,
            "levels": task.levels,
        },
    }
    if covariates is not None:
        description["input"]["covariates"] = _describe(task, covariates)
    arrays = partial(_feed, task, covariates, has_changes=has_changes), partial(expected, task, model)
    bounds: dict[str, Any] = {}
    if isinstance(model.distribution, NegativeBinomial) and task.levels:
        bounds["bounds"] = partial(count_bounds, task, model)
    return OnnxModel(graph, description, *arrays, units=units(task, model), **bounds)


def _covariates(task: "Forecast") -> Covariates | None:
    """What the model knows in advance: the calendar, then columns, in the units of the data."""
    learned = task.fitted
    cycles, positions = 2 * len(learned.calendar), column_positions(learned.columns)
    columns = [positions[name] for name in task.known_columns]
    count = cycles + len(columns)
    if not count:
        return None
    means = [*[0.0] * cycles, *(learned.means[column] for column in columns)]
    deviations = [*[1.0] * cycles, *(learned.deviations[column] for column in columns)]
    return Covariates(count, count if task.channel_independent else cycles, (means, deviations))


def _describe(task: "Forecast", covariates: Covariates) -> dict[str, Any]:
    """What the runtime has to know of them."""
    date = task.date if isinstance(task.date, str) and task.date != "auto" else ""
    return {
        "count": covariates.count,
        "calendar": task.fitted.calendar,
        "date": date,
        "time_zone": task.time_zone,
        "horizon": task.horizon,
        "future": task.future_covariates,
        "static": task.static_covariates,
    }


def _feed(
    task: "Forecast", covariates: Covariates | None, windows: Sequence[Window], *, has_changes: bool
) -> dict[str, NDArray[Any]]:
    arrays = feed(windows, has_changes=has_changes)
    if covariates is not None:
        means, deviations = map(np.array, covariates.scale)
        rows = [task.covariates(window) * deviations + means for window in windows]
        arrays["covariates"] = padded_vectors(rows)["values"]
    return arrays
