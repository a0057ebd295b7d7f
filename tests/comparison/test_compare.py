"""Whole comparisons: which runs are trained, which files are written, what is resumed."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqloom
from seqloom import workflow
from seqloom.cells import LSTM
from seqloom.comparison import trial
from seqloom.comparison.compare import compare
from seqloom.comparison.variants import VariantLayer
from seqloom.config import ConfigError
from seqloom.interrupt import Interrupted
from seqloom.run import Run
from seqloom.run_config import Config

VARIANTS = ["task.model=ngram", "base", "task.decoder.cell=gru"]


def run_and_store(config: Config, folder: Path, *, layer: VariantLayer | None = None, **_: object) -> dict[str, Any]:
    """A trial in this process; its results are written beside its folder."""
    results = trial.run_trial(config, folder, layer=layer and layer.factory)
    trial.write_json(trial.results_path(folder), results)
    return results


def run(config: Path, output: Path, names: list[str] = VARIANTS, **options: Any) -> tuple[Any, list[str]]:
    """The result, and the lines that were reported except for the note on the tokens of an n-gram model."""
    lines: list[str] = []
    arguments: dict[str, Any] = {"run_trial": run_and_store, "tokens": 20, "seeds": 2} | options
    result = compare(config, names, output=output, report=lines.append, **arguments)
    return result, [line for line in lines if "the tokens are words, the default for such a model" not in line]


def test_every_variant_is_trained_with_every_seed(config: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    rows, lines = run(config, output)
    assert lines == [
        "6 runs: 3 variants × 2 seeds",
        "run 1 of 6: task.model=ngram, seed 1",  # counts do not depend on the seed: there is no run 2
        "run 3 of 6: base, seed 1",
        "run 4 of 6: base, seed 2",
        "run 5 of 6: task.decoder.cell=gru, seed 1",
        "run 6 of 6: task.decoder.cell=gru, seed 2",
    ]
    assert [row["seeds"] for row in rows] == [[1], [1, 2], [1, 2]]
    assert [row["variant"] for row in rows] == VARIANTS
    for row in rows.rows[1:]:
        reached = [Run.open(output / row["variant"] / f"seed-{seed}").load_best().facts for seed in (1, 2)]
        assert row["mean"] == pytest.approx(sum(facts["metrics"]["perplexity"] for facts in reached) / 2)
        assert [facts["update"] for facts in reached] == [2, 2]  # 2 × 7 tokens an update
        low, high = row["interval"]
        assert low < row["difference"] < high
    page = (output / "compare.md").read_text()
    assert "Budget: 20 tokens per run. Seeds: 1, 2." in page
    assert page.count("\n|") == 5
    stored = json.loads((output / "compare.json").read_text())
    assert stored["rows"] == rows.rows
    assert stored["trials"]["base"][1]["metrics"]["perplexity"] > 1
    assert "bootstrap_samples" not in stored["trials"]["base"][1]


def test_finished_runs_are_not_repeated(config: Path, tmp_path: Path) -> None:
    first, _ = run(config, tmp_path / "out", VARIANTS[:2])
    second, lines = run(config, tmp_path / "out")
    assert [text.partition(": ")[2] for text in lines[1:]] == [f"task.decoder.cell=gru, seed {seed}" for seed in (1, 2)]
    assert second.rows[:2] == first.rows
    with pytest.raises(ValueError, match="another configuration or budget; choose another output folder"):
        run(config, tmp_path / "out", tokens=21)


@pytest.mark.parametrize("name", ["train.txt", "dev.txt"])
def test_runs_with_other_data_are_refused(name: str, config: Path, tmp_path: Path) -> None:
    run(config, tmp_path / "out", VARIANTS[:2], seeds=1)
    changed = tmp_path / name
    changed.write_text(changed.read_text().replace("mat", "hat"))
    with pytest.raises(ValueError, match=rf"{name}: has changed since .* was trained; choose another output folder"):
        run(config, tmp_path / "out", VARIANTS[:2], seeds=1)


def test_infinity_is_null_in_json_and_files_are_utf_8(config: Path, tmp_path: Path) -> None:
    def infinite(config: Config, folder: Path, **_: object) -> dict[str, Any]:
        results = run_and_store(config, folder)
        return {**results, "metrics": results["metrics"] | {"perplexity": math.inf}}

    text = config.read_text().replace(f'dev = "{tmp_path / "dev.txt"}"', "dev_fraction = 0")
    (tmp_path / "größer.toml").write_text(text, encoding="utf-8")
    path = tmp_path / "größer.toml"
    rows, _ = run(path, tmp_path / "out", ["base", str(path)], seeds=1, run_trial=infinite)
    assert rows[0]["mean"] == math.inf
    stored = json.loads((tmp_path / "out" / "compare.json").read_bytes(), parse_constant=pytest.fail)
    assert stored["rows"][0]["mean"] is None
    page = (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")
    assert "größer.toml|inf|" in page
    assert "compared on no development data." in page
    assert not list((tmp_path / "out").glob("*.new"))


def test_a_failure_is_reported_and_the_others_continue(config: Path, tmp_path: Path) -> None:
    def failing(config: Config, folder: Path, **_: object) -> dict[str, Any]:
        return {"error": "too bad"} if config.train.seed == 2 else run_and_store(config, folder)

    rows, lines = run(config, tmp_path / "out", ["base", "task.decoder.cell=gru"], run_trial=failing)
    assert [row["errors"] for row in rows] == [["seed 2: too bad"]] * 2
    assert lines.count("failed: too bad") == 2
    assert rows[1]["interval"] is not None
    again, lines = run(config, tmp_path / "out", ["base", "task.decoder.cell=gru"])
    assert len(lines[1:]) == 2
    assert [row["errors"] for row in again] == [[], []]


def test_interrupted_names_the_folder_to_continue_with(config: Path, tmp_path: Path) -> None:
    def stopping(config: Config, folder: Path, **_: object) -> dict[str, Any]:
        raise Interrupted(folder)

    with pytest.raises(Interrupted, match=r"out$"):
        run(config, tmp_path / "out", run_trial=stopping)


def test_comparisons_that_start_together_get_a_folder_each(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "compare").mkdir(parents=True)
    unused = iter([Path("runs/compare"), Path("runs/compare-2")])  # another comparison has just taken the first
    monkeypatch.setattr(workflow, "unused_folder", lambda _: next(unused))

    def stopping(config: Config, folder: Path, **_: object) -> dict[str, Any]:
        raise Interrupted(folder)

    with pytest.raises(Interrupted, match=r"^runs/compare-2$"):
        compare(config, ["base"], tokens=20, seeds=2, run_trial=stopping)


def test_the_public_function_trains_in_processes_of_their_own(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("seqloom.comparison.subprocess_trial.run_trial_in_subprocess", run_and_store)
    for folder in ("runs/compare", "runs/compare-2"):  # a new folder for each call
        rows = seqloom.compare(str(config), VARIANTS[:2], tokens=20)
        assert [row["variant"] for row in rows] == VARIANTS[:2]
        assert json.loads((tmp_path / folder / "compare.json").read_text())["rows"] == rows.rows
    printed = capsys.readouterr()
    lines = [line for line in printed.err.splitlines() if "the tokens are" not in line]
    expected = ["2 runs: 2 variants", "run 1 of 2: task.model=ngram, seed 1", "run 2 of 2: base, seed 1"]
    assert (printed.out, lines) == ("", 2 * expected)


def test_all_variants_are_checked_before_the_first_is_trained(config: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        run(config, tmp_path / "out", ["task.model=ngram", "task.ordr=2"])
    assert not (tmp_path / "out").exists()


def test_data_of_all_variants_are_read_before_the_first_is_trained(config: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    names = ["base", "task.dev=none.txt", f"task.train={tmp_path / 'empty.txt'}"]
    with pytest.raises(ValueError, match=r".") as caught:
        run(config, tmp_path / "out", names)
    assert str(caught.value).splitlines() == [
        "task.dev=none.txt: none.txt: no such file",
        f"{names[2]}: {tmp_path / 'empty.txt'}: there are no examples",
    ]
    assert not (tmp_path / "out").exists()


def test_overrides_apply_to_all_variants_before_their_own_changes(config: Path, tmp_path: Path) -> None:
    overrides = ["task.decoder.hidden_size=4", "train.updates=1"]
    names = ["base", "task.decoder.hidden_size=5"]
    rows, _ = run(config, tmp_path / "out", names, tokens=0, seeds=1, overrides=overrides)
    sizes = [Run.open(tmp_path / "out" / row["variant"] / "seed-1").config for row in rows]
    assert ["hidden_size = 4" in sizes[0], "hidden_size = 5" in sizes[1]] == [True, True]
    assert all("updates = 1\n" in text for text in sizes)


def test_variants_may_be_mappings_and_layers(config: Path, tmp_path: Path) -> None:
    class Squared(LSTM):
        """A cell that no other process can import."""

    names: list[Any] = [
        {},
        {"task.decoder.cell": "gru", "train.learning_rate": 0.1},
        Squared,
        "layer=seqloom.cells:GRU",
    ]
    rows, _ = run(config, tmp_path / "out", names, seeds=1)
    assert [row["variant"].partition("<locals>.")[2] or row["variant"] for row in rows] == [
        "base",
        "task.decoder.cell=gru,train.learning_rate=0.1",
        "Squared",
        "layer=seqloom.cells:GRU",
    ]
    assert rows[0]["mean"] == rows[2]["mean"] != rows[1]["mean"]
    assert 'custom_layer = "GRU"' in Run.open(tmp_path / "out" / "layer=seqloom.cells_GRU" / "seed-1").config


def test_warnings_about_the_same_data_are_shown_once(config: Path, tmp_path: Path) -> None:
    shown: list[object] = []

    def watched(config: Config, folder: Path, *, show_warnings: bool, **_: object) -> dict[str, Any]:
        shown.append(show_warnings)
        return run_and_store(config, folder)

    names = ["base", "task.decoder.cell=gru", f"task.dev={tmp_path / 'train.txt'}"]
    run(config, tmp_path / "out", names, run_trial=watched)
    assert shown == [True, False, False, False, True, False]


def test_learning_curves_of_all_variants_are_drawn_together(config: Path, tmp_path: Path) -> None:
    result, _ = run(config, tmp_path / "out", ["base", "task.decoder.cell=gru"], seeds=1)
    assert result.plot == tmp_path / "out" / "curves.png"
    assert result.plot.read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A classifier without a development file."""
    words = {"up": "high above over", "down": "low below under"}
    lines = [
        f"{label}\t{word} {other}\n" for label, some in words.items() for word in some.split() for other in "abcde"
    ]
    (tmp_path / "train.tsv").write_text("".join(lines))
    path = tmp_path / "classify.toml"
    path.write_text(
        f"""
[task]
name = "classify"
train = "{tmp_path / "train.tsv"}"
embedding_size = 6

[task.encoder]
hidden_size = 6

[train]
updates = 2
"""
    )
    return path


def test_cross_validation_holds_out_each_example_once(labelled: Path, tmp_path: Path) -> None:
    names = ["base", "task.encoder.cell=gru"]
    result, lines = run(labelled, tmp_path / "out", names, tokens=0, seeds=1, folds=3)
    assert lines[2:] == [f"run {i + 1} of 6: {names[i // 3]}, fold {i % 3 + 1}/3, seed 1" for i in range(6)]
    base, gru = result
    assert base["folds"] == gru["folds"] == ["1/3", "2/3", "3/3"]
    runs = [[Run.open(tmp_path / "out" / name / f"fold-{fold}-seed-1") for fold in (1, 2, 3)] for name in names]
    metrics = np.array([[run.best_metrics()["accuracy"] for run in same] for same in runs])
    assert [run.best_metrics()["examples"] for run in runs[0]] == [10, 10, 10]
    assert base["mean"] == pytest.approx(metrics[0].mean())
    assert base["std"] == pytest.approx(metrics[0].std(ddof=1))
    assert gru["difference"] == pytest.approx((metrics[1] - metrics[0]).mean())
    assert gru["p_value"] is not None
    assert "each of its 3 folds" in (tmp_path / "out" / "compare.md").read_text()
    again, lines = run(labelled, tmp_path / "out", names, tokens=0, seeds=1, folds=3)  # columns were detected
    assert (again.rows, len(lines)) == (result.rows, 2)


@pytest.mark.parametrize("names", [[], ["base"]])
def test_one_configuration_can_be_cross_validated(names: list[str], labelled: Path, tmp_path: Path) -> None:
    result, _ = run(labelled, tmp_path / "out", names, tokens=0, seeds=1, folds=2)
    (row,) = result
    name = names[0] if names else str(labelled)
    folders = [next((tmp_path / "out").glob(f"*/fold-{fold}-seed-1")) for fold in (1, 2)]
    metrics = np.array([Run.open(folder).best_metrics()["accuracy"] for folder in folders])
    assert (row["variant"], row["mean"], row["std"]) == (name, metrics.mean(), pytest.approx(metrics.std(ddof=1)))
    page = (tmp_path / "out" / "compare.md").read_text()
    assert page.startswith(f"# classify: {name}\n\n|variant|accuracy|parameters|")
    assert "- ±: standard deviation over folds.\n" in page
    assert "difference" not in str(result)


def test_parameters_are_matched_by_the_width(labelled: Path, tmp_path: Path) -> None:
    names = ["base", "task.encoder.cell=gru", "task.encoder.cell=elman"]
    result, _ = run(labelled, tmp_path / "out", names, tokens=0, seeds=1, match_parameters=True)
    first, *others = (row["parameters"] for row in result)
    assert others == pytest.approx([first, first], rel=0.15)  # a width of about 7 is coarse
    assert result[1]["adapted"].startswith("task.encoder.hidden_size=7 instead of 6: ")
    assert f"parameters, base has {first:,}" in str(result)


def test_word_vectors_cannot_be_cross_validated(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b c\n")
    (tmp_path / "embed.toml").write_text(f'[task]\nname = "embed"\ntrain = "{tmp_path / "text.txt"}"\n')
    with pytest.raises(ValueError, match="the task embed cannot be cross-validated"):
        run(tmp_path / "embed.toml", tmp_path / "out", ["base", "task.window=3"], folds=3)
