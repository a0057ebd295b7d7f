"""Trials in their own process: results, failures, Ctrl-C."""

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import seqloom
from seqloom.comparison import trial
from seqloom.comparison.__main__ import main
from seqloom.comparison.compare import compare
from seqloom.comparison.subprocess_trial import run_trial_in_subprocess
from seqloom.comparison.variants import Budget, parse_variants
from seqloom.run import Run


def test_a_trial_returns_its_results(config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    base, _ = parse_variants(config, ["base", "task.model=ngram"], budget=Budget(), seeds=1)
    results = run_trial_in_subprocess(base.configs[0], tmp_path / "out" / "base")
    assert results["metrics"]["perplexity"] > 1
    assert Run.open(tmp_path / "out" / "base").config == base.configs[0].text()
    assert capfd.readouterr().out == ""


def test_a_failed_trial_returns_its_error_message(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, missing = parse_variants(config, ["base", "task.train=none.txt"], budget=Budget(), seeds=1)
    monkeypatch.setattr(sys, "argv", ["trial", str(tmp_path / "out")])
    monkeypatch.setattr(sys, "stdin", io.StringIO(missing.configs[0].text()))
    main()
    assert json.loads(trial.results_path(tmp_path / "out").read_text()) == {"error": "none.txt: no such file"}


def test_a_crash_is_reported(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = tmp_path / "dying"
    for number, expected in (
        (signal.SIGKILL, "the process was killed"),
        (signal.SIGSEGV, "the process ended with signal 11"),
    ):
        dying.write_text(f"#!/bin/sh\nkill -{number.value} $$\n")
        dying.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(dying))
        base, _ = parse_variants(config, ["base", "task.model=ngram"], budget=Budget(), seeds=1)
        error = run_trial_in_subprocess(base.configs[0], tmp_path / "out")["error"]
        assert error.startswith(expected)


@pytest.mark.parametrize("function", ["seqloom.run_config.Config.build", "seqloom.comparison.trial.run_trial"])
def test_ctrl_c_outside_training_exits_silently(
    function: str, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    base, _ = parse_variants(config, ["base", "task.model=ngram"], budget=Budget(), seeds=1)
    monkeypatch.setattr(sys, "argv", ["trial", str(tmp_path / "out" / "seed-1")])
    monkeypatch.setattr(sys, "stdin", io.StringIO(base.configs[0].text()))
    monkeypatch.setattr(function, interrupted)
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 130
    assert capfd.readouterr().err == ""
    assert not (tmp_path / "out").exists()


def test_ctrl_c_saves_and_the_same_command_continues(config: Path, tmp_path: Path) -> None:
    output, names = tmp_path / "out", ["train.updates=300,train.log_every=1", "task.model=ngram"]
    command = [sys.executable, "-m", "seqloom", "compare", str(config), *names, "--output", str(output)]
    environment = {**os.environ, "PYTHONPATH": str(Path(seqloom.__file__).parent.parent)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "update 3 " in line:
                process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    assert f"run 1 of 2: {names[0]}, seed 1\n" in lines
    assert lines[-1] == f"stopped and saved; continue with the same command and --output {output}\n"
    run = Run.open(next(output.glob("train.updates*/seed-1")))
    assert 3 <= run.load("last").facts["position"]["update"] < 300
    first, second = compare(config, names, output=output, run_trial=trial.run_trial)
    assert run.load("last").facts["position"]["update"] == 300
    assert first["metric"] == second["metric"]


def test_a_watched_trial_stops_and_can_be_continued(config: Path, tmp_path: Path) -> None:
    base, _ = parse_variants(config, ["train.updates=100000,train.log_every=1", "base"], budget=Budget(), seeds=1)
    folder = tmp_path / "out"
    metrics = folder / "metrics.jsonl"

    def watch() -> bool:
        return metrics.exists() and metrics.read_text().count("\n") > 2

    assert "error" in run_trial_in_subprocess(base.configs[0], folder, watch=watch, brief=True)
    assert 2 <= Run.open(folder).load("last").facts["position"]["update"] < 100_000


def test_a_brief_trial_does_not_predict_again(config: Path, tmp_path: Path) -> None:
    base, _ = parse_variants(config, ["base", "task.model=ngram"], budget=Budget(), seeds=1)
    results = trial.run_trial(base.configs[0], tmp_path / "out", brief=True)
    assert results["metrics"]["perplexity"] > 1
    assert not results.keys() & {"predict_items_per_second", "bootstrap_samples"}


def ignore_interrupts() -> None:
    """As a shell does for background jobs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals of POSIX")
def test_a_trial_of_a_background_job_ends_when_its_parent_is_killed_at_once(config: Path, tmp_path: Path) -> None:
    text = config.read_text().replace("updates = 3", "updates = 100000")
    command = [sys.executable, "-m", "seqloom.comparison", str(tmp_path / "out"), "--brief"]
    environment = {**os.environ, "PYTHONPATH": str(Path(seqloom.__file__).parent.parent)}
    ended = subprocess.run(
        command, input=f"{text}\n\0\n", text=True, env=environment, check=False, preexec_fn=ignore_interrupts
    )
    assert ended.returncode == 130


def test_a_trial_ends_when_its_parent_is_killed(config: Path, tmp_path: Path) -> None:
    text = config.read_text().replace("updates = 3", "updates = 100000\nlog_every = 1")
    command = [sys.executable, "-m", "seqloom.comparison", str(tmp_path / "out"), "--brief"]
    environment = {**os.environ, "PYTHONPATH": str(Path(seqloom.__file__).parent.parent)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdin is not None
        process.stdin.write(f"{text}\n\0\n")
        process.stdin.flush()
        metrics = tmp_path / "out" / "metrics.jsonl"
        while not metrics.exists():
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        process.stdin.close()
    assert process.returncode == 130
    assert Run.open(tmp_path / "out").saved("last")
