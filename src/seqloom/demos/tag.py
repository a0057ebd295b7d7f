"""Tagging: the role of each token in a line of Python."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom import terminal
from seqloom.demos.demo import Demo, DemoRun, evaluate_count_model, short_examples


def _baselines(run: DemoRun) -> dict[str, float]:
    def pairs(file: Path) -> list[tuple[str, str]]:
        return [
            pair for sentence in run.model.task.read(file) for pair in zip(sentence.words, sentence.labels, strict=True)
        ]

    counts: dict[str, Counter[str]] = {}
    for word, label in pairs(run.files.train):
        counts.setdefault(word, Counter())[label] += 1
    most_frequent = {word: labels.most_common(1)[0][0] for word, labels in counts.items()}
    majority = sum(counts.values(), Counter()).most_common(1)[0][0]
    test = pairs(run.files.test)
    return {
        f"always {majority}": sum(label == majority for _, label in test) / len(test),
        "most frequent label of each word": (
            sum(most_frequent.get(word, majority) == label for word, label in test) / len(test)
        ),
        "hidden Markov model": evaluate_count_model(run, model="hmm"),
    }


def _answers(run: DemoRun) -> list[dict[str, Any]]:
    examples = short_examples(run, 2, max_length=10)
    (answers,) = run.model.predict_batches(iter(examples))
    return [
        {"words": list(example.words), "answer": answer.labels, "truth": list(example.labels)}
        for example, answer in zip(examples, answers, strict=True)
    ]


def _show(answers: Sequence[Mapping[str, Any]]) -> None:
    terminal.print_lines("Predicted labels:")
    rows = [
        (word, label, "" if label == truth else f"wrong, should be {truth}")
        for result in answers
        for word, label, truth in zip(result["words"], result["answer"], result["truth"], strict=True)
    ]
    terminal.table(("word", "label", ""), rows)


DEMO = Demo(
    description="A tagger learns the role of each token (keyword, function, attribute, …) in lines of Python from some "
    "modules of the standard library. It is tested on other modules.",
    quick={"train.updates": 40, "task.encoder.hidden_size": 32},
    metric="accuracy",
    percent=True,
    baselines=_baselines,
    answers=_answers,
    show=_show,
    next_command="echo 'for name in sorted ( names ) :' | seqloom predict {run} -",
)
