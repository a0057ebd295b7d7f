"""docs/benchmarks.md matches its JSON files."""

import json
from pathlib import Path

import torch

from benchmarks.page import FOLDER, PAGE, render, write_environment


def test_page_is_generated_from_its_data() -> None:
    assert render(FOLDER) == PAGE.read_text()


def test_environment_records_versions_and_machine(tmp_path: Path) -> None:
    write_environment(tmp_path)
    environment = json.loads((tmp_path / "environment.json").read_text())
    assert environment["versions"]["torch"] == torch.__version__
    assert environment["cores"] >= 1
    assert not any("/" in str(value) for value in environment.values())


def test_peers_without_a_goal_have_a_table_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "environment.json").write_text((FOLDER / "environment.json").read_text())
    common = {
        "case": "beam 5",
        "unit": "tokens/s",
        "threads": 2,
        "ours": 1500.0,
        "limit": None,
        "ours_best": 1600.0,
        "peer_best": 800.0,
    }
    best = {**common, "peer": 750.0, "peer_name": "quick", "ratio": 2.0, "goal": 1.5}
    other = {**common, "peer": 500.0, "peer_name": "slow", "ratio": 3.0, "goal": None}
    (tmp_path / "translate.json").write_text(json.dumps([best, other]))
    text = render(tmp_path).splitlines()
    assert "| beam 5 | 2 | quick | 2.00 | 1.50 | reached |" in text
    assert "| beam 5 | 2 | quick | 1,500 | 750 | 2.00 |  |" in text
    assert "| beam 5 | 2 | slow | 1,500 | 500 | 3.00 |  |" in text


def test_verdicts_match_ratios_and_goals() -> None:
    text = render(FOLDER)
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[-1] in ("reached", "missed"):
            ratio, goal = float(cells[3].split()[0]), float(cells[4])
            assert (ratio >= goal) == (cells[-1] == "reached") or abs(ratio - goal) < 0.01
