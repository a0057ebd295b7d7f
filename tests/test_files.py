"""Files are written completely or not at all, never through a link, and never outside their folder."""

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seqloom import files

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="needs links and permissions of POSIX")


def test_a_file_and_its_folder_are_created(tmp_path: Path) -> None:
    files.write(tmp_path / "a" / "b.txt", "é\n")
    assert (tmp_path / "a" / "b.txt").read_bytes() == "é\n".encode()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "model.arpa"
    path.write_text("old")

    def write_to_a_full_disk() -> None:
        with files.replacing(path) as file:
            file.write(b"new")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: .*model\.arpa"):
        write_to_a_full_disk()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@needs_posix
@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_is_never_written_through(dangling: bool, tmp_path: Path) -> None:
    precious, link = tmp_path / "precious.txt", tmp_path / "alignment.png"
    if not dangling:
        precious.write_text("precious")
    link.symlink_to(precious)
    with pytest.raises(OSError, match="expected a regular file, found a link"):
        files.write(link, "new")
    with pytest.raises(OSError):  # noqa: PT011  ELOOP, or its name on other systems
        files.append(link, b"new")
    assert precious.exists() != dangling
    assert dangling or precious.read_text() == "precious"


@needs_posix
def test_a_pipe_or_a_folder_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "special file"), (tmp_path, "folder"), (Path("/dev/null"), "special file")):
        with pytest.raises(OSError, match=f"found a {kind}"):
            files.write(path, "new")


@needs_posix
@pytest.mark.parametrize("name", ["linked/new.txt", "a/linked/new.txt", "a/../../new.txt"])
def test_no_write_leaves_its_folder(name: str, tmp_path: Path) -> None:
    root, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    (root / "a").mkdir(parents=True)
    (root / "linked").symlink_to(outside)
    (root / "a" / "linked").symlink_to(outside)
    with pytest.raises(OSError, match="expected a folder, found a link"):
        files.write(root / name, "new", inside=root)
    assert not list(outside.iterdir())
    assert not (tmp_path / "new.txt").exists()


@needs_posix
@pytest.mark.parametrize("change", [lambda path: files.append(path, b"new"), lambda path: files.truncate(path, 0)])
def test_a_file_with_two_names_is_not_changed_in_place(change: Callable[[Path], None], tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    os.link(precious, tmp_path / "train.log")
    with pytest.raises(OSError, match="has 2 hard links"):
        change(tmp_path / "train.log")
    files.write(tmp_path / "train.log", "new")  # another file takes the name
    assert precious.read_text() == "precious"


@needs_posix
def test_permissions_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "private.txt"
    path.write_text("old")
    path.chmod(0o600)
    files.write(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@needs_posix
def test_a_write_protected_file_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.txt"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root
    with pytest.raises(PermissionError):
        files.write(path, "new")
    assert path.read_text() == "old"


def test_an_append_that_fails_leaves_the_file_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.log"
    files.append(path, b"one\n")

    def fail(descriptor: int, data: bytes) -> int:
        os.pwrite(descriptor, bytes(data[:2]), 4)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="No space left"):
        files.append(path, b"two\n")
    assert path.read_bytes() == b"one\n"
