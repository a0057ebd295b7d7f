"""A compiled model in this process: the check that it answers like the run that it was compiled from."""

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from seqloom.export_check import Arrays, ExportError, require_equal
from seqloom.kernels.llvm import jit_cache
from seqloom.kernels.llvm import target as targets
from seqloom.kernels.llvm.target import Target
from seqloom.standalone.interface import DTYPES, Assembly, Port, StandaloneModel

GUARD = 256
"""Bytes after each memory that a compiled model may write to, which must not change."""
UNUSED = 0xFF


def compile_for(assembly: Assembly, target: Target) -> bytes:
    """The object file."""
    return jit_cache.compile_object(assembly.text, target, target.machine())


class CompiledModel:
    """An object file, linked into this process."""

    def __init__(self, model: StandaloneModel, assembly: Assembly, code: bytes) -> None:
        self._model, self._assembly = model, assembly
        self._library = jit_cache.link(code, assembly.functions)

    @classmethod
    def load(cls, model: StandaloneModel, assembly: Assembly, code: bytes, target: Target) -> "CompiledModel":
        """The object file itself; if its target is another one, the same code, compiled for this processor."""
        own = code if target.runs_here else compile_for(assembly, targets.native())
        return cls(model, assembly, own)

    @cached_property
    def call(self) -> Any:
        """The function of C: it takes addresses, the length and the size of the workspace, and returns an error."""
        pointers = [ctypes.c_void_p] * len(self._model.inputs), [ctypes.c_void_p] * len(self._model.outputs)
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int32, *pointers[0], ctypes.c_int32, *pointers[1], ctypes.c_void_p, ctypes.c_size_t
        )
        return kind(self._library[self._assembly.functions[0]])

    def predict(self, inputs: Arrays, length: int) -> dict[str, Any]:
        """The outputs for one sequence; ValueError if the function returns an error."""
        per_element, constant = self._assembly.workspace
        size = constant + int(per_element * length)
        workspace = np.full(size + GUARD, UNUSED, dtype=np.uint8)  # NaN, wherever it is read
        sizes = [int(np.prod(_shape(port, length))) for port in self._model.outputs]
        buffers = [
            np.full(count * np.dtype(DTYPES[port.kind]).itemsize + GUARD, UNUSED, dtype=np.uint8)
            for port, count in zip(self._model.outputs, sizes, strict=True)
        ]
        given = [
            np.ascontiguousarray(inputs[port.name], dtype=DTYPES[port.kind]) if port.name in inputs else None
            for port in self._model.inputs
        ]
        addresses = [0 if array is None else array.ctypes.data for array in given]
        result = self.call(*addresses, length, *[buffer.ctypes.data for buffer in buffers], workspace.ctypes.data, size)
        if result:
            raise ValueError(f"the compiled model returned the error {result}")
        if any((buffer[-GUARD:] != UNUSED).any() for buffer in (workspace, *buffers)):
            raise ExportError("the compiled model writes outside of its memory; nothing was written")
        return {
            port.name: buffer[:-GUARD].view(DTYPES[port.kind]).reshape(_shape(port, length))
            for port, buffer in zip(self._model.outputs, buffers, strict=True)
        }

    def check(self, batches: Iterable[Sequence[Any]]) -> tuple[int, float]:
        """Compare it with the model; the number of examples and the largest difference. Raises ExportError."""
        count, largest = 0, 0.0
        for examples in batches:
            feed, expected = self._model.feed(examples), self._model.expected(examples)
            for row, example in enumerate(examples):
                length = int(feed["lengths"][row])
                answers = self.predict(_row(self._model.inputs, feed, row, length), length)
                for port in self._model.outputs:
                    if port.name not in expected:
                        continue
                    unit = self._model.units.get(port.name, 1.0)
                    truth = expected[port.name][row]
                    if "length" in port.shape:
                        truth = _resized(truth, len(answers[port.name]))
                    largest = max(largest, require_equal(port.name, answers[port.name] / unit, truth / unit, [example]))
            count += len(examples)
        return count, largest


def _shape(port: Port, length: int) -> tuple[int, ...]:
    return tuple(port.frames.count(length) if size == "length" else size for size in port.shape)


def _resized(values: Any, length: int) -> Any:
    """An array of this length: without padding, or with zeros at the end."""
    missing = max(0, length - len(values))
    return np.pad(values, ((0, missing), *[(0, 0)] * (values.ndim - 1)))[:length]


def _row(ports: Sequence[Port], feed: Arrays, row: int, length: int) -> Mapping[str, Any]:
    """The inputs of one example, without padding; optional ones may be missing."""
    given = [port for port in ports if not port.is_optional or port.name in feed]
    return {
        port.name: feed[port.name][row][:length] if "length" in port.shape else feed[port.name][row] for port in given
    }
