"""Results on real data: the configurations can be used, and docs/results.md matches docs/results.json."""

import json
import tomllib
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.contracts.tiny import CASES, build

from benchmarks import missed_goals, prepare, results
from seqloom import tasks, workflow
from seqloom.decoding.searches import parse_search
from seqloom.model import load
from seqloom.models.transcription.search_guide import parse_language_model
from seqloom.run_config import Config
from seqloom.run_document import read_document

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / results.CONFIGS
FIGURES: dict[str, dict[str, Any]] = tomllib.loads((CONFIGS / "figures.toml").read_text())
NAMES = sorted(path.stem for path in CONFIGS.glob("*.toml") if path.stem != "figures")


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SEQLOOM_DATA", "data")


@pytest.mark.usefixtures("at_root")
def test_page_is_generated_from_its_data() -> None:
    rows = json.loads(results.RESULTS.read_text())
    assert results.render(rows) == results.PAGE.read_text()
    for row in rows:
        figure = FIGURES[row["name"]]
        assert (row["data"], row["compare"]) == (figure["data"], figure.get("compare", ""))
        assert Path(row["config"]).is_file()


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize("name", NAMES)
def test_configurations_are_valid(name: str) -> None:
    assert Config.build(read_document(str(CONFIGS / f"{name}.toml"), [])).name in tasks.names()


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize("name", FIGURES)
def test_figures_name_valid_configurations(name: str) -> None:
    figure = FIGURES[name]
    config = figure.get("config", figure.get("run", name))
    Config.build(read_document(str(CONFIGS / f"{config}.toml"), figure.get("overrides", [])))
    assert {figure.get("run", name), *figure.get("needs", [])} <= FIGURES.keys()
    if "search" in figure:
        parse_search(figure["search"])
    if "lm" in figure:
        parse_language_model(figure["lm"])


def test_results_that_miss_their_goals_show_their_learning_curves(tmp_path: Path) -> None:
    run = workflow.train(
        build(CASES["tag"], tmp_path, updates=3, evaluate_every=1), output=tmp_path / "run", plots=False
    )
    curve = missed_goals.learning_curve(run, "accuracy")
    assert [value for _, value in curve] == [row["dev"]["accuracy"] for row in run.rows() if "dev" in row]
    assert [minutes for minutes, _ in curve] == sorted(minutes for minutes, _ in curve)
    missed = {"name": "a", "metric": "accuracy", "value": 0.5, "goal": 0.9, "lower": False, "curve": curve}
    reached = {**missed, "name": "b", "value": 0.95}
    unknown = {**missed, "name": "c", "curve": []}
    assert missed_goals.curves_to_draw([missed, reached, unknown]) == [missed]
    missed_goals.draw([missed, reached], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_a_model_of_handwriting_writes_the_texts_of_a_file(tmp_path: Path) -> None:
    texts, written = tmp_path / "texts.jsonl", tmp_path / "written.jsonl"
    texts.write_text("".join(json.dumps({"strokes": [[1, 2, 1]], "text": text}) + "\n" for text in ("ab", "b")))
    workflow.train(build(CASES["handwriting"], tmp_path, updates=2), output=tmp_path / "run", plots=False)
    results.write_drawings(tmp_path / "run", str(texts), written)
    rows = [json.loads(line) for line in written.read_text().splitlines()]
    assert [row["text"] for row in rows] == ["ab", "b"]
    (expected,) = load(tmp_path / "run").draw("ab", bias=results.WRITING_BIAS, seed=1)
    assert rows[0]["strokes"] == expected.strokes.tolist()


def test_a_training_starts_from_the_run_of_its_seed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(results, "RUNS", tmp_path)
    (tmp_path / "ctc_seed2").mkdir()
    figure = {"from": "ctc", "seeds": 3}
    starts = [results.start_of(name, "joint", figure) for name in ("joint", "joint_seed2", "joint_seed3")]
    assert starts == ["ctc", "ctc_seed2", "ctc"]
    assert results.start_of("joint", "joint", {}) is None


def test_runs_of_other_figures_are_not_trained_with_the_wrong_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(results, "RUNS", tmp_path)
    (tmp_path / "tagger_seed2").mkdir()
    figure = {"run": "tagger", "ensemble": ["tagger_seed2", "tagger_seed3"]}
    message = "^all evaluates tagger, tagger_seed3, not trained yet; first: scripts/results tagger$"
    with pytest.raises(SystemExit, match=message):
        results.measure("all", figure, retrain=False)
    folds = {"run": "digits", "folds": ["anna", "ben"], "seeds": 2}
    with pytest.raises(SystemExit, match=r"digits_ben_seed2, not trained yet; first: scripts/results digits$"):
        results.measure("all", folds, retrain=False)


def test_folds_are_trained_in_turn_and_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: dict[str, list[str]] = {}

    def train_run(name: str, _path: Path, *, overrides: list[str], **_: object) -> tuple[Mock, float]:
        trained[name] = overrides
        accuracies = {"anna": (0.9, 0.7), "ben": (0.5, 0.6)}[name.removeprefix("digits_")]
        rows = [{"dev": {"accuracy": accuracy}} for accuracy in accuracies]
        return Mock(rows=lambda: [*rows, {"loss": 0.1}]), 2.0

    monkeypatch.setattr(results, "train_run", train_run)
    monkeypatch.setattr(results, "describe_run", lambda _: {"parameters": 5})
    overrides = ["task.train=not_{fold}.tsv", "train.seed=2"]
    figure = {"data": "", "split": "dev", "metric": "accuracy", "folds": ["anna", "ben"], "overrides": overrides}
    row = results.measure("digits", figure, retrain=True)
    assert (row["value"], row["minutes"], row["seeds"]) == (pytest.approx(0.65), 2.0, [])
    assert row["all"] == {"anna": 0.7, "ben": 0.6}
    assert trained["digits_ben"] == ["task.train=not_ben.tsv", "train.seed=2"]


def test_seeds_of_folds_are_averaged_or_form_ensembles(monkeypatch: pytest.MonkeyPatch) -> None:
    accuracies = {"digits_anna": 0.9, "digits_anna_seed2": 0.7, "digits_ben": 0.5, "digits_ben_seed2": 0.6}

    def train_run(name: str, _path: Path, **_: object) -> tuple[Mock, float]:
        return Mock(path=name, rows=lambda: [{"dev": {"accuracy": accuracies[name]}}]), 2.0

    def load_ensemble(path: str, *, ensemble: list[str], **_: object) -> Mock:
        return Mock(evaluate=lambda file: {"accuracy": {f"{path}, {ensemble[0]}, {file}": 1.0}.get(expected, 0.0)})

    monkeypatch.setattr(results, "train_run", train_run)
    monkeypatch.setattr(results, "load", load_ensemble)
    monkeypatch.setattr(results, "describe_run", lambda _: {"parameters": 5})
    figure = {"data": "", "split": "dev", "metric": "accuracy", "folds": ["anna", "ben"], "seeds": 2}
    row = results.measure("digits", figure, retrain=True)
    assert row["seeds"] == [pytest.approx(0.7), pytest.approx(0.65)]
    assert row["all"] == {"anna": pytest.approx(0.8), "ben": pytest.approx(0.55)}
    expected = "digits_ben, digits_ben_seed2, ben.tsv"
    row = results.measure("digits", figure | {"together": True, "file": "{fold}.tsv"}, retrain=True)
    assert (row["value"], row["seeds"], row["all"]) == (0.5, [], {"anna": 0.0, "ben": 1.0})


def test_prepared_data_belong_to_configurations() -> None:
    assert prepare.PREPARE.keys() <= set(NAMES)


@pytest.mark.parametrize(
    ("value", "goal", "lower", "expected"),
    [(0.9, 0.89, False, "reached"), (0.8, 0.89, False, "missed"), (0.1, 0.2, True, "reached"), (0.1, None, True, "")],
)
def test_verdict(value: float, goal: float | None, lower: bool, expected: str) -> None:
    assert results.verdict({"value": value, "goal": goal, "lower": lower}) == expected
