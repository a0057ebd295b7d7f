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


def test_goals_are_judged() -> None:
    text = draw(DOCS / "benchmarks")
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[-1] in ("reached", "missed"):
            ratio, wanted = float(cells[3].split()[0]), float(cells[4])
            assert (ratio >= wanted) == (cells[-1] == "reached") or abs(ratio - wanted) < 0.01
