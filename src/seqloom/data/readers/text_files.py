"""Text files in common formats, read line by line; every error names the file and the line.

Files may be gzipped or the only file of a zip archive. They may be members of a tar or zip archive, which is written
like a folder: ``train.tar.gz/fr/train.tsv``.
"""

import csv
import difflib
import gzip
import io
import itertools
import json
import os
import os.path
import re
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, Never, Self, cast

from seqloom.config.hints import nearest_file
from seqloom.config.template import PLACEHOLDER
from seqloom.data.readers.binary_formats import binary_format
from seqloom.data.readers.expansion import CountingReader, ExpansionError, check_expansion, limit_expansion
from seqloom.data.readers.utf16 import recode

LONGEST_LINE = 1 << 30  # bytes; a small .gz file may hold a line that fills the memory
SHOWN_NAME = 80  # characters of a file name in a message
STANDARD_INPUT = Path("-")
RUN_FILES = ("manifest.json", "learned.json")
"""Files by which the folder of a run is recognised."""
ZIP = b"PK\x03\x04"  # first bytes of a zip archive


WARNING = "warning: "
"""Start of a note about data that may be wrong."""


class Location(NamedTuple):
    """File and line."""

    file: str
    line: int  # counted from 1

    def __str__(self) -> str:
        return f"row {self.line} of the data (the first is 1)" if self.file == TABLE else f"{self.file}:{self.line}"


TABLE = "data"
"""The file of a location in a table in memory, such as a data frame."""


class DataError(ValueError):
    """A problem in a data file, with its location."""

    def __init__(self, location: Location | str, message: str) -> None:
        super().__init__(location, message)
        self.location = location
        self.message = message

    def __str__(self) -> str:
        return f"{self.location}: {self.message}"


class MissingTargetError(DataError):
    """An example has no target; ``remedy`` says what to do about all of them."""

    def __init__(self, location: Location | str, message: str, remedy: str) -> None:
        super().__init__(location, message)
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{super().__str__()}: {self.remedy}"


class UnopenedFile(str):
    """The name of a file that a run from someone else may contain: ``resolve`` refuses it."""

    __slots__ = ("key", "option", "run")
    run: str
    key: str  # of its configuration
    option: str  # that names the file again

    def __new__(cls, name: str, *, run: object, key: str, option: str) -> Self:
        file = super().__new__(cls, name)
        file.run, file.key, file.option = str(run), key, option
        return file

    @property
    def reason(self) -> str:
        """Why it is not opened, and what to do."""
        name = repr(str(self))
        shown = name if len(name) <= SHOWN_NAME else f"{name[: SHOWN_NAME - 1]}…"
        return (
            f"its configuration names the file {shown} ({self.key}), which is not opened, since a run may come from "
            f"someone else: name the file again with --{self.option}, or in Python {self.option}=…"
        )


Source = Path | Sequence[Any]
"""A file (``-`` is standard input) or a list of Python values."""


def resolve(text: str, *, may_be_run: bool = False) -> Path:
    """The path that a text names, checked to exist; ``$NAME`` is an environment variable, ``-`` standard input.

    The path may stand for two files (``x.{en,de}``) or end in a range of rows (``x.csv[0:10]``). A run is no data: its
    files would be read as texts and labels.
    """
    if isinstance(text, UnopenedFile):
        raise DataError(text.run, text.reason)
    values: list[str] = []

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in os.environ:
            raise DataError(text, f"the environment variable {name} is not set")
        values.append(os.environ[name])
        return values[-1]

    if not text or "\0" in text:
        raise DataError(repr(text), "not a file name")
    path = Path(re.sub(r"\$(?:(\w+)|\{(\w+)\})", value, text))
    with suppress(RuntimeError):  # no such user: ~name is the name of a folder
        path = path.expanduser()
    for file in expand(path) if path != STANDARD_INPUT else ():
        if not os.path.lexists(file) and not enclosing_archive(file):
            if not all(map(os.path.lexists, values)):  # a value that is no path may be a secret
                raise DataError(text, "no such file")
            raise no_such_file(file)
        if not may_be_run and all(os.path.isfile(file / name) for name in RUN_FILES):  # noqa: PTH113  of any length
            raise DataError(str(file), "a run, not data: give a file, or a folder with the data")
    return path


def expand(path: Path) -> list[Path]:
    """The files that a path stands for: ``x.{en,de}`` is two files, ``x.csv[0:10]`` a range of one."""
    if not path.name or os.path.lexists(path):
        return [path]
    if braces := re.fullmatch(r"(.*)(?<!\$)\{([^{},]*),([^{},]*)\}(.*)", str(path)):
        return [Path(f"{braces[1]}{side}{braces[4]}") for side in (braces[2], braces[3])]
    return [path.with_name(re.sub(r"(?<=.)\[[^\[\]]*\]$", "", path.name))]


def refuse_stream(path: Path) -> None:
    """DataError if a path can be read only once: standard input, a pipe or a device."""
    for file in [path] if path == STANDARD_INPUT else expand(path):
        if file == STANDARD_INPUT or (file.exists() and not (file.is_file() or file.is_dir())):
            name = "standard input" if file == STANDARD_INPUT else str(file)
            raise DataError(name, "training reads its data several times, and this can be read once: use a file")


def no_such_file(path: Path) -> DataError:
    """The error for a file that does not exist, with the most similar name in its folder."""
    if path.as_posix().startswith(PLACEHOLDER):
        return DataError(
            path.as_posix(),
            "still the placeholder of the template: set task.train and task.dev to your files (an empty "
            "task.dev holds out part of the training file)",
        )
    try:
        os.listdir(path.parent)  # noqa: PTH208  only whether it can be read
    except OSError as error:
        return DataError(str(path), f"no such file; cannot read its folder: {error.strerror or error}")
    near = nearest_file(path)
    return DataError(str(path), "no such file" + (f"; did you mean {near}?" if near else ""))


def no_such_column(location: Location | str, column: int, width: int, *, key: str) -> DataError:
    """The error for a configured column that a table does not have."""
    there_are = (
        "there is only 1 column" if width == 1 else f"there are only {width} columns (0 to {width - 1}; -1 is the last)"
    )
    return DataError(location, f"task.{key} is {column}, but {there_are}")


def enclosing_archive(path: Path) -> Path | None:
    """The archive that a path leads into; None for an ordinary path."""
    return next((parent for parent in path.parents if os.path.isfile(parent)), None)  # noqa: PTH113  accepts names of any length


class Member(NamedTuple):
    """A file or a folder in an archive."""

    name: str
    is_file: bool
    open: Callable[[], IO[bytes]]
    """Of a compressed tar archive, to be called before the next member is read: going back takes long."""


@contextmanager
def open_archive(archive: Path) -> Iterator[Iterator[Member]]:
    """What a tar or zip archive holds, in its order; while it is open, damage is a DataError."""
    with _reporting_damage(archive):
        if is_zip(archive):
            with zipfile.ZipFile(archive) as zip_file:
                yield (
                    Member(name, is_file=True, open=partial(_open_zipped, zip_file, name))
                    for name in zip_members(zip_file)
                )
        else:
            with tarfile.open(archive) as tar:
                yield (
                    Member(
                        entry.name.removeprefix("./"),
                        is_file=entry.isreg(),
                        open=partial(_open_tarred, tar, entry, archive),
                    )
                    for entry in tar
                )


def _open_zipped(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    return limit_expansion(archive.open(name), compressed=archive.getinfo(name).compress_size)


def _open_tarred(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> IO[bytes]:
    check_expansion(path.stat().st_size, entry.size)
    stream = archive.extractfile(entry)
    assert stream is not None  # noqa: S101  it is a regular file
    return stream


@contextmanager
def _reporting_damage(archive: Path) -> Iterator[None]:
    """In this context, an archive that cannot be read is a DataError."""
    try:
        yield
    except ExpansionError as error:
        raise DataError(str(archive), str(error)) from None
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        reason = str(error).partition("\n")[0].rstrip(":")  # tarfile adds a line for each compression that it has tried
        raise DataError(str(archive), f"not a tar or zip archive, or damaged ({reason})") from None
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise _damaged_zip(archive, error) from None


def _damaged_zip(archive: Path, error: Exception) -> DataError:
    return DataError(str(archive), f"the zip archive is damaged, encrypted or unsupported ({error})")


@contextmanager
def _open_member(path: Path, archive: Path) -> Iterator[IO[bytes]]:
    """A file in an archive, opened; DataError suggests the most similar name."""
    name = path.relative_to(archive).as_posix()
    with open_archive(archive) as members:
        files = {member.name: member for member in members if member.is_file}
        if name not in files:
            similar = difflib.get_close_matches(name, files, n=1)
            advice = "".join(f"; did you mean {archive / other}?" for other in similar)
            raise DataError(str(path), f"no such file in the archive{advice}")
        with files[name].open() as stream:
            yield stream


def is_zip(file: Path) -> bool:
    """Whether a file is a zip archive."""
    try:
        with file.open("rb") as stream:
            return stream.read(len(ZIP)) == ZIP
    except OSError:  # the next read reports it
        return False


@contextmanager
def open_binary(path: Path, name: str) -> Iterator[BinaryIO]:
    """A file opened for reading bytes, decompressed; standard input is not closed."""
    try:
        with _open_binary(path, name) as stream:
            yield stream
    except ExpansionError as error:
        raise DataError(name, str(error)) from None


@contextmanager
def open_text(path: Path, name: str, *, encoding: str) -> Iterator[tuple[BinaryIO, str]]:
    """A file opened for reading lines of bytes, and their encoding: UTF-16 becomes UTF-8, whatever is configured."""
    with open_binary(path, name) as stream:
        recoded = recode(stream)
        yield (stream, encoding) if recoded is None else (recoded, "utf-8")


@contextmanager
def _open_binary(path: Path, name: str) -> Iterator[BinaryIO]:
    if name == "standard input":
        yield decompress(sys.stdin.buffer)
        return
    if archive := enclosing_archive(path):
        with _open_member(path, archive) as member:
            yield decompress(cast(BinaryIO, member))
        return
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        raise no_such_file(path) from None
    except IsADirectoryError:
        raise DataError(name, "expected a file, found a folder") from None
    except (OSError, ValueError) as error:
        raise DataError(name, f"cannot open the file: {getattr(error, 'strerror', None) or error}") from None
    with stream:
        yield _unzip(stream, path) if _starts_with(stream, ZIP) else decompress(stream)


def zip_members(archive: zipfile.ZipFile) -> list[str]:
    """The names of the files in a zip archive, without those that macOS adds."""
    names = (info.filename for info in archive.infolist() if not info.is_dir())
    return [name for name in names if not name.startswith("__MACOSX/") and not name.endswith(".DS_Store")]


def _unzip(stream: BinaryIO, path: Path) -> BinaryIO:
    """The only file of a zip archive; Office documents and NumPy's .npz files are left as they are."""
    try:
        archive = zipfile.ZipFile(stream)
        names = zip_members(archive)
        if "[Content_Types].xml" in names or any(name.endswith(".npy") for name in names):
            stream.seek(0)
            return stream
        if len(names) == 1:
            size = archive.getinfo(names[0]).compress_size
            return decompress(limit_expansion(archive.open(names[0]), compressed=size))
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
        raise _damaged_zip(path, error) from None
    shown = ", ".join(names[:10]) + (" …" if len(names) > 10 else "")
    raise DataError(
        str(path),
        f"a zip archive of {pluralize(len(names), 'file')}{': ' if names else ''}{shown}"
        + (f"; name one of them: {path / names[0]}" if names else ""),
    )


def decompress(stream: BinaryIO) -> BinaryIO:
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, stream))
    if not _starts_with(buffered, b"\x1f\x8b"):
        return cast(BinaryIO, buffered)
    counted = CountingReader(buffered)
    return limit_expansion(
        cast(BinaryIO, gzip.GzipFile(fileobj=cast(BinaryIO, counted), mode="rb")), compressed=counted
    )


def _starts_with(stream: io.BufferedReader, magic: bytes) -> bool:
    try:
        return stream.peek(len(magic))[: len(magic)] == magic
    except OSError:  # the next read reports it with its location
        return False


def lines(source: Source, *, encoding: str = "utf-8") -> Iterator[tuple[Location, str]]:
    """Each line without its line ending (LF or CRLF); gzip and a byte order mark are removed."""
    if problem := encoding_problem(encoding):
        raise ValueError(f"encoding {encoding!r}: {problem}")
    if isinstance(source, Path):
        yield from _file_lines(source, encoding=encoding)
        return
    if isinstance(source, str):
        raise DataError("input", "expected a list of strings or a Path, found a single string")
    for number, text in enumerate(source, start=1):
        location = Location("input", number)
        if not isinstance(text, str):
            raise DataError(location, f"expected a string, found {type(text).__name__}")
        check_text(location, text)
        yield location, text


def encoding_problem(name: str) -> str:
    """Why an encoding cannot be used to read lines; empty if it can."""
    try:
        if b"a\n".decode(name) == "a\n":
            return ""
    except UnicodeError:
        pass
    except (LookupError, ValueError):
        return "unknown text encoding; use utf-8, latin-1, cp1252, gb18030 or another encoding of Python"
    if name.lower().replace("_", "-").startswith("utf-16"):
        return "unsupported; leave it out: UTF-16 is known by its byte order mark, and without one convert the files"
    return "unsupported, since a line feed is not a single byte; convert the files to UTF-8"


def check_text(location: Location, text: str) -> None:
    """Reject what cannot be written to a UTF-8 text file."""
    if "\0" in text:
        raise DataError(location, "found a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(location, f"found an unpaired surrogate at character {error.start + 1}") from None


def _file_lines(path: Path, *, encoding: str) -> Iterator[tuple[Location, str]]:
    name = "standard input" if path == STANDARD_INPUT else str(path)
    number = 0
    with open_text(path, name, encoding=encoding) as (stream, encoding):
        while True:
            location = Location(name, number + 1)
            try:
                raw = stream.readline(LONGEST_LINE)
            except ExpansionError:
                raise
            except UnicodeDecodeError as error:
                raise not_utf16(name, error) from None
            except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, zipfile.BadZipFile) as error:
                raise DataError(location, f"the compressed data are damaged or truncated here ({error})") from None
            except OSError as error:
                raise DataError(location, f"cannot read the file: {error.strerror or error}") from None
            if not raw:
                return
            number += 1
            if number == 1 and (kind := binary_format(raw)):
                raise DataError(name, f"expected text, found {kind}")
            yield location, decode_line(location, raw, encoding=encoding)


def not_utf16(name: str, error: UnicodeDecodeError) -> DataError:
    """The error for a file that starts like UTF-16; its line is not known, as many bytes are decoded at once."""
    return DataError(name, f"the byte order mark is that of UTF-16, but the text is not valid: {error.reason}")


def decode_line(location: Location, raw: bytes, *, encoding: str) -> str:
    if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
        raise DataError(location, f"the line is longer than {LONGEST_LINE} bytes")
    if location.line == 1:
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in raw:
        raise DataError(location, f"expected text, found a NUL byte at byte {raw.index(0) + 1} of the line")
    try:
        text = raw.removesuffix(b"\n").removesuffix(b"\r").decode(encoding)
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        raise DataError(
            location,
            f"expected {encoding.upper()}, found byte 0x{raw[start]:02x} at byte {start + 1} of the line; "
            'for another encoding set it, for example task.encoding = "latin-1", or predict --encoding latin-1',
        ) from None
    if encoding != "utf-8":
        check_text(location, text)
    return text


def tsv(
    source: Source, *, separator: str = "\t", columns: int | None = None, encoding: str = "utf-8"
) -> Iterator[tuple[Location, list[str]]]:
    """The columns of each non-empty line; ``columns`` is the required number of columns."""
    for location, line in lines(source, encoding=encoding):
        if line:
            fields = line.split(separator)
            if columns is not None and len(fields) != columns:
                raise DataError(
                    location,
                    f"expected {pluralize(columns, 'column')} separated by {separator!r}, found {len(fields)}",
                )
            yield location, fields


def pluralize(number: int, noun: str) -> str:
    """``1 column``, ``2,000 columns``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def delimited(
    source: Source, *, separator: str = ",", header: bool, encoding: str = "utf-8"
) -> Iterator[tuple[Location, list[str]]]:
    """The records of a CSV file, all of the same width; ``header``: the first one holds column names."""
    width = 0
    for location, fields in split_records(lines(source, encoding=encoding), separator=separator):
        if not width and header and len(set(fields)) < len(fields):
            raise DataError(location, "duplicate column names")
        width = len(fields)
        yield location, fields


def split_records(
    numbered_lines: Iterator[tuple[Location, str]], *, separator: str
) -> Iterator[tuple[Location, list[str]]]:
    """The records of CSV lines, all of the same width; a quoted field may span several lines."""
    if len(separator) != 1:
        raise ValueError(f"separator: expected a single character, found {separator!r}")
    csv.field_size_limit(LONGEST_LINE)
    location = Location("", 0)
    start = 0  # lines before the first one

    def text_lines() -> Iterator[str]:
        nonlocal location, start
        for number, (current, line) in enumerate(numbered_lines, start=1):
            location, start = current, current.line - number
            yield line + "\n"

    records = csv.reader(text_lines(), delimiter=separator, strict=True)
    width = 0
    while True:
        before = records.line_num
        try:
            fields = next(records, None)
        except csv.Error as error:
            raise DataError(
                location._replace(line=start + before + 1),
                f"not a CSV record: a quotation mark opens a field here, and {_csv_problem(error, separator)}; "
                'inside quotes, a quotation mark is written twice ("")',
            ) from None
        if fields is None:
            return
        if not fields:
            continue
        first_line = location._replace(line=start + before + 1)
        width = width or len(fields)
        check_width(first_line, fields, width)
        yield first_line, fields


def _csv_problem(error: csv.Error, separator: str) -> str:
    return f"none closes it before a {separator!r}" if "expected after" in str(error) else "none closes it"


def check_width(location: Location, fields: Sequence[str], width: int) -> None:
    """DataError unless a record has as many fields as the first one."""
    if len(fields) != width:
        raise DataError(location, f"expected {pluralize(width, 'field')} as in the first record, found {len(fields)}")


def jsonl(source: Source, *, encoding: str = "utf-8") -> Iterator[tuple[Location, dict[str, Any]]]:
    """The JSON object of each non-empty line."""
    for location, line in lines(source, encoding=encoding):
        if line.strip():
            yield location, parse_json_object(location, line)


def parse_json_object(location: Location, line: str) -> dict[str, Any]:
    """The JSON object of a line."""
    try:
        value = json.loads(line, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        raise DataError(location, f"invalid JSON: {error.msg} at character {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(location, f"invalid JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(location, f"expected a JSON object {{...}}, found {type(value).__name__}")
    if "\\u" in line:
        check_text(location, json.dumps(value, ensure_ascii=False).replace("\\u0000", "\0"))
    return value


def _reject_constant(constant: str) -> Never:
    raise ValueError(f"{constant} is not a JSON number")


def labelled(source: Source, *, encoding: str = "utf-8") -> Iterator[tuple[Location, str, str]]:
    """Label and text of each line ``label text``; fastText's prefix ``__label__`` is removed."""
    for location, line in lines(source, encoding=encoding):
        label, _, text = line.replace("\t", " ").strip(" ").partition(" ")
        text = line.strip(" \t")[len(label) :].strip(" \t")
        if not label:
            continue
        if not text:
            raise DataError(location, f"expected a label and a text separated by a space, found only {label[:40]!r}")
        if label.startswith("__label__") and text.startswith("__label__"):
            raise DataError(location, "expected one label, found several")
        yield location, label.removeprefix("__label__"), text


def parallel(source: Source, target: Source, *, encoding: str = "utf-8") -> Iterator[tuple[Location, str, str]]:
    """The lines of two files side by side, with the location in the first."""
    first, second = lines(source, encoding=encoding), lines(target, encoding=encoding)
    for number, (left, right) in enumerate(itertools.zip_longest(first, second)):
        if left is None or right is None:
            counts = (
                number + (left is not None) + sum(1 for _ in first),
                number + (right is not None) + sum(1 for _ in second),
            )
            names = [str(side) if isinstance(side, Path) else "input" for side in (source, target)]
            raise DataError(
                Location(names[left is None], number + 1),
                f"this line has no counterpart: {names[0]} has {pluralize(counts[0], 'line')}, "
                f"{names[1]} has {counts[1]:,}",
            )
        yield left[0], left[1], right[1]
