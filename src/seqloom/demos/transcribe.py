"""Transcription: lines of handwritten digits become text, trained by CTC without character positions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom import terminal
from seqloom.data.readers.recordings import Recording
from seqloom.demos.demo import Demo, DemoRun
from seqloom.explain import explain
from seqloom.insight import draw_explanation
from seqloom.insight.ctc_plot import ctc_lines
from seqloom.metrics.transcripts import error_rate

MAX_SHOWN = 8  # lines
COLUMNS = 8  # sampled from each segment


def _baselines(run: DemoRun) -> dict[str, float]:
    task = run.model.task
    train, test = list(task.read(run.files.train)), list(task.read(run.files.test))
    references = [line.text or "" for line in test]
    most_frequent = Counter(line.text or "" for line in train).most_common(1)[0][0]
    return {
        f"always {most_frequent!r}": error_rate([most_frequent] * len(references), references).value,
        "equal segments, nearest mean digit": error_rate(_nearest_digits(train, test), references).value,
    }


def _nearest_digits(train: Sequence[Recording], test: Sequence[Recording]) -> list[str]:
    """Cut each line into equal segments, as many as its width suggests, and read each as the nearest mean digit."""
    segments: dict[str, list[NDArray[np.float32]]] = {}
    for line in train:
        text = line.text or ""
        for digit, segment in zip(text, _segments(line.values, len(text)), strict=True):
            segments.setdefault(digit, []).append(segment)
    digits = sorted(segments)
    means = np.stack([np.mean(segments[digit], axis=0) for digit in digits])
    width = sum(map(len, train)) / sum(map(len, segments.values()))  # mean columns per digit, gap included
    texts = []
    for line in test:
        parts = _segments(line.values, max(round(len(line) / width), 1))
        distances = ((np.stack(parts)[:, None] - means) ** 2).sum(axis=(2, 3))
        texts.append("".join(digits[index] for index in distances.argmin(axis=1)))
    return texts


def _segments(columns: NDArray[np.float32], count: int) -> list[NDArray[np.float32]]:  # (W, H) → count × (COLUMNS, H)
    """Equal segments of a line, each sampled at the same number of columns."""
    edges = np.linspace(0, len(columns), count + 1)
    share = (np.arange(COLUMNS) + 0.5) / COLUMNS
    return [columns[(left + share * (right - left)).astype(int)] for left, right in pairwise(edges)]


def _answers(run: DemoRun) -> list[dict[str, Any]]:
    answers = []
    for number, example in enumerate(list(run.model.task.read(run.files.test))[:MAX_SHOWN]):
        explanation = explain(run.model, example)
        if not number:
            draw_explanation(explanation, run.path)
        frames, image = explanation.frames, explanation.image
        lines = ctc_lines(frames, image) if frames and image is not None else []
        answer = {"image": example.name, "answer": explanation.prediction.text, "truth": example.text}
        answers.append({**answer, "times": explanation.prediction.times, "frames": lines})
    return answers


def _show(answers: Sequence[Mapping[str, Any]]) -> None:
    terminal.print_lines("Transcripts of test lines:")
    rows = [
        (result["image"], result["answer"], result["truth"], "" if result["answer"] == result["truth"] else "wrong")
        for result in answers
    ]
    terminal.table(("image", "transcript", "reference", ""), rows)
    terminal.print_lines(
        "",
        "The first line, column by column: the most probable digit (· for none), and the probability of any digit:",
        *answers[0]["frames"],
    )


DEMO = Demo(
    description="A model learns by CTC to read images of 3 to 8 handwritten digits, without knowing the position of "
    "any digit. It is tested on other writers.",
    quick={
        "train.updates": 150,
        "train.learning_rate": 0.006,
        "task.image_encoder.channels": 16,
        "task.encoder.dropout": 0.0,
    },
    metric="cer",
    percent=True,
    baselines=_baselines,
    answers=_answers,
    show=_show,
    next_command="seqloom explain {run} {test} --beam",
)
