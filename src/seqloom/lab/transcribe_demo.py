"""A first transcriber: lines of handwritten digits become text, and its spikes show where it saw which."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom import terminal
from seqloom.data.builtin import datasets
from seqloom.data.readers.recordings import Recording
from seqloom.explain import explain
from seqloom.insight import draw_explanation
from seqloom.insight.ctc_plot import ctc_lines
from seqloom.lab.demonstration import ONE_THREAD, Demonstration, Trained
from seqloom.metrics.transcripts import error_rate

SHOWN = 8  # lines
COLUMNS = 8  # of a digit, brought to one width


def _guess_lines(trained: Trained) -> dict[str, float]:
    """The error of simple ways."""
    task = trained.model.task
    train, test = list(task.read(trained.files.train)), list(task.read(trained.files.test))
    wanted = [line.text or "" for line in test]
    usual = Counter(line.text or "" for line in train).most_common(1)[0][0]
    return {
        f"always {usual!r}": error_rate([usual] * len(wanted), wanted).value,
        "cut into equal parts, each the nearest mean digit": error_rate(_nearest(train, test), wanted).value,
    }


def _nearest(train: Sequence[Recording], test: Sequence[Recording]) -> list[str]:
    """Each line cut into as many parts as its width lets expect, each of them taken for the digit it is nearest to."""
    pieces: dict[str, list[NDArray[np.float32]]] = {}
    for line in train:
        text = line.text or ""
        for name, piece in zip(text, _cut(line.values, len(text)), strict=True):
            pieces.setdefault(name, []).append(piece)
    names = sorted(pieces)
    means = np.stack([np.mean(pieces[name], axis=0) for name in names])
    wide = sum(map(len, train)) / sum(map(len, pieces.values()))  # columns of a digit and the gap behind it
    found = []
    for line in test:
        parts = _cut(line.values, max(round(len(line) / wide), 1))
        distances = ((np.stack(parts)[:, None] - means) ** 2).sum(axis=(2, 3))
        found.append("".join(names[number] for number in distances.argmin(axis=1)))
    return found


def _cut(columns: NDArray[np.float32], count: int) -> list[NDArray[np.float32]]:  # (W, H) → count of (COLUMNS, H)
    """Parts of equal width, of each of which some columns are taken."""
    edges = np.linspace(0, len(columns), count + 1)
    share = (np.arange(COLUMNS) + 0.5) / COLUMNS
    return [columns[(left + share * (right - left)).astype(int)] for left, right in pairwise(edges)]


def _show_lines(trained: Trained) -> list[dict[str, Any]]:
    shown = []
    for number, example in enumerate(list(trained.model.task.read(trained.files.test))[:SHOWN]):
        explanation = explain(trained.model, example)
        if not number:
            draw_explanation(explanation, trained.path)
        frames, image, prediction = explanation.frames, explanation.image, explanation.prediction
        lines = ctc_lines(frames, image) if frames and image is not None else []
        texts = {"image": example.name, "answer": prediction.text, "truth": example.text}
        shown.append({**texts, "times": prediction.times, "frames": lines})
    return shown


def _tell_lines(examples: Sequence[Mapping[str, Any]]) -> None:
    terminal.say("What it reads in lines that it has never seen:")
    rows = [(each["image"], each["answer"], each["truth"], _verdict(each)) for each in examples]
    terminal.table(("image", "read", "truth", ""), rows)
    terminal.say("", "The first line, column by column: the most probable digit (· = blank) and its probability:")
    terminal.say(*examples[0]["frames"])


def _verdict(example: Mapping[str, Any]) -> str:
    return "" if example["answer"] == example["truth"] else "wrong"


TRANSCRIBE = Demonstration(
    about="Images of 3 to 8 handwritten digits are read column by column: nobody tells where a digit begins. The model "
    "learns it by CTC from some writers, and is asked about the lines of others.",
    build=datasets.handwriting,
    settings={
        **ONE_THREAD,
        "task.image_encoder.height": 12,
        "task.image_encoder.layers": 2,
        "task.image_encoder.channels": 24,
        "task.encoder.cell": "gru",
        "task.encoder.hidden_size": 64,
        "task.encoder.dropout": 0.4,
        "train.epochs": 7,
        "train.batch_size": 16,
        "train.learning_rate": 0.004,
        "train.clip_norm": 1.0,
    },
    quick={
        "train.updates": 150,
        "train.learning_rate": 0.006,
        "task.image_encoder.channels": 16,
        "task.encoder.dropout": 0.0,
    },
    metric="cer",
    percent=True,
    baselines=_guess_lines,
    show=_show_lines,
    tell=_tell_lines,
    following="seqloom explain {run} {test} --beam",
)
