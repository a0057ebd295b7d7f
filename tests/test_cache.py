"""The cache: its place, its privacy, and that nothing is read from it that its user has not written."""

import os
import stat
import sys
from pathlib import Path

import pytest

from seqloom import cache, files
from seqloom.cache import CacheFolder, cache_root

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="needs owners and permissions of POSIX")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CacheFolder:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_warned", set())
    return CacheFolder("kernels")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_environment_chooses_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", "chosen")
    assert cache_root() == Path("chosen")


@pytest.mark.parametrize(
    ("platform", "folder"),
    [("linux", "caches/seqloom"), ("darwin", "user/Library/Caches/seqloom"), ("win32", "local/seqloom")],
)
def test_each_platform_has_its_folder(platform: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEQLOOM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    monkeypatch.setenv("LOCALAPPDATA", "local")
    monkeypatch.setattr(Path, "home", lambda: Path("user"))
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_root() == Path(folder)


def test_a_user_without_a_home_has_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("SEQLOOM_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", fail)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    assert cache_root().parent == tmp_path
    CacheFolder("kernels").write("a.o", b"code")
    assert CacheFolder("kernels").read("a.o") == b"code"


def test_what_is_written_is_read(folder: CacheFolder) -> None:
    assert folder.read("a.o") is None
    folder.write("a.o", b"code")
    assert folder.read("a.o") == b"code"


@needs_posix
def test_folder_and_key_are_private_whatever_the_umask(folder: CacheFolder) -> None:
    old = os.umask(0)
    try:
        folder.write("a.o", b"code")
    finally:
        os.umask(old)
    assert mode(folder.path) == mode(folder.path.parent) == 0o700
    assert mode(folder.path / ".key") == 0o600


@pytest.mark.parametrize("damage", ["empty", "half", "bit", "swapped", "foreign", "link", "pipe"])
def test_an_entry_that_is_not_ours_counts_as_missing(damage: str, folder: CacheFolder, tmp_path: Path) -> None:
    if damage in ("link", "pipe") and sys.platform == "win32":
        pytest.skip("needs links and pipes of POSIX")
    folder.write("a.o", b"code" * 9)
    folder.write("b.o", b"other")
    path = folder.path / "a.o"
    good = path.read_bytes()
    path.unlink()
    match damage:
        case "link":
            (tmp_path / "a").write_bytes(good)
            path.symlink_to(tmp_path / "a")
        case "pipe":
            os.mkfifo(path)
        case "swapped":
            path.write_bytes((folder.path / "b.o").read_bytes())
        case _:
            foreign = cache._digest(b"0" * 32, "a.o", good[32:]) + good[32:]
            flipped = good[:40] + bytes([good[40] ^ 1]) + good[41:]
            path.write_bytes({"empty": b"", "half": good[:34], "bit": flipped, "foreign": foreign}[damage])
    assert folder.read("a.o") is None
    folder.write("a.o", b"again")
    assert folder.read("a.o") == b"again"


@needs_posix
def test_what_others_could_have_written_counts_as_missing(folder: CacheFolder) -> None:
    folder.write("a.o", b"code")
    folder.path.chmod(0o777)
    assert folder.read("a.o") is None
    assert mode(folder.path) == 0o700
    folder.write("a.o", b"code")
    (folder.path / ".key").chmod(0o644)
    assert folder.read("a.o") is None


@needs_posix
@pytest.mark.parametrize("problem", ["owner", "link", "file", "read-only"])
def test_a_folder_that_cannot_be_trusted_is_not_used_with_one_warning(
    problem: str,
    folder: CacheFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder.write("a.o", b"code")
    match problem:
        case "owner":
            monkeypatch.setattr(cache, "_user", lambda: os.getuid() + 1)
        case "link":
            folder.path.rename(tmp_path / "elsewhere")
            folder.path.symlink_to(tmp_path / "elsewhere")
        case "file":
            folder.path.rename(tmp_path / "elsewhere")
            folder.path.write_text("in the way")
        case "read-only":

            def refuse(*_: object, **__: object) -> int:
                raise PermissionError(13, "Permission denied")

            monkeypatch.setattr(files, "_create", refuse)  # the tests may run as root
    folder.write("b.o", b"code")
    folder.write("c.o", b"code")
    assert folder.read("b.o") is None
    assert (folder.open() is None) == (problem != "read-only")
    messages = capsys.readouterr().err.splitlines()
    assert len(messages) == 1
    assert messages[0].startswith(f"warning: {folder.path}: cannot be used as a cache: ")


def test_the_least_recently_used_entries_are_removed(folder: CacheFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_FILES", 4)
    for number in range(4):
        folder.write(f"{number}.o", b"code")
        os.utime(folder.path / f"{number}.o", (1000 + number, 1000 + number))
    assert folder.read("0.o")  # used now
    folder.write("4.o", b"code")
    assert sorted(path.name for path in folder.path.glob("*.o")) == ["0.o", "4.o"]
