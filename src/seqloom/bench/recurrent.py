"""Recurrent layers beside torch.nn, a plain Python loop, and the bare matrix products."""

import os
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from seqloom import cells
from seqloom.bench import process
from seqloom.bench.measure import Contestant, Result, Timing, compare_times, summarise, take_turns
from seqloom.bench.show import show
from seqloom.cells.cell import Cell, projection, recurrence
from seqloom.kernels.linalg import gemm
from seqloom.layers.recurrent.recurrent import Recurrent

Shape = tuple[int, int, int, int]
"""Time, batch, input size, hidden size."""

SHAPES: tuple[Shape, ...] = (
    (35, 20, 650, 650),
    (100, 32, 256, 256),
    (25, 32, 100, 256),
    (784, 32, 1, 128),
    (200, 64, 64, 128),
    (50, 64, 512, 512),
    (300, 1, 256, 256),
)
QUICK: tuple[Shape, ...] = ((100, 32, 256, 256), (25, 32, 100, 256), (300, 1, 256, 256))
LONG: Shape = (784, 32, 1, 128)

PEERS = {"LSTM": ("nn.LSTM", 1.5, 4), "GRU": ("nn.GRU", 2.0, 3), "Elman": ("nn.RNN", 1.5, 1)}
"""Of each cell: who does the same, how much faster we want to be in training, and its number of gates."""

INFERENCE_GOAL = 1.3
VARIANTS = {"Peephole": 0.9, "Coupled": 0.9, "LayerNormLSTM": 0.7, "user-written": 0.9}
"""How fast they should be, relative to our own LSTM."""


class UserWritten(Cell):
    """A cell that the library does not know: an LSTM whose gates also see each other's past through the output."""

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
    """A peephole LSTM as one writes it in plain torch: a Python loop over time.

    Most take the projected input step by step with an index; the gradient of each index then fills a tensor as long as
    the sequence. Who is ``careful`` takes it apart once.
    """

    def __init__(self, input_size: int, hidden_size: int, *, careful: bool = False) -> None:
        super().__init__()
        self.careful = careful
        self.input = nn.Linear(input_size, 4 * hidden_size)
        self.recurrent = nn.Linear(hidden_size, 4 * hidden_size, bias=False)
        self.peepholes = nn.Parameter(torch.zeros(3, hidden_size))

    def forward(self, x: Tensor) -> Tensor:  # (T, B, D)
        hidden = memory = x.new_zeros(x.shape[1], self.peepholes.shape[1])
        outputs = []
        projected = self.input(x)
        moments = projected.unbind(0) if self.careful else (projected[time] for time in range(len(x)))
        for moment in moments:
            i, f, z, o = (moment + self.recurrent(hidden)).chunk(4, dim=-1)
            i, f = (i + self.peepholes[0] * memory).sigmoid(), (f + self.peepholes[1] * memory).sigmoid()
            memory = f * memory + i * z.tanh()
            hidden = (o + self.peepholes[2] * memory).sigmoid() * memory.tanh()
            outputs.append(hidden)
        return torch.stack(outputs)


def main(*, quick: bool, as_json: bool) -> None:
    """Measure, and print a table or JSON."""
    show(measure(quick=quick), as_json=as_json)


def measure(*, quick: bool) -> Iterator[Result]:
    """All comparisons, as they are measured."""
    shapes = QUICK if quick else SHAPES
    repetitions = 5 if quick else 11
    counts = [count for count in (1, 2) if count <= (os.cpu_count() or 1)]
    for count in counts:
        torch.set_num_threads(count)
        for training in (True, False):
            found: list[Result] = []
            for shape in shapes:
                for result in _layers(shape, count, training=training, repetitions=repetitions):
                    found.append(result)
                    yield result
            yield from _means(found, training=training)
        if not quick:
            yield from _loops(count)
        yield _single_steps(count, repetitions)
    if not quick:
        for shape in (SHAPES[1], LONG):
            yield process.memory(shape)
    yield from process.first_use()


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
    # Each in the layout that it likes best.
    batch_first, time_first = (batch, time), (time, batch)
    contestants = {
        name: _run(Recurrent(cell), batch_first, input_size, training=training) for name, cell in ours.items()
    }
    contestants |= {name: _run(peer, time_first, input_size, training=training) for name, peer in peers.items()}
    contestants["bare products in torch"] = _products(shape, training=training)
    timings = take_turns(contestants, repetitions=repetitions)
    kind = "training" if training else "inference"
    for name, (peer_name, _, gates) in PEERS.items():
        limit = _operations(shape, gates, training=training) / peak(threads)
        goal = 0.95 if training else None
        yield compare_times(
            f"{name} {kind} {shape}", threads, timings[name], timings[peer_name], peer_name, goal=goal, limit=limit
        )
    if training:
        for name in VARIANTS:
            yield compare_times(f"{name} {kind} {shape}", threads, timings[name], timings["LSTM"], "our LSTM")
    yield compare_times(
        f"LSTM {kind} {shape}", threads, timings["LSTM"], timings["bare products in torch"], "bare products in torch"
    )


def _run(layer: nn.Module, shape: tuple[int, int], input_size: int, *, training: bool) -> Contestant:
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
    time, batch, input_size, hidden_size = shape
    forward = 2 * time * batch * gates * hidden_size * (input_size + hidden_size)
    return 3 * forward if training else forward


def _products(shape: Shape, *, training: bool) -> Contestant:
    """The products of an LSTM, all steps at once."""
    time, batch, input_size, hidden_size = shape
    x, hidden = torch.randn(time * batch, input_size), torch.randn(time * batch, hidden_size)
    w, u = torch.randn(4 * hidden_size, input_size), torch.randn(4 * hidden_size, hidden_size)
    gradient = torch.randn(time * batch, 4 * hidden_size)

    def forward() -> None:
        torch.mm(x, w.t())
        torch.mm(hidden, u.t())

    def both() -> None:
        forward()
        for left, right in ((gradient, w), (gradient, u), (gradient.t(), x), (gradient.t(), hidden)):
            torch.mm(left, right)

    return both if training else forward


@cache
def peak(threads: int) -> float:
    """Operations in a second, of the better of torch's product and, on each thread, ours."""
    torch.set_num_threads(threads)
    large, rows, depth = 1024, 4 * gemm.tile_rows(), 512
    left, right = torch.randn(large, large), torch.randn(large, large)
    panels = gemm.panel_count("float", large)
    width = gemm.panel_width("float")
    few, packed = torch.randn(rows, depth + width), torch.randn(panels * width * depth)
    out = torch.empty(rows, panels * width + width)
    multiply = gemm.python_function("float", "multiply")
    arguments = few.data_ptr(), few.stride(0), packed.data_ptr(), depth, out.data_ptr(), out.stride(0), rows, 0, panels
    contestants = {"torch": lambda: torch.mm(left, right), "ours": lambda: multiply(*arguments)}
    timings = take_turns(contestants, repetitions=101)
    ours = 2 * rows * depth * panels * width / timings["ours"].minimum
    return max(2 * large**3 / timings["torch"].minimum, threads * ours)


def _means(results: list[Result], *, training: bool) -> Iterator[Result]:
    kind = "training" if training else "inference"
    for name, (peer_name, goal, _) in PEERS.items():
        chosen = [r for r in results if r.case.startswith(f"{name} {kind}") and r.peer_name == peer_name]
        yield summarise(f"{name} {kind}", chosen, goal=goal if training else INFERENCE_GOAL)
    if training:
        for name, goal in VARIANTS.items():
            chosen = [r for r in results if r.case.startswith(name) and r.peer_name == "our LSTM"]
            yield summarise(f"{name} {kind}", chosen, goal=goal)


def _loops(threads: int) -> Iterator[Result]:
    """Ours against what one would write without us, where it hurts most."""
    time, batch, input_size, hidden_size = LONG
    ours = _run(Recurrent(cells.Peephole(input_size, hidden_size)), (batch, time), input_size, training=True)
    x = torch.randn(time, batch, input_size, requires_grad=True)
    weight = torch.randn(time, batch, hidden_size)
    for careful, name in (
        (False, "a Python loop over projected[t]"),
        (True, "a Python loop over projected.unbind()"),
    ):
        loop = PeepholeLoop(input_size, hidden_size, careful=careful)
        contestants: dict[str, Contestant] = {"ours": ours, "loop": partial(_backward, loop, x, weight)}
        ours()
        # The careless loop takes half a minute.
        timings = take_turns(contestants, repetitions=7 if careful else 1, warm_up=int(careful))
        yield compare_times(f"Peephole training {LONG}", threads, timings["ours"], timings["loop"], name, goal=10.0)


def _backward(module: nn.Module, x: Tensor, weight: Tensor) -> None:
    module(x).backward(weight)


def _single_steps(threads: int, repetitions: int) -> Result:
    """Generation: one row, one step at a time, the state handed on."""
    size, steps = 256, 50
    layer, peer = Recurrent(cells.LSTM(size, size)), nn.LSTM(size, size)
    x = torch.randn(1, 1, size)

    def generate(module: nn.Module) -> Contestant:
        def run() -> None:
            state = None
            with torch.no_grad():
                for _ in range(steps):
                    _, state = module(x, state=state) if module is layer else module(x, state)

        return run

    timings = take_turns({"ours": generate(layer), "peer": generate(peer)}, repetitions=repetitions)
    rates = {name: Timing(steps / timing.median, steps / timing.minimum) for name, timing in timings.items()}
    ratio = rates["ours"].median / rates["peer"].median
    return Result(
        case=f"LSTM one step at a time {(1, 1, size, size)}",
        unit="steps/s",
        threads=threads,
        ours=rates["ours"].median,
        peer=rates["peer"].median,
        peer_name="nn.LSTM",
        ratio=ratio,
        goal=3.0,
        limit=None,
        ours_best=rates["ours"].minimum,
        peer_best=rates["peer"].minimum,
    )
