"""``--json`` prints JSON whatever a model computes: never NaN or Infinity, which JSON does not have."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main
from tests import fuzzing
from tests.contracts import tiny
from typer.testing import CliRunner

from seqloom import check, workflow
from seqloom.checkpoint import Snapshot
from seqloom.cli.main import app
from seqloom.comparison import compare
from seqloom.demos import runner
from seqloom.model import Model
from seqloom.run import Run
from seqloom.tasks.task import Task
from seqloom.tuning import sweep

BAD = {"loss": math.nan, "interval": (math.inf, -math.inf)}


@dataclass
class Report:
    value: float = math.nan
    problems: list[str] = field(default_factory=list)


LOSSES = [{"update": 1, "epoch": 0.5, "loss": 1.0}, {"update": 2, "epoch": 1.0, "loss": math.nan}]


class Comparison(list[Any]):
    rows = (BAD,)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with scores that are not finite, and its data."""
    folder: Path = tmp_path_factory.mktemp("json") / "data"
    run = Run.open(fuzzing.make_run("classify", folder).path)
    run.save("best", Snapshot(run.load_best().model, {}, {"epoch": 1, "update": 1, "metrics": BAD}))
    (folder / "sweep.json").write_text(json.dumps(BAD))
    return folder


Patch = Callable[[pytest.MonkeyPatch, Path], None]


def no_patch(_: pytest.MonkeyPatch, __: Path) -> None:
    pass


def make_outputs_nan(monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    load = Task.load_model

    def load_broken(task: Task, weights: Any, origin: object) -> Any:
        module = load(task, weights, origin)
        for parameter in module.parameters():
            parameter.data.fill_(math.nan)
        return module

    monkeypatch.setattr(Task, "load_model", load_broken)


def returning(module: object, name: str, make: Callable[[Path], Any]) -> Patch:
    return lambda monkeypatch, folder: monkeypatch.setattr(module, name, lambda *_, **__: make(folder))


DATA = ["--task", "classify", "--data", tiny.CASES["classify"].file]
COMMANDS: dict[str, tuple[list[str], Patch]] = {
    "evaluate": (["run", tiny.CASES["classify"].file], make_outputs_nan),
    "predict": (["run", "it goes up"], make_outputs_nan),
    "align": (["run", tiny.CASES["classify"].file], returning(Model, "align_batches", lambda _: [[Report()]])),
    "explain": (["run", "it goes up", "--output", "explained", "--method", "none"], make_outputs_nan),
    "doctor": (["run", tiny.CASES["classify"].file], make_outputs_nan),
    "info": (["run"], no_patch),
    "check": (DATA, returning(check, "check_data", lambda _: Report())),
    "train": (DATA, returning(workflow, "train", lambda folder: Run.open(folder / "run"))),
    "compare": (DATA, returning(compare, "compare", lambda _: Comparison())),
    "sweep": (DATA, returning(sweep, "sweep", lambda folder: SimpleNamespace(path=folder, best=1))),
    "lab": (["memory", "--quick", "seeds=1"], no_patch),  # one seed has an infinite interval
    "plot": (["curves", "run", "--output", "curves.svg"], returning(Run, "rows", lambda _: LOSSES)),
    "demo": (["tag"], returning(runner, "run", lambda _: BAD)),
}


def test_every_command_with_json_is_tested() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert set(COMMANDS) | {"generate"} == {  # which prints texts, no numbers
        name for name, command in commands.items() if any("--json" in each.opts for each in command.params)
    }


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.filterwarnings("ignore")
def test_numbers_that_are_not_finite_are_null(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, patch = COMMANDS[name]
    monkeypatch.chdir(folder)
    patch(monkeypatch, folder)
    result = CliRunner().invoke(app, [name, *arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert ("null" in result.stdout) == (name != "plot")  # curves omit such points
    json.loads(result.stdout, parse_constant=lambda constant: pytest.fail(f"{constant} in {result.stdout}"))
