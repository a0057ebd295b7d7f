"""Small sequence models on the machine you have: a cell is its equations, everything else is derived."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqloom import cells, explain, insight, layers, sklearn, state, testing
    from seqloom.cells.cell import Cell, projection, recurrence
    from seqloom.data.readers.vectors import write_npz
    from seqloom.decoding.tokens.beam import Beam
    from seqloom.decoding.tokens.greedy import Greedy
    from seqloom.decoding.tokens.sample import Sample
    from seqloom.diagnosis.doctor import doctor
    from seqloom.interactive.compare import compare
    from seqloom.interactive.train import resume, train
    from seqloom.layers.attention.attention import Attention
    from seqloom.layers.build import recurrent
    from seqloom.layers.dropout import VariationalDropout
    from seqloom.layers.layer import Layer
    from seqloom.layers.recurrent.bidirectional import Bidirectional
    from seqloom.layers.recurrent.recurrent import Recurrent
    from seqloom.layers.stack import Stack
    from seqloom.layers.torch_conversion import from_torch, to_torch
    from seqloom.layers.transformer.block import transformer
    from seqloom.model import load
    from seqloom.tuning.sweep import sweep

__version__ = "0.2.0"

__all__ = [
    "Attention",
    "Beam",
    "Bidirectional",
    "Cell",
    "Greedy",
    "Layer",
    "Recurrent",
    "Sample",
    "Stack",
    "VariationalDropout",
    "__version__",
    "cells",
    "compare",
    "doctor",
    "explain",
    "from_torch",
    "insight",
    "layers",
    "load",
    "projection",
    "recurrence",
    "recurrent",
    "resume",
    "sklearn",
    "state",
    "sweep",
    "testing",
    "to_torch",
    "train",
    "transformer",
    "write_npz",
]

_MODULES = {"cells", "explain", "insight", "layers", "sklearn", "state", "testing"}

_DEFINED_IN = {
    "Attention": "seqloom.layers.attention.attention",
    "Beam": "seqloom.decoding.tokens.beam",
    "Bidirectional": "seqloom.layers.recurrent.bidirectional",
    "Cell": "seqloom.cells.cell",
    "Greedy": "seqloom.decoding.tokens.greedy",
    "Layer": "seqloom.layers.layer",
    "Recurrent": "seqloom.layers.recurrent.recurrent",
    "Sample": "seqloom.decoding.tokens.sample",
    "Stack": "seqloom.layers.stack",
    "VariationalDropout": "seqloom.layers.dropout",
    "compare": "seqloom.interactive.compare",
    "doctor": "seqloom.diagnosis.doctor",
    "from_torch": "seqloom.layers.torch_conversion",
    "load": "seqloom.model",
    "projection": "seqloom.cells.cell",
    "recurrence": "seqloom.cells.cell",
    "recurrent": "seqloom.layers.build",
    "sweep": "seqloom.tuning.sweep",
    "resume": "seqloom.interactive.train",
    "to_torch": "seqloom.layers.torch_conversion",
    "train": "seqloom.interactive.train",
    "transformer": "seqloom.layers.transformer.block",
    "write_npz": "seqloom.data.readers.vectors",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: torch takes a second or two, and not everyone needs it."""
    if name in _MODULES:
        return import_module(f"seqloom.{name}")
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_DEFINED_IN[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
