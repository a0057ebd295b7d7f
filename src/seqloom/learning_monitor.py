"""Watches a training run for signs that the model does not learn, and says once what to try."""

import math
from collections.abc import Mapping
from pathlib import Path

from seqloom.metrics.learning import Remedies, describe_flat_loss, flat_loss
from seqloom.tasks.task import Task
from seqloom.training.progress import Progress

MIN_SHARE = 1 / 3
"""The share of the training after which a model should have learned something."""
MIN_EVALUATIONS = 3
"""Evaluations in a row that have to show the same sign."""


class LearningMonitor:
    """Sees all events of a training run."""

    def __init__(self, task: Task, baseline_scores: Mapping[str, float], *, run: Path, limit: str) -> None:
        self._task = task
        self._remedies = Remedies(f"{run}/config.toml", limit)
        self._baseline = baseline_scores.get(task.main_metric, math.nan)
        self._losses: list[float] = []
        self._degenerate = 0  # evaluations in a row
        self._evaluations = 0
        self._best = -math.inf
        self._warned = False

    def watch(self, event: Progress) -> str:
        """A warning about the model so far; empty if there is none, or if it was given before."""
        if event.logged and math.isfinite(event.loss):
            self._losses.append(event.loss)
        evaluation = event.evaluation
        if evaluation is None:
            return ""
        self._evaluations += 1
        self._degenerate = self._degenerate + 1 if evaluation.degenerate else 0
        self._best = max(self._best, evaluation.score)
        early = not event.updates or event.update < MIN_SHARE * event.updates or self._evaluations < MIN_EVALUATIONS
        if self._warned or early or event.finished:  # the summary says it at the end
            return ""
        warning = ""
        if self._degenerate >= MIN_EVALUATIONS:
            warning = (
                f"{evaluation.degenerate}. If this does not change: {self._task.degenerate_remedy(self._remedies)}"
            )
        elif not self._beats_baseline() and (flat := flat_loss(self._losses)):
            warning = describe_flat_loss(*flat, self._remedies)
        self._warned = bool(warning)
        return warning

    def _beats_baseline(self) -> bool:
        """Whether an evaluation was better than the baseline; True if there is none to compare with."""
        sign = 1 if self._task.higher_is_better else -1
        return math.isnan(self._baseline) or self._best > sign * self._baseline
