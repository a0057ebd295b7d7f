"""Audio that arrives as a stream: raw 16-bit samples, or a WAV file with its header."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from math import gcd
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.data.readers import audio_files
from seqloom.data.readers.audio_files import Samples
from seqloom.data.readers.binary_formats import binary_format
from seqloom.data.readers.file_lists import ContentError
from seqloom.data.readers.text_files import DataError
from seqloom.kernels import resample as kernel

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE  # codes of the sample format in a WAV header
UNKNOWN_SIZE = 0x7FF00000  # bytes; programs that write to a pipe put a size of at least this, or 0, into the header
MAX_CHANNELS = 64
LARGEST_CHUNK = 1 << 20  # bytes of a chunk before the samples
MPEG1_KILOBITS = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)  # per second, layer 3
MPEG2_KILOBITS = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
TEXT_BYTES = frozenset(b"\t\n\r" + bytes(range(0x20, 0x7F)))


@dataclass(frozen=True)
class SampleFormat:
    """How the bytes of a stream become samples."""

    rate: int  # samples per second
    channels: int = 1
    bits: int = 16
    is_float: bool = False
    has_header: bool = False
    size: int = 0  # bytes of all samples; 0: until the stream ends

    @property
    def frame(self) -> int:
        """Bytes of one sample of all channels."""
        return self.channels * self.bits // 8

    def decode(self, data: bytes) -> Samples:  # (N,), the mean of the channels, between -1 and 1
        """The samples of whole frames."""
        values = _values(data, self.bits, is_float=self.is_float).reshape(-1, self.channels)
        samples: Samples = values.mean(axis=1).astype(np.float32)
        return samples

    def __str__(self) -> str:
        samples = f"{self.bits}-bit {'float ' if self.is_float else ''}samples"
        channels = "mono" if self.channels == 1 else f"{self.channels} channels, averaged"
        return f"{'WAV' if self.has_header else 'raw little-endian'} {samples}, {channels}, {self.rate} Hz"


def read_stream(
    stream: IO[bytes],
    *,
    target_rate: int,  # samples per second of the result
    rate: int = 0,  # of raw samples; 0: as the result
    size: int = 1600,  # samples of a chunk, at most
    name: str = "standard input",
    note: Callable[[str], None] = lambda _: None,  # called once with a description of the format
) -> Iterator[Samples]:
    """Chunks of samples as they arrive; a WAV header is recognised, channels are averaged."""
    read = getattr(stream, "read1", stream.read)  # returns what is available without waiting for more
    first = _read_exactly(read, 12)
    try:
        is_wav = first[:4] == b"RIFF" and first[8:12] == b"WAVE"
        if length := _mpeg_frame_length(first):
            first += _read_exactly(read, length + 4 - len(first))
        layout = _wav_format(read) if is_wav else _raw_format(first, rate or target_rate)
        audio_files.check_rate(layout.rate)
    except ContentError as error:
        raise DataError(name, str(error)) from None
    if is_wav and rate not in (0, layout.rate):
        raise DataError(name, f"the WAV header says {layout.rate} Hz, but --rate is {rate}")
    note(f"{layout}" + (f", resampled to {target_rate} Hz" if layout.rate != target_rate else ""))
    blocks = _blocks(read, b"" if is_wav else first, layout, size=size, name=name)
    if layout.rate == target_rate:
        return blocks
    resampler = StreamingResampler(layout.rate, target_rate)
    return chain((resampler.feed(block) for block in blocks), (resampler.finish() for _ in range(1)))


def _blocks(
    read: Callable[[int], bytes], first: bytes, layout: SampleFormat, *, size: int, name: str
) -> Iterator[Samples]:
    frame, rest, total = layout.frame, b"", 0
    pending = [first[start : start + frame * size] for start in range(0, len(first), frame * size)]
    while not layout.size or total < layout.size:
        count = min(frame * size, layout.size - total) if layout.size else frame * size
        data = pending.pop(0) if pending else read(count)
        if not data:
            break
        total += len(data)
        data = rest + data
        whole = len(data) // frame * frame
        rest = data[whole:]
        if whole:
            yield layout.decode(data[:whole])
    if rest:
        raise DataError(name, f"the stream ends in the middle of a {layout.bits}-bit sample")
    if layout.size and total < layout.size:
        raise DataError(
            name, f"truncated: expected {layout.size // frame} samples as the header says, found {total // frame}"
        )


def _read_exactly(read: Callable[[int], bytes], count: int) -> bytes:
    """That many bytes, or fewer if the stream ends."""
    data = b""
    while len(data) < count and (more := read(count - len(data))):
        data += more
    return data


def _raw_format(first: bytes, rate: int) -> SampleFormat:
    compressed = audio_files.unsupported_format(first) or audio_files.AIFF.match(first)
    if compressed or first.startswith((b"fLaC", b"OggS", b"ID3", b"NIST_1A", b"RIFX", b"RF64", b"caff")):
        kind = binary_format(first) or "an audio file in another format"
        raise ContentError(f"expected WAV or raw 16-bit samples, found {kind}; predict its file without --stream")
    length = _mpeg_frame_length(first)
    if length and _mpeg_frame_length(first[length:]):  # a single header may also be two samples
        raise ContentError("expected WAV or raw 16-bit samples, found an MP3 file; predict its file without --stream")
    if first and all(byte in TEXT_BYTES for byte in first):
        text = first.decode().split("\n")[0]
        raise ContentError(f"expected WAV or raw 16-bit samples, found text ({text!r}); file names go without --stream")
    return SampleFormat(rate)


def _mpeg_frame_length(header: bytes) -> int:
    """The number of bytes of an MP3 frame (MPEG audio, layer 3) with this header; 0: it is none."""
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE6 != 0xE2:
        return 0
    version, bit_rate, rate = header[1] >> 3 & 3, header[2] >> 4, header[2] >> 2 & 3
    if version == 1 or bit_rate in (0, 15) or rate == 3:  # reserved, or not given
        return 0
    is_first = version == 3  # MPEG-1
    kilobits = (MPEG1_KILOBITS if is_first else MPEG2_KILOBITS)[bit_rate - 1]
    samples_per_second = (44100, 48000, 32000)[rate] >> (0, 1, 2)[(3, 2, 0).index(version)]
    return (144 if is_first else 72) * kilobits * 1000 // samples_per_second + (header[2] >> 1 & 1)


def _wav_format(read: Callable[[int], bytes]) -> SampleFormat:
    """The format in the header of a WAV file, of which everything before the samples is read."""
    layout: SampleFormat | None = None
    while len(head := _read_exactly(read, 8)) == 8:
        kind, size = head[:4], struct.unpack_from("<I", head, 4)[0]
        if kind == b"data":
            if layout is None:
                raise ContentError("damaged WAV header: no format before the samples")
            known = size if 0 < size < UNKNOWN_SIZE else 0
            return SampleFormat(layout.rate, layout.channels, layout.bits, layout.is_float, True, known)  # noqa: FBT003
        if size > LARGEST_CHUNK:
            raise ContentError(f"damaged WAV header: a chunk of {size:,} bytes before the samples")
        content = _read_exactly(read, size + size % 2)
        if kind == b"fmt ":
            layout = _parse_format(content)
    raise ContentError("damaged WAV header: the stream ends before the samples")


def _parse_format(content: bytes) -> SampleFormat:
    if len(content) < 16:
        raise ContentError(f"damaged WAV header: expected a format of 16 bytes or more, found {len(content)}")
    code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", content)
    if code == EXTENSIBLE and len(content) >= 26:
        (code,) = struct.unpack_from("<H", content, 24)
    if (code, bits) not in {*((PCM, width) for width in (8, 16, 24, 32)), (FLOAT, 32), (FLOAT, 64)}:
        raise ContentError(
            f"expected a WAV stream of PCM or float samples, found format {code} of {bits} bits; "
            "predict its file without --stream"
        )
    if not 1 <= channels <= MAX_CHANNELS:
        raise ContentError(f"expected 1 to {MAX_CHANNELS} channels, found {channels}")
    return SampleFormat(rate, channels, bits, is_float=code == FLOAT)


def _values(data: bytes, bits: int, *, is_float: bool) -> NDArray[np.floating]:
    if is_float:
        return np.frombuffer(data, f"<f{bits // 8}")
    if bits == 8:
        return (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / np.float32(128)
    if bits == 24:
        padded = np.zeros((len(data) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        return padded.view("<i4")[:, 0] / np.float64(1 << 31)
    if bits == 32:
        return np.frombuffer(data, "<i4") / np.float64(1 << 31)
    return np.frombuffer(data, "<i2").astype(np.float32) * np.float32(1 / 32768)


class StreamingResampler:
    """Changes the sample rate of a stream; the pieces join to what ``audio_files.resample`` gives for the whole."""

    def __init__(self, rate: int, target_rate: int) -> None:
        divisor = gcd(rate, target_rate)
        self.up, self.down = target_rate // divisor, rate // divisor
        self.reach = kernel.ZERO_CROSSINGS * max(self.up, self.down) // self.up + 1  # samples on each side of an output
        self.kept = np.zeros(0, np.float32)  # the last samples, which further outputs need
        self.period = 0  # of ``down`` samples before the kept ones
        self.given = 0  # outputs so far

    def feed(self, samples: Samples) -> Samples:
        """The outputs that no later sample can change."""
        self.kept = np.concatenate([self.kept, samples])
        total = self.period * self.down + len(self.kept)
        last = (total - self.reach - 1) * self.up // self.down  # its samples have all arrived
        return self._outputs(max(last, self.given))

    def finish(self) -> Samples:
        """The remaining outputs."""
        total = self.period * self.down + len(self.kept)
        return self._outputs(kernel.resampled_length(total, self.up, self.down))

    def _outputs(self, end: int) -> Samples:
        if end <= self.given:
            return np.zeros(0, np.float32)
        signal = torch.from_numpy(np.ascontiguousarray(self.kept))
        start = self.period * self.up
        outputs = kernel.resample(signal, up=self.up, down=self.down)[self.given - start : end - start].numpy()
        self.given = end
        unused = (end * self.down // self.up - self.reach) // self.down - self.period
        if unused > 0:
            self.kept, self.period = self.kept[unused * self.down :], self.period + unused
        result: Samples = outputs
        return result
