import io
import struct
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqloom.data.readers.feature_files import decode
from seqloom.data.readers.file_lists import ContentError

FRAMES = np.random.default_rng(0).standard_normal((7, 13)).astype(np.float32)
MISSING = FRAMES.copy()
MISSING[2, 3] = np.nan


def sphinx(frames: NDArray[Any], order: str = ">", count: int | None = None) -> bytes:
    values = frames.astype(f"{order}f4").tobytes()
    return struct.pack(f"{order}i", frames.size if count is None else count) + values


def htk(frames: NDArray[Any], kind: int = 6) -> bytes:
    return struct.pack(">iihH", len(frames), 100_000, 4 * frames.shape[1], kind) + frames.astype(">f4").tobytes()


def packed(frames: NDArray[Any]) -> bytes:
    """HTK compression: x = (X + B) / A, with A and B before the frames, counted as four frames."""
    high, low = frames.max(axis=0), frames.min(axis=0)
    scale = 2 * 32767 / (high - low)
    shift = (high + low) * 32767 / (high - low)
    body: bytes = scale.astype(">f4").tobytes() + shift.astype(">f4").tobytes()
    body += np.rint(scale * frames - shift).astype(">i2").tobytes()
    header: bytes = struct.pack(">iihH", len(frames) + 4, 100_000, 2 * frames.shape[1], 6 | 0o2000 | 0o10000)
    return header + body + b"\0\0"


def saved(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    if list(arrays) == ["npy"]:
        np.save(stream, arrays["npy"])
    else:
        np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def error_message(data: bytes, name: str, **options: Any) -> str:
    with pytest.raises(ContentError) as error:
        decode(io.BytesIO(data), name, **options)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.mfc", sphinx(FRAMES)),
        ("a.mfc", sphinx(FRAMES, "<")),
        ("a.mfc", htk(FRAMES)),
        ("a.htk", htk(FRAMES)),
        ("a.htk", struct.pack(">iihH", 7, 100_000, 52, 6 | 0o10000) + FRAMES.astype(">f4").tobytes() + b"ab"),
        ("a.npy", saved(npy=FRAMES)),
        ("a.npy", saved(npy=np.asfortranarray(FRAMES.astype(np.float64)))),
        ("a.npz", saved(values=FRAMES)),
        ("a.npz", saved(frames=FRAMES)),
        ("A.NPZ", saved(arr_0=FRAMES, other=FRAMES + 1)),
    ],
)
def test_frames_round_trip(name: str, data: bytes) -> None:
    actual = decode(io.BytesIO(data), name)
    assert actual.dtype == np.float32
    np.testing.assert_array_equal(actual, FRAMES)


def test_compressed_htk() -> None:
    actual = decode(io.BytesIO(packed(FRAMES)), "a.mfc")
    np.testing.assert_allclose(actual, FRAMES, rtol=0, atol=1e-4)  # 16 bits of a range of about 5


def test_frame_sizes() -> None:
    np.testing.assert_array_equal(decode(io.BytesIO(sphinx(FRAMES)), "a.mfc", size=7), FRAMES.reshape(13, 7))
    np.testing.assert_array_equal(decode(io.BytesIO(saved(npy=np.arange(5))), "a.npy"), np.arange(5.0).reshape(5, 1))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.mfc", b"", "not a Sphinx or HTK feature file, or damaged: 0 bytes do not match the header"),
        ("a.mfc", sphinx(FRAMES)[:-1], "not a Sphinx or HTK feature file, or damaged: 367 bytes"),
        ("a.mfc", sphinx(FRAMES, count=90), "not a Sphinx or HTK feature file, or damaged: 368 bytes"),
        (
            "a.mfc",
            sphinx(FRAMES[:, :12]),
            "84 values are not a multiple of 13 features per frame; set task.audio.n_mfcc",
        ),
        ("a.mfc", sphinx(FRAMES[:0]), "no frames"),
        ("a.mfc", sphinx(MISSING), "frame 3, feature 4: expected a finite number, found nan"),
        ("a.htk", htk(FRAMES, kind=0), "not a Sphinx or HTK feature file, or damaged"),
        (
            "a.npy",
            saved(npy=np.zeros((2, 3, 4))),
            "expected numbers (frames, features), found float64 (2, 3, 4)",
        ),
        ("a.npy", saved(npy=np.zeros((2, 0))), "expected numbers (frames, features), found float64 (2, 0)"),
        ("a.npy", saved(npy=np.zeros((0, 2))), "no frames"),
        ("a.npy", saved(npy=np.array(["a"])), "expected numbers (frames, features), found <U1 (1,)"),
        ("a.npy", saved(npy=np.array([[1e300]])), "frame 1, feature 1: expected a finite number, found inf"),
        ("a.npy", saved(npy=FRAMES)[:-4], "the header announces float32 (7, 13), but there are 360 bytes"),
        ("a.npz", saved(other=FRAMES), "no array named values, x, frames, features or arr_0"),
        ("a.npz", b"PK", "not a .npz file, or damaged"),
    ],
)
def test_invalid_files_are_errors(name: str, data: bytes, message: str) -> None:
    assert error_message(data, name).startswith(message)


def test_object_arrays_are_rejected() -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([{}], dtype=object), allow_pickle=True)
    assert "object" in error_message(stream.getvalue(), "a.npy")


def test_damaged_files_give_frames_or_errors() -> None:
    random = np.random.default_rng(0)
    files = {"a.mfc": sphinx(FRAMES), "b.mfc": htk(FRAMES), "c.mfc": packed(FRAMES)}
    files |= {"a.npy": saved(npy=FRAMES), "a.npz": saved(values=FRAMES)}
    for name, data in files.items():
        for _ in range(200):
            changed = bytearray(data)
            for position in random.integers(0, min(len(data), 1 << int(random.integers(3, 9))), size=2):
                changed[position] = random.integers(256)
            cut = int(random.integers(len(data))) if random.random() < 0.3 else len(data)
            try:
                actual = decode(io.BytesIO(bytes(changed[:cut])), name)
            except ContentError:
                continue
            assert np.isfinite(actual).all()
            assert actual.ndim == 2
