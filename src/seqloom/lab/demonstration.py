"""What a demonstration consists of, and what comes of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqloom.data.builtin.datasets import Files
from seqloom.model import Model

ONE_THREAD = {"train.schedule": "cosine", "train.decay": 0.02, "train.threads": 1}
"""Settings that all have in common: the models are small."""


@dataclass(frozen=True)
class Trained:
    """A model, the data that it comes from, and what it reached on the test file."""

    model: Model
    files: Files
    test: Mapping[str, Any]
    path: Path  # of the run
    typed: Sequence[str] = ()  # what a person wants to be answered


@dataclass(frozen=True)
class Demonstration:
    """One task."""

    about: str  # what is learnt from what
    build: Callable[[Path], Files]
    settings: Mapping[str, Any]  # by section.key
    quick: Mapping[str, Any]  # instead of some of them
    metric: str
    percent: bool  # the metric is a share
    baselines: Callable[[Trained], dict[str, float]]  # the same metric of simpler ways, by their names
    show: Callable[[Trained], list[dict[str, Any]]]  # a few answers, for programs
    tell: Callable[[Sequence[Mapping[str, Any]]], None]  # the same, for people
    following: str  # a command to try, with {run} and {test}
    inputs: Sequence[str] = ()  # what is answered where nobody types anything else
