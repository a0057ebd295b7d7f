import io
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import IO

import pytest

from seqloom.data.readers.file_lists import ArchiveReader, ContentError, list_folder, load, without_suffix
from seqloom.data.readers.text_files import DataError, Location

FILES = {"a/one.x": b"1", "a/two.y": b"2", "./b/three.x": b"3", "a/bad.x": b"bad"}


def decode(stream: IO[bytes], name: str) -> int:
    data = stream.read()
    if data == b"bad":
        raise ContentError(f"bad content in {name}")
    return int(data)


def pack(path: Path, files: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, data in files.items():
                zipped.writestr(name.removeprefix("./"), data)
        return path
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        folder = tarfile.TarInfo("a/folder.x")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    return path


def expected(*names: str) -> list[tuple[Location, str]]:
    return [(Location("list", line), name) for line, name in enumerate(names, start=1)]


def test_only_requested_members_are_kept(tmp_path: Path) -> None:
    packed = ArchiveReader(pack(tmp_path / "all.tar.gz", FILES), decode, suffixes=(".x", ".y"))
    packed.requested.update({"a/one": 2, "a/two.y": 1, "b/three.x": 1})
    assert not packed.decoded
    assert packed.take("a/two.y") == 2
    assert packed.decoded == {"a/one": 1}
    assert [packed.take("a/one"), packed.take("a/one")] == [1, 1]
    assert not packed.decoded
    assert "b/three.x" not in packed.names  # the archive is read no further than it has to be
    assert packed.take("b/three.x") == 3
    packed.close()


ARCHIVES = pytest.mark.parametrize("name", ["all.tar.gz", "all.zip"])


@ARCHIVES
def test_files_beside_the_list_take_precedence(name: str, tmp_path: Path) -> None:
    archive = pack(tmp_path / name, FILES)
    folder = tmp_path / "list"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "one.x").write_bytes(b"7")
    names = expected("a/two", "a/one.x", "b/three", "a/one")
    options = {"folder": folder, "suffixes": (".x", ".y")}
    assert list(load(names, decode, files=str(archive), **options)) == [2, 7, 3, 7]  # type: ignore[arg-type]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "two.y").write_bytes(b"8")
    actual = load(expected("two", "a/one"), decode, files=str(tmp_path / "other"), **options)  # type: ignore[arg-type]
    assert list(actual) == [8, 7]


def test_paths_into_archives(tmp_path: Path) -> None:
    for name in ("p.tar.gz", "q.zip"):
        pack(tmp_path / name, FILES)
    names = expected("p.tar.gz/a/two.y", "q.zip/b/three.x", "p.tar.gz/a/one.x")
    assert list(load(names, decode, folder=tmp_path)) == [2, 3, 1]


def test_errors_name_the_line_of_the_list(tmp_path: Path) -> None:
    archive = pack(tmp_path / "all.tar.gz", FILES)
    actual = load(expected("one.x", "bad.x"), decode, folder=tmp_path, files=str(archive / "a"))
    assert next(actual) == 1
    with pytest.raises(DataError) as error:
        next(actual)
    assert str(error.value) == f"list:2: file bad.x in {archive / 'a'}: bad content in a/bad.x"
    for name, message in (("on.x", "did you mean 'a/one.x'?"), ("folder.x", "did you mean 'a/folder.x'?")):
        with pytest.raises(DataError) as error:
            list(load(expected(name), decode, folder=tmp_path, files=str(archive / "a")))
        assert str(error.value) == f"list:1: file {name} in {archive / 'a'}: no such file in the archive; {message}"
    with pytest.raises(DataError, match=r"list:1: no file 'x\.y' in "):
        list(load(expected("x.y"), decode, folder=tmp_path))
    (tmp_path / "bad.x").write_bytes(b"bad")
    with pytest.raises(DataError, match=r"list:1: file .*bad\.x: bad content in bad\.x"):
        list(load(expected("bad.x"), decode, folder=tmp_path))


@ARCHIVES
def test_list_folder(name: str, tmp_path: Path) -> None:
    texts = {"a/one.txt": b"first\nsecond ", "a/b/two.txt": b"", "a/alone.txt": "ü".encode()}
    archive = pack(tmp_path / name, FILES | texts | {"a/b/two.x": b"4"})
    wanted_names, wanted_texts = ["b/two.x", "bad.x", "one.x"], {"one": "first second", "b/two": "", "alone": "ü"}
    assert list_folder(archive / "a", (".x",), text_suffix=".txt", encoding="utf-8") == (wanted_names, wanted_texts)
    shutil.unpack_archive(archive, tmp_path / "out", filter=None if name.endswith(".zip") else "data")
    assert list_folder(tmp_path / "out" / "a", (".x",), text_suffix=".txt", encoding="utf-8") == (
        wanted_names,
        wanted_texts,
    )
    with pytest.raises(DataError, match="no such file"):
        list_folder(tmp_path / "nothing", (".x",), text_suffix=".txt", encoding="utf-8")


def test_without_suffix() -> None:
    assert without_suffix("a.b/c.X", (".x",)) == "a.b/c"
    assert without_suffix("a.b/c", (".b/c",)) == "a.b/c"
    assert without_suffix("a.x/c.y", (".x",)) == "a.x/c.y"


def test_a_file_that_was_given_itself_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.x"
    path.write_bytes(b"bad")
    with pytest.raises(DataError) as caught:
        list(load([(Location(str(path), 1), "bad.x")], decode, folder=tmp_path))
    assert str(caught.value) == f"{path}: bad content in bad.x"
