"""What a training writes into its run folder."""

import json
from pathlib import Path

import pytest
from tests.test_workflow import settings

from seqloom import tasks, workflow
from seqloom.checkpoint import RunError
from seqloom.model import load
from seqloom.training.progress import Progress


@pytest.mark.parametrize("name", tasks.names())
def test_metrics_and_checkpoints_match_the_events(name: str, tmp_path: Path) -> None:
    events: list[Progress] = []
    chosen = settings(tmp_path, name)
    run = workflow.train(chosen, output=tmp_path / "run", listeners=[lambda _, event: events.append(event)])
    rows = run.rows()
    logged = [(event.update, event.loss) for event in events if event.logged]
    assert [(row["update"], row["loss"]) for row in rows if "loss" in row] == logged
    assert [row["tokens"] for row in rows if "loss" in row] == [event.tokens for event in events if event.logged]
    assert [row["seconds"] for row in rows] == sorted(row["seconds"] for row in rows)
    scores = [(event.update, event.evaluation.metrics) for event in events if event.evaluation]
    assert [[row["update"], row["dev"]] for row in rows if "dev" in row] == json.loads(json.dumps(scores))
    assert [update for update, _ in scores] == [5, 10, 12]
    best = [event for event in events if event.kept][-1]
    assert best.evaluation is not None
    assert run.load("best").facts["update"] == best.update
    metric = load(run.path).task.main_metric
    assert run.load("best").facts["metrics"][metric] == best.evaluation.metrics[metric]
    # The best model, loaded, reaches what was written down.
    model = load(run.path)
    assert model.evaluate(model.task.dev)[metric] == pytest.approx(best.evaluation.metrics[metric], rel=1e-5)
    assert "finished: 12 updates done" in (run.path / "train.log").read_text()


def test_only_the_best_weights_are_kept(tmp_path: Path) -> None:
    run = workflow.train(settings(tmp_path, "classify", keep="best"), output=tmp_path / "run")
    assert {path.name for path in run.path.iterdir() if path.is_dir()} == {"best", "details"}
    assert load(run.path).predict(["it goes up"])
    assert run.summary()["finished"] == "12 updates done"
    workflow.resume(run.path)  # nothing is left to do
    with pytest.raises(RunError, match="only its best weights were kept"):
        workflow.resume(run.path, ["train.updates=40"])


def test_without_an_evaluation_the_last_weights_are_kept(tmp_path: Path) -> None:
    chosen = settings(tmp_path, "classify", keep="best")
    task = chosen.task.model_copy(update={"dev": "", "dev_fraction": 0.0})
    run = workflow.train(chosen._replace(task=task), output=tmp_path / "run")
    assert load(run.path).predict(["it goes up"])
