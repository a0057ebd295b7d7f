"""The inputs and answers of a forecaster as arrays, with which its exports are compared."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.series import Window
from seqloom.export_check import padded_vectors

ROUNDING = 1e-5
"""Largest error of the probability of a count."""

if TYPE_CHECKING:
    from seqloom.tasks.forecast.forecast import Forecast


def feed(windows: Sequence[Window], *, has_changes: bool) -> dict[str, NDArray[Any]]:
    """Histories and their lengths, and with changes the row before each."""
    arrays = padded_vectors([window.history for window in windows])
    if has_changes:
        arrays["previous"] = np.stack([window.series.values[max(window.start - 1, 0)] for window in windows])
    return arrays


def expected(task: "Forecast", model: Any, windows: Sequence[Window]) -> dict[str, NDArray[Any]]:
    """The point forecasts and their quantiles; 0 in the padding."""
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


def units(task: "Forecast", model: Any) -> dict[str, NDArray[Any]]:
    """The deviations of answers in the units of the data."""
    if task.data_type == "binary":
        return {}
    deviations = np.array([task.fitted.deviations[target] for target in model.targets.tolist()])
    return {"forecast": deviations, "quantiles": deviations[:, np.newaxis]}


def count_bounds(task: "Forecast", model: Any, windows: Sequence[Window]) -> dict[str, Any]:
    """The quantiles of counts for slightly lower and higher levels: rounding may move a count to its neighbour."""
    numbers, reference, _ = model.numbers(task.collate(windows).inputs)
    targets = model.targets.tolist()
    limits = []
    for change in (-ROUNDING, ROUNDING):
        levels = [level + change for level in model.levels]
        counts = model.distribution.quantiles(numbers, levels, reference).detach().double().movedim(-1, 0).numpy()
        limits.append(np.moveaxis(task.fitted.restore(counts, targets), 0, -1) + np.sign(change) * ROUNDING)
    return {"quantiles": tuple(limits)}
