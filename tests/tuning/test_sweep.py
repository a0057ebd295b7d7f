"""Whole sweeps: which trials are run, what is written, pruned, continued and refused."""

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.tuning.conftest import FakeTrial, perplexity

import seqloom
from seqloom import workflow
from seqloom.config import ConfigError, read
from seqloom.interrupt import Interrupted
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.tuning.sweep import EvaluationReader, SweepPlan, sweep


def summary(result: Any) -> list[tuple[int, str, float | None, dict[str, Any]]]:
    return [(trial.number, trial.state, trial.value, dict(trial.values)) for trial in result.trials]


def test_a_sweep_finds_the_best_values_and_writes_them(config: Path, tmp_path: Path, fake_trial: FakeTrial) -> None:
    lines: list[str] = []
    overrides = ["sweep.trials=20", "train.plot_format=svg"]
    result = sweep(config, overrides, output=tmp_path / "out", report=lines.append, run_trial=fake_trial)
    assert len(result.trials) == 20
    assert result.trials[0].values == {"train.learning_rate": 0.001, "task.decoder.cell": "lstm"}  # as configured
    assert {trial.state for trial in result.trials} == {"finished", "pruned"}
    assert result.best is not None
    assert result.best.values["task.decoder.cell"] == "gru"
    best = Config.build(read(result.best_config))
    assert result.best.value == pytest.approx(perplexity(best, 4))
    assert result.best.value == min(trial.value or 0 for trial in result.trials if trial.state == "finished")
    assert best.train.learning_rate == result.best.values["train.learning_rate"]
    assert Run.open(result.best_run).config == best.text()
    assert lines[0] == "trial 0: train.learning_rate=0.001  task.decoder.cell=lstm"
    assert lines[1] == "trial 0: perplexity 8 (best)"
    assert any(line.endswith("pruned after 1 evaluation") for line in lines)
    stored = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert (stored["best"], len(stored["trials"])) == (result.best.number, 20)
    assert {"importance.svg", "parallel_coordinates.svg", "sweep.md"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }
    assert not list((tmp_path / "out" / "trials").glob("*.alive"))


def test_an_interrupted_sweep_ends_as_if_it_had_not_been_interrupted(
    config: Path, tmp_path: Path, fake_trial: FakeTrial
) -> None:
    expected = sweep(config, ["sweep.trials=13"], output=tmp_path / "whole", run_trial=fake_trial)
    calls = 0

    def interrupted(config: Config, folder: Path, *, watch: Callable[[], bool]) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls in (3, 9):
            raise Interrupted(folder) if calls == 3 else KeyboardInterrupt
        return fake_trial(config, folder, watch=watch)

    for _ in range(2):
        with pytest.raises(Interrupted, match="parts"):
            sweep(config, ["sweep.trials=13"], output=tmp_path / "parts", run_trial=interrupted)
    actual = sweep(tmp_path / "parts", ["sweep.trials=13"], run_trial=interrupted)
    assert [part[1:] for part in summary(actual)] == [part[1:] for part in summary(expected)]
    assert calls == 13 + 2


def test_sweeps_that_start_together_get_a_folder_each(
    config: Path, tmp_path: Path, fake_trial: FakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "sweep").mkdir(parents=True)
    unused = iter([Path("runs/sweep"), Path("runs/sweep-2")])  # another sweep has just taken the first
    monkeypatch.setattr(workflow, "unused_folder", lambda _: next(unused))
    assert sweep(config, ["sweep.trials=1"], run_trial=fake_trial).path == Path("runs/sweep-2")


def test_a_finished_sweep_can_be_extended(config: Path, tmp_path: Path, fake_trial: FakeTrial) -> None:
    sweep(config, ["sweep.trials=3"], output=tmp_path / "out", run_trial=fake_trial)
    lines: list[str] = []
    result = sweep(tmp_path / "out", ["sweep.trials=5"], report=lines.append, run_trial=fake_trial)
    assert len(result.trials) == 5
    assert {line.split(":")[0] for line in lines} == {"trial 3", "trial 4"}


def test_a_failed_trial_is_reported_and_the_others_continue(
    config: Path, tmp_path: Path, fake_trial: FakeTrial
) -> None:
    def failing(config: Config, folder: Path, *, watch: Callable[[], bool]) -> dict[str, Any]:
        if config.task.decoder.cell == "lstm":  # type: ignore[attr-defined]
            return {"error": "too bad"}
        results = fake_trial(config, folder, watch=watch)
        return results if folder.name != "4" else results | {"metrics": {"perplexity": math.inf}}

    result = sweep(config, output=tmp_path / "out", run_trial=failing)
    states = {trial.number: trial.state for trial in result.trials}
    assert states[0] == "failed"
    assert "trial 0 failed: too bad" in result.notes()
    assert len(states) == 8
    with pytest.raises(ValueError, match=r"^all trials so far have failed: no luck$"):
        sweep(config, output=tmp_path / "none", run_trial=lambda *_, **__: {"error": "no luck"})


def test_a_combination_that_is_no_configuration_fails_with_its_reason(
    config: Path, tmp_path: Path, fake_trial: FakeTrial
) -> None:
    result = sweep(
        config,
        ["sweep={train={epochs=[0,1],updates=[3,0]}}", "sweep.sampler=grid"],
        output=tmp_path / "out",
        run_trial=fake_trial,
    )
    (failed,) = (trial for trial in result.trials if trial.state == "failed")
    assert failed.values == {"train.epochs": 0, "train.updates": 0}
    assert len(result.trials) == 4
    assert "epochs is 0 and there is no other limit" in failed.error


def test_a_grid_is_tried_completely(config: Path, tmp_path: Path, fake_trial: FakeTrial) -> None:
    text = config.read_text().partition("[sweep]")[0]
    config.write_text(text + '[sweep]\nsampler = "grid"\npruner = "none"\ntask.decoder.cell = ["lstm", "gru"]\n')
    space = {"train.learning_rate": [0.1, 0.01, 0.001], "train.clip_norm": (1, 2, 3, 4)}
    result = sweep(config, space=space, output=tmp_path / "out", run_trial=fake_trial)
    assert len({str(trial.values) for trial in result.trials}) == len(result.trials) == 24
    assert result.best is not None
    assert result.best.values["train.learning_rate"] == 0.01


def test_listed_values_are_tried_once_each(config: Path, tmp_path: Path, fake_trial: FakeTrial) -> None:
    document = read(config, ["sweep.trials=5"])
    del document.values["sweep"]["train"], document.values["sweep"]["task"]
    values = [0.001, 0.01]
    space = {"train.learning_rate": values}
    result = sweep(document, space=space, output=tmp_path / "out", run_trial=fake_trial)
    assert sorted(trial.values["train.learning_rate"] for trial in result.trials) == values


def test_files_are_checked_before_the_first_trial(config: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.txt").unlink()
    lines: list[str] = []
    with pytest.raises(ValueError, match=r"dev.txt: no such file"):
        sweep(config, output=tmp_path / "out", report=lines.append)
    assert lines == []
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_compared_is_refused(config: Path, tmp_path: Path, fake_trial: FakeTrial) -> None:
    output = tmp_path / "out"
    sweep(config, ["sweep.trials=1"], output=output, run_trial=fake_trial)
    for override in ("train.clip_norm=3", "sweep.train.clip_norm=[1,2]"):
        with pytest.raises(ValueError, match="was started with another configuration or search space"):
            sweep(config, [override], output=output, run_trial=fake_trial)
    with pytest.raises(ValueError, match=r"not a sweep: it has no sweep\.toml"):
        sweep(tmp_path, run_trial=fake_trial)
    with pytest.raises(ValueError, match="already exists and is not a sweep"):
        sweep(config, output=tmp_path, run_trial=fake_trial)
    with pytest.raises(ValueError, match="no output folder"):
        sweep(output, output=tmp_path / "other", run_trial=fake_trial)
    with pytest.raises(ConfigError, match=r"^command line: a sweep compares scores on development data"):
        SweepPlan.build(read(config, ["task.dev=", "task.dev_fraction=0"]))


def test_evaluations_are_read_once_while_a_run_is_written_and_resumed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    reader = EvaluationReader(path, "accuracy")
    assert list(reader.read()) == []
    rows = [json.dumps({"update": number, "dev": {"accuracy": number / 10}}) + "\n" for number in range(4)]
    path.write_text(rows[0] + '{"update": 0, "loss": 1}\n' + rows[1][:9])
    assert list(reader.read()) == [0.0]
    path.write_text(rows[0] + '{"update": 0, "loss": 1}\n' + rows[1])
    assert list(reader.read()) == [0.1]
    path.write_text(rows[0])  # resumed from an earlier checkpoint
    assert list(reader.read()) == []
    path.write_text("".join(rows))
    assert list(reader.read()) == [0.2, 0.3]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(seqloom.__file__).parent.parent)}


def start_sweep(config: Path, output: Path, *overrides: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "seqloom", "sweep", str(config), *overrides, "--output", str(output)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, start_new_session=True
    )


def wait_for_row(path: Path, process: "subprocess.Popen[str]", *, more_than: int = 1) -> None:
    """Wait until a run has written further rows of metrics."""
    while not (path.exists() and path.read_text().count("\n") > more_than):
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
            raise AssertionError("the sweep has ended")


def test_a_killed_process_blocks_nobody_and_ctrl_c_can_be_continued(config: Path, tmp_path: Path) -> None:
    output, long = tmp_path / "out", ["sweep.trials=2", "train.updates=100000"]
    with start_sweep(config, output, *long) as killed:
        wait_for_row(output / "trials" / "0" / "metrics.jsonl", killed)
        killed.kill()
    with start_sweep(config, output, *long) as stopped:
        assert stopped.stderr is not None
        lines = [stopped.stderr.readline()]
        path = output / "trials" / "0" / "metrics.jsonl"
        wait_for_row(path, stopped, more_than=path.read_text().count("\n"))
        stopped.send_signal(signal.SIGINT)
        lines += stopped.stderr.readlines()
    assert stopped.returncode == 130
    continued = lines.index("trial 0 was interrupted; it will be continued\n")
    assert all(
        "to acquire the lock file" in line for line in lines[:continued]
    )  # Optuna, every 10 s, if it held the lock
    assert lines[-1] == f"stopped and saved; continue with: seqloom sweep {output}\n"
    reached = Run.open(output / "trials" / "0").load("last").facts["position"]["update"]
    assert reached > 1
    (trial,) = json.loads((output / "sweep.json").read_text())["trials"]
    assert (trial["number"], trial["state"]) == (0, "waiting")
