"""What a training writes into its run folder while it runs: log, metrics, checkpoints, plots and the model card."""

import time
from collections.abc import Sequence
from typing import Any

from seqloom import run_plots, terminal
from seqloom.calibration import calibrate_best
from seqloom.checkpoint import Snapshot
from seqloom.formats import format_number
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.run_summary import changed_settings, model_card, summarize
from seqloom.training.distributed import ProcessGroup
from seqloom.training.progress import Progress

DRAW_SECONDS = 60
"""Minimum time between two drawings of the learning curves during training."""


class RunRecorder:
    """Writes the log, the metrics and the checkpoints of a training run."""

    def __init__(
        self,
        run: Run,
        config: Config,
        group: ProcessGroup,
        *,
        dev: Sequence[Any],
        rows: int,  # of metrics.jsonl so far
        seconds: float,  # of training before it was resumed
        plots: bool = True,
    ) -> None:
        self.run, self.config, self.group, self.dev, self.rows = run, config, group, dev, rows
        self.plots = plots
        self.started = time.monotonic() - seconds
        self.saved = self.drawn = time.monotonic()

    def time_fraction(self) -> float:
        """The share of train.minutes that has passed."""
        minutes = self.config.train.minutes
        return (time.monotonic() - self.started) / 60 / minutes if minutes else 0.0

    def record(self, event: Progress) -> None:
        """Log an event, and write checkpoints and plots when they are due."""
        if self.group.is_main:
            self._log(event)
        due = self.group.any_rank(flag=time.monotonic() - self.saved > 60 * self.config.train.save_every_minutes)
        if event.kept and event.evaluation is not None:
            facts = {"update": event.update, "epoch": event.epoch, "metrics": event.evaluation.metrics}
            test = event.evaluation.baseline_test
            facts |= {"degenerate": event.evaluation.degenerate, "baseline_test": test and test._asdict()}
            if self.group.is_main:
                self.run.write_details(terminal.json_value(event.evaluation.details))
                self.run.save("best", Snapshot(event.weights(), {}, facts))
        if due or event.pending or event.evaluation or event.finished:
            self.save(event)
        if self.group.is_main and event.finished:
            calibrate_best(self.run, self.config, self.dev)
        drawing_due = event.finished or (event.evaluation and time.monotonic() - self.drawn > DRAW_SECONDS)
        if self.group.is_main and self.plots and drawing_due:
            run_plots.draw(self.run, self.config, dev=self.dev if event.finished else ())
            self.drawn = time.monotonic()
        if self.group.is_main and event.finished:
            self.describe(event)

    def describe(self, event: Progress) -> None:
        """Write the state of the training and the model card, at its end or when it is interrupted."""
        state = {"finished": event.finished, "seconds": time.monotonic() - self.started, "update": event.update}
        data = {"settings": changed_settings(self.config), "dev_is_short": self.config.task.dev_is_short}
        self.run.write_summary(self.run.summary() | state | data)
        self.run.write_card(model_card(summarize(self.run, self.config), previous=self.run.card()))
        if event.finished and self.config.train.keep == "best":
            self.run.keep_best()

    def save(self, event: Progress) -> None:
        """Write a checkpoint to resume from; all processes of the group take part."""
        snapshot = event.snapshot()
        facts = {**snapshot.facts, "rows": self.rows, "seconds": time.monotonic() - self.started}
        if self.group.is_main:
            self.run.save("last", snapshot._replace(facts=facts))
        self.saved = time.monotonic()

    def _log(self, event: Progress) -> None:
        if event.logged:
            values = {"loss": event.loss, "learning_rate": event.learning_rate}
            if event.gradient_norm is not None:
                values |= {"gradient_norm": event.gradient_norm, "clipped": event.clipped}
            if groups := event.group_norms():
                values["gradient_norms"] = terminal.json_value(groups)
            self._write_row(values | ({"skipped": event.skipped} if event.skipped else {}), event)
        if event.evaluation is not None:
            answers = {"answers": list(event.evaluation.answers)} if event.evaluation.answers else {}
            self._write_row({"dev": event.evaluation.metrics, **answers}, event)
        if event.diagnosis is not None:
            self._write_row({"doctor": dict(event.diagnosis)}, event)
        if event.warning:
            self.run.log(f"warning: {event.warning}")
        if event.finished:
            self.run.log(f"finished: {event.finished}")

    def _write_row(self, values: dict[str, Any], event: Progress) -> None:
        place = {"update": event.update, "epoch": round(event.epoch, 6), "tokens": event.tokens}
        self.run.record(place | {"seconds": round(time.monotonic() - self.started, 3)} | values)
        self.rows += 1
        if "doctor" in values:
            severities = values["doctor"]["findings"]
            self.run.log(
                f"update {event.update}: doctor {', '.join(f'{name}: {each}' for name, each in severities.items())}"
            )
            return
        shown = values.get("dev", values)
        numbers = (
            f"{name} {format_number(value, 6)}" for name, value in shown.items() if isinstance(value, float | int)
        )
        self.run.log(f"update {event.update}: {'dev ' if 'dev' in values else ''}{', '.join(numbers)}")
