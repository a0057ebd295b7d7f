"""Whole comparisons: what is trained, what is kept, what goes on."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from seqloom.compare import trial
from seqloom.compare.compare import compare
from seqloom.compare.variants import Budget
from seqloom.config import ConfigError
from seqloom.interrupt import Interrupted
from seqloom.model import Config
from seqloom.run import Run

VARIANTS = ["task.model=ngram", "base", "task.decoder.cell=gru"]


def kept(config: Config, folder: Path) -> dict[str, Any]:
    """A trial in this process, its measurements beside it."""
    found = trial.measure(config, folder)
    trial.write(trial.beside(folder), found)
    return found


def run(config: Path, output: Path, names: list[str] = VARIANTS, **options: Any) -> tuple[Any, list[str]]:
    said: list[str] = []
    given: dict[str, Any] = {"measure": kept, "budget": Budget(tokens=20), "seeds": 2} | options
    return compare(config, names, output=output, say=said.append, **given), said


def test_every_variant_is_trained_with_every_seed(config: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    rows, said = run(config, output)
    assert said == [
        "training 1 of 6: task.model=ngram, seed 1",  # counts know no seed: there is no second
        "training 3 of 6: base, seed 1",
        "training 4 of 6: base, seed 2",
        "training 5 of 6: task.decoder.cell=gru, seed 1",
        "training 6 of 6: task.decoder.cell=gru, seed 2",
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
    assert "Budget: 20 tokens each. Seeds: 1, 2." in page
    assert page.count("\n|") == 5
    found = json.loads((output / "compare.json").read_text())
    assert found["rows"] == rows
    assert found["trials"]["base"][1]["metrics"]["perplexity"] > 1
    assert "samples" not in found["trials"]["base"][1]


def test_what_is_finished_is_not_done_again(config: Path, tmp_path: Path) -> None:
    first, _ = run(config, tmp_path / "out", VARIANTS[:2])
    second, said = run(config, tmp_path / "out")
    assert [text.partition(": ")[2] for text in said] == [f"task.decoder.cell=gru, seed {seed}" for seed in (1, 2)]
    assert second[:2] == first
    with pytest.raises(ValueError, match="another configuration or budget; choose another --output"):
        run(config, tmp_path / "out", budget=Budget(tokens=21))


@pytest.mark.parametrize("name", ["train.txt", "dev.txt"])
def test_what_was_trained_on_other_data_is_not_taken(name: str, config: Path, tmp_path: Path) -> None:
    run(config, tmp_path / "out", VARIANTS[:2], seeds=1)
    changed = tmp_path / name
    changed.write_text(changed.read_text().replace("mat", "hat"))
    with pytest.raises(ValueError, match=rf"{name}: is not as it was when .* was trained; choose another --output"):
        run(config, tmp_path / "out", VARIANTS[:2], seeds=1)


def test_numbers_that_json_has_not_are_null_and_names_are_utf_8(config: Path, tmp_path: Path) -> None:
    def endless(config: Config, folder: Path) -> dict[str, Any]:
        found = kept(config, folder)
        return {**found, "metrics": found["metrics"] | {"perplexity": math.inf}}

    text = config.read_text().replace(f'dev = "{tmp_path / "dev.txt"}"', "dev_share = 0")
    (tmp_path / "größer.toml").write_text(text, encoding="utf-8")
    path = tmp_path / "größer.toml"
    rows, _ = run(path, tmp_path / "out", ["base", str(path)], seeds=1, measure=endless)
    assert rows[0]["mean"] == math.inf
    found = json.loads((tmp_path / "out" / "compare.json").read_bytes(), parse_constant=pytest.fail)
    assert found["rows"][0]["mean"] is None
    page = (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")
    assert "größer.toml|inf|" in page
    assert "compared on no development data." in page
    assert not list((tmp_path / "out").glob("*.new"))


def test_a_failure_is_told_and_the_others_go_on(config: Path, tmp_path: Path) -> None:
    def failing(config: Config, folder: Path) -> dict[str, Any]:
        return {"failed": "too bad"} if config.train.seed == 2 else kept(config, folder)

    rows, said = run(config, tmp_path / "out", ["base", "task.decoder.cell=gru"], measure=failing)
    assert [row["failed"] for row in rows] == [["seed 2: too bad"]] * 2
    assert said.count("failed: too bad") == 2
    assert rows[1]["interval"] is not None
    again, said = run(config, tmp_path / "out", ["base", "task.decoder.cell=gru"])
    assert len(said) == 2
    assert [row["failed"] for row in again] == [[], []]


def test_interrupted_it_names_the_folder_to_go_on_with(config: Path, tmp_path: Path) -> None:
    def stopping(config: Config, folder: Path) -> dict[str, Any]:
        raise Interrupted(folder)

    with pytest.raises(Interrupted, match=r"out$"):
        run(config, tmp_path / "out", measure=stopping)


def test_all_variants_are_checked_before_the_first_is_trained(config: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        run(config, tmp_path / "out", ["task.model=ngram", "task.ordr=2"])
    assert not (tmp_path / "out").exists()
