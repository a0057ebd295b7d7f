"""The CPU time of a training step of a cell beside that of our LSTM, one measurement after the other in turn."""

import time
import warnings
from collections.abc import Callable
from statistics import median

import torch

from seqloom.cells import LSTM
from seqloom.cells.cell import Cell
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.testing.certificate import SpeedComparison

PAIRS = 9
BATCH, STEPS, SIZE = 32, 50, 128


def compare_speed(
    make: Callable[[int, int], Cell],
    *,
    batch_size: int = BATCH,
    steps: int = STEPS,
    size: int = SIZE,  # of input and output
    pairs: int = PAIRS,
) -> SpeedComparison:
    """Measure a cell and our LSTM of the same size in turn, on one thread, so that other programs disturb little."""
    layers = [Recurrent(make(size, size)).float(), Recurrent(LSTM(size, size)).float()]
    x = torch.randn(batch_size, steps, size, generator=torch.Generator().manual_seed(0))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*runs step by step")
            for layer in layers:
                _seconds(layer, x)  # compiles it
            times = [[_seconds(layer, x) for layer in layers] for _ in range(pairs)]
    finally:
        torch.set_num_threads(threads)
    own, lstm = zip(*times, strict=True)
    ratios = [first / second for first, second in times]
    return SpeedComparison(
        batch_size=batch_size,
        steps=steps,
        input_size=size,
        hidden_size=size,
        milliseconds=1000 * median(own),
        lstm_milliseconds=1000 * median(lstm),
        ratio=median(ratios),
        lowest_ratio=min(ratios),
        highest_ratio=max(ratios),
        pairs=pairs,
    )


def _seconds(layer: Recurrent, x: torch.Tensor) -> float:
    """CPU time of a forward and a backward pass."""
    start = time.process_time()
    outputs, _ = layer(x)
    outputs.square().sum().backward()
    elapsed = time.process_time() - start
    layer.zero_grad()
    return max(elapsed, 1e-9)
