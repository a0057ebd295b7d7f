"""Sound from files (WAV, FLAC, Ogg, NIST SPHERE; needs soundfile) and from streams of raw samples."""

import io
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.file_lists import BadContent
from seqloom.data.readers.text_files import DataError, opened

Samples = NDArray[np.float32]

SUFFIXES = (".wav", ".flac", ".sph", ".ogg", ".oga", ".wave")
BEGINNINGS = (b"RIFF", b"RIFX", b"RF64", b"fLaC", b"NIST_1A", b"OggS")
SLOWEST, FASTEST = 1000, 1_000_000  # samples in a second: others are lies, or no sound
BLOCK = 1 << 16  # samples that are read at once: what a header promises is not trusted
UNKNOWN = 0xFFFFFFFF  # length in the header of a WAV file that was written to a pipe
SCALE = np.float32(1 / 32768)  # of samples of 16 bits
HEADER = 1 << 16  # bytes at the start in which a header is looked for


class Sound(NamedTuple):
    """Samples of one channel, between -1 and 1 as a rule."""

    samples: Samples  # (N,)
    rate: int  # in a second


def read_sound(source: Path | IO[bytes], *, name: str = "") -> Sound:
    """The sound of a file, which may be in a tar archive, or of its bytes; several channels become their mean."""
    location = name or (str(source) if isinstance(source, Path) else str(getattr(source, "name", "input")))
    try:
        if isinstance(source, Path):
            with opened(source, location) as stream:
                return decode(io.BytesIO(stream.read()))
        return decode(source)
    except BadContent as error:
        raise DataError(location, str(error)) from None


def decode(stream: IO[bytes]) -> Sound:
    """The sound of a whole file; a BadContent where there is none."""
    data = stream.read()
    if not data.startswith(BEGINNINGS):
        raise BadContent(f"is no WAV, FLAC, Ogg or SPHERE file: it begins with {data[:8]!r}" if data else "is empty")
    promised = _promised(data)
    library = _soundfile()
    blocks = []
    try:
        with library.SoundFile(io.BytesIO(data)) as file:
            rate, length = file.samplerate, file.frames
            while len(block := file.read(BLOCK, dtype="float32", always_2d=True)):
                blocks.append(block.mean(axis=1))
    except (library.SoundFileError, RuntimeError, TypeError, ValueError) as error:
        raise BadContent(f"is damaged, or of a kind that is not read ({_reason(error)})") from None
    check_rate(rate)
    samples = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
    if len(samples) < max(length, promised):
        raise BadContent(f"says that it has {max(length, promised)} samples, and has {len(samples)}: it is cut off")
    return Sound(checked(samples), rate)


def check_rate(rate: int) -> None:
    if not SLOWEST <= rate <= FASTEST:
        raise BadContent(f"says that it has {rate} samples in a second; {SLOWEST} to {FASTEST} are wanted")


def checked(samples: Samples) -> Samples:
    """The samples, if there are some, and all are numbers."""
    if not len(samples):
        raise BadContent("has no samples")
    finite = np.isfinite(samples)
    if not finite.all():
        at = int(np.argmin(finite))
        raise BadContent(f"has {samples[at]} as sample {at + 1}; a number is wanted")
    return samples


def pcm(stream: IO[bytes], *, size: int = 1600, name: str = "standard input") -> Iterator[Samples]:
    """Raw samples of 16 bits, little-endian, one channel, as they come: at most ``size`` at once."""
    read = getattr(stream, "read1", stream.read)  # what is there, without waiting for more
    rest = b""
    while data := read(2 * size):
        data = rest + data
        whole = len(data) // 2 * 2
        rest = data[whole:]
        if whole:
            yield np.frombuffer(data[:whole], dtype="<i2").astype(np.float32) * SCALE
    if rest:
        raise DataError(name, "ends in the middle of a sample; samples of 16 bits are wanted")


def resample(samples: Samples, rate: int, wanted: int) -> Samples:
    """The same sound with another number of samples in a second."""
    if rate == wanted:
        return samples
    import torch

    from seqloom.kernels import resample as kernel

    found: Samples = kernel.resample(torch.from_numpy(np.ascontiguousarray(samples)), up=wanted, down=rate).numpy()
    return found


def _promised(data: bytes) -> int:
    """How many samples of each channel a header says that there are, where the library takes fewer without a word."""
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return _promised_by_wav(data)
    if data.startswith(b"NIST_1A"):
        found = re.search(rb"\bsample_count -i (\d{1,18})\s", data[:HEADER])
        return int(found[1]) if found else 0
    return 0


def _promised_by_wav(data: bytes) -> int:
    offset, frame = 12, 0  # bytes of one sample of all channels
    while offset + 8 <= len(data):
        kind, size = data[offset : offset + 4], struct.unpack_from("<I", data, offset + 4)[0]
        if kind == b"fmt " and offset + 24 <= len(data):
            code, frame = (
                struct.unpack_from("<H", data, offset + 8)[0],
                struct.unpack_from("<H", data, offset + 20)[0],
            )
            frame = frame if code in (1, 3, 6, 7, 0xFFFE) else 0  # others are packed in blocks
        if kind == b"data":
            return size // frame if frame and size != UNKNOWN else 0
        offset += 8 + size + size % 2
    return 0


def _reason(error: Exception) -> str:
    """What the library says, without the name that it gives to bytes in memory."""
    return str(error).rpartition(">: ")[2].strip().rstrip(".")


def _soundfile() -> Any:
    try:
        import soundfile
    except (ModuleNotFoundError, OSError):  # OSError: without the library of C that it calls
        raise ModuleNotFoundError(
            "sound is read by soundfile, which is missing: pip install 'seqloom[audio]'", name="soundfile"
        ) from None
    return soundfile
