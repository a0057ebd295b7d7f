"""Captioning: images of two coloured shapes become sentences."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from seqloom import terminal
from seqloom.demos.demo import Demo, DemoRun
from seqloom.explain import explain
from seqloom.insight import draw_explanation
from seqloom.insight.image_attention import image_attention_lines

MAX_SHOWN = 4  # images


def _baselines(run: DemoRun) -> dict[str, float]:
    task = run.model.task
    counts = Counter(caption for example in task.read(run.files.train) for caption in example.captions)
    most_frequent = counts.most_common(1)[0][0]
    test = list(task.read(run.files.test))
    return {f"always {most_frequent!r}": sum(most_frequent in example.captions for example in test) / len(test)}


def _answers(run: DemoRun) -> list[dict[str, Any]]:
    answers = []
    for number, example in enumerate(list(run.model.task.read(run.files.test))[:MAX_SHOWN]):
        explanation = explain(run.model, example)
        if not number:
            draw_explanation(explanation, run.path)
        answer = {"image": example.name, "answer": explanation.prediction.text, "truth": list(example.captions)}
        answers.append(
            {**answer, "words": explanation.nbest_tokens[0], "attention": explanation.image_attention.tolist()}
        )
    return answers


def _show(answers: Sequence[Mapping[str, Any]]) -> None:
    terminal.print_lines("Captions of test images:")
    rows = [
        (
            result["image"],
            result["answer"],
            "" if result["answer"] in result["truth"] else f"wrong: {result['truth'][0]}",
        )
        for result in answers
    ]
    terminal.table(("image", "caption", ""), rows)
    first = answers[0]
    terminal.print_lines(
        "",
        "Attention over the first image for each word (darker is more):",
        *image_attention_lines(first["attention"], first["words"]),
    )


DEMO = Demo(
    description="A small convolutional network with a recurrent decoder learns to describe images of two coloured "
    "shapes. It is tested on pairs of shapes it has not seen.",
    quick={"train.updates": 80, "train.learning_rate": 0.004},
    metric="exact_match",
    percent=True,
    baselines=_baselines,
    answers=_answers,
    show=_show,
    next_command="seqloom predict {run} {test} | head",
)
