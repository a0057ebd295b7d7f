"""Speed of every cell, per multiplication of its matrices, relative to the LSTM: ``python -m benchmarks.cells``.

Beside it stands a linear layer of torch with as many multiplications, over all steps at once: what the products alone
cost, with the same reading and writing of inputs and gradients.
"""

import statistics
import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.measure import Call, Timing
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


def measure(shape: Shape, *, repetitions: int) -> dict[str, dict[str, Timing]]:
    """CPU seconds by cell and mode; the repetitions alternate between the cells."""
    sizes = shape.input_size, shape.hidden_size
    layers = {name: Recurrent(make(*sizes)) for name, make in cell_classes().items()}
    x = torch.randn(shape.batch, shape.time, shape.input_size, requires_grad=True)
    timed = {
        **{(name, mode): layer for name, layer in layers.items() for mode in MODES},
        **{(f"{name} products", mode): Products(layer.cell) for name, layer in layers.items() for mode in MODES},
    }
    calls = {(name, mode): call(module, x, training=mode == "training") for (name, mode), module in timed.items()}
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
    for repetition in range(repetitions + 1):
        for key, run in calls.items():
            start = time.process_time()  # of one thread: other load on the machine does not count
            run()
            if repetition:  # the first call compiles
                seconds[key].append(time.process_time() - start)
    timings = {key: Timing(statistics.median(values), min(values)) for key, values in seconds.items()}
    return {
        name: {
            **{mode: timings[name, mode] for mode in MODES},
            **{f"{mode}, products": timings[f"{name} products", mode] for mode in MODES},
        }
        for name in layers
    }


def main(shape: Shape = Shape(), *, repetitions: int = 30) -> None:  # noqa: B008  a constant
    torch.manual_seed(0)
    torch.set_num_threads(1)
    measured = measure(shape, repetitions=repetitions)
    reference = measured[REFERENCE]
    counts = {name: weights(make(shape.input_size, shape.hidden_size)) for name, make in cell_classes().items()}
    rows = []
    for name, values in measured.items():
        share = counts[name] / counts[REFERENCE]
        times = [f"{1000 * values[mode].minimum:.1f}" for mode in MODES]
        alone = [f"{values[mode].minimum / values[f'{mode}, products'].minimum:.2f}" for mode in MODES]
        speeds = [
            f"{share * reference[mode].minimum / values[mode].minimum:.2f}"
            f" ({share * reference[mode].median / values[mode].median:.2f})"
            for mode in MODES
        ]
        rows.append((name, f"{share:.2f}", *times, *alone, *speeds))
    terminal.print_lines(f"{shape}, float32, 1 thread. Shortest of {repetitions} calls; in brackets, the median.")
    terminal.print_lines(f"Speed: multiplications per second relative to {REFERENCE}.")
    terminal.print_lines("/ products: time relative to that of a linear layer of torch with as many multiplications.")
    headers = [f"{mode} (ms)" for mode in MODES]
    ratios = [f"{mode} / products" for mode in MODES]
    header = ("cell", "multiplications", *headers, *ratios, "training speed", "inference speed")
    terminal.table(header, rows)


if __name__ == "__main__":
    main()
