"""Speed of every cell, per multiplication of its matrices, relative to the LSTM: ``python -m benchmarks.cells``.

Beside it stands a linear layer of torch with as many multiplications, over all steps at once: what the products alone
cost, with the same reading and writing of inputs and gradients.
"""

import math
import time
from typing import Any, NamedTuple

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


def call(layer: Any, x: Tensor, *, training: bool) -> Call:
    """One pass over a batch, with gradients if ``training``."""
    weight = torch.randn(*x.shape[:2], layer.output_size)

    def train() -> None:
        layer(x)[0].backward(weight)

    def infer() -> None:
        with torch.no_grad():
            layer(x)

    return train if training else infer


class Products(torch.nn.Module):
    """A linear layer with the multiplications of a cell."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.output_size = -(-weights(cell) // cell.input_size)
        self.linear = torch.nn.Linear(cell.input_size, self.output_size, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (self.linear(x),)


def measure(shape: Shape, *, repetitions: int) -> dict[str, dict[str, float]]:
    """CPU milliseconds by cell and mode; the shortest of all repetitions, which alternate between the cells."""
    sizes = shape.input_size, shape.hidden_size
    layers = {name: Recurrent(make(*sizes)) for name, make in cell_classes().items()}
    x = torch.randn(shape.batch, shape.time, shape.input_size, requires_grad=True)
    timed = {
        **{(name, mode): layer for name, layer in layers.items() for mode in MODES},
        **{(f"{name} products", mode): Products(layer.cell) for name, layer in layers.items() for mode in MODES},
    }
    calls = {(name, mode): call(module, x, training=mode == "training") for (name, mode), module in timed.items()}
    shortest = dict.fromkeys(calls, math.inf)
    for repetition in range(repetitions + 1):
        for key, run in calls.items():
            start = time.process_time()  # of one thread: other load on the machine does not count
            run()
            if repetition:  # the first call compiles
                shortest[key] = min(shortest[key], 1000 * (time.process_time() - start))
    return {
        name: {
            "weights": weights(layer.cell),
            **{mode: shortest[name, mode] for mode in MODES},
            **{f"{mode}, products": shortest[f"{name} products", mode] for mode in MODES},
        }
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
        alone = [f"{values[mode] / values[f'{mode}, products']:.2f}" for mode in MODES]
        rows.append((name, f"{share:.2f}", *[f"{values[mode]:.1f}" for mode in MODES], *alone, *speeds))
    terminal.print_lines(f"{shape}, float32, 1 thread. Speed: multiplications per second relative to {REFERENCE}.")
    terminal.print_lines("/ products: time relative to that of a linear layer of torch with as many multiplications.")
    times = [f"{mode} (ms)" for mode in MODES]
    ratios = [f"{mode} / products" for mode in MODES]
    header = ("cell", "multiplications", *times, *ratios, "training speed", "inference speed")
    terminal.table(header, rows)


if __name__ == "__main__":
    main()
