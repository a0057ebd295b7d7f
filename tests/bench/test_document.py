"""docs/benchmarks.md is what its data say."""

from pathlib import Path

from seqloom.bench.document import draw, main

DOCS = Path(__file__).parents[2] / "docs"


def test_page_is_drawn_from_its_data(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    main(DOCS / "benchmarks", page)
    assert page.read_text() == (DOCS / "benchmarks.md").read_text()


def test_goals_are_judged() -> None:
    text = draw(DOCS / "benchmarks")
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[-1] in ("reached", "missed"):
            ratio, wanted = float(cells[3].split()[0]), float(cells[4])
            assert (ratio >= wanted) == (cells[-1] == "reached") or abs(ratio - wanted) < 0.01
