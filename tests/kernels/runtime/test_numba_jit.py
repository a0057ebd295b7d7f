"""The cache of loops compiled by numba: entries are verified before numba unpickles them. Borrowed arrays."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core import serialize
from numpy.typing import NDArray

from seqloom import cache
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.runtime import numba_jit


def total(values: NDArray[np.float64]) -> float:
    result = 0.0
    for index in range(len(values)):
        result += values[index]
    return result


def compile_and_call() -> int:
    """Compile the loop as a new process would, or load it, and call it; the number of loads."""
    compiled = numba_jit.jit(total)
    assert compiled(np.arange(4.0)) == 6
    hits: int = sum(compiled.stats.cache_hits.values())  # type: ignore[attr-defined]
    return hits


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_warned", set())
    return tmp_path / "numba"


def test_compiled_loops_are_loaded_until_something_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [compile_and_call(), compile_and_call()] == [0, 1]
    monkeypatch.setattr(jit_cache, "source_digest", lambda: b"another processor, or a changed callee")
    assert compile_and_call() == 0
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", 0 if os.environ.get("NUMBA_BOUNDSCHECK") else 1, raising=False)
    assert compile_and_call() == 0
    assert len(list(folder.glob("*.nbc"))) == 3


dumps: Any = serialize.dumps


class Planted:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("damage", ["planted", "empty", "half"])
def test_a_planted_or_damaged_entry_is_compiled_again(damage: str, folder: Path, tmp_path: Path) -> None:
    compile_and_call()
    (entry,) = folder.glob("*.nbc")
    content, planted = entry.read_bytes(), dumps(Planted(tmp_path / "executed"))
    for damaged in {"planted": [planted, content[:32] + planted], "empty": [b""], "half": [content[:500]]}[damage]:
        entry.write_bytes(damaged)
        assert [compile_and_call(), compile_and_call()] == [0, 1]
    assert not (tmp_path / "executed").exists()


def test_without_a_cache_loops_are_compiled(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.write_text("in the way")
    assert [compile_and_call(), compile_and_call()] == [0, 0]
    assert capsys.readouterr().err.count("cannot be used as a cache") == 1


def test_indices_are_checked_on_request(folder: Path) -> None:
    program = """if True:
        import numpy
        from seqloom.kernels.runtime.numba_jit import jit

        @jit
        def beyond(values):
            return values[len(values)]

        beyond(numpy.zeros(3))
    """
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1"}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "IndexError: index is out of bounds" in ended.stderr


class Nested(NamedTuple):
    numbers: Any
    pair: tuple[Any, int]


@numba_jit.jit
def _double_all(nested: Nested) -> float:
    nested = numba_jit.borrow(nested)
    total = 0.0
    for index in range(len(nested.numbers)):
        nested.pair[0][index] *= nested.pair[1]
        total += nested.numbers[index]
    return total


def test_borrowed_arrays_are_the_same_memory() -> None:
    first, second = np.arange(3.0), np.arange(3)
    owners = sys.getrefcount(first), sys.getrefcount(second)
    assert _double_all(Nested(first, (second, 2))) == 3.0
    assert second.tolist() == [0, 2, 4]
    assert (sys.getrefcount(first), sys.getrefcount(second)) == owners
