"""Predictions and scores of a model on examples that are in memory."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import nn

from seqloom.data.loading import BatchLoader
from seqloom.metrics.confidence import RESAMPLES, MetricSums, SignificanceTest, bootstrap, quantiles, significance
from seqloom.metrics.length_bins import LengthBins
from seqloom.run_config import Config
from seqloom.tasks.task import Task
from seqloom.training.distributed import SINGLE, ProcessGroup

MIN_RESAMPLED = 10
"""Examples, or blocks of examples that overlap, from which on a confidence interval is computed."""
FEW_ROWS = 20_000  # more rows are resampled less often
MAX_SCORES, MAX_SCORE_LENGTH = 1000, 300  # so that a row of metrics.jsonl stays short
MIN_BPTT_STEPS = 100
"""Minimum length of a chunk where sequences are joined (truncated BPTT) and only predicted."""


def evaluate(
    config: Config,
    module: nn.Module,
    examples: Sequence[Any],
    *,
    group: ProcessGroup = SINGLE,
    before_batch: Callable[[], None] = lambda: None,  # called between batches; may raise
) -> dict[str, Any]:
    """The scores of a model on examples; each process predicts its share."""
    predictions = predict_all(config, module, examples, group=group, before_batch=before_batch)
    scores: dict[str, Any] = group.broadcast(lambda: score(config.task, predictions, examples))
    return scores


def score(task: Task, predictions: Sequence[Any], examples: Sequence[Any]) -> dict[str, Any]:
    """The scores of a task; a main metric without a confidence interval gets one by the bootstrap."""
    scores = task.score(predictions, examples)
    name = f"{task.main_metric}_interval"
    sums = None if name in scores else task.metric_sums(predictions, examples)
    return scores if sums is None else scores | _interval(task, sums)


def _interval(task: Task, sums: MetricSums) -> dict[str, Any]:
    """The confidence interval of the main metric by its name; empty if there are too few examples."""
    blocks = sums.in_blocks(max(task.gap + 1, 1))
    if len(blocks.rows) < MIN_RESAMPLED:
        return {}
    resamples = RESAMPLES if len(blocks.rows) <= FEW_ROWS else RESAMPLES // 5
    interval = quantiles(bootstrap(blocks, resamples=resamples))
    return {f"{task.main_metric}_interval": list(interval)} if all(map(math.isfinite, interval)) else {}


def compare_with_baseline(
    task: Task, predictions: Sequence[Any], examples: Sequence[Any], baseline: MetricSums | None
) -> SignificanceTest | None:
    """The paired test of a model and the baseline, whose ``baseline_sums`` are given; None if there is none."""
    sums = None if baseline is None or not examples else task.metric_sums(predictions, examples)
    return None if baseline is None or sums is None else significance(sums, baseline, overlap=max(task.gap + 1, 1))


@dataclass(frozen=True)
class LengthScore:
    """The scores on the examples of a bin of lengths."""

    length: str  # the lengths of the bin, such as 11–20
    above: float | None  # lengths are above this one; None: no lower bound
    up_to: float | None  # the longest length; None: no upper bound
    examples: int
    scores: dict[str, Any]  # numbers and intervals by name; empty if there are no examples


def score_by_length(
    config: Config,
    predictions: Sequence[Any],  # of all examples, as ``predict_all`` returns them
    examples: Sequence[Any],
    *,
    lengths: Sequence[float],  # of their inputs
    bins: LengthBins,
) -> list[LengthScore]:
    """The scores on the examples of each bin of lengths."""
    task = config.task
    whole = all(float(length).is_integer() for length in lengths)
    # If sequences are joined, predictions are those of chunks; the sums of the main metric are those of examples.
    sums = task.metric_sums(predictions, examples) if _joins_sequences(config) else None
    result = []
    for index in range(len(bins)):
        rows = [row for row, length in enumerate(lengths) if bins.index(length) == index]
        scores: dict[str, Any] = {}
        if rows and sums is not None:
            part = MetricSums(sums.rows[rows], sums.value)
            scores = {task.main_metric: part.whole, **_interval(task, part)}
        elif rows:
            selected = score(task, [predictions[row] for row in rows], [examples[row] for row in rows])
            scores = split_details(selected)[0]
        result.append(LengthScore(bins.name(index, whole=whole), *bins.bounds(index), len(rows), scores))
    return result


def _joins_sequences(config: Config) -> bool:
    """Whether the model reads all sequences as one (truncated BPTT)."""
    return bool(config.train.bptt_steps) and not config.task.is_counting_model


def split_details(metrics: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Scores for a row of metrics.jsonl (numbers, short strings, intervals), and details: tables, lists, the rest."""
    scores: dict[str, Any] = {}
    details: dict[str, Any] = {}
    for name, value in metrics.items():
        short = isinstance(value, int | float | str) or (
            isinstance(value, list | tuple) and len(value) <= 2 and all(isinstance(part, int | float) for part in value)
        )
        fits = short and len(scores) < MAX_SCORES and len(name) + len(str(value)) < MAX_SCORE_LENGTH
        (scores if fits else details)[name] = value
    return scores, details


def predict_all(
    config: Config,
    module: nn.Module,
    examples: Sequence[Any],
    *,
    group: ProcessGroup = SINGLE,  # the main process gets the predictions
    before_batch: Callable[[], None] = lambda: None,
) -> list[Any]:
    """The predictions for examples, in order; where sequences are joined (truncated BPTT), for chunks in order."""
    task, settings = config.task, config.train
    steps = max(settings.bptt_steps, MIN_BPTT_STEPS) if _joins_sequences(config) else 0
    order = range(len(examples)) if steps else sorted(range(len(examples)), key=lambda row: len(examples[row]))
    batches = BatchLoader(
        lambda: (examples[row] for row in order),
        task.collate,
        batch_size=settings.batch_size if steps else max(settings.batch_size, 32),
        batch_tokens=0 if steps else settings.batch_tokens,
        bptt_steps=steps,
        shuffle=False,
        shuffle_buffer=len(examples),  # all examples form the same tracks
        parts=group.size,
        local_parts=range(group.rank, group.rank + 1),
    )
    own_batches: list[list[Any]] = []
    state = None
    # The device of the module may differ from train.device.
    device = next((tensor.device for tensor in chain(module.parameters(), module.buffers())), "cpu")
    module.eval()
    with torch.no_grad():
        for parts in batches.epoch(0):
            before_batch()
            answers: list[Any] = []
            for part in parts:
                predictions = task.predict(module, part._replace(state=state if part.continues else None).to(device))
                state = predictions.state
                answers += predictions.answers
            own_batches.append(answers)
    merged = group.gather_rows(own_batches)
    if steps:  # a batch has one chunk of each track
        return [answer for track in range(settings.batch_size) for answer in merged[track :: settings.batch_size]]
    return [answer for _, answer in sorted(zip(order, merged, strict=False), key=lambda pair: pair[0])]
