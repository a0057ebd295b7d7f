import io
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from seqloom.data.readers.audio_files import resample
from seqloom.data.readers.audio_streams import StreamingResampler, read_stream
from seqloom.data.readers.text_files import DataError

RAMP = np.arange(-500, 500, dtype=np.int16)


def wav(
    data: bytes, *, size: int | None = None, rate: int = 8000, bits: int = 16, channels: int = 1, kind: int = 1
) -> bytes:
    """A WAV file with a chunk before its samples; ``size`` is the length in its header."""
    frame = channels * bits // 8
    form = struct.pack("<IHHIIHH", 16, kind, channels, rate, rate * frame, frame, bits)
    extra = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    body = b"WAVEfmt " + form + extra + b"data" + struct.pack("<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def read(data: bytes, **options: Any) -> NDArray[np.float32]:
    pieces = list(read_stream(io.BytesIO(data), **{"target_rate": 8000, **options}))
    return np.concatenate([np.zeros(0, np.float32), *pieces])


@given(cuts=st.lists(st.integers(0, 200), max_size=6).map(sorted), size=st.integers(1, 40))
def test_raw_samples_arrive_in_chunks(cuts: list[int], size: int) -> None:
    data = RAMP[:100].tobytes()
    parts = [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, 200], strict=True) if start < stop]

    class Pipe(io.RawIOBase):
        """Gives what has come, as a pipe does."""

        def read1(self, count: int) -> bytes:
            actual = parts.pop(0) if parts else b""
            if len(actual) > count:
                parts.insert(0, actual[count:])
            return actual[:count]

    pieces = list(read_stream(Pipe(), target_rate=8000, size=size))  # type: ignore[arg-type]
    assert all(len(piece) <= size + 1 for piece in pieces)
    np.testing.assert_array_equal(np.concatenate(pieces), RAMP[:100] / np.float32(32768))


def test_incomplete_sample_is_an_error() -> None:
    with pytest.raises(DataError, match="standard input: the stream ends in the middle of a 16-bit sample"):
        list(read_stream(io.BytesIO(b"\0\1\2"), target_rate=8000))
    assert list(read_stream(io.BytesIO(), target_rate=8000)) == []


@pytest.mark.parametrize(
    ("bits", "kind", "data", "expected"),
    [
        (8, 1, bytes([0, 128, 255]), [-1, 0, 127 / 128]),
        (16, 1, RAMP.tobytes(), RAMP / 32768),
        (24, 1, b"\0\0\x80\0\0\x40\xff\xff\x7f", [-1, 0.5, 1 - 2**-23]),
        (32, 1, np.array([-(2**31), 2**30], "<i4").tobytes(), [-1, 0.5]),
        (32, 3, np.array([0.25, -1.5], "<f4").tobytes(), [0.25, -1.5]),
        (64, 3, np.array([0.25, -1.5], "<f8").tobytes(), [0.25, -1.5]),
    ],
)
def test_wav_headers_are_recognised(bits: int, kind: int, data: bytes, expected: Any) -> None:
    notes: list[str] = []
    actual = read(wav(data, bits=bits, kind=kind), note=notes.append)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-7)
    float_ = "float " if kind == 3 else ""
    assert notes == [f"WAV {bits}-bit {float_}samples, mono, 8000 Hz"]


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF])
def test_wav_from_a_pipe_has_no_length(size: int) -> None:
    assert len(read(wav(RAMP.tobytes(), size=size))) == 1000


def test_bytes_after_the_samples_are_ignored() -> None:
    assert len(read(wav(RAMP.tobytes()) + b"LIST more")) == 1000


def test_channels_are_averaged() -> None:
    samples = np.arange(1000, dtype=np.int16).reshape(-1, 2)
    np.testing.assert_allclose(
        read(wav(samples.tobytes(), channels=2)), samples.mean(axis=1) / 32768, rtol=0, atol=1e-7
    )


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (wav(RAMP.tobytes(), size=4000), {}, "truncated: expected 2000 samples as the header says, found 1000"),
        (wav(RAMP.tobytes(), kind=7, bits=8), {}, "PCM or float samples, found format 7 of 8 bits"),
        (wav(RAMP.tobytes(), channels=0), {}, "expected 1 to 64 channels, found 0"),
        (wav(RAMP.tobytes(), rate=7), {}, "expected a sample rate from 1000 to 1000000 Hz, found 7"),
        (wav(RAMP.tobytes()), {"rate": 16000}, "the WAV header says 8000 Hz, but --rate is 16000"),
        (wav(RAMP.tobytes())[:20], {}, "damaged WAV header"),
        (b"fLaC" + bytes(20), {}, "found a FLAC file; predict its file without --stream"),
        (b"clip.wav\n", {}, "found text ('clip.wav'); file names go without --stream"),
        (b"\0\0\0 ftypM4A ", {}, "expected WAV or raw 16-bit samples"),
    ],
)
def test_invalid_streams_are_errors(data: bytes, options: dict[str, int], message: str) -> None:
    with pytest.raises(DataError) as error:
        read(data, **options)
    assert str(error.value).startswith("standard input: ")
    assert message in str(error.value)


@given(
    rate=st.sampled_from([8000, 11025, 22050, 44100, 48000]),
    target=st.sampled_from([4000, 8000, 16000]),
    cuts=st.lists(st.integers(0, 3000), max_size=8).map(sorted),
)
def test_pieces_are_resampled_as_the_whole(rate: int, target: int, cuts: list[int]) -> None:
    signal = np.random.default_rng(0).standard_normal(3000).astype(np.float32)
    expected = resample(signal, rate, target)
    resampler = StreamingResampler(rate, target)
    pieces = [*(resampler.feed(piece) for piece in np.split(signal, cuts)), resampler.finish()]
    np.testing.assert_allclose(np.concatenate(pieces), expected, rtol=0, atol=2e-6)  # float32 sums of 441 products
    assert max(len(piece) for piece in pieces) <= len(expected)


def test_other_rates_are_resampled() -> None:
    notes: list[str] = []
    expected = resample((RAMP / 32768).astype(np.float32), 16000, 8000)
    np.testing.assert_allclose(read(RAMP.tobytes(), rate=16000, note=notes.append), expected, rtol=0, atol=1e-6)
    assert notes == ["raw little-endian 16-bit samples, mono, 16000 Hz, resampled to 8000 Hz"]
    np.testing.assert_allclose(read(wav(RAMP.tobytes(), rate=16000)), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rate", [8000, 22050, 44100])
def test_an_mp3_file_without_a_tag_is_no_raw_sound(rate: int) -> None:
    soundfile = pytest.importorskip("soundfile")
    file = io.BytesIO()
    soundfile.write(file, np.sin(np.arange(rate // 2) / 9) / 2, rate, format="MP3")
    assert file.getvalue()[:1] == b"\xff"
    with pytest.raises(DataError, match="found an MP3 file; predict its file without --stream"):
        next(read_stream(io.BytesIO(file.getvalue()), target_rate=rate))
    lone = file.getvalue()[:4] + bytes(4000)  # raw samples may begin with the same bytes
    assert sum(map(len, read_stream(io.BytesIO(lone), target_rate=rate))) == 2002
