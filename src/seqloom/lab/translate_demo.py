"""A first translator: dates as people write them become dates of ISO 8601, and its attention shows how."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from seqloom import terminal
from seqloom.data.builtin import datasets
from seqloom.data.builtin.dates import PIVOT
from seqloom.explain import explain
from seqloom.insight import attention_lines, draw_explanation
from seqloom.lab.demonstration import ONE_THREAD, Demonstration, Trained


def _guess_dates(trained: Trained) -> dict[str, float]:
    """How often simple rules are exactly right."""
    test = list(trained.model.task.read(trained.files.test))
    return {
        "the text as it is": sum(pair.source == pair.target for pair in test) / len(test),
        "three numbers are day, month, year": sum(_rule(pair.source) == pair.target for pair in test) / len(test),
    }


def _rule(text: str) -> str:
    numbers = re.findall(r"\d+", text)
    if len(numbers) != 3:
        return ""
    day, month, year = map(int, numbers if len(numbers[0]) < 4 else numbers[::-1])
    century = 0 if year > 99 else 1900 if year >= PIVOT else 2000
    return f"{century + year}-{month:02}-{day:02}"


def _show_dates(trained: Trained) -> list[dict[str, Any]]:
    shown = []
    for number, text in enumerate(trained.typed):
        explanation = explain(trained.model, text)
        if not number:
            draw_explanation(explanation, trained.path)
        attention, prediction = explanation.attention, explanation.prediction
        lines = attention_lines(attention.weights, attention.columns, attention.rows) if attention else []
        shown.append({"source": text, "answer": prediction.text, "score": prediction.score, "attention": lines})
    return shown


def _tell_dates(examples: Sequence[Mapping[str, Any]]) -> None:
    terminal.say("What it makes of dates:")
    terminal.table(("written", "ISO 8601"), [(each["source"], each["answer"]) for each in examples])
    terminal.say("", "Attention of each output character over the first date:", *examples[0]["attention"])


CHARACTERS = {"task.source.unit": "characters", "task.target.unit": "characters"}

TRANSLATE = Demonstration(
    about="Dates as people write them in seven languages become dates of ISO 8601, character by character: a recurrent "
    "network with attention learns it from examples, and is asked about dates that it has never seen.",
    build=datasets.dates,
    settings={
        **ONE_THREAD,
        **CHARACTERS,
        "task.embedding_size": 32,
        "task.tie_embeddings": False,
        "task.encoder.cell": "gru",
        "task.encoder.hidden_size": 64,
        "task.encoder.dropout": 0.15,  # without it, attention may settle early in the wrong place
        "task.decoder.cell": "gru",
        "task.decoder.hidden_size": 128,
        "task.decoder.dropout": 0.15,
        "train.epochs": 5,
        "train.batch_size": 64,
        "train.learning_rate": 0.004,
    },
    quick={"train.updates": 80, "task.encoder.hidden_size": 32, "task.decoder.hidden_size": 64},
    metric="exact_match",
    percent=True,
    baselines=_guess_dates,
    show=_show_dates,
    tell=_tell_dates,
    following="seqloom explain {run} 'le 14 juillet 1789' --beam",
    inputs=("Donnerstag, den 27. September 1984", "the 1st of March, 1871", "14/7/1789"),
)
