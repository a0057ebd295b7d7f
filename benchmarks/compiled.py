"""Models compiled for C compared with onnxruntime and with Seqloom, one sequence at a time: time and size."""

import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from benchmarks.measure import Call, Result, compare_costs, compare_times, interleave
from seqloom.kernels.llvm.target import PORTABLE, Target, native
from seqloom.layers.build import recurrent
from seqloom.models.classifier import Classifier
from seqloom.models.encoder import Encoder
from seqloom.models.pooling import LastPooling
from seqloom.onnx import exported
from seqloom.onnx import models as graphs
from seqloom.onnx.inputs import vector_input
from seqloom.standalone import models
from seqloom.standalone.compiled import CompiledModel, compile_for
from seqloom.standalone.interface import Port, StandaloneModel, assemble
from seqloom.standalone.models import embed_vectors

LABELS = 10


class Shape(NamedTuple):
    """A classifier of vectors: a cell, and the sizes of a sequence, of its vectors and of the hidden state."""

    cell: str
    time: int
    size: int
    hidden: int


SHAPES = (Shape("lstm", 50, 32, 64), Shape("lstm", 50, 128, 128), Shape("gru", 100, 256, 256))


def measure(*, quick: bool) -> Iterator[Result]:
    """One call with one sequence, on one thread, and the size of the files."""
    torch.set_num_threads(1)
    targets = [target for target in (*PORTABLE.values(), native()) if target.runs_here]
    for shape in SHAPES[:1] if quick else SHAPES:
        model = build(shape)
        values = np.random.default_rng(0).standard_normal((shape.time, shape.size))
        peer, size = onnx_call(model, shape, values)
        calls: dict[str, Call] = {"onnxruntime": peer, "seqloom": seqloom_call(model, values)}
        sizes = {}
        for target in targets:
            calls[target.name], sizes[target.name] = compiled_call(model, shape, values, target)
        times = interleave(calls, repetitions=5 if quick else 300, warm_up=3)
        case = f"{shape.cell} T={shape.time} D={shape.size} H={shape.hidden}"
        for target in targets:
            for other in ("onnxruntime", "seqloom"):
                named = f"{case}, {target.name}"
                goal = 1.0 if (target.name, other) == ("native", "onnxruntime") else None
                yield compare_times(named, 1, ours=times[target.name], peer=times[other], peer_name=other, goal=goal)
            kilobytes = sizes[target.name] / 1e3, size / 1e3
            yield compare_costs(
                f"{case}, {target.name}: file", 1, unit="kB", ours=kilobytes[0], peer=kilobytes[1], peer_name="onnx"
            )


def build(shape: Shape) -> Classifier:
    torch.manual_seed(0)
    layer = recurrent(shape.cell, shape.size, shape.hidden)
    return Classifier(Encoder(nn.Identity(), layer), LastPooling(shape.hidden), labels=LABELS).eval()


def seqloom_call(model: Classifier, values: Any) -> Call:
    x = torch.from_numpy(values.astype(np.float32)).unsqueeze(0)
    mask = torch.ones(x.shape[:2], dtype=torch.bool)

    def call() -> object:
        with torch.inference_mode():
            return model(x, mask).softmax(dim=-1)

    return call


def onnx_call(model: Classifier, shape: Shape, values: Any) -> tuple[Callable[[], Any], int]:
    graph = graphs.classifier(model, partial(vector_input, size=shape.size, scale=None), scale=None)
    data = graph.finish("model", {}).SerializeToString()
    session = exported.open_session(data)
    feed = {"values": values[np.newaxis], "lengths": np.array([shape.time])}
    return lambda: session.run(None, feed), len(data)


def compiled_call(model: Classifier, shape: Shape, values: Any, target: Target) -> tuple[Callable[[], Any], int]:
    """The function itself: its arguments are prepared."""

    def unused(_examples: Any) -> Any:
        raise NotImplementedError

    embed = partial(embed_vectors, size=shape.size, scale=None)
    described = StandaloneModel(
        (Port("values", "double", ("length", shape.size), ""),),
        (Port("probabilities", "float", (LABELS,), ""),),
        partial(models.classifier, model=model, embed=embed, scale=None),
        unused,
        unused,
    )
    assembly = assemble(described, "model", target)
    code = compile_for(assembly, target)
    function = CompiledModel(described, assembly, code)
    per_element, constant = assembly.workspace
    workspace = np.zeros(constant + int(per_element * shape.time), dtype=np.uint8)
    answer = np.zeros(LABELS, dtype=np.float32)
    given = np.ascontiguousarray(values)
    arguments = [
        ctypes.c_void_p(given.ctypes.data),
        shape.time,
        ctypes.c_void_p(answer.ctypes.data),
        ctypes.c_void_p(workspace.ctypes.data),
        len(workspace),
    ]
    kept = given, workspace, answer

    def call() -> Any:
        return function.call(*arguments), kept

    return call, len(code)
