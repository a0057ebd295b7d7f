"""Audio from files (WAV, FLAC, Ogg, NIST SPHERE; needs soundfile) and from streams of raw PCM samples."""

import io
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.file_lists import ContentError
from seqloom.data.readers.text_files import DataError, open_binary

Samples = NDArray[np.float32]

SUFFIXES = (".wav", ".flac", ".sph", ".ogg", ".oga", ".wave")
MAGIC = (b"RIFF", b"RIFX", b"RF64", b"fLaC", b"NIST_1A", b"OggS")
MIN_RATE, MAX_RATE = 1000, 1_000_000  # Hz; other values mean a damaged header
BLOCK = 1 << 16  # samples read at a time: the length in a header is not trusted
UNKNOWN_LENGTH = 0xFFFFFFFF  # in the header of a WAV file that was written to a pipe
SCALE = np.float32(1 / 32768)  # 16-bit samples to the range from -1 to 1
HEADER = 1 << 16  # bytes that are searched for a header


class Audio(NamedTuple):
    """Samples of one channel, usually between -1 and 1."""

    samples: Samples  # (N,)
    rate: int  # samples per second


def read_audio(source: Path | IO[bytes], *, name: str = "") -> Audio:
    """The audio of a file, which may be in a tar archive, or of a stream; channels are averaged."""
    location = name or (str(source) if isinstance(source, Path) else str(getattr(source, "name", "input")))
    try:
        if isinstance(source, Path):
            with open_binary(source, location) as stream:
                return decode(io.BytesIO(stream.read()))
        return decode(source)
    except ContentError as error:
        raise DataError(location, str(error)) from None


def decode(stream: IO[bytes]) -> Audio:
    """The audio of a whole file."""
    data = stream.read()
    if not data.startswith(MAGIC):
        start = f"bytes {data[:8]!r}" if data else "an empty file"
        raise ContentError(f"expected a WAV, FLAC, Ogg or SPHERE file, found {start}")
    announced = _announced_length(data)
    library = _soundfile()
    blocks = []
    try:
        with library.SoundFile(io.BytesIO(data)) as file:
            rate, length = file.samplerate, file.frames
            while len(block := file.read(BLOCK, dtype="float32", always_2d=True)):
                blocks.append(block.mean(axis=1))
    except (library.SoundFileError, RuntimeError, TypeError, ValueError) as error:
        raise ContentError(f"damaged or unsupported audio file ({_reason(error)})") from None
    check_rate(rate)
    samples = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
    if len(samples) < max(length, announced):
        raise ContentError(f"truncated: expected {max(length, announced)} samples, found {len(samples)}")
    return Audio(check_samples(samples), rate)


def check_rate(rate: int) -> None:
    if not MIN_RATE <= rate <= MAX_RATE:
        raise ContentError(f"expected a sample rate from {MIN_RATE} to {MAX_RATE} Hz, found {rate}")


def check_samples(samples: Samples) -> Samples:
    """The samples, if there are any and all are finite."""
    if not len(samples):
        raise ContentError("no samples")
    finite = np.isfinite(samples)
    if not finite.all():
        at = int(np.argmin(finite))
        raise ContentError(f"sample {at + 1}: expected a finite number, found {samples[at]}")
    return samples


def pcm(stream: IO[bytes], *, size: int = 1600, name: str = "standard input") -> Iterator[Samples]:
    """Chunks of raw PCM samples (16 bits, little-endian, mono) as they arrive, at most ``size`` at a time."""
    read = getattr(stream, "read1", stream.read)  # returns what is available without waiting for more
    rest = b""
    while data := read(2 * size):
        data = rest + data
        whole = len(data) // 2 * 2
        rest = data[whole:]
        if whole:
            yield np.frombuffer(data[:whole], dtype="<i2").astype(np.float32) * SCALE
    if rest:
        raise DataError(name, "the stream ends in the middle of a 16-bit sample")


def resample(samples: Samples, rate: int, target_rate: int) -> Samples:
    """The samples at another sample rate."""
    if rate == target_rate:
        return samples
    import torch

    from seqloom.kernels import resample as kernel

    signal = torch.from_numpy(np.ascontiguousarray(samples))
    resampled: Samples = kernel.resample(signal, up=target_rate, down=rate).numpy()
    return resampled


def _announced_length(data: bytes) -> int:
    """Samples per channel according to the header, where the library accepts fewer silently; 0: unknown."""
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return _wav_length(data)
    if data.startswith(b"NIST_1A"):
        match = re.search(rb"\bsample_count -i (\d{1,18})\s", data[:HEADER])
        return int(match[1]) if match else 0
    return 0


def _wav_length(data: bytes) -> int:
    offset = 12
    frame = 0  # bytes per sample of all channels
    while offset + 8 <= len(data):
        kind, size = data[offset : offset + 4], struct.unpack_from("<I", data, offset + 4)[0]
        if kind == b"fmt " and offset + 24 <= len(data):
            (code,) = struct.unpack_from("<H", data, offset + 8)
            (frame,) = struct.unpack_from("<H", data, offset + 20)
            frame = frame if code in (1, 3, 6, 7, 0xFFFE) else 0  # other codecs compress blocks of samples
        if kind == b"data":
            return size // frame if frame and size != UNKNOWN_LENGTH else 0
        offset += 8 + size + size % 2
    return 0


def _reason(error: Exception) -> str:
    """The message of the library, without its name for bytes in memory."""
    return str(error).rpartition(">: ")[2].strip().rstrip(".")


def _soundfile() -> Any:
    try:
        import soundfile
    except (ModuleNotFoundError, OSError):  # OSError: libsndfile is missing
        raise ModuleNotFoundError(
            "reading audio needs soundfile: pip install 'seqloom[audio]'", name="soundfile"
        ) from None
    return soundfile
