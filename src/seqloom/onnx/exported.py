"""A model as an ONNX file: its graph, what a runtime has to know, and the check that it answers like the model."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray

import seqloom_runtime
from seqloom import files

# The modules that register how layers are written.
from seqloom.onnx import recurrent, stacked, transformer  # noqa: F401
from seqloom.onnx.graph import ExportError, Graph

TOLERANCE = 1e-5
"""Largest difference between an output of the graph and of the model, relative to numbers above 1: float32 rounds to
6e-8, and a few hundred operations on a sequence add up."""
FORMAT = 1
"""Version of the description that a runtime reads."""
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class OnnxModel:
    """What a task exports."""

    graph: Graph
    description: Mapping[str, Any]  # what the runtime needs besides the graph: vocabulary, labels, scales
    feed: Callable[[Sequence[Any]], Arrays]  # examples → inputs of the graph
    expected: Callable[[Sequence[Any]], Arrays]  # examples → outputs of the model
    parts: Mapping[str, Graph] = field(default_factory=dict)  # further graphs that the runtime needs, by name

    def to_bytes(self, name: str, metadata: Mapping[str, str]) -> bytes:
        """The file: the graph, the description and the metadata, and at its end their SHA-256 checksum."""
        description = json.dumps({"format": FORMAT, **self.description}, ensure_ascii=False)
        model = self.graph.finish(name, {**metadata, "seqloom": description})
        return with_checksum(model.SerializeToString())


def with_checksum(data: bytes) -> bytes:
    """A serialized model, and a last entry of its metadata: the checksum of all bytes before it."""
    key, value = b"sha256", sha256(data).hexdigest().encode()
    entry = b"\x0a" + bytes([len(key)]) + key + b"\x12" + bytes([len(value)]) + value  # a StringStringEntryProto
    return data + b"\x72" + bytes([len(entry)]) + entry  # field 14 of a ModelProto: metadata_props


def open_session(data: bytes, *, threads: int = 1) -> onnxruntime.InferenceSession:
    """A session of onnxruntime on the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


class ExportCheck(NamedTuple):
    """The comparison of an exported model with the original."""

    examples: int
    difference: float  # the largest, relative to numbers above 1
    size: int  # of the file in bytes

    def __str__(self) -> str:
        return f"{self.examples:,} examples, largest difference {self.difference:.1e}"


def write(
    model: OnnxModel,
    path: Path,
    batches: Iterable[Sequence[Any]],
    *,
    metadata: Mapping[str, str],
    runtime: bool = False,  # also write what the runtime needs: itself, and the parts of a model for its searches
) -> ExportCheck:
    """Write the file if it gives the answers of the model; ExportError if not."""
    data = model.to_bytes(path.stem, metadata)
    count, difference = check(model, data, batches)
    if not count:
        raise ExportError("there are no examples to compare the exported model with the original on (--check FILE)")
    files.write(path, data)
    if runtime:
        write_runtime(path.parent)
        for name, graph in model.parts.items():
            part = graph.finish(f"{path.stem}.{name}", {"part": name}).SerializeToString()
            files.write(path.with_suffix(f".{name}.onnx"), with_checksum(part))
    return ExportCheck(count, difference, len(data))


def write_runtime(folder: Path) -> Path:
    """Write the module seqloom_runtime into a folder, and return its path."""
    path = folder / "seqloom_runtime.py"
    files.write(path, Path(seqloom_runtime.__file__).read_bytes())
    return path


def check(model: OnnxModel, data: bytes, batches: Iterable[Sequence[Any]]) -> tuple[int, float]:
    """Compare the graph with the model; return the number of examples and the largest difference.

    Raises ExportError if the answers differ.
    """
    session = open_session(data)
    count, largest = 0, 0.0
    for examples in batches:
        expected = model.expected(examples)
        names = list(expected)
        for name, answer in zip(names, session.run(names, dict(model.feed(examples))), strict=True):
            difference = relative_difference(answer, expected[name])
            if not difference <= TOLERANCE:  # not: NaN
                where = getattr(examples[0], "location", "")
                raise ExportError(
                    f"the graph does not compute what the model does: {name} differs by {difference:.1e}, more "
                    f"than {TOLERANCE:.0e}, from the example {where} on; nothing was written"
                )
            largest = max(largest, difference)
        count += len(examples)
    return count, largest


def relative_difference(answer: NDArray[Any], expected: NDArray[Any]) -> float:
    """The largest difference, relative to numbers above 1; infinite if shapes or NaNs differ."""
    if answer.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    answer, expected = answer.astype(np.float64), expected.astype(np.float64)
    same = (answer == expected) | (np.isnan(answer) & np.isnan(expected))  # infinities of one sign, too
    with np.errstate(invalid="ignore"):
        differences = np.where(same, 0.0, np.abs(answer - expected) / np.maximum(np.abs(expected), 1))
    return float(np.where(np.isnan(differences), np.inf, differences).max())
