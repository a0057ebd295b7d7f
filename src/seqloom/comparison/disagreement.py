"""Two trained models on the same examples: the paired difference of their scores, and where their answers differ."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.evaluation import MIN_RESAMPLED
from seqloom.metrics.confidence import MetricSums, bootstrap, paired_difference
from seqloom.tasks.task import Task

MAX_TEXT = 400  # characters of an input, a target or an answer


@dataclass(frozen=True)
class Disagreement:
    """An example to which two models give different answers."""

    example: int  # its number among the examples, from 0
    place: str  # file and line
    input: str
    target: str
    answers: tuple[str, str]  # empty: the answers are not those of single examples
    scores: tuple[float | None, float | None]  # the main metric on this example alone


@dataclass(frozen=True)
class PairedComparison:
    """How two models differ on the same examples."""

    metric: str
    higher_is_better: bool
    examples: int
    scores: tuple[float, float] | None  # None: the task has no sums of its main metric
    difference: float | None  # second - first
    interval: tuple[float, float] | None  # 95 % confidence interval of the difference, by a paired bootstrap
    better: int | None  # the model that is better: 0 or 1; None: the interval includes 0, or there is none
    disagreements: int  # examples whose answers or scores differ
    shown: list[Disagreement]  # those with the largest difference of scores first


def compare_predictions(
    tasks: tuple[Task, Task],  # of the two models
    predictions: tuple[Sequence[Any], Sequence[Any]],  # of each model, as ``evaluation.predict_all`` returns them
    examples: Sequence[Any],
    *,
    most: int = 60,  # examples that are returned: a third in favour of each model, and a third that neither wins
) -> PairedComparison:
    """Compare what two models predict for the same examples."""
    task = tasks[0]
    if task.name != tasks[1].name or task.main_metric != tasks[1].main_metric:
        names = [f"{each.name} ({each.main_metric})" for each in tasks]
        raise ValueError(f"models of {names[0]} and {names[1]} cannot be compared")
    first, second = (each.metric_sums(answers, examples) for each, answers in zip(tasks, predictions, strict=True))
    fits = first is not None and second is not None and len(first.rows) == len(second.rows) == len(examples)
    scores = [scores_by_example(each) if fits and each is not None else None for each in (first, second)]
    texts = [
        [each.answer_text(answer) for answer in answers] if len(answers) == len(examples) else []  # not of chunks
        for each, answers in zip(tasks, predictions, strict=True)
    ]
    rows, gaps = _different(texts, scores, len(examples))
    sides = [[row for row in rows if np.sign(gaps[row]) == sign] for sign in (-1, 0, 1)]
    chosen = {row for side in sides for row in side[: most // 3]}
    shown = [_disagreement(task, examples, row, texts, scores) for row in rows if row in chosen]
    return PairedComparison(
        task.main_metric,
        task.higher_is_better,
        len(examples),
        **_difference(task, first, second),
        disagreements=len(rows),
        shown=shown,
    )


def _difference(task: Task, first: MetricSums | None, second: MetricSums | None) -> dict[str, Any]:
    unknown: dict[str, Any] = {"scores": None, "difference": None, "interval": None, "better": None}
    if first is None or second is None:
        return unknown
    scores = first.whole, second.whole
    known = unknown | {"scores": scores, "difference": scores[1] - scores[0]}
    blocks = [each.in_blocks(max(task.gap + 1, 1)) for each in (first, second)]
    if len(blocks[0].rows) != len(blocks[1].rows) or len(blocks[0].rows) < MIN_RESAMPLED:
        return known
    low, high = paired_difference([bootstrap(blocks[0])], [bootstrap(blocks[1])])
    if not (math.isfinite(low) and math.isfinite(high)):
        return known
    better = None if low <= 0 <= high else int((low > 0) is task.higher_is_better)
    return known | {"interval": (low, high), "better": better}


def scores_by_example(sums: MetricSums) -> NDArray[np.float64]:  # (N,)
    """The metric on each example alone; NaN where it is not defined."""
    with np.errstate(all="ignore"):
        return np.array([sums.value(row) for row in sums.rows], dtype=np.float64)


def _different(
    texts: list[list[str]], scores: list[NDArray[np.float64] | None], count: int
) -> tuple[list[int], NDArray[np.float64]]:
    """The examples whose answers or scores differ, those with the largest difference first; and all differences."""
    gaps = np.zeros(count)
    if scores[0] is not None and scores[1] is not None:
        gaps = np.nan_to_num(scores[1] - scores[0], posinf=1e9, neginf=-1e9)
    same = np.array([first == second for first, second in zip(*texts, strict=True)]) if all(texts) else gaps == 0
    rows = np.flatnonzero(~same | (gaps != 0)) if count else np.zeros(0, dtype=np.int64)
    return [int(row) for row in rows[np.argsort(-np.abs(gaps[rows]), kind="stable")]], gaps


def _disagreement(
    task: Task, examples: Sequence[Any], row: int, texts: list[list[str]], scores: list[NDArray[np.float64] | None]
) -> Disagreement:
    text, target = task.example_texts(examples[row])
    answers = tuple(shortened(each[row]) if each else "" for each in texts)
    values = tuple(None if each is None or not math.isfinite(each[row]) else float(each[row]) for each in scores)
    place = str(examples[row].location)
    return Disagreement(row, place, shortened(text), shortened(target), answers, values)  # type: ignore[arg-type]


def shortened(text: str) -> str:
    """A text for a table."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
