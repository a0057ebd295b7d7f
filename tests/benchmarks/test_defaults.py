"""The table of what the defaults reach: its rows are tasks, and docs/training.md matches docs/defaults.json."""

import json
from pathlib import Path

import pytest
from tests.contracts.tiny import CASES, build

from benchmarks import defaults
from seqloom import tasks, workflow

NEEDED = {
    *("task.dev", "task.folder", "task.captions", "task.images", "task.separator", "task.encoding"),
    "train.epochs",
    "train.minutes",
}
"""Overrides that name files, say what a file cannot show, or limit the time."""


def test_rows_are_trainings_with_the_defaults() -> None:
    for name, row in defaults.ROWS.items():
        assert row["task"] in tasks.names(), name
        assert row.get("prepare", "an4") in defaults.PREPARE
        for override in row.get("overrides", ()):
            key = override.partition("=")[0]
            assert key in NEEDED
            assert "test" not in override
    assert {row["task"] for row in defaults.ROWS.values()} == set(tasks.names())


def test_a_command_can_be_pasted() -> None:
    assert defaults.command("translate_multi30k").startswith(
        "seqloom train --task translate --data '$SEQLOOM_DATA/multi"
    )
    assert defaults.command("forecast_airline").endswith("--data $SEQLOOM_DATA/time_series_small/Airline.csv")


def test_the_page_has_the_table_of_the_results() -> None:
    results = json.loads(defaults.RESULTS.read_text())
    assert results.keys() <= defaults.ROWS.keys()
    assert defaults.render() + "\n" in defaults.PAGE.read_text()


def test_a_result_is_kept_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "RESULTS", tmp_path / "defaults.json")
    monkeypatch.setattr(defaults, "PAGE", tmp_path / "page.md")
    run = workflow.train(build(CASES["classify"], tmp_path, epochs=2), output=tmp_path / "run", plots=False)
    figures = defaults.result("classify_sst", run)
    assert figures["metric"] == "accuracy"
    assert figures["value"] == run.best_metrics()["accuracy"]
    assert figures["baseline"] == run.summary()["baseline_scores"]["accuracy"]
    assert figures["epochs"] == 2
    defaults.keep("classify_sst", figures)
    defaults.keep("classify_trec", figures)
    defaults.PAGE.write_text(f"before\n\n{defaults.HEAD}| old |\n\nafter\n")
    defaults.update_page()
    before, table, after = defaults.PAGE.read_text().split("\n\n")
    assert (before, after) == ("before", "after\n")
    rows = table.splitlines()[2:]
    assert [row.split(" | ")[1] for row in rows] == ["trec, fine labels", "sst, two classes"]


def test_an_unknown_row_is_refused() -> None:
    with pytest.raises(SystemExit, match="unknown row 'tag'"):
        defaults.main(["tag"])
