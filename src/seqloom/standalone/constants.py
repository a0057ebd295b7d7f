"""The weights and texts of a compiled model: one array of bytes."""

from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from seqloom.kernels.linalg import gemm
from seqloom.kernels.llvm.ir_builder import INTEGER, Value

ALIGNMENT = 64
SLACK = 64
"""Bytes after each constant, because whole vectors are read."""

_PLACEHOLDER = "WEIGHTS"
_ESCAPED = np.array([f"\\{byte:02X}".encode() for byte in range(256)], dtype="S3")


class Constants:
    """Collects constants; equal ones are stored once."""

    def __init__(self, module: ir.Module) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._offsets: dict[bytes, int] = {}
        kind = ir.ArrayType(ir.IntType(8), 1)  # the size is known at the end only
        self._variable = ir.GlobalVariable(module, kind, _PLACEHOLDER)

    def add(self, values: NDArray[Any]) -> int:
        """The offset of an array."""
        data = np.ascontiguousarray(values).tobytes()
        key = sha256(data).digest()
        if key not in self._offsets:
            self._offsets[key] = self._size
            padding = bytes(SLACK + -(len(data) + SLACK) % ALIGNMENT)
            self._parts += [data, padding]
            self._size += len(data) + len(padding)
        return self._offsets[key]

    def address(self, builder: ir.IRBuilder, values: NDArray[Any]) -> Value:
        """The address of an array, as an integer."""
        offset = ir.Constant(INTEGER, self.add(values))
        return builder.add(builder.ptrtoint(self._variable, INTEGER), offset)

    def define(self, text: str) -> str:
        """The assembly of the module, with the constants in it."""
        data = np.frombuffer(b"".join(self._parts) or bytes(ALIGNMENT), dtype=np.uint8)
        declared = f'@"{_PLACEHOLDER}" = external global [1 x i8]'
        if declared not in text:
            raise RuntimeError(f"LLVM assembly without {declared}")
        escaped = _ESCAPED[data].tobytes().decode()
        defined = f'@"{_PLACEHOLDER}" = internal constant [{len(data)} x i8] c"{escaped}", align {ALIGNMENT}'
        return text.replace(declared, defined)


def packed(matrix: NDArray[np.float32]) -> NDArray[np.float32]:  # (depth, columns) → (panels, depth, panel width)
    """A matrix in panels of columns, as ``kernels/linalg/gemm`` reads it; zeros fill up the last panel."""
    depth, columns = matrix.shape
    panels, width = gemm.panel_count("float", columns), gemm.panel_width("float")
    padded = np.zeros((depth, panels * width), dtype=np.float32)
    padded[:, :columns] = matrix
    return np.ascontiguousarray(padded.reshape(depth, panels, width).transpose(1, 0, 2))


def encode_texts(
    texts: Sequence[str], *, reserved: Collection[str] = ()
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32]]:
    """Texts as UTF-8, each ended by a zero: where each starts, the bytes, and the indices in the order of the bytes.

    Reserved texts are not among the ordered ones, nor those with a zero inside: C cannot look them up.
    """
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    sizes = [len(data) + 1 for data in encoded]
    starts = np.cumsum([0, *sizes[:-1]], dtype=np.int32)
    usable = [index for index, data in enumerate(encoded) if 0 not in data and texts[index] not in reserved]
    ordered = sorted(usable, key=lambda index: encoded[index])
    return starts, np.frombuffer(b"\0".join([*encoded, b""]), dtype=np.uint8), np.array(ordered, dtype=np.int32)
