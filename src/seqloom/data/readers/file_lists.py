"""The files that a list names: beside the list, in a folder, or in an archive, which is read only once."""

import io
import os
import os.path
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Generic, TypeVar

from seqloom.data.readers.text_files import (
    DataError,
    Location,
    decode_line,
    enclosing_archive,
    no_such_file,
    open_archive,
    open_binary,
    resolve,
)

T = TypeVar("T")
SUBFOLDERS = ("wavs", "wav", "clips", "audio", "images")
"""Folders beside a list in which its files may be, as in LJSpeech and Common Voice."""
Decode = Callable[[IO[bytes], str], T]
"""Turns the bytes of a file and its name into a value; raises ContentError if they are invalid."""


class ContentError(ValueError):
    """Why the content of a file cannot be read; the caller adds the name of the file."""


class ArchiveReader(Generic[T]):
    """Reads a tar or zip archive in one pass: requested members are decoded in archive order and kept until taken."""

    def __init__(
        self,
        path: Path,
        decode: Decode[T],
        *,
        suffixes: Sequence[str] = (),  # suffixes that a requested name may omit
    ) -> None:
        self.path = path
        self.decode = decode
        self.suffixes = suffixes
        self.requested: Counter[str] = Counter()  # how often each member will be taken
        self.names: list[str] = []  # all members passed so far
        self.decoded: dict[str, T | ContentError] = {}
        self.members = self._read()

    def take(self, name: str) -> T:
        """The content of a requested member."""
        while name not in self.decoded and next(self.members, None) is not None:
            pass
        if name not in self.decoded:
            similar = "".join(f"; did you mean {other!r}?" for other in get_close_matches(name, self.names, n=1))
            raise ContentError(f"no such file in the archive{similar}")
        self.requested[name] -= 1
        content = self.decoded[name] if self.requested[name] > 0 else self.decoded.pop(name)
        if isinstance(content, ContentError):
            raise content
        return content

    def close(self) -> None:
        self.members.close()

    def _read(self) -> Generator[str]:
        with open_archive(self.path) as members:
            for name, is_file, opened in members:
                self.names.append(name)
                key = name if name in self.requested else without_suffix(name, self.suffixes)
                if is_file and key in self.requested and key not in self.decoded:
                    data = io.BytesIO(opened().read())
                    try:
                        self.decoded[key] = self.decode(data, name)
                    except ContentError as error:
                        self.decoded[key] = error
                yield name


def without_suffix(name: str, suffixes: Sequence[str]) -> str:
    """The name without its suffix if that is one of the given ones."""
    suffix = Path(name).suffix
    return name.removesuffix(suffix) if suffix.lower() in suffixes else name


def list_folder(
    folder: Path,  # or a tar or zip archive, or a folder in one
    suffixes: Sequence[str],
    *,
    text_suffix: str,  # suffix of the text file that may stand beside each file
    encoding: str,
) -> tuple[list[str], dict[str, str]]:
    """The files in a folder and its subfolders, and the texts beside them by file name without suffix."""
    texts: dict[str, str] = {}

    def read_text(data: IO[bytes], name: str) -> None:
        lines = enumerate(data.read().splitlines(), start=1)
        rows = [decode_line(Location(str(folder / name), line), row, encoding=encoding) for line, row in lines]
        texts[name.removesuffix(text_suffix)] = " ".join(" ".join(rows).split())

    names = []
    if folder.is_dir():
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder).as_posix()
            names.append(name)
            if path.suffix.lower() == text_suffix:
                with open_binary(path, str(path)) as stream:
                    read_text(stream, name)
    else:
        archive = folder if folder.is_file() else enclosing_archive(folder)
        if archive is None:
            raise no_such_file(folder)
        prefix = "" if archive == folder else f"{_member_name(folder, archive)}/"
        with open_archive(archive) as members:
            for member in members:
                if member.is_file and member.name.startswith(prefix):
                    names.append(member.name.removeprefix(prefix))
                    if member.name.endswith(text_suffix):
                        read_text(member.open(), names[-1])
    return sorted(name for name in names if Path(name).suffix.lower() in suffixes), texts


def locate(
    names: Sequence[tuple[Location, str]],
    *,
    folder: Path,
    files: str = "",
    suffixes: Sequence[str] = (),
) -> list[tuple[Path, Path | None]]:
    """Where each file is that ``load`` reads: its path, and the archive that it is in, if any."""
    located: list[tuple[Path, Path | None]] = []
    archives: dict[Path, Path | None] = {}  # by folder: lists name many files in few folders
    root: Path | None = None

    def archive_of(path: Path) -> Path | None:
        if path.parent not in archives:
            archives[path.parent] = enclosing_archive(path)
        return archives[path.parent]

    for _, name in names:
        beside = _existing_file(folder / name, suffixes)
        if beside is not None:
            located.append((beside, None))
            continue
        if root is None:
            root = _root(files) if files else folder
        places = (root, *(() if files else (folder / subfolder for subfolder in SUBFOLDERS)))
        path = next(filter(None, (_existing_file(place / name, suffixes) for place in places)), None)
        if path is None:
            folders = (place / name for place in (folder, *places) if name)
            path = next((path for path in folders if os.path.isdir(path)), None)  # noqa: PTH112
        archive = (archive_of(root / name) or archive_of(folder / name)) if path is None else None
        if archive is not None:
            path = root / name if archive in (root / name).parents else folder / name
        located.append((path or root / name, archive))
    return located


def _root(files: str) -> Path:
    root = resolve(files)
    if not root.is_dir() and not root.is_file() and not enclosing_archive(root):
        raise no_such_file(root)
    return root


def existing_files(located: Sequence[tuple[Path, Path | None]]) -> list[Path]:
    """The files, the archives that they are in, or those of a folder, each of them once; missing ones are skipped."""
    paths = dict.fromkeys(archive or path for path, archive in located)
    return [file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path]) if file.is_file()]


def load(
    names: Sequence[tuple[Location, str]],  # each with its location in the list
    decode: Decode[T],
    *,
    folder: Path,  # folder of the list
    files: str = "",  # folder, archive, or folder in one, for files that are not beside the list
    key: str = "",  # configuration key of ``files``
    suffixes: Sequence[str] = (),  # suffixes that a name may omit
    read_folder: Callable[[Path], T] | None = None,  # content of a folder, such as the frames of a video
) -> Iterator[T]:
    """The decoded content of each file, in the order of the list."""
    where = files or str(folder)
    readers: dict[Path, ArchiveReader[T]] = {}
    sources: list[tuple[Path, ArchiveReader[T] | None]] = []
    for path, archive in locate(names, folder=folder, files=files, suffixes=suffixes):
        if archive is not None:
            reader = readers.setdefault(archive, ArchiveReader(archive, decode, suffixes=suffixes))
            reader.requested[_member_name(path, archive)] += 1
        sources.append((path, readers[archive] if archive else None))
    with ExitStack() as stack:
        for reader in readers.values():
            stack.callback(reader.close)
        for (location, name), (path, packed) in zip(names, sources, strict=True):
            if packed is None:
                if read_folder is not None and path.is_dir():
                    yield _read_folder(location, path, read_folder)
                else:
                    yield _open(location, name, path, decode, where=where, key=key)
                continue
            try:
                content = packed.take(_member_name(path, packed.path))
            except ContentError as error:
                if files:
                    raise DataError(location, f"file {name} in {where}: {error}") from None
                raise _file_error(location, path, str(error)) from None
            yield content


def _member_name(path: Path, archive: Path) -> str:
    return path.relative_to(archive).as_posix()


def _existing_file(path: Path, suffixes: Sequence[str]) -> Path | None:
    """The file of that name, or else the first one that has a suffix in addition."""
    if os.path.isfile(path):  # noqa: PTH113  accepts names of any length
        return path
    if path.suffix.lower() in suffixes:
        return None
    candidates = (Path(f"{path}{suffix}") for suffix in suffixes)
    return next((candidate for candidate in candidates if os.path.isfile(candidate)), None)  # noqa: PTH113


def _read_folder(location: Location, path: Path, read: Callable[[Path], T]) -> T:
    try:
        return read(path)
    except (ContentError, OSError) as error:
        raise _file_error(location, path, str(error)) from None


def _open(location: Location, name: str, path: Path, decode: Decode[T], *, where: str, key: str) -> T:
    try:
        special = path.exists() and not path.is_file() and not path.is_dir()
    except (OSError, ValueError) as error:
        raise DataError(location, f"cannot open the file {path}: {error}") from None
    if special:  # a pipe or a device may never end
        raise _file_error(location, path, "expected a regular file")
    try:
        with path.open("rb") as stream:
            return decode(stream, path.name)
    except ContentError as error:
        raise _file_error(location, path, str(error)) from None
    except (FileNotFoundError, NotADirectoryError):
        names = os.listdir(path.parent) if path.parent.is_dir() else []  # noqa: PTH208  plain names are needed
        similar = "".join(f"; did you mean {other!r}?" for other in get_close_matches(path.name, names, n=1))
        elsewhere = f"; if the files are elsewhere, set task.{key}" if key else ""
        raise DataError(location, f"no file {name!r} in {where}{similar or elsewhere}") from None
    except (OSError, ValueError) as error:
        raise DataError(location, f"cannot open the file {path}: {error}") from None


def _file_error(location: Location, path: Path, problem: str) -> DataError:
    """A problem of a file that a list names, or that was given itself."""
    if str(path) == location.file:
        return DataError(str(path), problem)
    return DataError(location, f"file {path}: {problem}")
