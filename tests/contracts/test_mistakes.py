"""No silent mistake: each of 250 deliberate ones gives an error, a warning or the right result, in our own words."""

import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.contracts.command_mistakes import operator, user_of_a_run
from tests.contracts.mistakes import Mistake, analyst, forecaster
from tests.contracts.text_mistakes import linguist
from typer.testing import CliRunner

from seqloom import check
from seqloom.cli.main import app

MISTAKES = [*analyst(), *forecaster(), *linguist(), *operator(), *user_of_a_run()]
KEPT = Path(__file__).parent.parent / "artefacts" / "format_2"
FOREIGN = re.compile(r"Traceback|pydantic|truth value|numpy\.|torch\.|errors\.pydantic", re.IGNORECASE)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of small runs, one of each task, which commands may write to."""
    return Path(shutil.copytree(KEPT, tmp_path_factory.mktemp("runs") / "kept"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_no_mistake_is_silent(mistake: Mistake, tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(check._Check, "_try_training", lambda *_: None)  # the data are what is wrong; saves time
    for name, content in mistake.files.items():
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    arguments = mistake.command.replace("RUNS", os.fspath(runs)).split()
    result = CliRunner().invoke(app, arguments)
    output = " ".join(result.output.split())
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert bool(result.exit_code) == mistake.fails, output
    assert re.search(mistake.says, output), output
    assert not FOREIGN.search(output), output


def test_there_are_at_least_150_mistakes() -> None:
    assert len(MISTAKES) >= 150
    repeated = [name for name, count in Counter(mistake.name for mistake in MISTAKES).items() if count > 1]
    assert not repeated
