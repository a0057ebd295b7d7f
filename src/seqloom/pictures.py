"""The pictures that a run gets unasked: its learning curves, and what its task has to show."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom.model import Model, load
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.tasks.forecast import Forecast

SHOWN = 200
"""Steps of a forecast that a picture shows."""


def draw(
    run: Run,
    config: Config,
    *,
    dev: Sequence[Any] = (),  # the development examples; none: the learning curves alone
) -> None:
    """results.png, and forecast.png of forecasts, where there is something to draw with."""
    try:
        from seqloom.insight.curves import draw_curves
    except ModuleNotFoundError as error:
        run.log(f"no pictures, since {error.name} is missing: pip install 'seqloom[plots]'")
        return
    task = config.task
    rows = run.rows()
    if not any(row.get("dev") or math.isfinite(row.get("loss", math.nan)) for row in rows):
        return  # what is counted has no curve
    draw_curves(rows, run.path / "results.png", metric=task.main_metric, higher_is_better=task.higher_is_better)
    if dev and isinstance(task, Forecast) and task.data_type == "numbers" and run.saved("best"):
        _draw_forecast(run, load(run.path, layer=task.encoder.given), dev)


def _draw_forecast(run: Run, model: Model, dev: Sequence[Any]) -> None:
    """The end of the development data: forecasts one behind the other, beside the last value."""
    from seqloom.insight.curves import draw_forecast

    task = model.task
    if not isinstance(task, Forecast):
        return
    apart = task.horizon if task.output == "last" else 1
    windows = [window for window in dev[::-1] if window.series is dev[-1].series][::apart]
    windows = windows[: max(SHOWN // apart, 1)][::-1] if task.output == "last" else windows[:1]
    answers = [answer for found in model.predict_batches(iter(windows)) for answer in found]
    names = answers[0].columns
    chosen = [dev[-1].series.names.index(name) for name in names]
    if task.output == "last":
        truth = np.concatenate([window.after(task.horizon)[0][:, chosen] for window in windows])
        found = np.concatenate([answer.values for answer in answers])
        still = np.concatenate([window.read[-1:, chosen].repeat(task.horizon, axis=0) for window in windows])
    else:
        truth = np.array(answers[0].truth)[-SHOWN:, 0]
        found = np.array(answers[0].steps)[-SHOWN:, 0]
        still = windows[0].read[-SHOWN:, chosen]
    draw_forecast(truth, found, still, run.path / "forecast.png", names=names)
