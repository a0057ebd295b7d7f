"""A model that does not learn is noticed during training and at its end; a healthy one is left alone."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.contracts.tiny import CASES, build

from seqloom import workflow
from seqloom.run_config import load_config
from seqloom.run_summary import summarize, verdict
from seqloom.tasks.caption import Caption
from seqloom.tasks.classify import Classify
from seqloom.tasks.tag import Tag
from seqloom.tasks.transcribe import Transcribe
from seqloom.tasks.translate import Translate


def train(name: str, folder: Path, **settings: Any) -> tuple[list[str], str, str]:
    """The warnings of a training run, its verdict and its log."""
    warnings: list[str] = []
    run = workflow.train(
        build(CASES[name], folder, epochs=12, **settings),
        output=folder / "run",
        listeners=[lambda _, event: warnings.extend([event.warning] * bool(event.warning))],
        plots=False,
    )
    return warnings, verdict(summarize(run, load_config(run))), (run.path / "train.log").read_text()


@pytest.mark.parametrize(
    ("name", "learning_rate", "sign", "key"),
    [
        ("transcribe", 1e-3, "Every transcript is empty, because CTC predicts only the blank", "train.epochs"),
        ("classify", 1e-9, "Every prediction is the label 'up'", "train.learning_rate"),
        ("tag", 1e-9, "Every prediction is the label 'O'", "train.learning_rate"),
        ("language_model", 1e-9, "The training loss does not fall", "train.learning_rate"),
    ],
)
def test_a_model_that_does_not_learn_is_noticed(
    name: str, learning_rate: float, sign: str, key: str, tmp_path: Path
) -> None:
    (warning,), end, log = train(name, tmp_path, learning_rate=learning_rate)
    assert warning.startswith(sign)
    assert key in warning
    assert f"warning: {warning}" in log
    assert end.startswith("No better than the baseline")
    assert sign in end
    assert key in end


def test_a_model_that_learns_gets_no_warning(tmp_path: Path) -> None:
    warnings, end, _ = train("classify", tmp_path, learning_rate=0.02)
    assert warnings == []
    assert end.startswith(("Better than", "Not clearly better than"))
    assert "train." not in end


@pytest.mark.parametrize(
    ("task", "answer", "targets", "expected"),
    [
        (Classify, {"label": "up"}, [{"label": label} for label in ("up", "down", "down", "on")], "label 'up'"),
        (Tag, {"labels": ["O", "O"]}, [{"labels": ["O", "B-LOC"]}] * 4, "label 'O'"),
        (Transcribe, {"text": ""}, [{"text": text} for text in "abcd"], "empty, because CTC"),
        (Transcribe, {"text": "e"}, [{"text": text} for text in "abcd"], "Every transcript is 'e'"),
        (Translate, {"text": "x"}, [{"target": text} for text in "abcd"], "Every translation is 'x'"),
        (Caption, {"text": "x"}, [{"captions": (text,)} for text in "abcd"], "Every caption is 'x'"),
    ],
)
def test_constant_predictions_are_described(
    task: Any, answer: dict[str, Any], targets: list[dict[str, Any]], expected: str
) -> None:
    labelled = SimpleNamespace(_numbers=None)  # targets are labels or texts
    predictions = [SimpleNamespace(**answer)] * len(targets)
    examples = [SimpleNamespace(**target) for target in targets]
    assert expected in task.degenerate_predictions(labelled, predictions, examples)
    other = [SimpleNamespace(**{name: type(value)("other") for name, value in answer.items()}), *predictions[1:]]
    assert task.degenerate_predictions(labelled, other, examples) == ""
