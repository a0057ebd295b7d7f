"""docs/benchmarks.md is what its data say."""

import json
from pathlib import Path

import torch

from seqloom.bench.document import draw, remember

DOCS = Path(__file__).parents[2] / "docs"


def test_page_is_drawn_from_its_data() -> None:
    assert draw(DOCS / "benchmarks") == (DOCS / "benchmarks.md").read_text()


def test_environment_names_versions_and_machine(tmp_path: Path) -> None:
    remember(tmp_path)
    found = json.loads((tmp_path / "environment.json").read_text())
    assert found["versions"]["torch"] == torch.__version__
    assert found["cores"] >= 1
    assert not any("/" in str(value) for value in found.values())


def test_peers_without_a_goal_have_a_table_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "environment.json").write_text((DOCS / "benchmarks" / "environment.json").read_text())
    common = {"case": "beam 5", "unit": "tokens/s", "threads": 2, "ours": 1500.0, "limit": None}
    best = {**common, "peer": 750.0, "peer_name": "quick", "ratio": 2.0, "goal": 1.5}
    other = {**common, "peer": 500.0, "peer_name": "slow", "ratio": 3.0, "goal": None}
    (tmp_path / "translate.json").write_text(json.dumps([best, other]))
    text = draw(tmp_path).splitlines()
    assert "| beam 5 | 2 | quick | 2.00 | 1.50 | reached |" in text
    assert "| beam 5 | 2 | quick | 1,500 | 750 | 2.00 |  |" in text
    assert "| beam 5 | 2 | slow | 1,500 | 500 | 3.00 |  |" in text


def test_goals_are_judged() -> None:
    text = draw(DOCS / "benchmarks")
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[-1] in ("reached", "missed"):
            ratio, wanted = float(cells[3].split()[0]), float(cells[4])
            assert (ratio >= wanted) == (cells[-1] == "reached") or abs(ratio - wanted) < 0.01
