"""Text of any size in passages of some ten thousand words: whole lines unless they are very long."""

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from seqloom.data.readers.expansion import ExpansionError
from seqloom.data.readers.text_files import (
    STANDARD_INPUT,
    DataError,
    Location,
    Source,
    check_text,
    decode_line,
    encoding_problem,
    not_utf16,
    open_text,
)

SIZE = 1 << 17  # approximate bytes of a passage: long enough to train on, short enough to stay in the cache
LONGEST = 1 << 20  # bytes without whitespace
WHITESPACE = b" \t\n\v\f\r"


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text: whole lines, or a part of a long line."""

    location: Location  # location of its first line
    data: bytes  # UTF-8
    count: int  # approximate number of words

    def __len__(self) -> int:
        return self.count


def passages(source: Source, *, encoding: str = "utf-8", lowercase: bool = False) -> Iterator[Passage]:
    """The passages of a file or of all files in a folder; of a list of strings each is a passage."""
    if problem := encoding_problem(encoding):
        raise ValueError(f"encoding {encoding!r}: {problem}")
    if not isinstance(source, Path):
        for number, text in enumerate(source, start=1):
            location = Location("input", number)
            if not isinstance(text, str):
                raise DataError(location, f"expected a string, found {type(text).__name__}")
            check_text(location, text)
            yield _passage(location, (text.lower() if lowercase else text).encode())
        return
    for path in sorted(file for file in source.iterdir() if file.is_file()) if source.is_dir() else [source]:
        for location, raw, encoded in _chunks(path, encoding):
            if encoded == "utf-8" and not lowercase:
                _decode(location, raw, encoded)
                yield _passage(location, raw)
            else:
                text = _decode(location, raw, encoded)
                yield _passage(location, (text.lower() if lowercase else text).encode())


def _passage(location: Location, text: bytes) -> Passage:
    return Passage(location, text, text.count(b" ") + text.count(b"\n") + (not text.endswith((b" ", b"\n"))))


def _decode(location: Location, raw: bytes, encoding: str) -> str:
    """The text of a passage; errors name the line."""
    try:
        if b"\0" not in raw:
            return raw.decode(encoding)
    except UnicodeError:
        pass
    return "".join(
        decode_line(location._replace(line=location.line + number), line, encoding=encoding)
        for number, line in enumerate(raw.splitlines(keepends=True) if b"\r" not in raw else raw.split(b"\n"))
    )


def _chunks(path: Path, encoding: str) -> Iterator[tuple[Location, bytes, str]]:
    """The bytes of a file, cut at line ends, or else at whitespace, and their encoding."""
    name = "standard input" if path == STANDARD_INPUT else str(path)
    line, rest = 1, b""
    with open_text(path, name, encoding=encoding) as (stream, encoding):
        while True:
            new = _read(stream, Location(name, line))
            first = line == 1 and not rest
            rest += new.removeprefix(b"\xef\xbb\xbf") if first else new
            end = (rest.rfind(b"\n") if new else len(rest) - 1) + 1
            if not end and len(rest) >= SIZE:
                end = max(rest.rfind(space) for space in WHITESPACE) + 1
            if not end and len(rest) > LONGEST:
                raise DataError(Location(name, line), f"expected text, found {len(rest)} bytes without whitespace")
            if end:
                yield Location(name, line), rest[:end], encoding
                line += rest.count(b"\n", 0, end)
                rest = rest[end:]
            if not new:
                return


def _read(stream: BinaryIO, location: Location) -> bytes:
    try:
        return stream.read(SIZE)
    except ExpansionError:
        raise
    except UnicodeDecodeError as error:
        raise not_utf16(location.file, error) from None
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
        raise DataError(location, f"the compressed data are damaged or truncated here ({error})") from None
    except OSError as error:
        raise DataError(location, f"cannot read the file: {error.strerror or error}") from None
