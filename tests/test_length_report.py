"""Scores by length: every bin is scored on its own examples only, for every task, and runs are kept apart."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.contracts.tiny import CASES, build
from typer.testing import CliRunner

from seqloom import workflow
from seqloom.cli.main import app
from seqloom.length_report import distinct_names, evaluate_by_length
from seqloom.model import Model, load


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with the same name in different folders."""
    folder = tmp_path_factory.mktemp("lengths")
    config = build(CASES["classify"], folder, updates=2, evaluate_every=2)
    for place, learning_rate in (("first", 0.01), ("second", 1e-6)):
        changed = config._replace(train=config.train.model_copy(update={"learning_rate": learning_rate}))
        workflow.train(changed, output=folder / place / "run")
    return folder


def test_a_bin_has_the_scores_of_its_examples_alone(folder: Path) -> None:
    model = load(folder / "first" / "run")
    lines = (folder / CASES["classify"].file).read_text().splitlines(keepends=True)
    scores = model.evaluate_by_length(str(folder / CASES["classify"].file), bins=[3])
    assert [score.length for score in scores] == ["≤ 3", "> 3"]
    for score, is_long in zip(scores, (False, True), strict=True):
        part = [line for line in lines if (len(line.split()) - 1 > 3) is is_long]  # the first word is the label
        (folder / "part.txt").write_text("".join(part))
        expected = model.evaluate(str(folder / "part.txt"))
        assert score.examples == len(part) > 0
        for name in ("accuracy", "accuracy_interval", "loss"):
            assert score.scores[name] == pytest.approx(expected[name], rel=1e-6)


@pytest.mark.parametrize("name", [name for name in CASES if "," not in name])
def test_every_task_is_evaluated_by_length(name: str, tmp_path: Path) -> None:
    """Counts add up, and a bin that holds everything has the scores of all examples."""
    config = build(CASES[name], tmp_path)
    if name == "language_model":
        config = config._replace(train=config.train.model_copy(update={"bptt_steps": 5, "batch_size": 3}))
    task = config.task.fit(config.task.read(Path(config.task.train)))
    model = Model(config._replace(task=task), task.build_model(), name=name)
    file = str(tmp_path / f"dev-{CASES[name].file}")
    (whole,) = model.evaluate_by_length(file, bins=[1e9])[:1]
    assert whole.scores[task.main_metric] == pytest.approx(model.evaluate(file)[task.main_metric], rel=1e-6)
    parts = model.evaluate_by_length(file)
    assert sum(part.examples for part in parts) == whole.examples
    assert all(task.main_metric in part.scores for part in parts)
    assert task.length_unit


def test_runs_of_the_same_name_are_kept_apart(folder: Path) -> None:
    runs = [str(folder / "first" / "run"), str(folder / "second" / "run"), str(folder / "second" / "run")]
    picture = folder / "picture.svg"
    words = ["evaluate", *runs, str(folder / CASES["classify"].file), "--by", "length", "--bins", "2,4"]
    result = CliRunner().invoke(app, [*words, "--output", str(picture), "--json"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    names = [str(Path("first/run")), f"{Path('second/run')} (1)", f"{Path('second/run')} (2)"]
    assert [run["run"] for run in printed["runs"]] == names
    assert (printed["metric"], printed["unit"], printed["plot"]) == ("accuracy", "words", str(picture))
    first, second, third = ([score["scores"]["loss"] for score in run["bins"]] for run in printed["runs"])
    assert first != second == third
    assert [score["length"] for score in printed["runs"][0]["bins"]] == ["≤ 2", "3–4", "> 4"]
    drawn = picture.read_text()
    assert drawn.count("<path") > 3
    table = CliRunner().invoke(app, [*words, "--output", str(picture)])
    assert all(name in table.stdout for name in names)
    assert "3–4" in table.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "colour"], "--by: expected length, got 'colour'"),
        (["--bins", "3"], "--bins needs --by length"),
        (["--output", "x.png"], "--output needs --by length"),
        (["--by", "length", "--output", "x.gif"], "a picture is written as .png, .svg, .pdf"),
        (["--by", "length", "--bins", "4,3"], "expected increasing lengths"),
    ],
)
def test_wrong_options_are_refused(options: list[str], message: str, folder: Path) -> None:
    words = ["evaluate", str(folder / "first" / "run"), str(folder / CASES["classify"].file), *options]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert message in result.output


def test_several_runs_need_a_grouping(folder: Path) -> None:
    run = str(folder / "first" / "run")
    result = CliRunner().invoke(app, ["evaluate", run, run, str(folder / CASES["classify"].file)])
    assert result.exit_code == 1
    assert "found 2 runs: --by length compares several" in result.output


def test_names_are_as_long_as_needed() -> None:
    assert distinct_names(["a/x/run", "b/x/run"]) == [str(Path("a/x/run")), str(Path("b/x/run"))]
    assert distinct_names(["a/one", "a/two"]) == ["one", "two"]
    assert distinct_names(["a/run", "a/run"]) == ["run (1)", "run (2)"]


def test_runs_with_different_metrics_are_refused() -> None:
    models: list[Any] = [SimpleNamespace(task=SimpleNamespace(main_metric=name)) for name in ("bleu", "chrf")]
    with pytest.raises(ValueError, match=r"the metrics of the runs differ \(bleu, chrf\)"):
        evaluate_by_length(models, "test.tsv")
