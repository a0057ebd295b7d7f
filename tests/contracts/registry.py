"""Everything that the contracts are tested on: found, not listed, so that a new cell is tested by existing."""

import inspect
from collections.abc import Callable
from functools import cache
from importlib import import_module
from itertools import product
from pkgutil import iter_modules
from typing import Any

import torch
from torch import nn

import seqloom.cells
from seqloom.cells.cell import Cell
from seqloom.cells.elman import ACTIVATIONS, Elman
from seqloom.cells.gru import GRU
from seqloom.cells.lstm import LSTM
from seqloom.cells.peephole import Peephole
from seqloom.cells.recurrent_dropout import RecurrentDropout
from seqloom.cells.wrapper import Wrapper
from seqloom.cells.zoneout import Zoneout
from seqloom.layers.build import recurrent
from seqloom.layers.connection import CONNECTIONS
from seqloom.layers.convolution import Convolution
from seqloom.layers.layer import Layer

MakeCell = Callable[[int, int], Cell]  # input size, hidden size
MakeLayer = Callable[[MakeCell, int, int], Layer]

INPUT, HIDDEN = 3, 5  # the sizes in all contract tests: a kernel is compiled once for them

OPTIONS: dict[type[Cell], list[dict[str, Any]]] = {
    Elman: [{"activation": name} for name in ACTIVATIONS] + [{"activation": "maxout", "pieces": 3}],
    GRU: [{"reset": "before"}, {"reset": "after"}],
    Peephole: [{}, {"peepholes": ("output",)}, {"peepholes": ("input", "forget")}],
}


def classes() -> list[type[Cell]]:
    """Every cell class in seqloom.cells that can be made."""
    modules = [
        import_module(f"{seqloom.cells.__name__}.{entry.name}") for entry in iter_modules(seqloom.cells.__path__)
    ]
    members = [value for module in modules for value in vars(module).values() if inspect.isclass(value)]
    found = [value for value in members if issubclass(value, Cell) and not inspect.isabstract(value)]
    return sorted(set(found), key=lambda value: value.__name__)


@cache
def cells() -> dict[str, MakeCell]:
    """Every cell, with every variant that is worth a test, by a name for the test's report."""
    found: dict[str, MakeCell] = {}
    for value in classes():
        if issubclass(value, Wrapper):
            for inside in (LSTM, GRU):
                found[f"{value.__name__}({inside.__name__})"] = wrapped(value, inside)
            continue
        for options in OPTIONS.get(value, [{}]):
            found[label(value, options)] = made(value, options)
        if "bias" in inspect.signature(value).parameters:
            options = OPTIONS.get(value, [{}])[-1] | {"bias": False}
            found[label(value, options)] = made(value, options)
    found["Zoneout(RecurrentDropout(GRU))"] = lambda m, n: Zoneout(RecurrentDropout(GRU(m, n), 0.4), 0.3)
    return found


@cache
def layers() -> dict[str, MakeLayer]:
    """Every arrangement of layers, for any cell."""
    found = {
        "forward": arranged(),
        "reverse": arranged(reverse=True),
        "bidirectional": arranged(bidirectional=True),
        "stack-reverse": arranged(layers=2, reverse=True),
        "stack-bidirectional": arranged(layers=2, bidirectional=True, connect="residual"),
    }
    return found | {f"stack-{connect}": arranged(layers=2, connect=connect) for connect in CONNECTIONS}


@cache
def convolutions() -> dict[str, Layer]:
    """Every feed-forward layer, shaken, in double precision; tests share them and leave them as they are."""
    found: dict[str, Layer] = {}
    for window, causal in product((1, 2, 5), (True, False)):
        layer = Convolution(INPUT, HIDDEN, window=window, activation="tanh", causal=causal)
        shake(layer)
        found[f"{'causal' if causal else 'centred'}-{window}"] = layer
    return found


def label(value: type[Cell], options: dict[str, Any]) -> str:
    return f"{value.__name__}({', '.join(f'{key}={option}' for key, option in options.items())})"


def made(value: type[Cell], options: dict[str, Any]) -> MakeCell:
    return lambda m, n: value(m, n, **options)


def wrapped(value: type[Wrapper], inside: type[Cell]) -> MakeCell:
    return lambda m, n: value(inside(m, n), 0.3)


def arranged(**options: Any) -> MakeLayer:
    return lambda make, m, n: recurrent(make, m, n, **options)


def shake(module: nn.Module, *, seed: int = 0, dtype: torch.dtype = torch.float64) -> None:
    """Random values for all parameters, so that none hides by being zero or one; the same in either precision."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    module.to(dtype)


@cache  # tests share it and leave it as it is: a kernel is looked up once per layer
def build(cell: str, layer: str = "forward", *, seed: int = 0, dtype: torch.dtype = torch.float64) -> Layer:
    """A layer of the registry by its names, shaken, in eval mode, where nothing is random."""
    found = layers()[layer](cells()[cell], INPUT, HIDDEN).to(dtype).eval()
    shake(found, seed=seed, dtype=dtype)
    return found


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Normal random numbers, the same in either precision."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def masked(lengths: list[int], time: int) -> torch.Tensor:
    """The mask (B, T) of rows of the given lengths."""
    return torch.arange(time) < torch.tensor(lengths).view(-1, 1)
