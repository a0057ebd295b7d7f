import builtins
import io
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqloom.data.readers.audio_files import Audio, read_audio, resample, to_samples
from seqloom.data.readers.text_files import DataError

soundfile = pytest.importorskip("soundfile")
RAMP = np.arange(-500, 500, dtype=np.int16)


def wav(
    data: bytes, *, size: int | None = None, rate: int = 8000, bits: int = 16, channels: int = 1, kind: int = 1
) -> bytes:
    """A WAV file built by hand; ``size`` is the length in its header."""
    frame = channels * bits // 8
    form = struct.pack("<IHHIIHH", 16, kind, channels, rate & 0xFFFFFFFF, rate * frame & 0xFFFFFFFF, frame, bits)
    body = b"WAVEfmt " + form + b"data" + struct.pack("<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def sphere(data: bytes, *, count: int) -> bytes:
    fields = f"sample_count -i {count}\nsample_rate -i 16000\nsample_n_bytes -i 2\nsample_byte_format -s2 01\n"
    more = "channel_count -i 1\nsample_coding -s3 pcm\nend_head\n"
    return f"NIST_1A\n   1024\n{fields}{more}".ljust(1024).encode() + data


def encode(samples: NDArray[Any], kind: str, subtype: str | None = None, rate: int = 16000) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, format=kind, subtype=subtype)
    return stream.getvalue()


def read(data: bytes) -> Audio:
    return read_audio(io.BytesIO(data), name="a.wav")


def error_message(data: bytes) -> str:
    with pytest.raises(DataError) as error:
        read(data)
    return str(error.value)


def test_samples_round_trip() -> None:
    actual = read(wav(RAMP.tobytes(), rate=11025))
    assert actual.rate == 11025
    assert actual.samples.dtype == np.float32
    np.testing.assert_array_equal(actual.samples, RAMP / np.float32(32768))


@pytest.mark.parametrize(
    ("bits", "kind", "data", "expected"),
    [
        (8, 1, bytes([0, 128, 255]), [-1, 0, 127 / 128]),
        (24, 1, b"\0\0\x80\0\0\x40\xff\xff\x7f", [-1, 0.5, 1 - 2**-23]),
        (32, 1, np.array([-(2**31), 2**30], "<i4").tobytes(), [-1, 0.5]),
        (32, 3, np.array([0.25, -1.5], "<f4").tobytes(), [0.25, -1.5]),
        (64, 3, np.array([0.25, -1.5], "<f8").tobytes(), [0.25, -1.5]),
    ],
)
def test_sample_widths(bits: int, kind: int, data: bytes, expected: list[float]) -> None:
    np.testing.assert_allclose(read(wav(data, bits=bits, kind=kind)).samples, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("channels", [2, 8])
def test_channels_are_averaged(channels: int) -> None:
    samples = np.arange(100 * channels, dtype=np.int16).reshape(100, channels)
    actual = read(wav(samples.tobytes(), channels=channels)).samples
    np.testing.assert_allclose(actual, samples.mean(axis=1) / 32768, rtol=0, atol=1e-7)


def test_flac_ogg_and_sphere() -> None:
    np.testing.assert_array_equal(read(encode(RAMP, "FLAC")).samples, RAMP / np.float32(32768))
    assert len(read(encode(RAMP, "OGG")).samples) == 1000
    actual = read(sphere(RAMP.tobytes(), count=1000))
    assert actual.rate == 16000
    np.testing.assert_array_equal(actual.samples, RAMP / np.float32(32768))


def test_mp3_aiff_au_caf_and_opus() -> None:
    tone = (np.sin(np.arange(16000) / 9) * 9000).astype(np.int16)
    for kind in ("AIFF", "AU", "CAF"):
        actual = read(encode(tone, kind))
        assert actual.rate == 16000
        np.testing.assert_array_equal(actual.samples, tone / np.float32(32768))
    for data in (encode(tone, "MP3"), encode(tone, "OGG", "OPUS")):
        actual = read(data)
        assert actual.rate == 16000
        assert np.abs(np.fft.rfft(actual.samples[:8000])).argmax() == pytest.approx(8000 / 9 / (2 * np.pi), abs=1)
    assert error_message(encode(tone, "AIFF")[:-2000]) == "a.wav: truncated: expected 16000 samples, found 15000"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\0\0\0 ftypM4A \0\0\0\0", "M4A or MP4 (AAC)"),
        (b"\xff\xf1P\x80", "AAC"),
        (b"\x1aE\xdf\xa3rest", "WebM or Matroska"),
        (b"#!AMR\nrest", "AMR"),
    ],
)
def test_unsupported_formats_say_how_to_convert(data: bytes, name: str) -> None:
    expected = f"{name} audio is not supported by libsndfile; convert the file, for example: ffmpeg -i FILE FILE.wav"
    assert error_message(data) == f"a.wav: {expected}"


def test_old_libsndfile_without_mp3(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(RAMP, "MP3")
    monkeypatch.setattr(soundfile, "available_formats", lambda: {"WAV": ""})
    assert "pip install --upgrade soundfile" in error_message(data)


def test_integers_of_arrays_are_scaled() -> None:
    np.testing.assert_array_equal(to_samples(RAMP), RAMP / np.float32(32768))
    np.testing.assert_array_equal(to_samples(np.array([-(2**31)], np.int32)), [-1])
    np.testing.assert_array_equal(to_samples([0.5, -1]), [0.5, -1])


def test_more_samples_than_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.data.readers.audio_files.BLOCK", 64)
    np.testing.assert_array_equal(read(wav(RAMP.tobytes())).samples, RAMP / np.float32(32768))


def test_file_and_archive_member(tmp_path: Path) -> None:
    data = wav(RAMP.tobytes())
    (tmp_path / "a.wav").write_bytes(data)
    assert len(read_audio(tmp_path / "a.wav").samples) == 1000
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("b/a.wav")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    assert len(read_audio(tmp_path / "all.tar.gz" / "b" / "a.wav").samples) == 1000
    with pytest.raises(DataError, match=r"aa\.wav: no such file; did you mean .*a\.wav\?"):
        read_audio(tmp_path / "aa.wav")
    (tmp_path / "empty.wav").touch()
    with pytest.raises(DataError, match=r"empty\.wav: .* found an empty file"):
        read_audio(tmp_path / "empty.wav")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a WAV, FLAC, Ogg, MP3, AIFF or SPHERE file, found an empty file"),
        (b"some text", "expected a WAV, FLAC, Ogg, MP3, AIFF or SPHERE file, found another format"),
        (wav(b""), "no samples"),
        (wav(RAMP.tobytes(), size=0), "no samples"),
        (wav(RAMP.tobytes(), size=4000), "truncated: expected 2000 samples, found 1000"),
        (wav(RAMP.tobytes())[:-500], "truncated: expected 1000 samples, found 750"),
        (wav(RAMP.tobytes(), channels=8)[:-500], "truncated: expected 125 samples, found 93"),
        (sphere(RAMP.tobytes(), count=5000), "truncated: expected 5000 samples, found 1000"),
        (
            wav(np.array([1, np.nan, np.inf], "<f4").tobytes(), bits=32, kind=3),
            "sample 2: expected a finite number, found nan",
        ),
        (wav(np.array([-np.inf], "<f4").tobytes(), bits=32, kind=3), "sample 1: expected a finite number, found -inf"),
        (wav(RAMP.tobytes(), rate=7), "expected a sample rate from 1000 to 1000000 Hz, found 7"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_audio_is_an_error(data: bytes, message: str) -> None:
    assert error_message(data) == f"a.wav: {message}"


@pytest.mark.parametrize(
    "data",
    [
        wav(RAMP.tobytes(), rate=0),
        wav(RAMP.tobytes(), channels=0),
        wav(RAMP.tobytes())[:30],
        encode(RAMP, "FLAC")[:60],
    ],
)
def test_damaged_headers_are_errors(data: bytes) -> None:
    assert error_message(data).startswith("a.wav: damaged or unsupported audio file (")


def test_single_sample_and_unknown_length_in_the_header() -> None:
    assert len(read(wav(RAMP[:1].tobytes())).samples) == 1
    assert len(read(wav(RAMP.tobytes(), size=0xFFFFFFFF)).samples) == 1000


def test_damaged_files_give_audio_or_errors() -> None:
    random = np.random.default_rng(0)
    samples = (random.standard_normal(400) * 5000).astype(np.int16)
    whole = [wav(samples.tobytes()), encode(samples, "FLAC"), sphere(samples.tobytes(), count=400)]
    whole.append(encode(samples, "OGG"))
    for data in whole:
        for _ in range(150):
            changed = bytearray(data)
            for position in random.integers(0, min(len(data), 1 << int(random.integers(5, 12))), size=3):
                changed[position] = random.integers(256)
            cut = int(random.integers(len(data))) if random.random() < 0.5 else len(data)
            try:
                actual = read(bytes(changed[:cut]))
            except DataError as error:
                assert str(error).startswith("a.wav: ")  # noqa: PT017  either way is right
            else:
                assert np.isfinite(actual.samples).all()


def test_resample() -> None:
    samples = np.sin(np.arange(800) / 20).astype(np.float32)
    assert resample(samples, 8000, 8000) is samples
    actual = resample(samples, 8000, 16000)
    assert actual.dtype == np.float32
    assert len(actual) == 1600
    signal = pytest.importorskip("scipy.signal")
    np.testing.assert_allclose(actual, signal.resample_poly(samples.astype(np.float64), 2, 1), rtol=0, atol=1e-6)


def test_missing_soundfile(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "soundfile":
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ModuleNotFoundError, match=r"reading audio needs soundfile: pip install 'seqloom\[audio\]'"):
        read(wav(RAMP.tobytes()))
