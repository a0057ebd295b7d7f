"""Arrays of untrusted .npz and .npy files: no pickled objects, no allocation larger than the file justifies."""

import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from seqloom import files
from seqloom.data.readers.expansion import ExpansionError, check_expansion
from seqloom.data.readers.text_files import DataError, no_such_file

Result = TypeVar("Result")

MAX_BYTES = 1 << 36  # largest array; a small file may decompress to more than the memory


def read_arrays(path: Path | IO[bytes], names: Iterable[str], *, name: str = "") -> dict[str, NDArray[Any]]:
    """Those of the named arrays that the file contains; ``name`` is shown in errors about a stream."""
    return _read_members(path, names, read_array, name=name)


def array_shapes(path: Path, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of those of the named arrays that the file contains, from their headers."""
    return {name: header.shape for name, header in _read_members(path, names, _read_header).items()}


def _read_members(
    path: Path | IO[bytes],
    names: Iterable[str],
    read: Callable[[str, IO[bytes], int], Result],  # as ``read_array``
    *,
    name: str = "",
) -> dict[str, Result]:
    file = name or str(path)
    if isinstance(path, Path) and not path.exists():
        raise no_such_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename: info for info in archive.infolist()}
            arrays = {}
            for array in names:
                info = members.get(f"{array}.npy")
                if info is not None:
                    check_expansion(info.compress_size, info.file_size)
                    with archive.open(info) as stream:
                        arrays[array] = read(f"{file}: {array}", stream, info.file_size)
            return arrays
    except DataError:
        raise
    except ExpansionError as error:
        raise DataError(file, str(error)) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise DataError(file, f"not a .npz file, or damaged ({error})") from None
    except OSError as error:
        raise DataError(file, f"cannot read the file: {error.strerror or error}") from None


def no_arrays(path: Path, expected: str, names: Iterable[str]) -> DataError:
    """The error for a .npz file without the arrays ``names``, of which ``expected`` tells: it lists those it has."""
    present = sorted(array_names(path))
    lower = {name.lower() for name in present}
    similar = [name for name in names if name.lower() in lower and name not in present]
    meant = f"; did you mean {' and '.join(similar)}?" if similar else ""
    return DataError(str(path), f"expected the arrays {expected}, found {', '.join(present) or 'none'}{meant}")


def array_names(path: Path) -> set[str]:
    """The names of the arrays in a .npz file; none if it is damaged, which ``read_arrays`` reports."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError, ValueError):
        return set()


def read_array(
    location: str,
    stream: IO[bytes],
    size: int,  # bytes, header included
) -> NDArray[Any]:
    """The array of a .npy file."""
    shape, fortran, dtype = _read_header(location, stream, size)
    count = math.prod(shape)
    data = np.frombuffer(stream.read(count * dtype.itemsize), dtype=dtype)
    if len(data) != count:
        raise DataError(location, f"the file is truncated: expected {count} values, found {len(data)}")
    return data.reshape(shape[::-1]).transpose() if fortran else data.reshape(shape)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran: bool  # the first index varies fastest
    dtype: np.dtype[Any]


def _read_header(location: str, stream: IO[bytes], size: int) -> _Header:
    """What a .npy file says that it holds, which its size must agree with."""
    try:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read_header(stream)
    except (ValueError, SyntaxError, TypeError, tokenize.TokenError, RecursionError) as error:
        raise DataError(location, f"not a NumPy array ({str(error).splitlines()[0]})") from None
    if dtype.hasobject or dtype.kind not in "biufUS":
        raise DataError(location, f"expected numbers or strings, found {dtype}")
    expected = math.prod(shape) * dtype.itemsize
    available = size - stream.tell()
    sound = all(type(length) is int and length >= 0 for length in shape) and max(shape, default=0) <= MAX_BYTES
    if not sound or not dtype.itemsize or expected != available or size > MAX_BYTES:
        raise DataError(location, f"the header announces {dtype} {shape}, but there are {available} bytes")
    return _Header(shape, fortran, dtype)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a compressed .npz file; the suffix is added if it is missing, as NumPy does."""
    with files.replacing(path if path.suffix == ".npz" else Path(f"{path}.npz")) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
