"""Signs that a model does not learn: the same answer to every input, or a loss that does not fall."""

import re
from collections.abc import Sequence
from statistics import fmean

LIMIT = re.compile(r"(?P<value>[\d.]+) (?P<name>epoch|update|token|minute)s? ")
"""The limit that has ended a training, in the sentence that says so."""
MIN_OTHERS = 3
"""Inputs that need another answer, from which on a constant answer is a sign."""
MIN_ENTRIES = 8
"""Log entries from which on a loss can be called flat."""
FLAT = 0.01
"""A loss that has fallen by less than this share is flat."""


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


def with_limit(remedy: str, limit: str) -> str:
    """A remedy with the limit that ends the training, such as ``minutes``, in place of the epochs."""
    return remedy.replace("train.epochs", f"train.{limit}") if limit else remedy


def ending_limit(finished: str) -> str:
    """The limit that has ended a training, such as ``minutes``, from the sentence about it; empty: none has."""
    limit = LIMIT.match(finished)
    return f"{limit['name']}s" if limit else ""


def describe_flat_loss(first: float, last: float) -> str:
    """What a loss that has not fallen means, and what to try."""
    return (
        f"The training loss does not fall: {first:.4g} at first, {last:.4g} now. Raise train.learning_rate; seqloom "
        "check RUN/config.toml --learning-rate suggests a value."
    )
