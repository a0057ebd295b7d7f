"""The command line: what it prints, for people and for programs, what it returns, and what it does not import."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import seqloom
from seqloom.cli import app

COMMANDS = (["--help"], ["demo", "--help"], ["info", "--help"], ["bench", "--help"], ["bench", "recurrent", "--help"])


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(seqloom.__file__).parent.parent)}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize(
    "statement",
    [
        "import seqloom",
        *(f"from seqloom.cli import app; app({command}, standalone_mode=False)" for command in COMMANDS),
    ],
)
def test_start_is_light(statement: str) -> None:
    heavy = {"torch", "numpy", "llvmlite", "matplotlib"}
    ended = python("-c", f"import sys; {statement}; sys.exit(sorted({heavy} & sys.modules.keys()) or 0)")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help(command: list[str]) -> None:
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    assert "Usage: " in result.stdout
    if command[:-1] and command[:-1] != ["bench"]:
        assert f"Example: seqloom {' '.join(command[:-1])}" in result.stdout


def test_version_by_module() -> None:
    ended = python("-m", "seqloom", "--version")
    assert (ended.returncode, ended.stdout) == (0, f"seqloom {seqloom.__version__}\n")


def test_a_wrong_call_returns_two_and_names_the_word() -> None:
    result = CliRunner().invoke(app, ["dmeo"])
    assert result.exit_code == 2
    assert "dmeo" in result.stderr


def test_info_for_people() -> None:
    result = CliRunner().invoke(app, ["info"])
    assert result.exit_code == 0
    assert f"seqloom           {seqloom.__version__}\n" in result.stdout
    assert "\nlstm             fused\n" in result.stdout


def test_info_for_programs() -> None:
    result = CliRunner().invoke(app, ["info", "--json"])
    found = json.loads(result.stdout)
    assert found["versions"]["seqloom"] == seqloom.__version__
    assert found["cells"]["peephole"] == "fused"


def test_demo_for_people(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--quick", "--output", str(tmp_path / "new")])
    assert result.exit_code == 0
    assert "LSTM, 5 steps\n" in result.stderr
    assert "The symbol is remembered by the " in result.stdout
    assert (tmp_path / "new" / "memory.png").read_bytes().startswith(b"\x89PNG")


def test_demo_for_programs(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--quick", "--json", "--output", str(tmp_path)])
    found = json.loads(result.stdout)
    assert [outcome["length"] for outcome in found["outcomes"]] == [5, 5, 5, 10, 10, 10]
    assert found["picture"] == str(tmp_path / "memory.png")


def test_demo_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = CliRunner().invoke(app, ["demo", "--quick", "--json", "--output", str(tmp_path)])
    assert result.exit_code == 0
    assert "seqloom[plots]" in result.stderr
    assert json.loads(result.stdout)["picture"] is None


def test_demo_fails_at_once_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(app, ["demo", "--output", str(tmp_path / "file" / "folder")])
    assert result.exit_code == 1
    assert result.stderr.startswith("seqloom: cannot make the folder ")


def test_interruption_returns_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("seqloom.info.collect", interrupt)
    assert CliRunner().invoke(app, ["info"]).exit_code == 130
