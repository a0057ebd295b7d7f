"""What is in the files that a list names: beside the list, or in a folder or a tar archive, which is read once."""

import io
import os
import os.path
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Generic, TypeVar

from seqloom.data.readers import text_files
from seqloom.data.readers.tar_members import archive
from seqloom.data.readers.text_files import DataError, Location, missing, opened, resolve

T = TypeVar("T")
Decode = Callable[[IO[bytes], str], T]
"""From the bytes of a file and its name; a BadContent where they are not what is wanted."""


class BadContent(ValueError):
    """Why the bytes of a file cannot be read, to stand behind its name."""


class Packed(Generic[T]):
    """A tar archive that is read through once: what is wanted is decoded as it comes by, and kept until it is taken."""

    def __init__(
        self,
        path: Path,
        decode: Decode[T],
        *,
        suffixes: Sequence[str] = (),  # what a wanted name may leave out
    ) -> None:
        self.path = path
        self.decode = decode
        self.suffixes = suffixes
        self.wanted: Counter[str] = Counter()  # how often each name will be asked for
        self.names: list[str] = []  # all that came by
        self.kept: dict[str, T | BadContent] = {}
        self.passing = self._pass()

    def take(self, name: str) -> T:
        """What is in the file of that name, which has to be among the wanted ones."""
        while name not in self.kept and next(self.passing, None) is not None:
            pass
        if name not in self.kept:
            near = "".join(f"; did you mean {other!r}?" for other in get_close_matches(name, self.names, n=1))
            raise BadContent(f"is not there{near}")
        self.wanted[name] -= 1
        found = self.kept[name] if self.wanted[name] > 0 else self.kept.pop(name)
        if isinstance(found, BadContent):
            raise found
        return found

    def close(self) -> None:
        self.passing.close()

    def _pass(self) -> Generator[str]:
        try:
            with tarfile.open(self.path) as packed:
                for entry in packed:
                    name = entry.name.removeprefix("./")
                    self.names.append(name)
                    key = name if name in self.wanted else bare(name, self.suffixes)
                    if entry.isreg() and key in self.wanted and key not in self.kept:
                        stream = packed.extractfile(entry)
                        assert stream is not None  # noqa: S101  it is a regular file
                        data = io.BytesIO(stream.read())
                        try:
                            self.kept[key] = self.decode(data, name)
                        except BadContent as error:
                            self.kept[key] = error
                    yield name
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            raise DataError(str(self.path), f"is no tar archive, or damaged ({error})") from None


def bare(name: str, suffixes: Sequence[str]) -> str:
    """A name without its suffix, if it is one of those."""
    suffix = Path(name).suffix
    return name.removesuffix(suffix) if suffix.lower() in suffixes else name


def listed(
    folder: Path,  # or a tar archive, or a folder in one
    suffixes: Sequence[str],
    *,
    beside: str,  # suffix of a text about each file
    encoding: str,
) -> tuple[list[str], dict[str, str]]:
    """The files in a folder and the folders in it, by name, and the texts, each by the name without its suffix."""
    texts: dict[str, str] = {}

    def keep(data: IO[bytes], name: str) -> None:
        lines = enumerate(data.read().splitlines(), start=1)
        rows = [text_files.decode(Location(str(folder / name), line), row, encoding=encoding) for line, row in lines]
        texts[name.removesuffix(beside)] = " ".join(" ".join(rows).split())

    names = []
    if folder.is_dir():
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        for path in found:
            name = path.relative_to(folder).as_posix()
            names.append(name)
            if path.suffix.lower() == beside:
                with opened(path, str(path)) as stream:
                    keep(stream, name)
    else:
        outside = folder if folder.is_file() else archive(folder)
        if outside is None:
            raise missing(folder)
        start = "" if outside == folder else f"{_inside(folder, outside)}/"
        for name, data in _members(outside, start, beside):
            names.append(name)
            if data is not None:
                keep(data, name)
    return sorted(name for name in names if Path(name).suffix.lower() in suffixes), texts


def _members(outside: Path, start: str, suffix: str) -> Iterator[tuple[str, IO[bytes] | None]]:
    """The files of a folder in an archive; only those that end in ``suffix`` are opened."""
    try:
        with tarfile.open(outside) as packed:
            for entry in packed:
                name = entry.name.removeprefix("./")
                if entry.isreg() and name.startswith(start):
                    stream = packed.extractfile(entry) if name.endswith(suffix) else None
                    yield name.removeprefix(start), stream
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(str(outside), f"is no tar archive, or damaged ({error})") from None


def load(
    wanted: Sequence[tuple[Location, str]],  # each name, and where it stands
    decode: Decode[T],
    *,
    folder: Path,  # of the list
    files: str = "",  # folder, tar archive, or folder in one, for what is not beside the list
    noun: str = "file",
    suffixes: Sequence[str] = (),  # what a name may leave out
) -> Iterator[T]:
    """What is in each of the files, in their order."""
    kept = resolve(files) if files else folder
    if files and not kept.is_dir() and not kept.is_file() and not archive(kept):
        raise missing(kept)
    where = files or str(folder)
    packed: dict[Path, Packed[T]] = {}
    found: list[tuple[Path, Packed[T] | None]] = []
    for _, name in wanted:
        path = _file(folder / name, suffixes) or _file(kept / name, suffixes)
        outside = next(filter(None, (archive(kept / name), archive(folder / name))), None) if path is None else None
        if outside is not None:
            path = kept / name if outside in (kept / name).parents else folder / name
            packed.setdefault(outside, Packed(outside, decode, suffixes=suffixes)).wanted[_inside(path, outside)] += 1
        found.append((path or kept / name, packed[outside] if outside else None))
    with ExitStack() as stack:
        for each in packed.values():
            stack.callback(each.close)
        for (location, name), (path, around) in zip(wanted, found, strict=True):
            if around is None:
                yield _open(location, name, path, decode, where=where, noun=noun)
                continue
            try:
                content = around.take(_inside(path, around.path))
            except BadContent as error:
                inside = f"{name} in {where}" if files else str(path)
                raise DataError(location, f"the {noun} {inside} {error}") from None
            yield content


def _inside(path: Path, outside: Path) -> str:
    return path.relative_to(outside).as_posix()


def _file(path: Path, suffixes: Sequence[str]) -> Path | None:
    """The file of that name, or else the one that is called so but for its suffix."""
    if os.path.isfile(path):  # noqa: PTH113  no name is too long for it
        return path
    if path.suffix.lower() in suffixes:
        return None
    named = (Path(f"{path}{suffix}") for suffix in suffixes)
    return next((each for each in named if os.path.isfile(each)), None)  # noqa: PTH113


def _open(location: Location, name: str, path: Path, decode: Decode[T], *, where: str, noun: str) -> T:
    try:
        with path.open("rb") as stream:
            return decode(stream, path.name)
    except BadContent as error:
        raise DataError(location, f"the {noun} {path} {error}") from None
    except (FileNotFoundError, NotADirectoryError):
        names = os.listdir(path.parent) if path.parent.is_dir() else []  # noqa: PTH208  names are wanted
        near = "".join(f"; did you mean {other!r}?" for other in get_close_matches(path.name, names, n=1))
        raise DataError(location, f"there is no {noun} {name!r} in {where}{near}") from None
    except (OSError, ValueError) as error:
        raise DataError(location, f"the {noun} {path} cannot be opened: {error}") from None
