"""Audio from files: WAV, FLAC, Ogg, MP3, AIFF, AU, CAF, NIST SPHERE (needs soundfile)."""

import io
import re
import struct
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.binary_formats import binary_format
from seqloom.data.readers.expansion import ExpansionError, check_expansion
from seqloom.data.readers.file_lists import ContentError
from seqloom.data.readers.text_files import DataError, open_binary

Samples = NDArray[np.float32]

SUFFIXES = (
    *(".wav", ".flac", ".sph", ".ogg", ".oga", ".wave", ".mp3", ".opus", ".aif", ".aiff", ".aifc", ".au", ".snd"),
    *(".caf", ".m4a", ".aac", ".mp4", ".webm", ".wma", ".amr"),  # the last ones only to say how to convert them
)
MAGIC = (b"RIFF", b"RIFX", b"RF64", b"fLaC", b"NIST_1A", b"OggS", b".snd", b"caff")
UNSUPPORTED = (  # start of the file, format
    (re.compile(rb"....ftyp", re.DOTALL), "M4A or MP4 (AAC)"),
    (re.compile(rb"\xff[\xf0\xf1\xf8\xf9]"), "AAC"),
    (re.compile(rb"\x1aE\xdf\xa3"), "WebM or Matroska"),
    (re.compile(rb"0&\xb2u"), "Windows Media"),
    (re.compile(rb"#!AMR"), "AMR"),
)
MP3 = re.compile(rb"ID3|\xff[\xe2-\xe7\xf2-\xf7\xfa-\xff]")
AIFF = re.compile(rb"FORM....AIF[FC]", re.DOTALL)
MIN_RATE, MAX_RATE = 1000, 1_000_000  # Hz; other values mean a damaged header
SAMPLE = 2  # bytes of a decompressed sample, as most recordings have
BLOCK = 1 << 16  # samples read at a time: the length in a header is not trusted
UNKNOWN_LENGTH = 0xFFFFFFFF  # in the header of a WAV file that was written to a pipe
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
    if not data.startswith(MAGIC) and not MP3.match(data) and not AIFF.match(data):
        if problem := unsupported_format(data):
            raise ContentError(f"{problem}; convert the file, for example: ffmpeg -i FILE FILE.wav")
        kind = (binary_format(data[:HEADER]) or "another format") if data else "an empty file"
        raise ContentError(f"expected a WAV, FLAC, Ogg, MP3, AIFF or SPHERE file, found {kind}")
    announced = _announced_length(data)
    library = _soundfile()
    if MP3.match(data) and "MP3" not in library.available_formats():
        raise ContentError("reading MP3 needs a newer libsndfile (1.1): pip install --upgrade soundfile")
    blocks, size = [], 0
    try:
        with library.SoundFile(io.BytesIO(data)) as file:
            rate, length = file.samplerate, 0 if MP3.match(data) else file.frames  # an MP3 only has an estimate
            while len(block := file.read(BLOCK, dtype="float32", always_2d=True)):
                blocks.append(block.mean(axis=1))
                size += SAMPLE * block.size
                check_expansion(len(data), size)
    except ExpansionError as error:
        raise ContentError(str(error)) from None
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


def to_samples(values: Any) -> Samples:  # (N,)
    """Samples of one channel, integers of an array scaled to the range from -1 to 1."""
    array = np.asarray(values) if hasattr(values, "dtype") else np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.dtype.kind not in "fi":
        raise ContentError(f"expected samples (N,), found {array.dtype} {array.shape}")
    scale = 1 / (1 << 8 * array.dtype.itemsize - 1) if array.dtype.kind == "i" else 1
    with np.errstate(over="ignore"):
        return (array * np.float64(scale)).astype(np.float32)


def unsupported_format(start: bytes) -> str:
    """Why a file that starts with these bytes cannot be read; empty if it may be."""
    name = next((name for pattern, name in UNSUPPORTED if pattern.match(start)), "")
    return f"{name} audio is not supported by libsndfile" if name else ""


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
    if AIFF.match(data):
        match = re.search(rb"COMM....(?:..)(....)", data[:HEADER], re.DOTALL)
        return int(struct.unpack(">I", match[1])[0]) if match else 0
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
