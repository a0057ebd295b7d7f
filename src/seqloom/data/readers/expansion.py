"""A limit for compressed files: a small one must not become so large that it fills the memory or never ends."""

import io
import os
from typing import IO, Any, BinaryIO, cast

FREE_BYTES = 1 << 26
"""Decompressed bytes that are never refused."""
RATIO = 200
"""Decompressed bytes for each compressed one beyond which a file is refused; texts have 2 to 30."""
KEY = "SEQLOOM_MAX_EXPANSION"
"""The environment variable that sets another ratio (0: no limit)."""


class ExpansionError(OSError):
    """A file becomes too large when it is decompressed."""


def check_expansion(compressed: int, decompressed: int) -> None:
    """Raise ExpansionError if this is beyond what ordinary files become."""
    ratio = _ratio()
    if ratio and decompressed > max(FREE_BYTES, ratio * compressed):
        raise ExpansionError(
            f"{compressed:,} bytes become more than {decompressed - 1:,} when they are decompressed; if the file is "
            f"not damaged, raise the ratio of {ratio:g} that is allowed: {KEY}=10000 (0: no limit)"
        )


def limit_expansion(stream: IO[bytes], *, compressed: "CountingReader | int") -> BinaryIO:
    """A decompressed stream that raises ExpansionError where it becomes too large; ``compressed``: bytes it is from."""
    return cast(BinaryIO, io.BufferedReader(_LimitedReader(stream, compressed), 1 << 17))


class CountingReader(io.RawIOBase):
    """Passes bytes on, and counts them."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream: Any = stream
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.stream.read1(len(buffer))  # what was read before an error is passed on
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)


class _LimitedReader(CountingReader):
    def __init__(self, stream: IO[bytes], compressed: CountingReader | int) -> None:
        super().__init__(stream)
        self.compressed = compressed

    def readinto(self, buffer: Any) -> int:
        size = super().readinto(buffer)
        if self.count > FREE_BYTES:
            check_expansion(self.compressed if isinstance(self.compressed, int) else self.compressed.count, self.count)
        return size


def _ratio() -> float:
    try:
        return max(float(os.environ.get(KEY, RATIO)), 0.0)
    except ValueError:
        return RATIO
