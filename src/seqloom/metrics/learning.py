"""Signs that a model does not learn: one answer to every input, a loss that does not fall, a dev loss that rises."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

LIMIT = re.compile(r"(?P<value>[\d.]+) (?P<name>epoch|update|token|minute)s? ")
"""The limit that has ended a training, in the sentence that says so."""
MIN_OTHERS = 3
"""Inputs that need another answer, from which on a constant answer is a sign."""
MIN_ENTRIES = 8
"""Log entries from which on a loss can be called flat."""
FLAT = 0.01
"""A loss that has changed by less than this share is flat."""
EARLY_STOPPING = "no improvement in "
"""How the sentence about the end of a training begins if train.patience has ended it."""


def constant_answer(answers: Sequence[str], targets: Sequence[object]) -> str | None:
    """The answer to every input, although the targets differ; None if answers differ too, or if there are too few."""
    if len(set(answers)) != 1 or len(set(targets)) < 2:
        return None
    others = sum(target != answers[0] for target in targets)
    return answers[0] if others >= MIN_OTHERS else None


def flat_loss(losses: Sequence[float]) -> tuple[float, float] | None:
    """The mean loss of the first and the last quarter if it has not fallen; None if it has, or if it is too early."""
    if len(losses) < MIN_ENTRIES:
        return None
    quarter = len(losses) // 4
    first, last = fmean(losses[:quarter]), fmean(losses[-quarter:])
    return (first, last) if last >= first - FLAT * abs(first) else None


def overfit_since(
    dev: Sequence[tuple[float, float]],  # lower values are better
    train: Sequence[tuple[float, float]],  # the training loss
    *,
    score: Sequence[tuple[float, float]] = (),  # the main metric, if higher values are better
) -> float | None:
    """When a dev loss or error was lowest, if it has risen since while the training loss fell; None: it has not.

    All are curves of times and values. A minimum in the second half shows too little, and so does the loss of a model
    whose score was still improving there, as those of classifiers often do while their loss rises.
    """
    if len(dev) < 2 or not train or _best_is_late([value for _, value in score]):
        return None
    lowest = [-value for _, value in dev]
    place = lowest.index(max(lowest))
    (since, best), (_, last) = dev[place], dev[-1]
    before = min(train, key=lambda point: abs(point[0] - since))[1]
    now = fmean(value for _, value in train[-max(len(train) // 10, 1) :])
    rises = last > best + FLAT * abs(best)
    falls = now < before - FLAT * abs(before)
    return since if rises and falls and not _best_is_late(lowest) else None


def _best_is_late(values: Sequence[float]) -> bool:
    """Whether the highest value is first reached in the second half."""
    return bool(values) and 2 * values.index(max(values)) >= len(values)


@dataclass(frozen=True)
class Remedies:
    """What to change about a training, in words and commands that can be pasted."""

    config: str  # the file with its configuration
    limit: str = "epochs"  # the key of [train] that ends it
    overfit_since: float | None = None  # epoch from which on longer training has made the model worse; None: none
    dev_curve: str = "loss"  # the metric of the dev data that shows this

    @classmethod
    def of(
        cls, run: object, finished: str, overfit_since: float | None = None, *, dev_curve: str = "loss"
    ) -> "Remedies":
        """Those of a run that has ended in this way."""
        stopped_early = finished.startswith(EARLY_STOPPING)
        limit = "patience" if stopped_early else ending_limit(finished) or "epochs"
        return cls(f"{run}/config.toml", limit, overfit_since, dev_curve)

    @property
    def overfitting(self) -> str:
        """Why longer training does not help, and what may; empty: it may help."""
        if self.overfit_since is None:
            return ""
        return (
            f"The dev {self.dev_curve} has risen since epoch {self.overfit_since:.4g}, while the training loss fell: "
            "longer training does not help; more data, a smaller model or more dropout may."
        )

    @property
    def train_longer(self) -> str:
        """The key that lets the training go on."""
        return f"train.{self.limit}"

    @property
    def find_learning_rate(self) -> str:
        """The command that suggests a learning rate."""
        return f"seqloom check {shlex.quote(self.config)} --learning-rate"


def ending_limit(finished: str) -> str:
    """The limit that has ended a training, such as ``minutes``, from the sentence about it; empty: none has."""
    limit = LIMIT.match(finished)
    return f"{limit['name']}s" if limit else ""


def describe_flat_loss(first: float, last: float, remedies: Remedies) -> str:
    """What a loss that has not fallen means, and what to try."""
    return (
        f"The training loss does not fall: {first:.4g} at first, {last:.4g} now. Raise train.learning_rate; "
        f"{remedies.find_learning_rate} suggests a value."
    )
