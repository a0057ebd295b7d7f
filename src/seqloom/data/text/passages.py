"""Text of any size, some ten thousand words at a time: whole lines as long as they are not too long."""

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from seqloom.data.readers.text_files import DataError, Location, Source, checked, decode, encoding_problem, opened

SIZE = 1 << 17  # bytes of a passage, about: enough to learn from while what it needs is in the caches
LONGEST = 1 << 20  # bytes without any white space
BLANKS = b" \t\n\v\f\r"


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a text: lines, or a part of a long line."""

    location: Location  # of its first line
    data: bytes  # UTF-8
    count: int  # of words, about

    def __len__(self) -> int:
        return self.count


def passages(source: Source, *, encoding: str = "utf-8", lower: bool = False) -> Iterator[Passage]:
    """The passages of a file, of all files of a folder, or of a list of texts, each of which is one."""
    if wrong := encoding_problem(encoding):
        raise ValueError(f"encoding is {encoding!r}: {wrong}")
    if not isinstance(source, Path):
        for number, text in enumerate(source, start=1):
            location = Location("input", number)
            if not isinstance(text, str):
                raise DataError(location, f"found {type(text).__name__}; a text is wanted")
            checked(location, text)
            yield _passage(location, (text.lower() if lower else text).encode())
        return
    for path in sorted(each for each in source.iterdir() if each.is_file()) if source.is_dir() else [source]:
        for location, raw in _pieces(path):
            if encoding == "utf-8" and not lower:
                _decoded(location, raw, encoding)
                yield _passage(location, raw)
            else:
                text = _decoded(location, raw, encoding)
                yield _passage(location, (text.lower() if lower else text).encode())


def _passage(location: Location, text: bytes) -> Passage:
    return Passage(location, text, text.count(b" ") + text.count(b"\n") + (not text.endswith((b" ", b"\n"))))


def _decoded(location: Location, raw: bytes, encoding: str) -> str:
    """The text of a passage; what is wrong in it is told with its line."""
    try:
        if b"\0" not in raw:
            return raw.decode(encoding)
    except UnicodeError:
        pass
    return "".join(
        decode(location._replace(line=location.line + number), line, encoding=encoding)
        for number, line in enumerate(raw.splitlines(keepends=True) if b"\r" not in raw else raw.split(b"\n"))
    )


def _pieces(path: Path) -> Iterator[tuple[Location, bytes]]:
    """The bytes of a file, cut behind the end of a line, or else behind a blank."""
    name = "standard input" if path == Path("-") else str(path)
    line, left = 1, b""
    with opened(path, name) as stream:
        while True:
            new = _read(stream, Location(name, line))
            first = line == 1 and not left
            if first and new.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise DataError(Location(name, 1), "found UTF-16; a text in which a line feed is one byte is wanted")
            left += new.removeprefix(b"\xef\xbb\xbf") if first else new
            end = (left.rfind(b"\n") if new else len(left) - 1) + 1
            if not end and len(left) >= SIZE:
                end = max(left.rfind(blank) for blank in BLANKS) + 1
            if not end and len(left) > LONGEST:
                raise DataError(Location(name, line), f"found {len(left)} bytes without a blank; text is wanted")
            if end:
                yield Location(name, line), left[:end]
                line += left.count(b"\n", 0, end)
                left = left[end:]
            if not new:
                return


def _read(stream: BinaryIO, location: Location) -> bytes:
    try:
        return stream.read(SIZE)
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
        raise DataError(location, f"the packed data are damaged or cut off here ({error})") from None
    except OSError as error:
        raise DataError(location, f"cannot be read: {error.strerror or error}") from None
