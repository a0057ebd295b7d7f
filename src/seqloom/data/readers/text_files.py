"""Text files of the field, read line by line; whatever is wrong in them is named by file and line."""

import csv
import difflib
import gzip
import hashlib
import io
import itertools
import json
import os
import re
import sys
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Never, cast

from seqloom.data.readers.tar_members import archive, member

LONGEST_LINE = 1 << 30  # bytes; a small .gz may hold a line that fills the memory


class Location(NamedTuple):
    """Where something stands in a file."""

    file: str
    line: int  # the first is 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class DataError(ValueError):
    """What is wrong with the data, and where."""

    def __init__(self, location: Location | str, message: str) -> None:
        super().__init__(location, message)
        self.location = location
        self.message = message

    def __str__(self) -> str:
        return f"{self.location}: {self.message}"


Source = Path | Sequence[Any]
"""A file (``-`` is standard input) or a list of lines."""


def resolve(text: str) -> Path:
    """The existing file that a text names, or two of them; ``$NAME`` is an environment variable, ``-`` standard input.

    A range of rows in square brackets may follow the name.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in os.environ:
            raise DataError(text, f"the environment variable {name} is not set")
        return os.environ[name]

    if not text or "\0" in text:
        raise DataError(repr(text), "is not the name of a file")
    path = Path(re.sub(r"\$(?:(\w+)|\{(\w+)\})", value, text))
    with suppress(RuntimeError):  # nobody of that name: the folder is called so
        path = path.expanduser()
    for file in files(path) if path != Path("-") else ():
        if not os.path.lexists(file) and not archive(file):
            raise missing(file)
    return path


def files(path: Path) -> list[Path]:
    """The files that a path means where none is called so: ``x.csv[0:10]`` is a range of one, ``x.{en,de}`` are two."""
    if not path.name or os.path.lexists(path):
        return [path]
    if two := re.fullmatch(r"(.*)(?<!\$)\{([^{},]*),([^{},]*)\}(.*)", str(path)):
        return [Path(f"{two[1]}{side}{two[4]}") for side in (two[2], two[3])]
    return [path.with_name(re.sub(r"(?<=.)\[[^\[\]]*\]$", "", path.name))]


ENDS = 1 << 20  # bytes at the start and at the end of a file that stand for the whole of it


def fingerprint(text: str) -> str:
    """Of the files, or the folder of files, that a text names: another one means that its content has changed."""
    found = hashlib.sha256()
    for path in files(resolve(text)):
        whole = archive(path) or path
        for each in sorted(whole.iterdir()) if whole.is_dir() else [whole]:
            if each.is_file():
                size = each.stat().st_size
                found.update(f"{each.name if whole.is_dir() else ''} {size} ".encode())
                with each.open("rb") as stream:
                    found.update(stream.read(ENDS))
                    stream.seek(max(size - ENDS, 0))
                    found.update(stream.read(ENDS))
    return found.hexdigest()


def missing(path: Path) -> DataError:
    folder = path.parent
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        return DataError(str(path), f"there is no such file; its folder cannot be read: {error.strerror or error}")
    near = difflib.get_close_matches(path.name, names, n=1)
    return DataError(str(path), "there is no such file" + "".join(f"; did you mean {folder / name}?" for name in near))


def lines(source: Source, *, encoding: str = "utf-8") -> Iterator[tuple[Location, str]]:
    """Each line without its end (line feed, carriage return before it or not); gzip and byte order mark are undone."""
    if wrong := encoding_problem(encoding):
        raise ValueError(f"encoding is {encoding!r}: {wrong}")
    if isinstance(source, Path):
        yield from decoded(source, encoding=encoding)
        return
    if isinstance(source, str):
        raise DataError("input", "found one text; a list of texts, or a Path, is wanted")
    for number, text in enumerate(source, start=1):
        location = Location("input", number)
        if not isinstance(text, str):
            raise DataError(location, f"found {type(text).__name__}; a text is wanted")
        checked(location, text)
        yield location, text


def encoding_problem(name: str) -> str:
    """What keeps an encoding from being used to read lines; nothing where it can be."""
    try:
        if b"a\n".decode(name) == "a\n":
            return ""
    except UnicodeError:
        pass
    except (LookupError, ValueError):
        return "there is no such encoding of text; there are utf-8, latin-1, cp1252, gb18030 and all others of Python"
    return "a line feed is one byte in the encodings that are read; turn the files into UTF-8"


def checked(location: Location, text: str) -> None:
    """Refuse what could not be in a file."""
    if "\0" in text:
        raise DataError(location, "found a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(location, f"found half of a surrogate pair at character {error.start + 1}") from None


def decoded(path: Path, *, encoding: str) -> Iterator[tuple[Location, str]]:
    name = "standard input" if path == Path("-") else str(path)
    number = 0
    with opened(path, name) as stream:
        while True:
            location = Location(name, number + 1)
            try:
                raw = stream.readline(LONGEST_LINE)
            except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
                raise DataError(location, f"the packed data are damaged or cut off here ({error})") from None
            except OSError as error:
                raise DataError(location, f"cannot be read: {error.strerror or error}") from None
            if not raw:
                return
            number += 1
            yield location, decode(location, raw, encoding=encoding)


def decode(location: Location, raw: bytes, *, encoding: str) -> str:
    if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
        raise DataError(location, f"the line is longer than {LONGEST_LINE} bytes")
    if location.line == 1:
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise DataError(location, f"found UTF-16; {encoding.upper()} is wanted")
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in raw:
        raise DataError(location, f"found a NUL byte at byte {raw.index(0) + 1} of the line; text is wanted")
    try:
        text = raw.removesuffix(b"\n").removesuffix(b"\r").decode(encoding)
    except UnicodeError as error:
        at = getattr(error, "start", 0)
        other = '; a text in another encoding needs its name, such as task.encoding = "latin-1"'
        message = f"found byte 0x{raw[at]:02x} at byte {at + 1} of the line; {encoding.upper()} is wanted{other}"
        raise DataError(location, message) from None
    if encoding != "utf-8":
        checked(location, text)
    return text


@contextmanager
def opened(path: Path, name: str) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked; standard input stays open."""
    if name == "standard input":
        yield unpacked(sys.stdin.buffer)
        return
    if outside := archive(path):
        try:
            with member(path, outside) as inside:
                yield unpacked(cast(BinaryIO, inside))
        except FileNotFoundError as error:
            raise DataError(name, str(error)) from None
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise DataError(str(outside), f"is no tar archive, or damaged ({error})") from None
        return
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        raise missing(path) from None
    except IsADirectoryError:
        raise DataError(name, "found a folder; a file is wanted") from None
    except (OSError, ValueError) as error:
        raise DataError(name, f"cannot be opened: {getattr(error, 'strerror', None) or error}") from None
    with stream:
        yield unpacked(stream)


def unpacked(stream: BinaryIO) -> BinaryIO:
    ahead = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, stream))
    try:
        packed = ahead.peek(2)[:2] == b"\x1f\x8b"
    except OSError:  # told with its location by the read that follows
        packed = False
    return cast(BinaryIO, gzip.GzipFile(fileobj=ahead, mode="rb") if packed else ahead)


def tsv(
    source: Source, *, separator: str = "\t", columns: int | None = None, encoding: str = "utf-8"
) -> Iterator[tuple[Location, list[str]]]:
    """The columns of each line that is not empty; ``columns`` is how many there have to be."""
    for location, line in lines(source, encoding=encoding):
        if line:
            fields = line.split(separator)
            if columns is not None and len(fields) != columns:
                raise DataError(
                    location, f"found {counted(len(fields), 'column')} separated by {separator!r}; {columns} wanted"
                )
            yield location, fields


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def delimited(
    source: Source, *, separator: str = ",", header: bool, encoding: str = "utf-8"
) -> Iterator[tuple[Location, list[str]]]:
    """The records of a CSV file, all of one width; with ``header`` the first one is the names of the columns."""
    if len(separator) != 1:
        raise ValueError(f"separator is {separator!r}; one character is wanted")
    csv.field_size_limit(LONGEST_LINE)
    location = Location("", 0)

    def feed() -> Iterator[str]:
        nonlocal location
        for found, line in lines(source, encoding=encoding):
            location = found
            yield line + "\n"

    records = csv.reader(feed(), delimiter=separator, strict=True)
    width = 0
    while True:
        begin = records.line_num + 1
        try:
            fields = next(records, None)
        except csv.Error as error:
            raise DataError(location._replace(line=begin), f"not a record of a CSV file ({error})") from None
        if fields is None:
            return
        if not fields:
            continue
        start = location._replace(line=begin)
        if not width and header and len(set(fields)) < len(fields):
            raise DataError(start, "the names of the columns are not distinct")
        if len(fields) != (width := width or len(fields)):
            raise DataError(start, f"found {counted(len(fields), 'field')}; the first record has {width}")
        yield start, fields


def jsonl(source: Source, *, encoding: str = "utf-8") -> Iterator[tuple[Location, dict[str, Any]]]:
    """One JSON object in each line that is not empty."""
    for location, line in lines(source, encoding=encoding):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_constant=refuse)
        except json.JSONDecodeError as error:
            raise DataError(location, f"not JSON: {error.msg} at character {error.colno}") from None
        except (ValueError, RecursionError) as error:
            raise DataError(location, f"not usable JSON: {error}") from None
        if not isinstance(value, dict):
            raise DataError(location, f"found {type(value).__name__}; an object {{...}} is wanted")
        if "\\u" in line:
            checked(location, json.dumps(value, ensure_ascii=False).replace("\\u0000", "\0"))
        yield location, value


def refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is no number of JSON")


def labelled(source: Source, *, encoding: str = "utf-8") -> Iterator[tuple[Location, str, str]]:
    """Label and text of each line ``label text``; fastText's ``__label__`` before the label is dropped."""
    for location, line in lines(source, encoding=encoding):
        label, _, text = line.replace("\t", " ").strip(" ").partition(" ")
        text = line.strip(" \t")[len(label) :].strip(" \t")
        if not label:
            continue
        if not text:
            raise DataError(location, f"found only {label[:40]!r}; a label, a blank and a text are wanted")
        if label.startswith("__label__") and text.startswith("__label__"):
            raise DataError(location, "found several labels; one is wanted")
        yield location, label.removeprefix("__label__"), text


def parallel(source: Source, target: Source, *, encoding: str = "utf-8") -> Iterator[tuple[Location, str, str]]:
    """The lines of two files side by side; the location is that of the first."""
    first, second = lines(source, encoding=encoding), lines(target, encoding=encoding)
    for number, (left, right) in enumerate(itertools.zip_longest(first, second)):
        if left is None or right is None:
            counts = (
                number + (left is not None) + sum(1 for _ in first),
                number + (right is not None) + sum(1 for _ in second),
            )
            names = [str(one) if isinstance(one, Path) else "input" for one in (source, target)]
            alone = Location(names[left is None], number + 1)
            raise DataError(
                alone, f"is alone: {names[0]} has {counts[0]} lines, {names[1]} {counts[1]}; wanted as many"
            )
        yield left[0], left[1], right[1]
