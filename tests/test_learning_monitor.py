"""A model that does not learn is noticed during training and at its end; a healthy one is left alone."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.contracts.tiny import CASES, Case, build

from seqloom import workflow
from seqloom.run_config import load_config
from seqloom.run_summary import summarize, verdict


def train(case: Case, folder: Path, **settings: Any) -> tuple[list[str], str, str]:
    """The warnings of a training run, its verdict and its log."""
    warnings: list[str] = []
    run = workflow.train(
        build(case, folder, epochs=12, **settings),
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
    (warning,), end, log = train(CASES[name], tmp_path, learning_rate=learning_rate)
    assert warning.startswith(sign)
    assert key in warning
    assert f"warning: {warning}" in log
    assert end.startswith("No better than the baseline")
    assert sign.partition("'")[0] in end  # calibration may change which label it is
    assert key in end


def test_the_remedy_names_the_limit_that_was_set(tmp_path: Path) -> None:
    (warning,), end, _ = train(CASES["transcribe"], tmp_path, learning_rate=1e-3, minutes=60)
    assert "train.minutes" in warning
    assert "train.epochs" not in warning
    assert "train.epochs" in end  # which have ended it


def test_a_model_that_learns_gets_no_warning(tmp_path: Path) -> None:
    lines = ["up high above over\n", "down low below under\n"]
    new = ["up above high\n", "down under low\n"]
    case = CASES["classify"]._replace(train="".join(lines * 10), dev="".join(new * 20))
    warnings, end, _ = train(case, tmp_path, learning_rate=0.05)
    assert warnings == []
    assert end.startswith("Better than")
    assert "train." not in end


@pytest.mark.parametrize(
    ("name", "answer", "targets", "expected"),
    [
        ("classify", {"label": "up"}, [{"label": label} for label in ("up", "down", "down", "on")], "label 'up'"),
        ("tag", {"labels": ["O", "O"]}, [{"labels": ["O", "B-LOC"]}] * 4, "label 'O'"),
        ("transcribe", {"text": ""}, [{"text": text} for text in "abcd"], "empty, because CTC"),
        ("transcribe", {"text": "e"}, [{"text": text} for text in "abcd"], "Every transcript is 'e'"),
        ("translate", {"text": "x"}, [{"target": text} for text in "abcd"], "Every translation is 'x'"),
        ("caption", {"text": "x"}, [{"captions": (text,)} for text in "abcd"], "Every caption is 'x'"),
    ],
)
def test_constant_predictions_are_described(
    name: str, answer: dict[str, Any], targets: list[dict[str, Any]], expected: str, tmp_path: Path
) -> None:
    task = build(CASES[name], tmp_path).task
    predictions = [SimpleNamespace(**answer)] * len(targets)
    examples = [SimpleNamespace(**target) for target in targets]
    assert expected in task.degenerate_predictions(predictions, examples)
    other = [SimpleNamespace(**{name: type(value)("other") for name, value in answer.items()}), *predictions[1:]]
    assert task.degenerate_predictions(other, examples) == ""
