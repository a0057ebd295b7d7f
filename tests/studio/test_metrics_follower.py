"""Rows of a run while they are written."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.service.running import KEPT

from seqloom.run import Run
from seqloom.studio.metrics_follower import MetricsFollower


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.open(shutil.copytree(KEPT / "tag", tmp_path / "tag"))


def test_only_new_lines_are_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = MetricsFollower(run)
    assert follower.read() == 0
    assert follower.rows == run.rows()
    known = len(follower.rows)
    positions: list[int] = []
    read = Run.rows_from

    def noting(run: Run, position: int) -> Any:
        positions.append(position)
        return read(run, position)

    monkeypatch.setattr(Run, "rows_from", noting)
    assert follower.read() == known  # nothing is new
    run.record({"update": 900, "loss": 0.5})
    run.record({"update": 901, "loss": 0.25})
    assert follower.read() == known
    assert follower.rows[known:] == [{"update": 900, "loss": 0.5}, {"update": 901, "loss": 0.25}]
    size = (run.path / "metrics.jsonl").stat().st_size
    assert all(size - position < 400 for position in positions)  # never from the beginning


def test_an_incomplete_line_is_read_when_it_is_complete(run: Run) -> None:
    follower = MetricsFollower(run)
    follower.read()
    known = len(follower.rows)
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"update": 9')
    assert (follower.read(), len(follower.rows)) == (known, known)
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write("02}\n")
    follower.read()
    assert follower.rows[known:] == [{"update": 902}]


def test_a_resumed_training_is_read_again(run: Run) -> None:
    run.truncate_rows(0)
    for update in range(5):
        run.record({"update": update})
    follower = MetricsFollower(run)
    follower.read()
    run.truncate_rows(2)
    for update in range(70, 80):  # more than there were before
        run.record({"update": update})
    assert follower.read() == 0
    assert follower.rows == run.rows()
    run.truncate_rows(0)
    assert follower.read() == 0
    assert follower.rows == []
