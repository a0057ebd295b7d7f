"""A few dev examples that a training answers again at each evaluation, so that one can watch what it learns."""

from collections.abc import Sequence
from typing import Any

from seqloom.tasks.task import Task

SAMPLES = 6
MAX_TEXT = 300  # characters of an input, a target or an answer


def sample_rows(count: int) -> list[int]:
    """The examples that are shown, evenly spread over all."""
    shown = min(SAMPLES, count)
    return [(2 * number + 1) * count // (2 * shown) for number in range(shown)]


def describe_samples(task: Task, examples: Sequence[Any]) -> list[dict[str, str]]:
    """Input, target and place of each sample, for the summary of a run."""
    chosen = [examples[row] for row in sample_rows(len(examples))]
    texts = [task.example_texts(example) for example in chosen]
    return [
        {"input": _cut(text), "target": _cut(target), "place": str(example.location)}
        for example, (text, target) in zip(chosen, texts, strict=True)
    ]


def sample_answers(task: Task, predictions: Sequence[Any], examples: Sequence[Any]) -> tuple[str, ...]:
    """The answers to the samples; empty if predictions are those of chunks (truncated BPTT)."""
    if len(predictions) != len(examples):
        return ()
    return tuple(_cut(task.answer_text(predictions[row])) for row in sample_rows(len(examples)))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
