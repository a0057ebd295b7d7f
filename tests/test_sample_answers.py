"""The answers to fixed dev examples that a training keeps."""

from pathlib import Path

import pytest
from tests.test_workflow import settings

from seqloom import workflow
from seqloom.evaluation import predict_all
from seqloom.model import load
from seqloom.sample_answers import SAMPLES, describe_samples, sample_answers, sample_rows


@pytest.mark.parametrize(("count", "rows"), [(0, []), (1, [0]), (3, [0, 1, 2]), (12, [1, 3, 5, 7, 9, 11])])
def test_samples_are_spread_evenly(count: int, rows: list[int]) -> None:
    assert sample_rows(count) == rows
    assert len(sample_rows(1000)) == SAMPLES


@pytest.mark.parametrize("name", ["tag", "translate", "classify"])
def test_a_run_has_the_answers_of_its_model_at_each_evaluation(name: str, tmp_path: Path) -> None:
    run = workflow.train(settings(tmp_path, name), output=tmp_path / "run", plots=False)
    evaluated = [row for row in run.rows() if "dev" in row]
    assert [row["update"] for row in evaluated] == [5, 10, 12]
    model = load(run, checkpoint="last")
    dev = list(model.config.task.read(Path(model.config.task.dev)))
    predictions = predict_all(model.config, model.module, dev)
    texts = [model.config.task.answer_text(predictions[row]) for row in sample_rows(len(dev))]
    assert evaluated[-1]["answers"] == texts
    samples = run.summary()["samples"]
    assert [sample["place"] for sample in samples] == [str(dev[row].location) for row in sample_rows(len(dev))]
    assert samples == describe_samples(model.config.task, dev)
    assert all(sample["target"] for sample in samples)


def test_answers_have_the_form_of_targets(tmp_path: Path) -> None:
    """So that a right answer equals its target."""
    run = workflow.train(settings(tmp_path, "classify"), output=tmp_path / "run", plots=False)
    model = load(run)
    dev = list(model.config.task.read(Path(model.config.task.dev)))
    predictions = predict_all(model.config, model.module, dev)
    equal = [
        model.config.task.answer_text(prediction) == model.config.task.example_texts(example)[1]
        for prediction, example in zip(predictions, dev, strict=True)
    ]
    assert sum(equal) / len(dev) == pytest.approx(run.facts()["metrics"]["accuracy"])


def test_chunks_have_no_answers_of_examples(tmp_path: Path) -> None:
    run = workflow.train(settings(tmp_path, "language_model"), output=tmp_path / "run", plots=False)
    assert not any("answers" in row for row in run.rows())
    task = load(run).config.task
    assert sample_answers(task, ["a", "b"], ["x"]) == ()
