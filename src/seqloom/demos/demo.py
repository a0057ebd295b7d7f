"""What a demo defines beyond its example configuration: baselines, sample answers and a command to try next."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqloom.data.builtin.datasets import Files
from seqloom.evaluation import evaluate
from seqloom.model import Model
from seqloom.run_config import Config


@dataclass(frozen=True)
class DemoRun:
    """A model trained by a demo, its data and its scores."""

    model: Model
    files: Files
    scores: Mapping[str, Any]  # on the test file
    path: Path  # the run folder
    inputs: Sequence[str] = ()  # texts to answer


@dataclass(frozen=True)
class Demo:
    """The demo of one task; its settings are those of the example of the same name."""

    description: str  # printed first: the data, the model and the question
    quick: Mapping[str, Any]  # overrides for --quick, by section.key
    metric: str  # compared with the baselines
    percent: bool  # print the metric as a percentage
    baselines: Callable[[DemoRun], dict[str, float]]  # the metric of simpler methods, by name
    answers: Callable[[DemoRun], list[dict[str, Any]]]  # sample answers, for --json
    show: Callable[[Sequence[Mapping[str, Any]]], None]  # prints the sample answers
    next_command: str  # to try next, with {run} and {test}
    inputs: Sequence[str] = ()  # texts that a person at a terminal may replace


def score_baseline(run: DemoRun) -> dict[str, float]:
    """The test score of the task's own baseline, for tasks whose baseline counts no targets."""
    task = run.model.task
    examples = list(task.read(run.files.test))
    baseline = task.fit_baseline(Counter(), examples)
    return {baseline.name: task.score_baseline(baseline, examples)[task.main_metric]} if baseline else {}


def evaluate_count_model(run: DemoRun, **changes: Any) -> float:
    """The test score of the same task with a model that is trained by counting."""
    trained = run.model.config
    task = trained.task.model_copy(update={**changes, "learned": None})
    task = task.fit(task.read(run.files.train))
    config = Config(task, trained.train.model_copy(update={"bptt_steps": 0}))
    module: Any = task.build_model()
    module.count(task.read(run.files.train))
    return float(evaluate(config, module, list(task.read(run.files.test)))[task.main_metric])


def short_examples(run: DemoRun, count: int, *, max_length: int) -> list[Any]:
    """Examples of the test file that are short enough to print, spread over the file."""
    short = [example for example in run.model.task.read(run.files.test) if 4 <= len(example) <= max_length]
    return short[:: max(len(short) // count, 1)][:count]
