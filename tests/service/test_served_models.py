import asyncio
import shutil
from pathlib import Path

import pytest
from tests.service.running import KEPT

from seqloom.checkpoint import Snapshot
from seqloom.model import load
from seqloom.run import Run
from seqloom.service.served_models import ServedModel, model_names
from seqloom.service.settings import ServiceSettings


def copy(tmp_path: Path, name: str = "classify") -> Path:
    return Path(shutil.copytree(KEPT / name, tmp_path / name))


def change(path: Path) -> None:
    """Save another best checkpoint."""
    run = Run.open(path)
    weights = {name: -value for name, value in run.load_best().model.items()}
    run.save("best", Snapshot(weights, {}, {}))


def probability(model: ServedModel) -> float:
    (prediction,) = model.current.predict(model.read(["it goes up"]))
    value: float = prediction["probabilities"]["up"]
    return value


def test_a_new_best_checkpoint_is_loaded(tmp_path: Path) -> None:
    path = copy(tmp_path)
    model = ServedModel("m", path, load, ServiceSettings())
    version, before = model.current.version, probability(model)
    assert not asyncio.run(model.reload_if_changed())
    change(path)
    model = ServedModel("m", path, load, ServiceSettings())
    changed = probability(model)
    assert changed != before

    path = copy(tmp_path / "again")
    model = ServedModel("m", path, load, ServiceSettings())
    change(path)
    assert asyncio.run(model.reload_if_changed())
    assert model.current.version != version
    assert probability(model) == changed


def test_a_damaged_checkpoint_leaves_the_model_as_it_is(tmp_path: Path) -> None:
    path = copy(tmp_path)
    model = ServedModel("m", path, load, ServiceSettings())
    version, before = model.current.version, probability(model)
    (path / "best" / "manifest.json").write_text("{}")
    assert not asyncio.run(model.reload_if_changed())
    assert (model.current.version, probability(model)) == (version, before)


def test_names_of_runs_are_those_of_their_folders(tmp_path: Path) -> None:
    first, second = copy(tmp_path / "a"), copy(tmp_path / "b")
    tag = copy(tmp_path, "tag")
    assert model_names([first, tag]) == ["classify", "tag"]
    assert model_names([first, second, tag]) == ["a-classify", "b-classify", "tag"]
    with pytest.raises(ValueError, match="two runs have the name a-classify"):
        model_names([first, first])
