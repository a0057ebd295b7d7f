"""Translation: dates as people write them become ISO 8601 dates, and attention shows how."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from seqloom import terminal
from seqloom.data.builtin.dates import PIVOT
from seqloom.demos.demo import Demo, DemoRun
from seqloom.explain import explain
from seqloom.insight import attention_lines, draw_explanation


def _baselines(run: DemoRun) -> dict[str, float]:
    test = list(run.model.task.read(run.files.test))
    return {
        "copy the input": sum(pair.source == pair.target for pair in test) / len(test),
        "read three numbers as day, month, year": sum(_rule(pair.source) == pair.target for pair in test) / len(test),
    }


def _rule(text: str) -> str:
    numbers = re.findall(r"\d+", text)
    if len(numbers) != 3:
        return ""
    day, month, year = map(int, numbers if len(numbers[0]) < 4 else numbers[::-1])
    century = 0 if year > 99 else 1900 if year >= PIVOT else 2000
    return f"{century + year}-{month:02}-{day:02}"


def _answers(run: DemoRun) -> list[dict[str, Any]]:
    answers = []
    for number, text in enumerate(run.inputs):
        explanation = explain(run.model, text)
        if not number:
            draw_explanation(explanation, run.path)
        attention = explanation.attention
        lines = attention_lines(attention.weights, attention.columns, attention.rows) if attention else []
        answer = explanation.prediction
        answers.append({"source": text, "answer": answer.text, "score": answer.score, "attention": lines})
    return answers


def _show(answers: Sequence[Mapping[str, Any]]) -> None:
    terminal.print_lines("Translations:")
    terminal.table(("date", "ISO 8601"), [(result["source"], result["answer"]) for result in answers])
    terminal.print_lines(
        "",
        "Attention for the first date (columns: input, rows: output; darker is more):",
        *answers[0]["attention"],
    )


DEMO = Demo(
    description="A recurrent network with attention learns to convert dates from seven languages to ISO 8601, one "
    "character at a time. It is tested on dates it has not seen.",
    quick={"train.updates": 80, "task.encoder.hidden_size": 32, "task.decoder.hidden_size": 64},
    metric="exact_match",
    percent=True,
    baselines=_baselines,
    answers=_answers,
    show=_show,
    next_command="seqloom explain {run} 'le 14 juillet 1789' --beam",
    inputs=("Donnerstag, den 27. September 1984", "the 1st of March, 1871", "14/7/1789"),
)
