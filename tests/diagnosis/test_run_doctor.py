"""The doctor of a run: on a file, on the run's own data, and during training; it opens no file of a foreign run."""

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.contracts.test_tasks import make
from tests.contracts.tiny import CASES, build
from tests.killing import timeless_rows
from typer.testing import CliRunner

import seqloom
from seqloom import workflow
from seqloom.cli.main import app
from seqloom.config import with_changes
from seqloom.diagnosis import training_doctor
from seqloom.diagnosis.run_doctor import doctor_run, make_batch, task_names
from seqloom.diagnosis.training_doctor import TrainingDoctor
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.training.divergence import Diverged
from seqloom.training.progress import Progress
from seqloom.training.self_trained import SelfTrained


def configured(folder: Path, case: str = "tag", **changes: Any) -> Config:
    config: Config = build(CASES[case], folder, **{"updates": 12, "evaluate_every": 4, "log_every": 2} | changes)
    return config


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A tagger that the doctor has watched."""
    folder = tmp_path_factory.mktemp("run")
    return workflow.train(configured(folder, doctor_every=2), output=folder / "tagger")


def command(*words: object) -> Any:
    return CliRunner().invoke(app, ["doctor", *map(str, words)])


def dev_file(run: Run) -> str:
    (name,) = re.findall(r'^dev = "(.*)"$', run.config, re.MULTILINE)
    return str(name)


def test_a_run_is_examined_on_its_dev_data(tagger: Run, tmp_path: Path) -> None:
    result = command(tagger.path, "--output", tmp_path / "pictures", "--plots", "svg")
    assert result.exit_code == 0, result.output
    assert f"sequences of {dev_file(tagger)}" in result.stdout
    for name in ("memory (encoder)", "stability (encoder)", "memory (character encoder)", "clipping", "gradient norms"):
        assert name in result.stdout
    pictures = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert {"memory_encoder.svg", "gates_encoder.svg", "clipping.svg", "gradient_norms.svg"} <= pictures


def test_json_has_all_measurements_and_draws_nothing(tagger: Run) -> None:
    result = command(tagger.path, dev_file(tagger), "--json")
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout)
    assert values["training"]["updates"] == 12
    assert set(values["training"]["group_norms"]) >= {"encoder.layer", "linear"}
    assert {part["key"] for part in values["parts"]} == {"task.encoder", "task.characters"}
    assert not (tagger.path / "doctor").exists()


def test_python_examines_a_loaded_model(tagger: Run) -> None:
    model = seqloom.load(tagger.path)
    by_file = seqloom.doctor(model, dev_file(tagger))
    batch = make_batch(model.config, list(model.task.read(Path(dev_file(tagger)))))[0]
    by_batch = seqloom.doctor(model, batch)
    assert by_file.parts == by_batch.parts
    assert by_file.parts == doctor_run(tagger.path).parts
    with pytest.raises(ValueError, match="has its own loss"):
        seqloom.doctor(model, dev_file(tagger), loss=torch.sum)


def test_a_training_calls_the_doctor_at_every_second_evaluation(tagger: Run) -> None:
    rows = tagger.rows()
    assert [row["update"] for row in rows if "doctor" in row] == [8]
    (summary,) = (row["doctor"] for row in rows if "doctor" in row)
    assert set(summary["findings"].values()) <= {"problem", "warning", "healthy"}
    assert "memory (encoder)" in summary["findings"]
    assert "encoder, layer 1, backward" in summary["memory"]
    assert "update 8: doctor" in (tagger.path / "train.log").read_text()


def test_the_doctor_does_not_change_a_training(tagger: Run, tmp_path: Path) -> None:
    """Law 7, over a whole training: the same losses, scores and weights without it."""
    other = workflow.train(configured(tmp_path), output=tmp_path / "other")
    kept = [[row for row in timeless_rows(run.path) if "doctor" not in row] for run in (tagger, other)]
    assert kept[0] == kept[1]
    weights = [run.load("last").model for run in (tagger, other)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_problem_is_reported_once(tmp_path: Path) -> None:
    """A learning rate that saturates an Elman network within a few updates."""
    encoder = {"cell": "elman", "hidden_size": 6, "bidirectional": False}
    case = CASES["classify"]._replace(fields=CASES["classify"].fields | {"encoder": encoder, "pooling": "last"})
    settings = {"updates": 12, "evaluate_every": 4, "doctor_every": 1, "learning_rate": 50.0, "clip_norm": 0.0}
    events: list[Progress] = []
    run = workflow.train(
        build(case, tmp_path, **settings),
        output=tmp_path / "run",
        listeners=[lambda _, event: events.append(event)],
    )
    examined = [row["doctor"]["findings"] for row in run.rows() if "doctor" in row]
    assert [each["gates (encoder)"] for each in examined] == ["problem"] * 3
    warnings = "".join(event.warning for event in events)
    assert warnings.count("of the outputs of the encoder (layer 1) are saturated") == 1


def test_a_training_that_diverged_is_described_as_in_its_log(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"updates": 40, "evaluate_every": 40, "log_every": 3}
    changes |= {"optimizer": "sgd", "learning_rate": 1e30, "clip_norm": 0.0}
    skipped: list[int] = []
    with pytest.raises(Diverged) as error:
        workflow.train(
            configured(tmp_path, **changes),
            output=tmp_path / "run",
            listeners=[lambda _, event: skipped.append(event.skipped)],  # it does not see the last update
        )
    reason = str(error.value).partition(": ")[2].partition(";")[0]
    assert "10 updates in a row" in reason
    diagnosis = doctor_run(tmp_path / "run")
    first = diagnosis.findings[0]
    total = skipped[-1] + 1
    more = f"; {total} were skipped in all" if total > 10 else ""
    start = (
        f"Training diverged: {reason}{more}. train.learning_rate = 1e+30 is too high. Try train.learning_rate = 0.1,"
    )
    assert first.verdict.startswith(start)
    assert first.evidence["skipped_updates"] == total
    assert not [each for each in diagnosis.findings if each.severity == "healthy"]
    Run.open(tmp_path / "run").log("update 12: loss 0.5, learning_rate 0.001")  # it was resumed
    assert not doctor_run(tmp_path / "run").findings[0].verdict.startswith("Training diverged")


def test_a_doctor_that_fails_does_not_stop_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("this layer cannot be called twice")

    monkeypatch.setattr(training_doctor, "diagnose", fail)
    warnings: list[str] = []
    run = workflow.train(
        configured(tmp_path, doctor_every=1),
        output=tmp_path / "run",
        listeners=[lambda _, event: warnings.extend([event.warning] * bool(event.warning))],
    )
    (warning,) = (text for text in warnings if "doctor" in text)
    assert "doctor: the model cannot be examined: RuntimeError: this layer cannot be called twice" in warning
    assert run.summary()["finished"] == "12 updates done"


def test_resuming_counts_evaluations_from_the_start(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    whole = workflow.train(configured(tmp_path / "a", doctor_every=2, updates=16), output=tmp_path / "whole")
    part = workflow.train(configured(tmp_path / "b", doctor_every=2, updates=4), output=tmp_path / "part")
    part = workflow.resume(part.path, ["train.updates=16"])
    updates = [[row["update"] for row in run.rows() if "doctor" in row] for run in (whole, part)]
    assert updates == [[8, 16], [8, 16]]


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes with names")
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda path: path.write_text(path.read_text() + "\n\nextra\tX\n"), id="changed"),
        pytest.param(lambda path: path.unlink(), id="missing"),
        pytest.param(replace_by_pipe, id="pipe"),
    ],
)
def test_a_file_that_a_run_names_is_read_only_if_it_is_known(spoil: Callable[[Path], object], tmp_path: Path) -> None:
    run = workflow.train(configured(tmp_path), output=tmp_path / "run")
    spoil(Path(dev_file(run)))
    result = command(run.path, "--json")
    assert result.exit_code == 0, result.output
    assert "were not measured" in result.stderr
    names = {finding["name"] for finding in json.loads(result.stdout)["findings"]}
    assert "learning rate" in names
    assert "memory" not in names


EXAMINED = (
    *("tag, crf", "tag, transformer", "tag, contextual vectors", "tag, regression", "classify, mixed layers"),
    *("classify, convolutions", "language_model", "language_model, window", "language_model, bidirectional"),
    *("language_model, ngram", "translate", "translate, characters", "translate, no attention"),
    *("translate, transformer", "caption, transformer", "caption, sound", "transcribe, pyramid", "transcribe, joint"),
    *("forecast", "forecast, every_step"),
)
"""All kinds of parts: cells inside attention, states that are passed on, reduced time, several directions."""


@pytest.mark.parametrize("case", EXAMINED)
def test_every_task_is_examined(case: str, tmp_path: Path) -> None:
    fitted = make(case, tmp_path)
    task, module = fitted.case.task, fitted.case.module
    dev = list(task.read(Path(task.dev)))
    doctor = TrainingDoctor(fitted.config._replace(task=task, train=_every_evaluation(fitted.config)), module, dev)
    if isinstance(module, SelfTrained):
        assert doctor._batch is None
        return
    assert doctor._batch is not None
    diagnosis = doctor._diagnose(doctor._batch)
    names = task_names(task)
    expected = not any(word in case for word in ("window", "convolutions"))
    assert bool(diagnosis.parts) == expected
    for part in diagnosis.parts:
        assert part.key or not names.parts, part
        assert all(curve.mean and curve.mean[0] > 0 for curve in part.gradients), part
    assert len(diagnosis.to_json()) > 100


def _every_evaluation(config: Config) -> Any:
    return with_changes(config.train, "train", {"doctor_every": 1})


def test_errors_are_one_line(tagger: Run, tmp_path: Path) -> None:
    missing = command(tagger.path, tmp_path / "nothing.tsv")
    assert missing.exit_code == 1
    assert "no such file" in missing.stderr
    assert command(tmp_path / "run").exit_code == 1
    wrong = command(tagger.path, "--plots", "gif")
    assert "plots cannot be written as .gif" in wrong.stderr
