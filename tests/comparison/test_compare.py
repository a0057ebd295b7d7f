"""Whole comparisons: which runs are trained, which files are written, what is resumed."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import seqloom
from seqloom.comparison import trial
from seqloom.comparison.compare import compare
from seqloom.config import ConfigError
from seqloom.interrupt import Interrupted
from seqloom.run import Run
from seqloom.run_config import Config

VARIANTS = ["task.model=ngram", "base", "task.decoder.cell=gru"]


def run_and_store(config: Config, folder: Path) -> dict[str, Any]:
    """A trial in this process; its results are written beside its folder."""
    results = trial.run_trial(config, folder)
    trial.write_json(trial.results_path(folder), results)
    return results


def run(config: Path, output: Path, names: list[str] = VARIANTS, **options: Any) -> tuple[Any, list[str]]:
    lines: list[str] = []
    arguments: dict[str, Any] = {"run_trial": run_and_store, "tokens": 20, "seeds": 2} | options
    return compare(config, names, output=output, report=lines.append, **arguments), lines


def test_every_variant_is_trained_with_every_seed(config: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    rows, lines = run(config, output)
    assert lines == [
        "run 1 of 6: task.model=ngram, seed 1",  # counts do not depend on the seed: there is no run 2
        "run 3 of 6: base, seed 1",
        "run 4 of 6: base, seed 2",
        "run 5 of 6: task.decoder.cell=gru, seed 1",
        "run 6 of 6: task.decoder.cell=gru, seed 2",
    ]
    assert [row["seeds"] for row in rows] == [[1], [1, 2], [1, 2]]
    assert [row["variant"] for row in rows] == VARIANTS
    for row in rows[1:]:
        reached = [Run.open(output / row["variant"] / f"seed-{seed}").load_best().facts for seed in (1, 2)]
        assert row["mean"] == pytest.approx(sum(facts["metrics"]["perplexity"] for facts in reached) / 2)
        assert [facts["update"] for facts in reached] == [2, 2]  # 2 × 7 tokens an update
        low, high = row["interval"]
        assert low < row["difference"] < high
    page = (output / "compare.md").read_text()
    assert "Budget: 20 tokens per run. Seeds: 1, 2." in page
    assert page.count("\n|") == 5
    stored = json.loads((output / "compare.json").read_text())
    assert stored["rows"] == rows
    assert stored["trials"]["base"][1]["metrics"]["perplexity"] > 1
    assert "bootstrap_samples" not in stored["trials"]["base"][1]


def test_finished_runs_are_not_repeated(config: Path, tmp_path: Path) -> None:
    first, _ = run(config, tmp_path / "out", VARIANTS[:2])
    second, lines = run(config, tmp_path / "out")
    assert [text.partition(": ")[2] for text in lines] == [f"task.decoder.cell=gru, seed {seed}" for seed in (1, 2)]
    assert second[:2] == first
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
    def infinite(config: Config, folder: Path) -> dict[str, Any]:
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
    def failing(config: Config, folder: Path) -> dict[str, Any]:
        return {"error": "too bad"} if config.train.seed == 2 else run_and_store(config, folder)

    rows, lines = run(config, tmp_path / "out", ["base", "task.decoder.cell=gru"], run_trial=failing)
    assert [row["errors"] for row in rows] == [["seed 2: too bad"]] * 2
    assert lines.count("failed: too bad") == 2
    assert rows[1]["interval"] is not None
    again, lines = run(config, tmp_path / "out", ["base", "task.decoder.cell=gru"])
    assert len(lines) == 2
    assert [row["errors"] for row in again] == [[], []]


def test_interrupted_names_the_folder_to_continue_with(config: Path, tmp_path: Path) -> None:
    def stopping(config: Config, folder: Path) -> dict[str, Any]:
        raise Interrupted(folder)

    with pytest.raises(Interrupted, match=r"out$"):
        run(config, tmp_path / "out", run_trial=stopping)


def test_the_public_function_trains_in_processes_of_their_own(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("seqloom.comparison.subprocess_trial.run_trial_in_subprocess", run_and_store)
    for folder in ("runs/compare", "runs/compare-2"):  # a new folder for each call
        rows = seqloom.compare(str(config), VARIANTS[:2], tokens=20)
        assert [row["variant"] for row in rows] == VARIANTS[:2]
        assert json.loads((tmp_path / folder / "compare.json").read_text())["rows"] == rows
    assert capsys.readouterr() == ("", 2 * "run 1 of 2: task.model=ngram, seed 1\nrun 2 of 2: base, seed 1\n")


def test_all_variants_are_checked_before_the_first_is_trained(config: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        run(config, tmp_path / "out", ["task.model=ngram", "task.ordr=2"])
    assert not (tmp_path / "out").exists()
