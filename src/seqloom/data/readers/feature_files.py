"""Feature files: frames in the formats of NumPy, HTK and Sphinx."""

import io
import struct
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.file_lists import ContentError
from seqloom.data.readers.npz import read_array, read_arrays
from seqloom.data.readers.text_files import DataError

Frames = NDArray[np.float32]

ARRAYS = (".npy", ".npz")
CEPSTRA = (".mfc", ".mfcc", ".htk", ".fea", ".feat", ".fbk", ".plp")
SUFFIXES = ARRAYS + CEPSTRA
NAMES = ("values", "x", "frames", "features", "arr_0")  # names of the frames in a .npz file of one sequence

COMPRESSED, CHECKED = 0o2000, 0o10000  # bits of the parameter kind of an HTK file
WAVEFORM = 0


def decode(
    stream: IO[bytes],
    name: str,
    *,
    size: int = 13,  # features per frame of a Sphinx file, which does not store it
) -> Frames:  # (T, D)
    """The frames of a file."""
    if Path(name).suffix.lower() in ARRAYS:
        return check_frames(read(stream, name))
    data = stream.read()
    if (frames := _sphinx(data, size)) is None and (frames := _htk(data)) is None:
        raise ContentError(f"not a Sphinx or HTK feature file, or damaged: {len(data)} bytes do not match the header")
    return check_frames(frames)


def check_frames(values: NDArray[np.generic]) -> Frames:  # (T,) or (T, D)
    """The values as frames, if there are any and all are finite."""
    if values.dtype.kind not in "fiub" or values.ndim not in (1, 2) or (values.ndim == 2 and not values.shape[1]):
        raise ContentError(f"expected numbers (frames, features), found {values.dtype} {values.shape}")
    with np.errstate(over="ignore"):
        frames = values.reshape(len(values), -1).astype(np.float32) if len(values) else values.astype(np.float32)
    if not np.isfinite(frames).all():
        row, column = np.argwhere(~np.isfinite(frames))[0].tolist()
        raise ContentError(
            f"frame {row + 1}, feature {column + 1}: expected a finite number, found {frames[row, column]}"
        )
    if not len(frames):
        raise ContentError("no frames")
    return frames


def read(stream: IO[bytes], name: str) -> NDArray[np.generic]:
    """The array of a .npy file, or the one of a .npz file that has one of the usual names."""
    data = stream.read()
    try:
        if data.startswith(b"\x93NUMPY"):
            return read_array(name, io.BytesIO(data), len(data))
        arrays = read_arrays(io.BytesIO(data), NAMES, name=name)
    except DataError as error:
        raise ContentError(error.message) from None
    if not arrays:
        raise ContentError(f"no array named {', '.join(NAMES[:-1])} or {NAMES[-1]}")
    return next(iter(arrays.values()))


def _sphinx(data: bytes, size: int) -> Frames | None:
    """A count (int32) and that many values (float32), both in either byte order."""
    for order in ">", "<":
        if len(data) >= 4 and 4 + 4 * struct.unpack_from(f"{order}i", data)[0] == len(data):
            values = np.frombuffer(data, dtype=f"{order}f4", offset=4)
            if len(values) % size:
                raise ContentError(
                    f"{len(values)} values are not a multiple of {size} features per frame; set task.audio.n_mfcc"
                )
            return values.reshape(-1, size).astype(np.float32)
    return None


def _htk(data: bytes) -> Frames | None:
    """A header of 12 bytes (frames, period, bytes per frame, kind) and the frames: float32, or compressed to int16."""
    if len(data) < 12:
        return None
    count, _, width, kind = struct.unpack_from(">iihH", data)
    if kind & CHECKED:
        data = data[:-2]
    if count < 0 or width <= 0 or len(data) != 12 + count * width or kind & 0o77 == WAVEFORM:
        return None
    if kind & COMPRESSED:
        size = width // 2
        if width % 2 or count < 4:
            return None
        scale, shift = np.frombuffer(data, dtype=">f4", offset=12, count=2 * size).reshape(2, size).astype(np.float32)
        packed = np.frombuffer(data, dtype=">i2", offset=12 + 8 * size).reshape(-1, size)
        with np.errstate(all="ignore"):
            frames: Frames = (packed + shift) / scale
            return frames
    if width % 4:
        return None
    return np.frombuffer(data, dtype=">f4", offset=12).reshape(count, width // 4).astype(np.float32)
