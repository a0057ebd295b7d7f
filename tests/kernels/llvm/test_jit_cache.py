import ctypes
import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from seqloom import kernels
from seqloom.kernels.llvm import jit_cache

TEXT = """
define void @answer(i64 %address) {{
  %pointer = inttoptr i64 %address to ptr
  store i64 {number}, ptr %pointer
  ret void
}}
"""


class Source:
    """Assembly of a function that stores a number; it counts how often it is asked for."""

    def __init__(self, number: int = 42) -> None:
        self.number = number
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        return TEXT.format(number=self.number)


def answer(key: str, emit: Callable[[], str]) -> int:
    (address,) = jit_cache.load(key, emit, ("answer",))
    cell = ctypes.c_int64(0)
    jit_cache.c_function(address, ctypes.c_int64)(ctypes.addressof(cell))
    return cell.value


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def start_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: nothing is linked yet. What was stays alive, or its code would be freed."""
    monkeypatch.setattr(jit_cache, "_libraries", {})
    monkeypatch.setattr(jit_cache, "_jit", cache(jit_cache._jit.__wrapped__))


def test_the_second_load_in_a_process_emits_nothing(folder: Path) -> None:
    first, second = Source(), Source()
    assert answer("machine: process", first) == answer("machine: process", second) == 42
    assert (first.calls, second.calls) == (1, 0)


def test_the_first_load_in_a_new_process_reads_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer("machine: disk", Source())
    assert len(list(folder.iterdir())) == 1
    start_anew(monkeypatch)
    source = Source()
    assert answer("machine: disk", source) == 42
    assert source.calls == 0


def test_keys_are_kept_apart(folder: Path) -> None:
    assert answer("machine: one", Source(1)) == 1
    assert answer("machine: two", Source(2)) == 2
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "text"])
def test_a_damaged_file_is_noticed_and_replaced(damage: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = f"machine: damage {damage}"
    answer(key, Source())
    (path,) = folder.iterdir()
    good = path.read_bytes()
    flipped = good[:100] + bytes([good[100] ^ 1]) + good[101:]
    path.write_bytes({"cut": good[:-7], "bit": flipped, "empty": b"", "text": b"not a kernel"}[damage])
    start_anew(monkeypatch)
    source = Source()
    assert answer(key, source) == 42
    assert source.calls == 1
    content = path.read_bytes()
    assert content[:32] == hashlib.sha256(content[32:]).digest()


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("where the folder should be")
    monkeypatch.setenv("SEQLOOM_CACHE", str(blocked))
    source = Source()
    assert answer("machine: blocked", source) == 42
    assert source.calls == 1
    assert blocked.read_text() == "where the folder should be"


def test_a_full_disk_costs_only_time_and_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seqloom.kernels.llvm.jit_cache.os.replace", fail)
    assert answer("machine: full", Source()) == 42
    assert list(folder.iterdir()) == []


def test_the_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", "/somewhere")
    assert jit_cache.cache_folder() == Path("/somewhere/kernels")


@pytest.mark.skipif(sys.platform != "linux", reason="XDG is Linux's")
def test_without_a_wish_it_is_where_the_system_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEQLOOM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert jit_cache.cache_folder() == Path("/elsewhere/seqloom/kernels")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/someone")
    assert jit_cache.cache_folder() == Path("/someone/.cache/seqloom/kernels")


def test_code_may_call_functions_by_address(folder: Path) -> None:
    called: list[int] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64)
    callback = kind(called.append)
    text = """
declare void @outside(i64)
define void @answer(i64 %number) {
  %twice = add i64 %number, %number
  call void @outside(i64 %twice)
  ret void
}
"""
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    (function,) = jit_cache.load("machine: calls", lambda: text, ("answer",), outside=address)
    jit_cache.c_function(function, ctypes.c_int64)(21)
    assert called == [42]


def test_files_that_were_not_used_for_longest_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_cache, "MAX_FILES", 4)
    for number in range(4):
        answer(f"machine: file {number}", Source())
    oldest, *_ = files = sorted(folder.iterdir())
    for age, file in enumerate(files):
        os.utime(file, (1000 - age, 1000 - age))
    os.utime(oldest, (2000, 2000))
    answer("machine: one more", Source())
    assert len(list(folder.iterdir())) == 2
    assert oldest.exists()


def test_the_digest_covers_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code is compiled anew after a change in any file of any folder of the kernels."""
    read: set[Path] = set()
    real = Path.read_bytes

    def note(path: Path) -> bytes:
        read.add(path)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", note)
    jit_cache.source_digest.__wrapped__()
    folder = Path(kernels.__path__[0])
    assert read == set(folder.rglob("*.py"))
    assert {path.parent.name for path in read} >= {"fuse", "program", "linalg", "llvm", "ctc", "frame_beam", "runtime"}
