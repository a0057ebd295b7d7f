"""Forecasters as ONNX graphs."""

from functools import partial
from typing import TYPE_CHECKING, Any

from seqloom.models.forecast_distributions import NegativeBinomial
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.forecaster import forecaster
from seqloom.tasks.forecast.export_answers import count_bounds, expected, feed, units

if TYPE_CHECKING:
    from seqloom.tasks.forecast.forecast import Forecast


def onnx_model(task: "Forecast", model: Any) -> OnnxModel:
    """A forecaster, which reads and answers in the units of the data."""
    learned = task.fitted
    is_binary = task.data_type == "binary"
    has_changes = not is_binary and task.inputs != "values"
    graph = forecaster(
        model,
        columns=len(learned.columns),
        scale=None if is_binary else (learned.means, learned.deviations),
        rms_changes=learned.rms_changes if has_changes else None,
    )
    names = [learned.columns[target] for target in model.targets.tolist()]
    deviations = [learned.deviations[target] for target in model.targets.tolist()]
    description = {
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
    arrays = partial(feed, has_changes=has_changes), partial(expected, task, model)
    bounds: dict[str, Any] = {}
    if isinstance(model.distribution, NegativeBinomial) and task.levels:
        bounds["bounds"] = partial(count_bounds, task, model)
    return OnnxModel(graph, description, *arrays, units=units(task, model), **bounds)
