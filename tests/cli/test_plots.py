"""seqloom plot: pictures of runs and building blocks, and what cannot be drawn."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seqloom.cli.main import app

RUNS = Path(__file__).parent.parent / "artefacts" / "format_2"


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["plot", *map(str, words)])
    return result.exit_code, result.stdout, result.stderr


def test_curves_of_several_runs_are_drawn_in_one_picture(tmp_path: Path) -> None:
    file = tmp_path / "curves.svg"
    code, output, _ = call("curves", RUNS / "tag", RUNS / "tag", "--output", file, "--json", "--theme", "dark")
    assert code == 0
    data = json.loads(output)
    assert data["plot"] == str(file)
    assert [run["name"] for run in data["curves"]] == ["tag (1)", "tag (2)"]
    rows = [json.loads(line) for line in (RUNS / "tag" / "metrics.jsonl").read_text().splitlines()]
    metric = data["curves"][0]["metric"]
    expected = [[row["update"], row["dev"][metric]] for row in rows if row.get("dev")]
    assert data["curves"][0]["dev"] == expected
    assert "tag (2)" in file.read_text()


@pytest.mark.parametrize("subject", ["activations", "positions"])
def test_building_blocks_are_drawn(subject: str, tmp_path: Path) -> None:
    code, output, _ = call(subject, "--output", tmp_path / "x.png")
    assert (code, output) == (0, f"Plot: {tmp_path / 'x.png'}\n")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gates"], "expected one of curves, activations, positions, got 'gates'"),
        (["curves"], "there is nothing to draw: give the folders of one or more runs"),
        (["positions", "runs/a"], "positions need no run: omit runs/a"),
        (["positions", "--output", "x.gif"], "x.gif: a picture is written as .png, .svg, .pdf"),
        (["positions", "--theme", "pink"], "expected the theme light or dark, got 'pink'"),
        (["curves", RUNS / "tag", RUNS / "translate"], "the metrics of the runs differ"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(words: list[object], expected: str) -> None:
    code, _, error = call(*words)
    assert code == 1
    assert expected in error
