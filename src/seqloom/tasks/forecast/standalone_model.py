"""Forecasters as compiled functions."""

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from seqloom.standalone.forecaster import SUPPORTED, forecaster
from seqloom.standalone.interface import Port, StandaloneModel
from seqloom.standalone.modules import unsupported
from seqloom.tasks.forecast.export_answers import expected, feed, units

if TYPE_CHECKING:
    from seqloom.tasks.forecast.forecast import Forecast


def standalone_model(task: "Forecast", model: Any) -> StandaloneModel:
    """A forecaster, which reads and answers in the units of the data."""
    learned = task.fitted
    if not isinstance(model.distribution, SUPPORTED):
        raise unsupported(f"a forecast of the distribution {task.distribution}")
    is_binary = task.data_type == "binary"
    has_changes = not is_binary and task.inputs != "values"
    columns, targets = ", ".join(learned.columns), [learned.columns[target] for target in model.targets.tolist()]
    size = len(learned.columns)
    inputs = [Port("values", "double", ("length", size), f"rows of the series ({columns}), in the units of the data")]
    if has_changes:
        described = "the row before the first one, from which its change is computed; without one, the first row"
        inputs.append(Port("previous", "double", (size,), described))
    steps: int | Literal["length"] = "length" if task.output == "every_step" else 1
    place = "after each row" if steps == "length" else "after the last row"
    described = f"the forecast of {', '.join(targets)} for each step of the horizon, {place}"
    outputs = [Port("forecast", "double", (steps, task.horizon, len(targets)), described)]
    if task.levels and not is_binary:
        levels = ", ".join(f"{level:g}" for level in task.levels)
        shape = (steps, task.horizon, len(targets), len(task.levels))
        outputs.append(Port("quantiles", "double", shape, f"its quantiles {levels}"))
    return StandaloneModel(
        tuple(inputs),
        tuple(outputs),
        partial(
            forecaster,
            model=model,
            columns=size,
            scale=None if is_binary else (learned.means, learned.deviations),
            rms_changes=learned.rms_changes if has_changes else None,
        ),
        partial(feed, has_changes=has_changes),
        partial(expected, task, model),
        notes=(f"The model was trained on histories of {task.history} rows.",),
        units=units(task, model),
    )
