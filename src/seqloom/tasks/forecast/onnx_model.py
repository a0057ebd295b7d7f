"""Forecasters as ONNX graphs."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.series import Window
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.forecaster import forecaster
from seqloom.onnx.inputs import padded_vectors

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
    feed, expected = partial(_feed, has_changes=has_changes), partial(_expected, task, model)
    units = {} if is_binary else {"forecast": np.array(deviations), "quantiles": np.array(deviations)[:, np.newaxis]}
    return OnnxModel(graph, description, feed, expected, units=units)


def _feed(windows: Sequence[Window], *, has_changes: bool) -> dict[str, NDArray[Any]]:
    feed = padded_vectors([window.history for window in windows])
    if has_changes:
        feed["previous"] = np.stack([window.series.values[max(window.start - 1, 0)] for window in windows])
    return feed


def _expected(task: "Forecast", model: Any, windows: Sequence[Window]) -> dict[str, NDArray[Any]]:
    targets, batch = model.targets.tolist(), task.collate(windows)
    output, _ = model.forecast(batch.inputs)
    real = np.ones((len(windows), 1, 1, 1), dtype=bool)
    if task.output == "every_step":
        real = batch.inputs.mask.numpy()[:, :, None, None]
    point = output.point.detach().double()
    if task.data_type == "binary":
        return {"forecast": np.where(real, point.sigmoid().numpy(), 0)}
    outputs = {"forecast": np.where(real, task.fitted.restore(point.numpy(), targets), 0)}
    if task.levels:
        quantiles = output.quantiles.detach().double().movedim(-1, 0).numpy()
        restored = np.moveaxis(task.fitted.restore(quantiles, targets), 0, -1)
        outputs["quantiles"] = np.where(real[..., None], restored, 0)
    return outputs
