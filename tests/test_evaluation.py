"""Predictions and scores of examples that are in memory."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.tiny import CASES, build

from seqloom import workflow
from seqloom.data.loading import BatchLoader
from seqloom.evaluation import evaluate, predict_all, split_details
from seqloom.model import load
from seqloom.training_data import data_readers


def test_scores_do_not_depend_on_the_order(tmp_path: Path) -> None:
    chosen = build(CASES["classify"], tmp_path, updates=3, evaluate_every=2)
    model = load(workflow.train(chosen, output=tmp_path / "run").path)
    examples = list(model.task.read(Path(model.task.dev)))
    one, other = (evaluate(model.config, model.module, some) for some in (examples, examples[::-1]))
    assert one["loss"] == pytest.approx(other["loss"], rel=1e-6)
    assert one["accuracy"] == other["accuracy"]


def test_predictions_of_joined_sequences_keep_their_order(tmp_path: Path, monkeypatch: Any) -> None:
    chosen = build(CASES["language_model"], tmp_path, updates=1, bptt_steps=4, batch_size=2)
    model = load(workflow.train(chosen, output=tmp_path / "run").path)
    examples = list(model.task.read(tmp_path / "dev-t.txt"))
    whole = predict_all(model.config, model.module, examples)
    monkeypatch.setattr(
        "seqloom.evaluation.BatchLoader", partial(BatchLoader, shuffle_buffer=3)
    )  # in place of a million
    assert predict_all(model.config, model.module, examples) == whole


def test_scores_are_separated_from_details() -> None:
    scores = {"accuracy": 0.5, "accuracy_interval": [0.4, 0.6], "signature": "nrefs:1", "examples": 7}
    details = {"per_label": {"x": {"f1": 1.0}}, "confusions": [{"count": 1}], "worst": ["a", "b"], "long": "x" * 400}
    assert split_details({**details, **scores}) == (scores, details)
    many = {f"group {number}": 0.5 for number in range(5000)}
    kept, rest = split_details(many)
    assert (len(kept), len(rest)) == (1000, 4000)


@pytest.mark.parametrize("name", ["language_model", "forecast", "classify"])
def test_the_main_metric_has_a_confidence_interval(name: str, tmp_path: Path) -> None:
    run = workflow.train(build(CASES[name], tmp_path, updates=2), output=tmp_path / "run")
    model = load(run.path)
    readers = data_readers(model.config)
    examples = [*readers.train(), *readers.dev()]
    scores = evaluate(model.config, model.module, examples)
    low, high = scores[f"{model.task.main_metric}_interval"]
    assert low < scores[model.task.main_metric] < high
    few = evaluate(model.config, model.module, examples[:3])
    assert name not in ("language_model", "forecast") or f"{model.task.main_metric}_interval" not in few
