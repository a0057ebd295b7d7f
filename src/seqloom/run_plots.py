"""Plots that every run gets: its learning curves, and predictions that its task can draw."""

import math
from collections.abc import Sequence
from typing import Any

from seqloom.insight.confusion_plot import draw_confusion
from seqloom.insight.learning_curves import draw_learning_curves
from seqloom.insight.plotting import named_plots, plot_path, titled
from seqloom.model import Model
from seqloom.run import Run, RunError
from seqloom.run_config import Config


def draw(
    run: Run,
    config: Config,
    *,
    dev: Sequence[Any] = (),  # development examples; empty: draw the learning curves only
) -> None:
    """Draw the results and what the task draws, such as forecasts, if matplotlib is installed."""
    task = config.task
    try:
        rows = run.rows()
    except RunError as error:  # a plot must not stop a training
        run.log(f"no plots: {error}")
        return
    if not any(row.get("dev") or math.isfinite(row.get("loss", math.nan)) for row in rows):
        return  # models that only count have no learning curve

    def predict(examples: Sequence[Any]) -> list[Any]:
        module = task.load_model(run.load_best().model, run.path)
        batches = Model(config, module).predict_batches(iter(examples))
        return [prediction for batch in batches for prediction in batch]

    try:
        with named_plots(run.name, suffix=f".{config.train.plot_format}", theme=config.train.plot_theme):
            path = plot_path(run.path, "results")
            draw_learning_curves(rows, path, metric=task.main_metric, higher_is_better=task.higher_is_better)
            details = run.details() if dev else {}
            if any("label" in row for row in details.get("confusions", [])[:1]):
                scores = details.get("per_label", {})
                title = titled("confusion matrix")
                draw_confusion(details["confusions"], scores, plot_path(run.path, "confusion"), title=title)
            if dev and run.saved("best"):
                task.draw_predictions(dev, run.path, predict=predict)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        run.log(f"no plots: {error.name} is not installed; run pip install 'seqloom[plots]'")
