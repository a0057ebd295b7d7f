"""UTF-16 files, such as Excel saves as Unicode text, read as UTF-8: known by their byte order mark."""

import codecs
import io
import tarfile
import zipfile
import zlib
from typing import Any, BinaryIO, cast

MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def recode(stream: BinaryIO) -> BinaryIO | None:
    """The UTF-8 bytes of a buffered stream of UTF-16; None: it does not start with the byte order mark of UTF-16."""
    peek: Any = getattr(stream, "peek", None)
    try:
        start = peek(2)[:2] if peek is not None else b""
    except (
        OSError,
        EOFError,
        zlib.error,
        tarfile.TarError,
        zipfile.BadZipFile,
    ):
        return None  # the next read reports it with its location
    return cast(BinaryIO, io.BufferedReader(_Recoder(stream))) if start in MARKS else None


class _Recoder(io.RawIOBase):
    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.decoder = codecs.getincrementaldecoder("utf-16")()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data, read = b"", b"start"
        while read and not data:
            read = self.stream.read(max(len(buffer) // 2, 1))  # two bytes become at most three
            data = self.decoder.decode(read, final=not read).encode()
        buffer[: len(data)] = data
        return len(data)
