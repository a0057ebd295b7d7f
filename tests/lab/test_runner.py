"""The command seqloom lab: list, options, run, files, errors and interruption."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seqloom import lab
from seqloom.cli.main import app
from seqloom.lab import runner
from seqloom.lab.vanishing import Vanishing

QUICK = ["lab", "vanishing", "--quick"]


def call(*words: object) -> Any:
    return CliRunner().invoke(app, list(map(str, words)))


def test_the_list_names_every_experiment() -> None:
    result = call("lab")
    assert result.exit_code == 0
    assert {line.split("  ")[0] for line in result.stdout.splitlines()[1:]} == set(lab.names())
    described = json.loads(call("lab", "--json").stdout)
    assert {row["name"] for row in described} == set(lab.names())
    assert described[0].keys() == {"name", "topic", "question", "claim", "source", "rule"}


def test_an_experiment_prints_a_verdict_and_writes_its_files(tmp_path: Path) -> None:
    result = call(*QUICK, "--output", tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Question: When do gradients vanish")
    assert "\nVerdict: " in result.stdout
    assert "\nRule: " in result.stdout
    assert "orthogonal, linear, largest singular value 0.5\n" in result.stderr
    stored = json.loads((tmp_path / "new" / "results.json").read_text())
    assert stored["options"]["singular_values"] == [0.5, 2.0]
    assert stored["preset"] == "quick"
    assert (tmp_path / "new" / "figure.png").is_file()
    assert (tmp_path / "new" / "figure.svg").is_file()


def test_the_verdict_of_quick_mode_says_that_it_decides_nothing(tmp_path: Path) -> None:
    """It looks like any other verdict, after a second of measurement."""
    caution = (
        "Quick mode measures too little to decide anything, whatever the verdict says: run "
        "seqloom lab vanishing without --quick."
    )
    printed = " ".join(call(*QUICK, "--output", tmp_path / "quick").stdout.split())
    assert f"{caution} Rule: " in printed
    stored = json.loads((tmp_path / "quick" / "results.json").read_text())
    assert stored["verdict"]["caution"] == caution
    assert runner.Result.from_json(stored).caution == caution
    whole = runner.Result.from_json(stored | {"preset": "default"})
    assert not whole.caution
    assert "caution" not in whole.to_json()["verdict"]


def test_json_is_what_is_stored(tmp_path: Path) -> None:
    result = call(*QUICK, "seeds=1", "--json", "--output", tmp_path)
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json.loads((tmp_path / "results.json").read_text())
    assert {row["seed"] for row in json.loads(result.stdout)["rows"]} == {1}


def test_results_are_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert call(*QUICK).exit_code == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["lab-vanishing", "lab-vanishing-2"]
    result = call(*QUICK, "--output", "runs/lab-vanishing")
    assert (result.exit_code, result.stderr) == (
        1,
        "seqloom: runs/lab-vanishing already holds the results of an experiment: choose another folder with --output\n",
    )


def test_options_change_the_experiment() -> None:
    assert runner.configure("vanishing") == Vanishing()
    changed = runner.configure("vanishing", ["lags=7", "singular_values=[0.5,2]"], preset="thorough")
    assert (changed.lags, changed.singular_values) == (7, (0.5, 2.0))  # type: ignore[attr-defined]  # of Vanishing
    assert changed.seeds == Vanishing.thorough["seeds"]
    result = call("lab", "vanishing", "--options")
    assert result.exit_code == 0
    assert "lags " in result.stdout
    options = {row["option"]: row for row in json.loads(call("lab", "vanishing", "--options", "--json").stdout)}
    assert options["lags"] == {
        "option": "lags",
        "default": "50",
        "--thorough": "100",
        "meaning": "Longest lag, in steps.",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lab", "vanising"], "there is no experiment 'vanising': did you mean 'vanishing'?"),
        (["lab", "vanishing", "lag=7"], 'unknown key "vanishing.lag"; did you mean "vanishing.lags"?'),
        (["lab", "vanishing", "lags=many"], "lags"),
        (["lab", "vanishing", "lags"], "expected key=value"),
        (["lab", "vanishing", "--quick", "--thorough"], "--quick and --thorough exclude each other"),
        (["lab", "--quick"], "no experiment is given"),
    ],
)
def test_wrong_usage(words: list[str], message: str) -> None:
    result = call(*words)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stdout == ""


def test_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = call(*QUICK, "--output", tmp_path / "file" / "folder")
    assert result.exit_code == 1
    assert "cannot create the folder" in result.stderr


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = call(*QUICK, "--output", tmp_path)
    assert result.exit_code == 0
    assert "seqloom[plots]" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot send Ctrl-C to one process")
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "seqloom", "lab", "vanishing", "seeds=100000", "--output", str(tmp_path / "new")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("orthogonal, linear")  # the first trial has started
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert errors.endswith("interrupted; nothing was written\n")
    assert "Traceback" not in errors
    assert not (tmp_path / "new").exists()
