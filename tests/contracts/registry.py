"""Everything the contracts are tested on: discovered, not listed, so a new cell is tested as soon as it exists."""

import inspect
from collections.abc import Callable
from functools import cache
from importlib import import_module
from itertools import product
from pkgutil import iter_modules
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

import seqloom.cells
from seqloom.cells.cell import Cell, projection, recurrence
from seqloom.cells.elman import ACTIVATIONS, Elman
from seqloom.cells.gru import GRU
from seqloom.cells.lstm import LSTM
from seqloom.cells.peephole import Peephole
from seqloom.cells.slstm import SLSTM
from seqloom.cells.wrapper import RecurrentDropout, Wrapper, Zoneout
from seqloom.layers.audio.spectral_convolution import SpectralConvolution
from seqloom.layers.build import recurrent
from seqloom.layers.connection import CONNECTIONS
from seqloom.layers.convolution import Convolution
from seqloom.layers.layer import Layer
from seqloom.testing.laws import make_mask, noise, randomize
from seqloom.testing.layers import Direction, LayerCase

__all__ = ["HIDDEN", "INPUT", "build", "cells", "classes", "layers", "make_mask", "noise", "randomize"]

MakeCell = Callable[[int, int], Cell]  # input size, hidden size
MakeLayer = Callable[[MakeCell, int, int], Layer]

INPUT, HIDDEN = 3, 5  # one pair of sizes for all contract tests: a kernel is compiled once for them

SLOPES: dict[str, dict[str, Any]] = {"leaky_relu": {"negative_slope": 0.2}, "elu": {"elu_alpha": 0.7}}
OPTIONS: dict[type[Cell], list[dict[str, Any]]] = {
    Elman: [{"activation": name} | SLOPES.get(name, {}) for name in ACTIVATIONS]
    + [{"activation": "maxout", "pieces": 3}],
    GRU: [{"reset": "before"}, {"reset": "before", "update_gate": "write"}, {"reset": "after"}],
    Peephole: [
        {},
        {"peepholes": ("output",)},
        {"peephole_weights": "full"},
        {"peepholes": ("input", "forget")},
    ],
    SLSTM: [{"forget_gate": "exponential"}, {}],
}


def classes() -> list[type[Cell]]:
    """Every concrete cell class in seqloom.cells."""
    modules = [
        import_module(f"{seqloom.cells.__name__}.{entry.name}") for entry in iter_modules(seqloom.cells.__path__)
    ]
    members = [value for module in modules for value in vars(module).values() if inspect.isclass(value)]
    concrete = [value for value in members if issubclass(value, Cell) and not inspect.isabstract(value)]
    return sorted(set(concrete), key=lambda value: value.__name__)


@cache
def cells() -> dict[str, MakeCell]:
    """Every cell in each of its variants, by the name that a test report shows."""
    makers: dict[str, MakeCell] = {}
    for value in classes():
        if issubclass(value, Wrapper):
            for inner in (LSTM, GRU):
                makers[f"{value.__name__}({inner.__name__})"] = wrapping_maker(value, inner)
            continue
        for options in OPTIONS.get(value, [{}]):
            makers[label(value, options)] = maker(value, options)
        if "bias" in inspect.signature(value).parameters:
            options = OPTIONS.get(value, [{}])[-1] | {"bias": False}
            makers[label(value, options)] = maker(value, options)
    makers["Zoneout(RecurrentDropout(GRU))"] = lambda m, n: Zoneout(RecurrentDropout(GRU(m, n), 0.4), 0.3)
    return makers


@cache
def layers() -> dict[str, MakeLayer]:
    """Every arrangement of recurrent layers, for any cell."""
    arrangements = {
        "forward": arranged(),
        "reverse": arranged(reverse=True),
        "bidirectional": arranged(bidirectional=True),
        "stack-reverse": arranged(layers=2, reverse=True),
        "stack-bidirectional": arranged(layers=2, bidirectional=True, connection="residual"),
    }
    return arrangements | {
        f"stack-{connection}": arranged(layers=2, connection=connection) for connection in CONNECTIONS
    }


@cache
def convolutions(*, dtype: torch.dtype = torch.float64) -> dict[str, Layer]:
    """Every feed-forward layer with random weights; tests share them and must not change them."""
    named: dict[str, Layer] = {}
    for window, causal in product((1, 2, 5), (True, False)):
        layer = Convolution(INPUT, HIDDEN, window=window, activation="tanh", causal=causal).eval()
        randomize(layer, dtype=dtype)
        named[f"{'causal' if causal else 'centred'}-{window}"] = layer
    return named


def spectral_convolution(bands: int, *, causal: bool, normalize: bool) -> Layer:
    """Convolutions over the bands of a spectrum, with random weights in float32."""
    layer = SpectralConvolution(bands, input_channels=2, channels=8, causal=causal, normalize=normalize).eval()
    randomize(layer, dtype=torch.float32)
    return layer


class Leaky(Cell):
    """A user's cell: nothing of it is known to the exports, also not its projection."""

    class State(NamedTuple):
        hidden: Tensor
        trace: Tensor

    gates: ClassVar[tuple[str, ...]] = ()

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=2)
        self.recurrent = recurrence(hidden_size)
        self.rate = nn.Parameter(torch.zeros(hidden_size))

    def project(self, x: Tensor) -> Tensor:
        return torch.tanh(self.input(x))

    def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        first, second = projected.chunk(2, dim=-1)
        rate = torch.sigmoid(self.rate)
        hidden = rate * state.hidden + (1 - rate) * torch.relu(first + self.recurrent(state.trace))
        trace = torch.where(second > 0, hidden.softmax(dim=-1), state.trace)
        return self.State(hidden / (1 + hidden.abs().amax(dim=-1, keepdim=True)), trace), ()


def user_layer() -> Layer:
    """Layers of a user's cell in both directions, with random weights in float32."""
    layer = recurrent(Leaky, INPUT, HIDDEN, layers=2, bidirectional=True).eval()
    randomize(layer, dtype=torch.float32)
    return layer


def label(value: type[Cell], options: dict[str, Any]) -> str:
    return f"{value.__name__}({', '.join(f'{key}={option}' for key, option in options.items())})"


def maker(value: type[Cell], options: dict[str, Any]) -> MakeCell:
    return lambda m, n: value(m, n, **options)


def wrapping_maker(value: type[Wrapper], inner: type[Cell]) -> MakeCell:
    return lambda m, n: value(inner(m, n), 0.3)


def arranged(**options: Any) -> MakeLayer:
    return lambda make, m, n: recurrent(make, m, n, **options)


@cache  # tests share the layer and must not change it: its kernel is compiled once
def build(cell: str, layer: str = "forward", *, dtype: torch.dtype = torch.float64) -> Layer:
    """A layer of the registry by its names, with random weights, in eval mode."""
    built = layers()[layer](cells()[cell], INPUT, HIDDEN).to(dtype).eval()
    randomize(built, dtype=dtype)
    return built


def direction(layer: str) -> Direction:
    """How an arrangement reads."""
    return "both" if "bidirectional" in layer else "backward" if "reverse" in layer else "forward"


def recurrent_case(cell: str, layer: str = "forward", *, dtype: torch.dtype = torch.float64) -> LayerCase:
    # Only rounding may differ: the number of rows in a product decides the order of its additions.
    tolerance = {torch.float64: 1e-13, torch.float32: 1e-6}[dtype]
    return LayerCase(build(cell, layer, dtype=dtype), f"{cell}, {layer}", direction(layer), tolerance=tolerance)
