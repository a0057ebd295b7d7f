"""Fingerprints of data files: every byte counts, and large files are hashed once."""

import os
from pathlib import Path

import pytest

from seqloom.data import fingerprint as module
from seqloom.data.fingerprint import fingerprint, hash_files


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hashes" / "files.json"


def test_fingerprint_changes_with_the_content(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    fingerprints = set()
    for content in (b"", b"a", b"b", b"a" * 3_000_000, b"a" * 2_999_999 + b"b"):
        path.write_bytes(content)
        fingerprints.add(fingerprint(str(path)))
        assert fingerprint(f"{path}[0:0.5]") == fingerprint(str(path))
    assert len(fingerprints) == 5
    folder = tmp_path / "classes"
    folder.mkdir()
    for name in ("one.txt", "two.txt"):
        (folder / name).write_text(name)
        fingerprints.add(fingerprint(str(folder)))
    assert len(fingerprints) == 7
    (folder / "positive").mkdir()
    for text in ("a", "b"):
        (folder / "positive" / "1.txt").write_text(text)
        fingerprints.add(fingerprint(str(folder)))
    assert len(fingerprints) == 9


def write_settled(path: Path, content: bytes, *, time: int = 1) -> Path:
    """A file that was written long ago."""
    path.write_bytes(content)
    os.utime(path, ns=(time * 10**9, time * 10**9))
    return path


def test_a_change_in_the_middle_of_a_large_file_is_noticed(tmp_path: Path) -> None:
    content = bytes(3_700_000)
    before = fingerprint(str(write_settled(tmp_path / "x.txt", content)))
    assert fingerprint(str(tmp_path / "x.txt")) == before
    write_settled(tmp_path / "x.txt", content[:1_200_000] + b"x" * 1_400_000 + content[2_600_000:], time=2)
    assert fingerprint(str(tmp_path / "x.txt")) != before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no time of the last change of any kind")
def test_a_change_is_noticed_although_the_time_is_set_back(tmp_path: Path, cache: Path) -> None:
    path = write_settled(tmp_path / "x.txt", bytes(module.CACHED_BYTES))
    before = fingerprint(str(path))
    assert cache.exists()
    with path.open("r+b") as stream:
        stream.seek(module.CACHED_BYTES // 2)
        stream.write(b"x")
    os.utime(path, ns=(10**9, 10**9))
    assert fingerprint(str(path)) != before


def test_a_large_file_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    large = write_settled(tmp_path / "large", bytes(module.CACHED_BYTES))
    small = write_settled(tmp_path / "small", b"x")
    new = tmp_path / "new"
    new.write_bytes(bytes(module.CACHED_BYTES))  # it may change again within the same tick
    hashed: list[str] = []
    original = module._hash

    def watched(file: Path) -> str:
        hashed.append(file.name)
        return original(file)

    monkeypatch.setattr(module, "_hash", watched)
    first = hash_files([large, small, new])
    assert hash_files([large, small, new]) == first
    assert hashed == ["large", "small", "new", "small", "new"]
    content = bytearray(cache.read_bytes())
    content[-10] ^= 1
    cache.write_bytes(content)
    assert hash_files([large]) == first[:1]
    assert hashed[-1] == "large"


def test_without_a_cache_folder_files_are_hashed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "file" / "cache"))
    large = write_settled(tmp_path / "large", bytes(module.CACHED_BYTES))
    assert hash_files([large]) == hash_files([large])
