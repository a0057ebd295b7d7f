"""How many threads a training uses by default."""

import math
import os
from pathlib import Path

import pytest

from seqloom.training import cores


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, math.inf),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "50000\n"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, math.inf),
        ({}, math.inf),
        ({"cpu.max": "damaged"}, math.inf),
    ],
)
def test_the_limit_of_a_container(
    files: dict[str, str], expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cores.quota(tmp_path) == expected
    monkeypatch.setattr(cores, "quota", lambda: expected)
    assert cores.default_threads(8) == 8  # chosen by OMP_NUM_THREADS, as in all tests
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert cores.default_threads(8) == min(8, math.ceil(min(expected, 8)))


def test_threads_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (8.25, 1.0, 1.0), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert not cores.busy_note(4)  # chosen by OMP_NUM_THREADS
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert cores.busy_note(4).startswith("the machine is busy with other programs (load 8.2, 4 cores), where 4 threads")
    assert not cores.busy_note(1)
    monkeypatch.setattr(os, "getloadavg", lambda: (4.0, 9.0, 9.0))
    assert not cores.busy_note(4)
