"""A model as an ONNX file: its graph, what a runtime has to know, and the check that it answers like the model."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from seqloom import files
from seqloom.export_check import Arrays, ExportCheck, ExportError, require_equal

# The modules that register how layers are written.
from seqloom.onnx import images, recurrent, stacked, transformer  # noqa: F401
from seqloom.onnx.graph import Graph

RUNTIME = Path(__file__).parents[2] / "seqloom_runtime.py"
"""Beside this package; the import of its name may find an older one in the current folder."""
FORMAT = 1
"""Version of the description that a runtime reads."""
ALWAYS_WRITTEN = {"lm"}
"""Parts without which a model does not answer as it was exported: the language model of its search."""


@dataclass(frozen=True)
class OnnxModel:
    """What a task exports."""

    graph: Graph
    description: Mapping[str, Any]  # what the runtime needs besides the graph: vocabulary, labels, scales
    feed: Callable[[Sequence[Any]], Arrays]  # examples → inputs of the graph
    expected: Callable[[Sequence[Any]], Arrays]  # examples → outputs of the model
    parts: Mapping[str, Graph] = field(default_factory=dict)  # further graphs for searches outside the graph, by name
    forced: "ForcedSteps | None" = None  # how the parts are checked
    units: Arrays = field(default_factory=dict)  # of outputs in the units of the data: the deviation of each column
    # Of outputs that jump, such as counts: what they may be where the model itself is rounded, by name.
    bounds: Callable[[Sequence[Any]], Mapping[str, tuple[NDArray[Any], NDArray[Any]]]] = lambda _examples: {}

    def to_bytes(self, name: str, metadata: Mapping[str, str]) -> bytes:
        """The file: the graph, the description and the metadata, and at its end their SHA-256 checksum."""
        description = json.dumps({"format": FORMAT, **self.description}, ensure_ascii=False)
        model = self.graph.finish(name, {**metadata, "seqloom": description})
        return with_checksum(model.SerializeToString())

    def parts_to_bytes(self, name: str, parts: Iterable[str]) -> dict[str, bytes]:
        """The files of some of the further graphs."""
        return {
            part: with_checksum(self.parts[part].finish(f"{name}.{part}", {"part": part}).SerializeToString())
            for part in parts
        }


@dataclass(frozen=True)
class ForcedSteps:
    """Sequences with which the encoder and the step of a model are checked, one token after the other."""

    expected: Callable[[Sequence[Any]], Arrays]  # examples → output (B, N), filled with the end, and log_probabilities
    states: Sequence[Mapping[str, Any]]  # as the runtime reads them
    end: int

    def check(self, model: OnnxModel, files: Mapping[str, bytes], batches: Iterable[Sequence[Any]]) -> None:
        """Raise ExportError if the parts give other log-probabilities than the model."""
        encoder, step = (open_session(files[name]) for name in ("encoder", "step"))
        outputs = [field["output"] for field in self.states]
        for examples in batches:
            expected = self.expected(examples)
            tokens, values = expected["output"], expected["log_probabilities"]
            state = encoder.run(outputs, dict(model.feed(examples)))
            last = np.full(len(tokens), self.end)
            ended = np.zeros(len(tokens), np.bool_)
            for column in range(tokens.shape[1]):
                fields = {field["input"]: value for field, value in zip(self.states, state, strict=True)}
                scores, *state = step.run(["log_probabilities", *outputs], {"tokens": last, **fields})
                last = tokens[:, column]
                forced = np.where(ended, 0, scores[np.arange(len(last)), last])
                require_equal("log_probabilities of a step", forced, values[:, column], examples)
                ended |= (last == self.end) | (values[:, column + 1 :] == 0).all(axis=1)  # at the limit of its length


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


def write(
    model: OnnxModel,
    path: Path,
    batches: Iterable[Sequence[Any]],
    *,
    metadata: Mapping[str, str],
    parts: bool = False,  # also write the parts of a model, for searches outside the graph
) -> ExportCheck:
    """Write the file if it gives the answers of the model; ExportError if not."""
    data = model.to_bytes(path.stem, metadata)
    batches = list(batches)
    count, difference = check(model, data, batches)
    if not count:
        raise ExportError("there are no examples to compare the exported model with the original on (--check FILE)")
    further = model.parts_to_bytes(path.stem, model.parts if parts else model.parts.keys() & ALWAYS_WRITTEN)
    if model.forced is not None and parts:
        model.forced.check(model, further, batches)
    files.write(path, data)
    for name, part in further.items():
        files.write(path.with_suffix(f".{name}.onnx"), part)
    return ExportCheck(count, difference, len(data))


def write_runtime(folder: Path) -> Path:
    """Write the module seqloom_runtime into a folder, and return its path."""
    path = folder / "seqloom_runtime.py"
    files.write(path, RUNTIME.read_bytes())
    return path


def check(model: OnnxModel, data: bytes, batches: Iterable[Sequence[Any]]) -> tuple[int, float]:
    """Compare the graph with the model; return the number of examples and the largest difference.

    Raises ExportError if the answers differ.
    """
    session = open_session(data)
    count, largest = 0, 0.0
    for examples in batches:
        expected = model.expected(examples)
        names, bounds = list(expected), model.bounds(examples)
        for name, answer in zip(names, session.run(names, dict(model.feed(examples))), strict=True):
            if name in bounds:
                low, high = bounds[name]
                answer = np.where((low <= answer) & (answer <= high), expected[name], answer)  # noqa: PLW2901
            unit = model.units.get(name, 1.0)  # what the model computes is rounded relative to it
            largest = max(largest, require_equal(name, answer / unit, expected[name] / unit, examples))
        count += len(examples)
    return count, largest
