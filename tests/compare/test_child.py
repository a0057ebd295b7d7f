"""Trials in processes of their own: results, failures, Ctrl-C."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import seqloom
from seqloom.compare import child, trial
from seqloom.compare.__main__ import main
from seqloom.compare.compare import compare
from seqloom.compare.variants import Budget, variants
from seqloom.run import Run


def test_it_measures_and_fails_in_words(config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    base, missing = variants(config, ["base", "task.train=none.txt"], budget=Budget(), seeds=1)
    found = child.measure(base.configs[0], tmp_path / "out" / "base")
    assert found["metrics"]["perplexity"] > 1
    assert Run.open(tmp_path / "out" / "base").config == base.configs[0].text()
    assert child.measure(missing.configs[0], tmp_path / "out" / "missing") == {
        "failed": "none.txt: there is no such file"
    }
    assert capfd.readouterr().out == ""


def test_a_process_that_dies_is_told_about(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = tmp_path / "dying"
    for number, wanted in ((signal.SIGKILL, "it was killed"), (signal.SIGSEGV, "it ended by signal 11")):
        dying.write_text(f"#!/bin/sh\nkill -{number.value} $$\n")
        dying.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(dying))
        base, _ = variants(config, ["base", "task.model=ngram"], budget=Budget(), seeds=1)
        assert child.measure(base.configs[0], tmp_path / "out")["failed"].startswith(wanted)


@pytest.mark.parametrize("place", ["seqloom.run_config.Config.build", "seqloom.compare.trial.measure"])
def test_ctrl_c_outside_of_the_training_is_quiet(
    place: str, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    base, _ = variants(config, ["base", "task.model=ngram"], budget=Budget(), seeds=1)
    monkeypatch.setattr(sys, "argv", ["trial", str(tmp_path / "out" / "seed-1")])
    monkeypatch.setattr(sys, "stdin", io.StringIO(base.configs[0].text()))
    monkeypatch.setattr(place, interrupted)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 130
    assert capfd.readouterr().err == ""
    assert not (tmp_path / "out").exists()


def test_ctrl_c_saves_and_the_same_comparison_goes_on(config: Path, tmp_path: Path) -> None:
    output, names = tmp_path / "out", ["train.updates=300,train.log_every=1", "task.model=ngram"]
    command = [sys.executable, "-m", "seqloom", "compare", str(config), *names, "--output", str(output)]
    environment = {**os.environ, "PYTHONPATH": str(Path(seqloom.__file__).parent.parent)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if "update 3 " in line:
                process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    assert said[0] == f"training 1 of 2: {names[0]}, seed 1\n"
    assert said[-1] == f"stopped and saved; continue with the same command and --output {output}\n"
    run = Run.open(next(output.glob("train.updates*/seed-1")))
    assert 3 <= run.load("last").facts["position"]["update"] < 300
    first, second = compare(config, names, output=output, measure=trial.measure, budget=Budget())
    assert run.load("last").facts["position"]["update"] == 300
    assert first["metric"] == second["metric"]
