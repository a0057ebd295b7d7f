"""Recurrent layers compared with torch.nn, a Python loop over time, and the bare matrix products."""

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks import child_process
from benchmarks.measure import Call, Result, compare_costs, compare_rates, compare_times, interleave, summarise
from seqloom import cells
from seqloom.cells.cell import Cell, projection, recurrence
from seqloom.kernels.linalg import gemm
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.models.encoder import DecoderConfig
from seqloom.tasks.language_model import LanguageModel


class Shape(NamedTuple):
    """The size of one benchmark."""

    time: int
    batch: int
    input_size: int
    hidden_size: int

    def __str__(self) -> str:
        return f"(T={self.time}, B={self.batch}, D={self.input_size}, H={self.hidden_size})"


SHAPES = (
    Shape(35, 20, 650, 650),
    Shape(100, 32, 256, 256),
    Shape(25, 32, 100, 256),
    Shape(784, 32, 1, 128),
    Shape(200, 64, 64, 128),
    Shape(50, 64, 512, 512),
    Shape(300, 1, 256, 256),
)
QUICK_SHAPES = (Shape(100, 32, 256, 256), Shape(25, 32, 100, 256), Shape(300, 1, 256, 256))
LONG = Shape(784, 32, 1, 128)
SHORT = (Shape(1, 1, 128, 128), Shape(1, 1, 256, 256), Shape(50, 1, 128, 128), Shape(100, 1, 256, 256))
"""Single steps and short sequences of one row, compared with ONNX Runtime."""
DECODERS = ((60, 128), (1000, 256))
"""Vocabulary and width of language models, compared with ONNX Runtime."""
REST = 0.005
"""Seconds after which the threads of ONNX Runtime have stopped spinning."""


class Peer(NamedTuple):
    """The torch.nn layer that computes the same as a cell."""

    name: str
    training_goal: float
    gates: int


PEERS = {"LSTM": Peer("nn.LSTM", 1.5, 4), "GRU": Peer("nn.GRU", 2.0, 3), "Elman": Peer("nn.RNN", 1.5, 1)}
INFERENCE_GOAL = 1.3
VARIANTS = {"Peephole": 0.9, "Coupled": 0.9, "LayerNormLSTM": 0.7, "user-written": 0.9}
"""Goals for the speed of other cells relative to our LSTM."""

OUR_LSTM, PRODUCTS = "our LSTM", "torch matrix products alone"

MEMORY = """
import re, resource, sys, torch
from pathlib import Path
from torch import nn

def peak():
    # getrusage may still report the peak of the parent process.
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

torch.set_num_threads(2)
time, batch, input_size, hidden_size = map(int, sys.argv[2:])
if sys.argv[1] == "ours":
    from seqloom.cells import LSTM
    from seqloom.layers.recurrent.recurrent import Recurrent
    layer, shape = Recurrent(LSTM(input_size, hidden_size)), (batch, time)
else:
    layer, shape = nn.LSTM(input_size, hidden_size), (time, batch)
x = torch.randn(*shape, input_size, requires_grad=True)
weight = torch.randn(*shape, hidden_size)
layer(x[:2, :2])[0].sum().backward()
before = peak()
for _ in range(5):
    layer(x)[0].backward(weight)
print(peak() - before)
"""

FIRST_USE = """
import sys, time, torch
from torch import nn
torch.set_num_threads(1)
x = torch.randn(8, 10, 32)
nn.LSTM(32, 64)(x)[0].sum().backward()
start = time.perf_counter()
from seqloom import cells
from seqloom.layers.recurrent.recurrent import Recurrent
Recurrent(getattr(cells, sys.argv[1])(32, 64))(x)[0].sum().backward()
print(time.perf_counter() - start)
"""


class UserWritten(Cell):
    """A cell that is not part of the library: an LSTM variant with SiLU and a peephole to its output gate."""

    gates, State = ("input", "forget", "candidate", "output"), cells.LSTM.State

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=4)
        self.recurrent = recurrence(hidden_size, blocks=4)

    def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        i, f, z, o = (projected + self.recurrent(state.hidden)).chunk(4, dim=-1)
        i, f, z, o = i.sigmoid(), f.sigmoid(), nn.functional.silu(z), (o + state.memory).sigmoid()
        memory = f * state.memory + (1 - f) * i * z
        return self.State(o * torch.tanh(memory), memory), (i, f, z, o)


class PeepholeLoop(nn.Module):
    """A peephole LSTM in plain PyTorch: a Python loop over time.

    Indexing the projected input at each step is the usual way to write it, but its backward pass allocates a tensor
    of the whole sequence per step. ``unbind=True`` splits the input once instead.
    """

    def __init__(self, input_size: int, hidden_size: int, *, unbind: bool = False) -> None:
        super().__init__()
        self.unbind = unbind
        self.input = nn.Linear(input_size, 4 * hidden_size)
        self.recurrent = nn.Linear(hidden_size, 4 * hidden_size, bias=False)
        self.peepholes = nn.Parameter(torch.zeros(3, hidden_size))

    def forward(self, x: Tensor) -> Tensor:  # (T, B, D)
        hidden = memory = x.new_zeros(x.shape[1], self.peepholes.shape[1])
        outputs = []
        projected = self.input(x)
        steps = projected.unbind(0) if self.unbind else (projected[time] for time in range(len(x)))
        for step in steps:
            i, f, z, o = (step + self.recurrent(hidden)).chunk(4, dim=-1)
            i, f = (i + self.peepholes[0] * memory).sigmoid(), (f + self.peepholes[1] * memory).sigmoid()
            memory = f * memory + i * z.tanh()
            hidden = (o + self.peepholes[2] * memory).sigmoid() * memory.tanh()
            outputs.append(hidden)
        return torch.stack(outputs)


def measure(*, quick: bool) -> Iterator[Result]:
    """All comparisons: layers, Python loops, single steps, memory, first use."""
    shapes = QUICK_SHAPES if quick else SHAPES
    repetitions = 5 if quick else 11
    for threads in [count for count in (1, 2) if count <= (os.cpu_count() or 1)]:
        torch.set_num_threads(threads)
        for training in (True, False):
            results: list[Result] = []
            for shape in shapes:
                for result in _layers(shape, threads, training=training, repetitions=repetitions):
                    results.append(result)
                    yield result
            yield from _means(results, training=training)
        if not quick:
            yield from _python_loops(threads)
        yield _single_steps(threads, repetitions)
        yield from onnx_runtime(threads, repetitions)
    if not quick:
        for shape in (SHAPES[1], LONG):
            yield training_memory(shape)
    yield from first_use()


def _layers(shape: Shape, threads: int, *, training: bool, repetitions: int) -> Iterator[Result]:
    time, batch, input_size, hidden_size = shape
    ours: dict[str, Cell] = {
        "LSTM": cells.LSTM(input_size, hidden_size),
        "GRU": cells.GRU(input_size, hidden_size, reset="after"),
        "Elman": cells.Elman(input_size, hidden_size),
    }
    if training:
        ours |= {
            "Peephole": cells.Peephole(input_size, hidden_size),
            "Coupled": cells.Coupled(input_size, hidden_size),
            "LayerNormLSTM": cells.LayerNormLSTM(input_size, hidden_size),
            "user-written": UserWritten(input_size, hidden_size),
        }
    peers = {
        "nn.LSTM": nn.LSTM(input_size, hidden_size),
        "nn.GRU": nn.GRU(input_size, hidden_size),
        "nn.RNN": nn.RNN(input_size, hidden_size),
    }
    # Each implementation gets the layout in which it is fastest: ours batch first, torch's time first.
    calls = {
        name: _layer_call(Recurrent(cell), (batch, time), input_size, training=training) for name, cell in ours.items()
    }
    calls |= {name: _layer_call(peer, (time, batch), input_size, training=training) for name, peer in peers.items()}
    calls[PRODUCTS] = _matrix_products(shape, training=training)
    timings = interleave(calls, repetitions=repetitions)
    mode = "training" if training else "inference"
    for name, peer in PEERS.items():
        yield compare_times(
            f"{name} {mode} {shape}",
            threads,
            ours=timings[name],
            peer=timings[peer.name],
            peer_name=peer.name,
            goal=0.95 if training else None,
            limit=_operations(shape, peer.gates, training=training) / peak(threads),
        )
    others = [(name, "LSTM", OUR_LSTM) for name in VARIANTS] if training else []
    for name, reference, label in [*others, ("LSTM", PRODUCTS, PRODUCTS)]:
        case = f"{name} {mode} {shape}"
        yield compare_times(case, threads, ours=timings[name], peer=timings[reference], peer_name=label)


def _layer_call(layer: nn.Module, shape: tuple[int, int], input_size: int, *, training: bool) -> Call:
    x = torch.randn(*shape, input_size, requires_grad=training)
    if not training:

        def infer() -> None:
            with torch.no_grad():
                layer(x)

        return infer
    weight = torch.randn_like(layer(x)[0])

    def train() -> None:
        layer(x)[0].backward(weight)

    return train


def _operations(shape: Shape, gates: int, *, training: bool) -> int:
    """Floating-point operations in the matrix products of a layer."""
    time, batch, input_size, hidden_size = shape
    forward = 2 * time * batch * gates * hidden_size * (input_size + hidden_size)
    return 3 * forward if training else forward


def _matrix_products(shape: Shape, *, training: bool) -> Call:
    """The matrix products of an LSTM, all steps at once."""
    time, batch, input_size, hidden_size = shape
    x, hidden = torch.randn(time * batch, input_size), torch.randn(time * batch, hidden_size)
    w, u = torch.randn(4 * hidden_size, input_size), torch.randn(4 * hidden_size, hidden_size)
    gradient = torch.randn(time * batch, 4 * hidden_size)

    def forward() -> None:
        torch.mm(x, w.t())
        torch.mm(hidden, u.t())

    def forward_and_backward() -> None:
        forward()
        for left, right in ((gradient, w), (gradient, u), (gradient.t(), x), (gradient.t(), hidden)):
            torch.mm(left, right)

    return forward_and_backward if training else forward


@cache
def peak(threads: int) -> float:
    """Peak floating-point operations per second: the better of torch's matrix product and ours on every thread."""
    torch.set_num_threads(threads)
    large, rows, depth = 1024, 4 * gemm.tile_rows(), 512
    left, right = torch.randn(large, large), torch.randn(large, large)
    panels = gemm.panel_count("float", large)
    width = gemm.panel_width("float")
    few, packed = torch.randn(rows, depth + width), torch.randn(panels * width * depth)
    out = torch.empty(rows, panels * width + width)
    multiply = gemm.python_function("float", "multiply")
    arguments = few.data_ptr(), few.stride(0), packed.data_ptr(), depth, out.data_ptr(), out.stride(0), rows, 0, panels
    calls = {"torch": lambda: torch.mm(left, right), "ours": lambda: multiply(*arguments)}
    timings = interleave(calls, repetitions=101)
    ours = 2 * rows * depth * panels * width / timings["ours"].minimum
    return max(2 * large**3 / timings["torch"].minimum, threads * ours)


def _means(results: list[Result], *, training: bool) -> Iterator[Result]:
    mode = "training" if training else "inference"
    for name, peer in PEERS.items():
        selected = [r for r in results if r.case.startswith(f"{name} {mode}") and r.peer_name == peer.name]
        yield summarise(f"{name} {mode}", selected, goal=peer.training_goal if training else INFERENCE_GOAL)
    if training:
        for name, goal in VARIANTS.items():
            selected = [r for r in results if r.case.startswith(name) and r.peer_name == OUR_LSTM]
            yield summarise(f"{name} {mode}", selected, goal=goal)


def _python_loops(threads: int) -> Iterator[Result]:
    """A fused peephole LSTM compared with Python loops over a long sequence, where loops are slowest."""
    time, batch, input_size, hidden_size = LONG
    ours = _layer_call(Recurrent(cells.Peephole(input_size, hidden_size)), (batch, time), input_size, training=True)
    x = torch.randn(time, batch, input_size, requires_grad=True)
    weight = torch.randn(time, batch, hidden_size)
    for unbind, name in (
        (False, "a Python loop over projected[t]"),
        (True, "a Python loop over projected.unbind()"),
    ):
        loop = PeepholeLoop(input_size, hidden_size, unbind=unbind)
        calls: dict[str, Call] = {"ours": ours, "loop": partial(_backward, loop, x, weight)}
        ours()
        # The loop over projected[t] takes half a minute.
        timings = interleave(calls, repetitions=7 if unbind else 1, warm_up=int(unbind))
        case = f"Peephole training {LONG}"
        yield compare_times(case, threads, ours=timings["ours"], peer=timings["loop"], peer_name=name, goal=10.0)


def _backward(module: nn.Module, x: Tensor, weight: Tensor) -> None:
    module(x).backward(weight)


def _single_steps(threads: int, repetitions: int) -> Result:
    """Generation: one row, one step per call, the state passed from call to call."""
    shape, steps = Shape(1, 1, 256, 256), 50
    layer, peer = Recurrent(cells.LSTM(256, 256)), nn.LSTM(256, 256)
    x = torch.randn(1, 1, 256)

    def generate(module: nn.Module) -> Call:
        def run() -> None:
            state = None
            with torch.no_grad():
                for _ in range(steps):
                    _, state = module(x, state=state) if module is layer else module(x, state)

        return run

    timings = interleave({"ours": generate(layer), "peer": generate(peer)}, repetitions=repetitions)
    return compare_rates(
        f"LSTM one step at a time {shape}",
        threads,
        items=steps,
        unit="steps/s",
        ours=timings["ours"],
        peer=timings["peer"],
        peer_name="nn.LSTM",
        goal=3.0,
    )


def onnx_runtime(threads: int, repetitions: int) -> Iterator[Result]:
    """Short calls and steps of a decoder, compared with ONNX Runtime."""
    for shape in SHORT:
        yield _short_calls(shape, threads, repetitions)
    for vocab_size, size in DECODERS:
        yield _decoder_steps(vocab_size, size, threads, repetitions)


def _short_calls(shape: Shape, threads: int, repetitions: int) -> Result:
    """An LSTM that is called again and again with the state of the call before."""
    time, batch, input_size, hidden_size = shape
    layer = Recurrent(cells.LSTM(input_size, hidden_size))
    session = _onnx_session(_onnx_layer(input_size, hidden_size), threads)
    x, zeros = torch.randn(batch, time, input_size), torch.zeros(1, batch, hidden_size).numpy()
    x_by_time = x.transpose(0, 1).contiguous().numpy()
    calls = 400 // time

    return _compare_with_onnxruntime(
        f"LSTM, short calls {shape}",
        threads,
        lambda state: layer(x, state=state)[1],
        None,
        session,
        {"x": x_by_time, "hidden": zeros, "memory": zeros},
        calls=calls,
        unit="calls/s",
        repetitions=repetitions,
    )


def _decoder_steps(vocab_size: int, size: int, threads: int, repetitions: int) -> Result:
    """Generation with a language model: embedding, LSTM and log-softmax of one token at a time."""
    task = LanguageModel(
        train="", embedding_size=size, tie_embeddings=False, decoder=DecoderConfig(hidden_size=size, layers=1)
    )
    words = "\n".join(f"w{number}" for number in range(vocab_size))
    decoder: Any = task.fit(task.read(words.splitlines())).build_model().eval()
    session = _onnx_session(_onnx_decoder(decoder.output.out_features, size), threads)
    token, zeros = torch.tensor([5]), torch.zeros(1, 1, size).numpy()
    return _compare_with_onnxruntime(
        f"LSTM {size} decoder, {vocab_size:,} words, one step at a time",
        threads,
        lambda state: decoder.step(token, state)[1],
        decoder.start(None, 1),
        session,
        {"tokens": token.numpy(), "hidden": zeros, "memory": zeros},
        calls=200,
        unit="steps/s",
        repetitions=repetitions,
    )


def _compare_with_onnxruntime(
    name: str,
    threads: int,
    call: Callable[[Any], Any],  # a state → the next one
    start: Any,  # the first state
    session: Any,
    inputs: dict[str, Any],  # of the first call; those of the next have the states that it returns
    *,
    calls: int,
    unit: str,
    repetitions: int,
) -> Result:
    """Calls in a row, each with the state that the one before has left."""

    def ours() -> None:
        state = start
        with torch.no_grad():
            for _ in range(calls):
                state = call(state)

    def peer() -> None:
        following = dict(inputs)
        for _ in range(calls):
            _, following["hidden"], following["memory"] = session.run(None, following)

    timings = interleave({"ours": ours, "peer": peer}, repetitions=repetitions, rest=REST)
    return compare_rates(
        name,
        threads,
        items=calls,
        unit=unit,
        ours=timings["ours"],
        peer=timings["peer"],
        peer_name="onnxruntime",
        goal=1.0,
    )


def _onnx_layer(input_size: int, hidden_size: int) -> Any:
    """An LSTM of ONNX with random weights, which take the same time as any others."""
    from onnx import TensorProto, helper

    return helper.make_graph(
        [_lstm_node(hidden_size)],
        "layer",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["time", "batch", input_size]),
            *_states("hidden", "memory", size=hidden_size),
        ],
        [
            helper.make_tensor_value_info("out", TensorProto.FLOAT, ["time", 1, "batch", hidden_size]),
            *_states("last_hidden", "last_memory", size=hidden_size),
        ],
        _random_weights(_lstm_shapes(input_size, hidden_size)),
    )


def _onnx_decoder(vocab_size: int, size: int) -> Any:
    """The same between an embedding and a softmax."""
    from onnx import TensorProto, helper, numpy_helper

    shapes = {
        "embedding": (vocab_size, size),
        **_lstm_shapes(size, size),
        "output": (size, vocab_size),
        "output_bias": (vocab_size,),
    }
    return helper.make_graph(
        [
            helper.make_node("Gather", ["embedding", "tokens"], ["embedded"]),
            helper.make_node("Unsqueeze", ["embedded", "first"], ["x"]),
            _lstm_node(size),
            helper.make_node("Squeeze", ["last_hidden", "first"], ["features"]),
            helper.make_node("Gemm", ["features", "output", "output_bias"], ["logits"]),
            helper.make_node("LogSoftmax", ["logits"], ["log_probabilities"], axis=-1),
        ],
        "decoder",
        [
            helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch"]),
            *_states("hidden", "memory", size=size),
        ],
        [
            helper.make_tensor_value_info("log_probabilities", TensorProto.FLOAT, ["batch", vocab_size]),
            *_states("last_hidden", "last_memory", size=size),
        ],
        [*_random_weights(shapes), numpy_helper.from_array(torch.tensor([0]).numpy(), "first")],
    )


def _lstm_shapes(input_size: int, hidden_size: int) -> dict[str, tuple[int, ...]]:
    rows = 4 * hidden_size
    return {"input": (1, rows, input_size), "recurrent": (1, rows, hidden_size), "bias": (1, 2 * rows)}


def _lstm_node(hidden_size: int) -> Any:
    from onnx import helper

    inputs = ["x", "input", "recurrent", "bias", "", "hidden", "memory"]
    return helper.make_node("LSTM", inputs, ["out", "last_hidden", "last_memory"], hidden_size=hidden_size)


def _states(*names: str, size: int) -> list[Any]:
    from onnx import TensorProto, helper

    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, "batch", size]) for name in names]


def _random_weights(shapes: dict[str, tuple[int, ...]]) -> list[Any]:
    from onnx import numpy_helper

    return [numpy_helper.from_array((0.1 * torch.randn(shape)).numpy(), name) for name, shape in shapes.items()]


def _onnx_session(graph: Any, threads: int) -> Any:
    import onnxruntime
    from onnx import helper

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def training_memory(shape: Shape) -> Result:
    """Memory that training adds to a process at its peak."""
    ours, peer = child_process.run(MEMORY, "ours", *shape), child_process.run(MEMORY, "nn.LSTM", *shape)
    case = f"LSTM training memory {shape}"
    return compare_costs(case, threads=2, unit="MB", ours=ours, peer=peer, peer_name="nn.LSTM", goal=1 / 1.1)


def first_use() -> Iterator[Result]:
    """Seconds from importing the library to the first gradient, with kernels to compile or in the cache on disk."""
    for name in ("LSTM", "LayerNormLSTM"):
        with tempfile.TemporaryDirectory() as folder:
            for state, goal in (("empty", 5.0), ("warm", 0.3)):
                runs = [
                    child_process.run(FIRST_USE, name, cache_folder=folder) for _ in range(1 if state == "empty" else 5)
                ]
                median = sorted(runs)[len(runs) // 2]
                yield Result(
                    case=f"{name} first use, {state} cache",
                    unit="s",
                    threads=1,
                    ours=median,
                    peer=goal,
                    peer_name="the goal",
                    ratio=goal / median,
                    goal=1.0,
                    limit=None,
                    ours_best=min(runs),
                    peer_best=goal,
                )
