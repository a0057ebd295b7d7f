"""Arrays of a .npz file, read without trust: no objects, no allocation that the file does not pay for."""

import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from seqloom.data.readers.text_files import DataError, missing

LARGEST = 1 << 36
"""Bytes of one array; a small file may unpack to more than any memory."""


def read_arrays(path: Path | IO[bytes], names: Iterable[str], *, name: str = "") -> dict[str, NDArray[Any]]:
    """Those of the named arrays that the file has; bytes of one need a name for what is wrong with them."""
    file = name or str(path)
    if isinstance(path, Path) and not path.exists():
        raise missing(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename: info for info in archive.infolist()}
            found = {}
            for each in names:
                info = members.get(f"{each}.npy")
                if info is not None:
                    with archive.open(info) as stream:
                        found[each] = read_array(f"{file}: {each}", stream, info.file_size)
            return found
    except DataError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise DataError(file, f"not a .npz file, or damaged ({error})") from None
    except OSError as error:
        raise DataError(file, f"cannot be read: {error.strerror or error}") from None


def read_array(
    location: str,
    stream: IO[bytes],
    size: int,  # bytes of all
) -> NDArray[Any]:
    """The array of a .npy file."""
    try:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read_header(stream)
    except (ValueError, SyntaxError, TypeError, tokenize.TokenError, RecursionError) as error:
        raise DataError(location, f"not an array of NumPy ({str(error).splitlines()[0]})") from None
    if dtype.hasobject or dtype.kind not in "biufUS":
        raise DataError(location, f"found {dtype}; numbers or strings are wanted")
    count, wanted = math.prod(shape), math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or wanted != size - stream.tell() or size > LARGEST:
        raise DataError(location, f"says that it is {dtype} {shape}, and has {size - stream.tell()} bytes")
    data = np.frombuffer(stream.read(wanted), dtype=dtype)
    if len(data) != count:
        raise DataError(location, f"has {len(data)} of {count} values: the file is cut off")
    return data.reshape(shape[::-1]).transpose() if fortran else data.reshape(shape)
