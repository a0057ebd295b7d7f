"""Runs of earlier versions open and predict as they did; runs of later formats say that Seqloom has to be upgraded."""

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from tests.kept_runs import ANSWERS, answers

from seqloom import checkpoint, migration, model, tasks
from seqloom.checkpoint import NewerFormat, RunError
from seqloom.migration import Migration
from seqloom.run import FILES, Run

ARTEFACTS = Path(__file__).parent / "artefacts"
RUNS = sorted(path.parent for path in ARTEFACTS.glob(f"format_*/*/{ANSWERS}"))
TOLERANCE = 1e-4  # numbers of other versions of torch and other processors


def assert_close(actual: Any, expected: Any, place: str = "") -> None:
    if isinstance(expected, dict):
        for key, value in expected.items():  # later versions may add to a prediction
            assert_close(actual[key], value, f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), place
        for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
            assert_close(left, right, f"{place}[{index}]")
    else:
        near = pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE) if isinstance(expected, float) else expected
        assert actual == near, place


@pytest.mark.parametrize("path", RUNS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_kept_runs_predict_as_they_did(path: Path) -> None:
    kept = json.loads((path / ANSWERS).read_text())
    assert_close(answers(path, kept["inputs"]), kept["answers"])


LATER = {"handwriting": 2, "music": 2}
"""Tasks that the first format did not have, and the format that they came with."""


def test_there_is_a_kept_run_of_each_task_and_format() -> None:
    for version in range(1, migration.FORMAT + 1):
        names = {name for name in tasks.names() if LATER.get(name, 1) <= version}
        assert {path.name for path in RUNS if path.parent.name == f"format_{version}"} >= names
    assert set(migration.MIGRATIONS) == set(range(1, migration.FORMAT))


def test_an_older_run_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a next format, of which three names differ, a run of the current one has the old ones."""
    path, current = tmp_path / "run", migration.FORMAT
    shutil.copytree(ARTEFACTS / f"format_{current}" / "classify", path)
    kept = json.loads((path / ANSWERS).read_text())
    config = tomllib.loads((path / "config.toml").read_text())
    config["task"]["width"] = config["task"].pop("embedding_size")
    (path / "config.toml").write_text(tomli_w.dumps(config))
    learned = json.loads((path / "learned.json").read_text())
    learned["classes"] = learned.pop("labels")
    (path / "learned.json").write_text(json.dumps(learned))
    weights = checkpoint.read_tensors(path / "best" / "model.safetensors")
    (path / "best" / "model.safetensors").unlink()
    checkpoint.write_tensors(
        path / "best" / "model.safetensors", {f"old.{name}": tensor for name, tensor in weights.items()}
    )
    for folder, names in ((path, FILES), (path / "best", checkpoint.FILES)):
        (folder / checkpoint.MANIFEST).unlink()
        checkpoint.write_manifest(folder, names)
    with pytest.raises(ValueError, match="width"):
        model.load(path)

    def rename(values: dict[str, Any], old: str, new: str) -> dict[str, Any]:
        return {new if name == old else name: value for name, value in values.items()}

    step = Migration(
        config=lambda tables: {**tables, "task": rename(tables["task"], "width", "embedding_size")},
        learned=lambda values: rename(values, "classes", "labels"),
        weights=lambda tensors: {name.removeprefix("old."): tensor for name, tensor in tensors.items()},
    )
    monkeypatch.setattr(migration, "FORMAT", current + 1)
    monkeypatch.setattr(migration, "MIGRATIONS", {current: step})
    assert_close(answers(path, kept["inputs"]), kept["answers"])
    assert "width" in (path / "config.toml").read_text()  # the files are left as they are


def test_newer_and_unknown_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    shutil.copytree(ARTEFACTS / "format_1" / "tag", path)
    newer = migration.FORMAT + 1
    for version, error, message in ((newer, NewerFormat, "upgrade"), (0, RunError, "format 0 is not supported")):
        (path / checkpoint.MANIFEST).unlink()
        with monkeypatch.context() as patch:
            patch.setattr(migration, "FORMAT", version)
            checkpoint.write_manifest(path, FILES)
        with pytest.raises(error, match=message):
            Run.open(path)
