import asyncio
import shutil
from pathlib import Path

import pytest
from tests.service.running import KEPT

from seqloom.checkpoint import Snapshot
from seqloom.model import load
from seqloom.run import Run
from seqloom.service.served_runs import ServedRun
from seqloom.service.settings import ServiceSettings


def copy(tmp_path: Path, name: str = "classify") -> Path:
    return Path(shutil.copytree(KEPT / name, tmp_path / name))


def change(path: Path) -> None:
    """Save another best checkpoint."""
    run = Run.open(path)
    weights = {name: -value for name, value in run.load_best().model.items()}
    run.save("best", Snapshot(weights, {}, {}))


def probability(model: ServedRun) -> float:
    (prediction,) = model.current.predict(model.read(["it goes up"]))
    value: float = prediction["probabilities"]["up"]
    return value


def test_a_new_best_checkpoint_is_loaded(tmp_path: Path) -> None:
    path = copy(tmp_path)
    model = ServedRun("m", path, load, ServiceSettings())
    version, before = model.current.version, probability(model)
    assert not asyncio.run(model.reload_if_changed())
    change(path)
    model = ServedRun("m", path, load, ServiceSettings())
    changed = probability(model)
    assert changed != before

    path = copy(tmp_path / "again")
    model = ServedRun("m", path, load, ServiceSettings())
    change(path)
    assert asyncio.run(model.reload_if_changed())
    assert model.current.version != version
    assert probability(model) == changed


def test_a_damaged_checkpoint_leaves_the_model_as_it_is(tmp_path: Path) -> None:
    path = copy(tmp_path)
    model = ServedRun("m", path, load, ServiceSettings())
    version, before = model.current.version, probability(model)
    (path / "best" / "manifest.json").write_text("{}")
    assert not asyncio.run(model.reload_if_changed())
    assert (model.current.version, probability(model)) == (version, before)


def test_answers_to_empty_texts_have_a_warning(tmp_path: Path) -> None:
    model = ServedRun("m", copy(tmp_path), load, ServiceSettings())
    answers = model.current.predict([*model.read(["it goes up"]), *model.read([""])])
    assert "warning" not in answers[0]
    assert answers[1]["warning"] == "the input is empty, so that this answer says nothing about it"
    with pytest.warns(UserWarning, match=r"1 of 2 inputs is empty \(input:2\): its answer says nothing"):
        given = model.current.model.predict(["it goes up", ""])
    assert len(given) == 2
    assert "1 of 2 inputs is empty" in repr(given)
