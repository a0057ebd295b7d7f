import ctypes
import os
import subprocess
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
    """Assembly of a function that stores a number; counts its calls."""

    def __init__(self, number: int = 42) -> None:
        self.number = number
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        return TEXT.format(number=self.number)


def answer(key: str, emit: Callable[[], str]) -> int:
    (address,) = jit_cache.load(key, emit, ("answer",))
    result = ctypes.c_int64(0)
    jit_cache.c_function(address, ctypes.c_int64)(ctypes.addressof(result))
    return result.value


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def simulate_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a new process, in which nothing is linked yet."""
    monkeypatch.setattr(jit_cache, "_libraries", {})
    monkeypatch.setattr(jit_cache, "_jit", cache(jit_cache._jit.__wrapped__))


def test_the_second_load_in_a_process_emits_nothing(folder: Path) -> None:
    first, second = Source(), Source()
    assert answer("machine: process", first) == answer("machine: process", second) == 42
    assert (first.calls, second.calls) == (1, 0)


def test_the_first_load_in_a_new_process_reads_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer("machine: disk", Source())
    assert len(list(folder.glob("*.o"))) == 1
    simulate_new_process(monkeypatch)
    source = Source()
    assert answer("machine: disk", source) == 42
    assert source.calls == 0


def test_each_key_has_its_own_code(folder: Path) -> None:
    assert answer("machine: one", Source(1)) == 1
    assert answer("machine: two", Source(2)) == 2
    assert len(list(folder.glob("*.o"))) == 2


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "text"])
def test_a_damaged_file_is_replaced(damage: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = f"machine: damage {damage}"
    answer(key, Source())
    (path,) = folder.glob("*.o")
    good = path.read_bytes()
    flipped = good[:100] + bytes([good[100] ^ 1]) + good[101:]
    path.write_bytes({"cut": good[:-7], "bit": flipped, "empty": b"", "text": b"not a kernel"}[damage])
    simulate_new_process(monkeypatch)
    source = Source()
    assert answer(key, source) == 42
    assert source.calls == 1
    assert path.read_bytes() == good


def test_a_folder_that_cannot_be_written_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("where the folder should be")
    monkeypatch.setenv("SEQLOOM_CACHE", str(blocked))
    source = Source()
    assert answer("machine: blocked", source) == 42
    assert source.calls == 1
    assert blocked.read_text() == "where the folder should be"


def test_a_full_disk_is_ignored_and_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seqloom.files.os.write", fail)
    monkeypatch.setattr("seqloom.files.os.fsync", fail)
    assert answer("machine: full", Source()) == 42
    assert list(folder.iterdir()) == []


def test_the_cache_folder_follows_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", "/somewhere")
    assert jit_cache.cache_folder() == Path("/somewhere/kernels")


@pytest.mark.skipif(sys.platform != "linux", reason="XDG folders are used on Linux only")
def test_the_default_cache_folder_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_digest_covers_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change in any file of the kernels leads to compilation."""
    read: set[Path] = set()
    real = Path.read_bytes

    def record(path: Path) -> bytes:
        read.add(path)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", record)
    jit_cache.source_digest.__wrapped__()
    folder = Path(kernels.__path__[0])
    assert read == set(folder.rglob("*.py"))
    assert {path.parent.name for path in read} >= {"fuse", "program", "linalg", "llvm", "ctc", "frame_beam", "runtime"}


def test_the_code_of_another_processor_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home folder may be shared by machines: code with instructions that a processor lacks would kill the process."""
    answer("machine: processor", Source())
    features = jit_cache._cpu_features()
    name = next(iter(features))
    monkeypatch.setattr(jit_cache, "_cpu_features", lambda: features | {name: not features[name]})
    monkeypatch.setattr(jit_cache, "source_digest", cache(jit_cache.source_digest.__wrapped__))
    simulate_new_process(monkeypatch)
    source = Source()
    assert answer("machine: processor", source) == 42
    assert source.calls == 1
    assert len(list(folder.glob("*.o"))) == 2


SCATTERED = """
import ctypes
from pathlib import Path

import torch

import seqloom
from seqloom.cells import GRU, LSTM, Elman, Peephole

x = torch.randn(2, 5, 4)
seqloom.Recurrent(LSTM(4, 8))(x)  # now everything else is in memory
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
READ_AND_WRITE = 3
RESERVED = 0x104022  # private, anonymous, without memory of its own, at this address only and only if it is free
PAGE, MEGABYTE, FAR = 1 << 12, 1 << 20, 16 << 30


def areas():
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    return [(*(int(end, 16) for end in line[0].split("-")), line[1], line[-1]) for line in lines]


def reserve(start, end):
    return start == end or libc.mmap(start, end - start, 0, RESERVED, -1, 0) == start


# Python may map memory after the areas were listed: then they are listed again, since only what is known to be reserved
# may be unmapped later. Addresses between the libraries and the stack remain free, because the stack grows into them.
lists, taken = [], 0
for _ in range(10):
    lists.append(areas())
    (stack,) = (start for start, _, _, name in lists[-1] if name == "[stack]")
    libraries = [area for area in lists[-1] if 0x7000_0000_0000 < area[0] < stack]
    lowest = libraries[0][0]
    gaps = [(before[1], after[0]) for before, after in zip(libraries, libraries[1:])]
    below = lowest - MEGABYTE
    if not taken and libc.mmap(below, MEGABYTE, READ_AND_WRITE, RESERVED, -1, 0) == below:
        taken = below  # as Python may do at this moment
    if all([reserve(*gap) for gap in [*gaps, (lowest - FAR, lowest)]]):
        break
else:
    raise SystemExit("addresses could not be reserved")
pages = 0
for cell in (GRU, Elman, Peephole):
    for size in (8, 16, 24):
        pages += 1  # room for some of the sections of this kernel, or for all; the next free address is 16 GB away
        room = lowest - MEGABYTE * pages
        libc.munmap(room, PAGE * pages)
        assert seqloom.Recurrent(cell(4, size)).path == "fused"
        seqloom.Recurrent(cell(4, size))(x)
        for page in range(pages):  # that are still free
            reserve(room + PAGE * page, room + PAGE * (page + 1))
ctypes.memset(taken, 1, MEGABYTE)  # nobody has unmapped it
code = [start for start, _, access, _ in areas() if "x" in access and start > 0x7000_0000_0000]
assert any(lowest - FAR < start < lowest for start in code), "no code in a room"
assert any(start < lowest - FAR for start in code), "no code far away"
print("linked")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reserves addresses as Linux assigns them")
def test_code_is_linked_where_memory_is_scattered() -> None:
    sources = str(Path(kernels.__file__).parents[2])
    ended = subprocess.run(
        [sys.executable, "-c", SCATTERED],
        env={**os.environ, "PYTHONPATH": sources, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "linked\n"), ended.stderr[-1000:]
