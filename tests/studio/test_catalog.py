import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.service.running import KEPT

from seqloom.run import Run
from seqloom.studio.catalog import Catalog, RunEntry, _dev_data, _input_kind, entry_json, thin, write_note


def copy(folder: Path, name: str, new: str = "") -> Path:
    return Path(shutil.copytree(KEPT / name, folder / (new or name)))


def only(folder: Path) -> RunEntry:
    (entry,) = Catalog(folder).entries()
    return entry


def test_an_entry_has_the_facts_of_its_run(tmp_path: Path) -> None:
    path = copy(tmp_path, "classify")
    run, entry = Run.open(path), only(tmp_path)
    metrics = json.loads((path / "best" / "training.json").read_text())["metrics"]
    assert (entry.id, entry.task, entry.metric, entry.higher_is_better) == ("classify", "classify", "accuracy", True)
    assert entry.best is not None
    assert entry.best.value == metrics["accuracy"]
    assert [entry.best.low, entry.best.high] == metrics["accuracy_interval"]
    evaluations = [row["dev"]["accuracy"] for row in run.rows() if "dev" in row]
    assert list(entry.curve) == evaluations
    assert entry.last is not None
    assert entry.last.value == evaluations[-1]
    assert entry.state == "finished"
    assert entry.baseline == run.summary()["baseline_scores"]["accuracy"]
    assert entry.settings["task.encoder.cell"] == "gru"


@pytest.mark.parametrize("name", sorted(path.name for path in KEPT.iterdir()))
def test_runs_of_every_task_are_shown(name: str, tmp_path: Path) -> None:
    copy(tmp_path, name)
    entry = only(tmp_path)
    assert (entry.task, entry.state) == (name, "finished")
    assert entry.best is not None
    assert json.loads(json.dumps(entry_json(entry), allow_nan=False)) == entry_json(entry)


def test_dev_data_are_known_by_their_content_and_not_by_their_path(trained: Path) -> None:
    first, second, other = (
        next(entry for entry in Catalog(trained).entries() if entry.id == name) for name in ("first", "second", "other")
    )
    assert first.dev_data
    assert first.dev_data == second.dev_data != other.dev_data
    settings = {"task.dev": "a.tsv", "task.train": "t.tsv", "train.seed": 1, "task.label_column": "x"}
    same = _dev_data(settings, {"a.tsv": "1", "t.tsv": "2"})
    assert same == _dev_data(settings | {"task.dev": "copy/a.tsv", "train.seed": 2}, {"copy/a.tsv": "1"})
    assert same != _dev_data(settings, {"a.tsv": "3", "t.tsv": "2"})
    assert same != _dev_data(settings | {"task.label_column": "y"}, {"a.tsv": "1"})
    held_out = settings | {"task.dev": ""}
    assert _dev_data(held_out, {"t.tsv": "2"}) == _dev_data(held_out | {"train.seed": 2}, {"t.tsv": "2"})
    assert _dev_data(held_out, {"t.tsv": "2"}) != _dev_data(held_out | {"task.dev_fraction": 0.2}, {"t.tsv": "2"})
    assert _dev_data(settings, None) == ""


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        (["a.png", "b/c.PNG"], "image"),
        (["a.wav"], "sound"),
        (["a.npy"], ".npy"),
        (["", ""], "numbers"),
        (["See file a.png", "It ends."], "text"),
        (["yes", "a\tb"], "texts"),
        (["a ||| b"], "pairs"),
        ([], ""),
    ],
)
def test_the_kind_of_input_is_that_of_the_recorded_samples(inputs: list[str], kind: str) -> None:
    assert _input_kind([{"input": text} for text in inputs]) == kind
    assert _input_kind(None) == ""


def test_runs_are_found_below_a_folder_but_not_behind_links(tmp_path: Path) -> None:
    copy(tmp_path / "runs" / "a", "tag")
    copy(tmp_path / "runs", "classify")
    copy(tmp_path / "elsewhere", "forecast")
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "runs" / "empty").mkdir()
    catalog = Catalog(tmp_path / "runs")
    assert {entry.id for entry in catalog.entries()} == {"a/tag", "classify"}
    assert catalog.find("a/tag") == (tmp_path / "runs" / "a" / "tag").resolve()
    for wrong in ("", "..", "../elsewhere/forecast", "link/forecast", "/etc", "a", "a/tag/best"):
        assert catalog.find(wrong) is None


def test_changes_are_noticed(tmp_path: Path) -> None:
    path = copy(tmp_path, "tag")
    catalog = Catalog(tmp_path)
    (before,) = catalog.entries()
    write_note(path, "good <b>run</b>")
    Run.open(path).record({"update": 999, "epoch": 9.0, "loss": 0.25})
    (after,) = catalog.entries()
    assert (after.note, after.update, after.loss) == ("good <b>run</b>", 999, 0.25)
    assert asdict(before) | {"note": after.note, "update": 999, "epoch": 9.0, "loss": 0.25} == asdict(after)
    shutil.rmtree(path)
    assert catalog.entries() == []


def test_a_run_in_training_is_shown_as_such(tmp_path: Path) -> None:
    run = Run.open(copy(tmp_path, "tag"))
    with run.lock():
        assert only(tmp_path).state == "training"
    assert only(tmp_path).state == "finished"
    (run.path / "diverged.safetensors").write_bytes(b"")
    assert only(tmp_path).state == "diverged"


@pytest.mark.parametrize("file", ["config.toml", "learned.json", "manifest.json", "summary.json"])
def test_a_damaged_run_is_listed_with_its_problem(file: str, tmp_path: Path) -> None:
    path = copy(tmp_path, "tag")
    (path / file).write_text("damaged")
    entry = only(tmp_path)
    assert entry.state == "damaged"
    assert file.partition(".")[0] in entry.problem


def test_thinned_values_keep_the_ends() -> None:
    values = [float(value) for value in range(1000)]
    shown = thin(values, 60)
    assert (len(shown), shown[0], shown[-1]) == (60, 0.0, 999.0)
    assert shown == sorted(shown)
    assert thin(values[:5], 60) == values[:5]
