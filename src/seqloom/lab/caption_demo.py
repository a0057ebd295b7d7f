"""A first model that says what it sees: images of two coloured shapes become sentences."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from seqloom import terminal
from seqloom.data import builtin
from seqloom.data.vocabulary import END
from seqloom.insight import alignments
from seqloom.lab.demonstration import ONE_THREAD, Demonstration, Trained
from seqloom.model import Model

SHADES = " ░▒▓█"  # from nothing to all
SHOWN = 4  # images


def _guess_captions(trained: Trained) -> dict[str, float]:
    """How often simple answers are exactly right."""
    task = trained.model.task
    counts = Counter(caption for example in task.read(trained.files.train) for caption in example.captions)
    usual = counts.most_common(1)[0][0]
    test = list(task.read(trained.files.test))
    return {f"always {usual!r}": sum(usual in example.captions for example in test) / len(test)}


def looked(model: Model, image: str) -> tuple[list[str], list[list[list[float]]]]:  # T words, (T, rows, columns)
    """What the model says of an image, and how much it looked at each cell for each word."""
    task: Any = model.task
    module: Any = model.module
    batch = task.collate(list(task.ask([image])))
    with torch.no_grad():
        (answer,) = task.predict(module, batch).answers
        vocabulary = task.learned.text.vocabulary
        tokens = torch.tensor([[vocabulary.index(END), *vocabulary.encode(answer.symbols)]])
        _, found = alignments(module.decoder, tokens, module.start(*batch.inputs))
    weights = torch.stack([each.weights.mean(dim=1) for each in found]).mean(dim=0)[0]
    return [*answer.symbols, END], weights.view(-1, *task.grid).tolist()


def _show_captions(trained: Trained) -> list[dict[str, Any]]:
    shown = []
    for example in list(trained.model.task.read(trained.files.test))[:SHOWN]:
        words, weights = looked(trained.model, str(trained.files.test.parent / example.name))
        told = {"image": example.name, "answer": " ".join(words[:-1]), "truth": list(example.captions)}
        shown.append({**told, "words": words, "looked": weights})
    return shown


def _tell_captions(examples: Sequence[Mapping[str, Any]]) -> None:
    terminal.say("What it says of images that it has never seen:")
    rows = [
        (each["image"], each["answer"], "" if each["answer"] in each["truth"] else f"wrong: {each['truth'][0]}")
        for each in examples
    ]
    terminal.table(("image", "caption", ""), rows)
    first = examples[0]
    terminal.say("", "Where it looked in the first one for each word:", *_grids(first["words"], first["looked"]))


def _grids(words: Sequence[str], looked: Sequence[Sequence[Sequence[float]]]) -> list[str]:
    """The cells of each word side by side, the darker the more they were looked at."""
    width = max([2 * len(looked[0][0]), *map(len, words)])
    lines = ["  ".join(f"{word:{width}}" for word in words)]
    for row in range(len(looked[0])):
        shaded = ("".join(2 * SHADES[round(weight * (len(SHADES) - 1))] for weight in grid[row]) for grid in looked)
        lines.append("  ".join(f"{part:{width}}" for part in shaded))
    return [line.rstrip() for line in lines]


CAPTION = Demonstration(
    about="Images of two coloured shapes become sentences: a small convolutional network sees cells, a recurrent one "
    "looks at them and says word by word what is where. It is asked about pairs of shapes that it has never seen.",
    build=builtin.shapes,
    settings={
        **ONE_THREAD,
        "task.size": 32,
        "task.embedding": 32,
        "task.best_by": "exact_match",
        "task.sight.layers": 3,
        "task.sight.width": 32,
        "task.decoder.cell": "gru",
        "task.decoder.hidden": 64,
        "train.epochs": 12,
        "train.batch": 8,
        "train.rate": 0.003,
    },
    quick={"train.updates": 60, "task.sight.width": 8},
    metric="exact_match",
    percent=True,
    baselines=_guess_captions,
    show=_show_captions,
    tell=_tell_captions,
    following="seqloom predict {run} {test} | head",
)
