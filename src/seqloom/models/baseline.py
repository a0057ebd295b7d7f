"""Trivial models, which a useful model has to beat: the most frequent label, the last value, unigram frequencies."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from pydantic import Field

from seqloom.config import ConfigSection
from seqloom.run import SUMMARY, Run, RunError

MAX_CHARACTERS = 20_000_000
"""Text of the distinct targets that are counted; further ones are counted only if they have occurred before."""


class Baseline(ConfigSection):
    """A trivial model; which fields it uses depends on the task."""

    name: str = Field(description='What it does, as in "baseline: most frequent label".')
    answer: str = Field("", description="The answer to every input.")
    answers: dict[str, str] = Field(default_factory=dict, description="Other answers, by word.")
    probabilities: dict[str, float] = Field(default_factory=dict, description="Probability of each label or token.")
    means: dict[str, list[float]] = Field(
        default_factory=dict, description="Numbers: the mean of each word; of all others under the empty word."
    )
    copies: bool = Field(default=False, description="The answer is the input itself.")
    lag: int = Field(0, description="Forecasts: the value this many steps before (0: not used).")
    method: str = Field("", description="Forecasts: how they are computed (empty: lag says so).")


class TargetCounter:
    """Counts the targets of the training examples while they are read for another purpose."""

    def __init__(self, targets: Callable[[Any], Iterable[Hashable]]) -> None:
        self._targets = targets
        self.counts: Counter[Any] = Counter()
        self.examples = 0
        self._characters = 0

    def watch(self, examples: Iterable[Any]) -> Iterator[Any]:
        """The same examples, counted as they pass."""
        for example in examples:
            self.examples += 1
            for target in self._targets(example):
                if target in self.counts:
                    self.counts[target] += 1
                elif self._characters < MAX_CHARACTERS:
                    self._characters += (
                        sum(map(len, map(str, target))) if isinstance(target, tuple) else len(str(target))
                    )
                    self.counts[target] = 1
            yield example


def load_baseline(run: Run) -> Baseline | None:
    """The baseline of a run; None if it has none."""
    stored = run.summary().get("baseline")
    if stored is None:
        return None
    try:
        return Baseline.model_validate(stored)
    except ValueError as error:
        raise RunError(f"{run.path / SUMMARY}: not a valid baseline") from error


def most_frequent(counts: Counter[str]) -> str:
    """The most frequent key; of several, the first in alphabetical order."""
    return min(counts, key=lambda name: (-counts[name], name))


def quote(text: str, width: int = 40) -> str:
    """A text in quotation marks, cut to a width."""
    return repr(text if len(text) <= width else f"{text[: width - 1]}…")
