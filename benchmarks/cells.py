"""Speed of every cell, per multiplication of its matrices, relative to the LSTM: ``python -m benchmarks.cells``."""

import math
import time
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.measure import Call
from seqloom import terminal
from seqloom.cells.cell import Cell
from seqloom.layers.build import cell_classes
from seqloom.layers.recurrent.recurrent import Recurrent

REFERENCE = "lstm"
MODES = ("training", "inference")


class Shape(NamedTuple):
    """The size of the input and of the hidden state."""

    time: int = 50
    batch: int = 32
    input_size: int = 256
    hidden_size: int = 256


def weights(cell: Cell) -> int:
    """Elements of a cell's matrices: its multiplications per step and row."""
    return sum(parameter.numel() for parameter in cell.parameters() if parameter.dim() == 2)


def call(layer: Recurrent, x: Tensor, *, training: bool) -> Call:
    """One pass over a batch, with gradients if ``training``."""
    weight = torch.randn(*x.shape[:2], layer.output_size)

    def train() -> None:
        layer(x)[0].backward(weight)

    def infer() -> None:
        with torch.no_grad():
            layer(x)

    return train if training else infer


def measure(shape: Shape, *, repetitions: int) -> dict[str, dict[str, float]]:
    """CPU milliseconds by cell and mode; the shortest of all repetitions, which alternate between the cells."""
    sizes = shape.input_size, shape.hidden_size
    layers = {name: Recurrent(make(*sizes)) for name, make in cell_classes().items()}
    x = torch.randn(shape.batch, shape.time, shape.input_size, requires_grad=True)
    calls = {
        (name, mode): call(layer, x, training=mode == "training") for name, layer in layers.items() for mode in MODES
    }
    shortest = dict.fromkeys(calls, math.inf)
    for repetition in range(repetitions + 1):
        for key, run in calls.items():
            start = time.process_time()  # of one thread: other load on the machine does not count
            run()
            if repetition:  # the first call compiles
                shortest[key] = min(shortest[key], 1000 * (time.process_time() - start))
    return {
        name: {"weights": weights(layer.cell), **{mode: shortest[name, mode] for mode in MODES}}
        for name, layer in layers.items()
    }


def main(shape: Shape = Shape(), *, repetitions: int = 30) -> None:  # noqa: B008  a constant
    torch.manual_seed(0)
    torch.set_num_threads(1)
    measured = measure(shape, repetitions=repetitions)
    reference = measured[REFERENCE]
    rows = []
    for name, values in measured.items():
        share = values["weights"] / reference["weights"]
        speeds = [f"{share * reference[mode] / values[mode]:.2f}" for mode in MODES]
        rows.append((name, f"{share:.2f}", *[f"{values[mode]:.1f}" for mode in MODES], *speeds))
    terminal.print_lines(f"{shape}, float32, 1 thread. Speed: multiplications per second relative to {REFERENCE}.")
    header = ("cell", "multiplications", "training (ms)", "inference (ms)", "training speed", "inference speed")
    terminal.table(header, rows)


if __name__ == "__main__":
    main()
