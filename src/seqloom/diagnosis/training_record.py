"""What the metrics of a training say: loss, gradient norms, clipping, and the gap between training and dev data."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from seqloom.metrics.learning import Remedies

Points = list[tuple[int, float]]
"""Updates and values."""
SKIPPED_IN_A_ROW = re.compile(r"in (?P<count>\d+) updates in a row, the last of them (?P<last>\d+)")
"""How a training says that it was given up."""


@dataclass(frozen=True)
class TrainingRecord:
    """The rows of metrics.jsonl as curves."""

    loss: Points
    dev_loss: Points
    score: Points  # the main metric of the dev data
    metric: str
    higher_is_better: bool
    learning_rate: Points
    gradient_norm: Points  # before clipping
    clipped: Points  # share of the updates since the entry before
    group_norms: dict[str, Points] = field(default_factory=dict)  # by group of parameters; empty: not recorded
    skipped: int = 0  # updates without a finite gradient
    updates: int = 0
    clip_norm: float = 0.0  # 0: gradients are not clipped
    optimizer: str = ""
    peak_learning_rate: float = 0.0
    degenerate: str = ""  # how the predictions show that nothing was learned; empty: they do not
    finished: str = ""  # why the training stopped; empty: it did not finish
    diverged: str = ""  # why the training was given up; empty: it was not
    default_learning_rate: float = 0.0  # of the task and the optimizer; 0: unknown
    run: str = "RUN"  # its folder

    @property
    def remedies(self) -> Remedies:
        """What to change about the training."""
        return Remedies.of(self.run, self.finished)

    @property
    def limit(self) -> str:
        """The key that lets the training go on: that of the limit which has ended it, or the epochs."""
        return self.remedies.train_longer

    @property
    def clipped_share(self) -> float:
        """Share of all updates whose gradient was clipped; NaN: unknown."""
        total = weight = 0.0
        before = 0
        for update, share in self.clipped:
            total, weight, before = total + share * (update - before), weight + update - before, update
        return total / weight if weight else math.nan


def training_record(
    rows: Sequence[Mapping[str, Any]],
    *,
    metric: str,
    higher_is_better: bool,
    clip_norm: float,
    learning_rate: float,
    optimizer: str = "",
    degenerate: str = "",
    finished: str = "",
    diverged: str = "",
    default_learning_rate: float = 0.0,
    run: str = "RUN",
) -> TrainingRecord | None:
    """The record of a training from the rows of metrics.jsonl; None if they hold no loss, and it did not diverge."""
    loss = _points(rows, "loss")
    if not loss and not diverged:
        return None
    groups: dict[str, Points] = {}
    for row in rows:
        norms = row.get("gradient_norms")
        for name, value in norms.items() if isinstance(norms, dict) else ():
            if _is_number(value):
                groups.setdefault(str(name), []).append((int(row["update"]), float(value)))
    skipped = max((int(row["skipped"]) for row in rows if _is_number(row.get("skipped"))), default=0)
    updates = max((int(row["update"]) for row in rows if _is_number(row.get("update"))), default=0)
    if gave_up := SKIPPED_IN_A_ROW.search(diverged):  # the last of these updates are in no log entry
        last = int(gave_up["last"])
        skipped += min(int(gave_up["count"]), max(last - updates, 0))
        updates = max(updates, last)
    dev = [{"update": row["update"], **row["dev"]} for row in rows if isinstance(row.get("dev"), dict)]
    return TrainingRecord(
        loss,
        _points(dev, "loss"),
        _points(dev, metric),
        metric,
        higher_is_better,
        _points(rows, "learning_rate"),
        _points(rows, "gradient_norm"),
        _points(rows, "clipped"),
        groups,
        skipped,
        updates,
        clip_norm,
        optimizer,
        learning_rate,
        degenerate,
        finished,
        diverged,
        default_learning_rate,
        run,
    )


def recent(points: Points, share: float) -> float:
    """The mean of the last share of the values, at least of one."""
    count = max(round(len(points) * share), 1)
    return fmean(value for _, value in points[-count:])


def _points(rows: Sequence[Mapping[str, Any]], name: str) -> Points:
    return [(int(row["update"]), float(row[name])) for row in rows if _is_number(row.get(name))]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
