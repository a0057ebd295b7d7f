"""Measurements in child processes."""

import pytest

from benchmarks import child_process, recurrent


def test_child_prints_a_number_and_sees_its_arguments_and_cache() -> None:
    program = "import os, sys; print(int(sys.argv[1]) + len(os.environ['SEQLOOM_CACHE']))"
    assert child_process.run(program, 40, cache_folder="ab") == 42


def test_memory_is_compared_as_a_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "run", lambda _, name, *__: 50.0 if name == "ours" else 60.0)
    result = recurrent.training_memory(recurrent.Shape(1, 2, 3, 4))
    assert (result.ours, result.peer, result.unit) == (50.0, 60.0, "MB")
    assert result.ratio == pytest.approx(1.2)


@pytest.mark.exhaustive
def test_the_memory_program_runs() -> None:
    assert child_process.run(recurrent.MEMORY, "ours", 5, 3, 4, 8) >= 0
