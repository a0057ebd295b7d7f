"""Classification: handwritten digits, read row by row."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from seqloom import terminal
from seqloom.demos.demo import Demo, DemoRun, short_examples

SHADES = " .:-=+*#%@"  # light to dark


def _baselines(run: DemoRun) -> dict[str, float]:
    counts = Counter(example.label for example in run.model.task.read(run.files.train))
    majority = counts.most_common(1)[0][0]
    test = [example.label for example in run.model.task.read(run.files.test)]
    return {f"always {majority}": test.count(majority) / len(test)}


def _answers(run: DemoRun) -> list[dict[str, Any]]:
    examples = short_examples(run, 5, max_length=8)
    (answers,) = run.model.predict_batches(iter(examples))
    return [
        {
            "picture": ["".join(SHADES[int(value * 9 / 16)] * 2 for value in row) for row in example.content],
            "answer": answer.label,
            "probability": answer.probability,
            "truth": example.label,
        }
        for example, answer in zip(examples, answers, strict=True)
    ]


def _show(answers: Sequence[Mapping[str, Any]]) -> None:
    terminal.print_lines("Images and predictions:")
    for row in zip(*(result["picture"] for result in answers), strict=True):
        terminal.print_lines("   ".join(row))
    labels = [f"{result['answer']} ({result['probability']:.0%})" for result in answers]
    errors = ["" if result["answer"] == result["truth"] else f", is {result['truth']}" for result in answers]
    terminal.print_lines(
        "   ".join(f"{label + error:16}" for label, error in zip(labels, errors, strict=True)).rstrip()
    )


DEMO = Demo(
    description="A classifier learns to recognise handwritten digits. It reads each 8 × 8 image row by row, as a "
    "sequence of 8 vectors, and is tested on images it has not seen.",
    quick={"train.updates": 60, "task.encoder.hidden_size": 32},
    metric="accuracy",
    percent=True,
    baselines=_baselines,
    answers=_answers,
    show=_show,
    next_command="seqloom predict {run} {test} | head",
)
