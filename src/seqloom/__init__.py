"""Small sequence models on the machine you have: a cell is its equations, everything else is derived."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqloom import cells
    from seqloom.decoding.tokens.beam import Beam
    from seqloom.decoding.tokens.greedy import Greedy
    from seqloom.decoding.tokens.sample import Sample
    from seqloom.layers.attention.attention import Attention
    from seqloom.layers.build import recurrent
    from seqloom.layers.dropout import VariationalDropout
    from seqloom.layers.recurrent.bidirectional import Bidirectional
    from seqloom.layers.recurrent.recurrent import Recurrent
    from seqloom.layers.stack import Stack
    from seqloom.layers.torch_conversion import from_torch, to_torch
    from seqloom.layers.transformer.block import transformer
    from seqloom.model import load
    from seqloom.workflow import train

__version__ = "0.1.0"

__all__ = [
    "Attention",
    "Beam",
    "Bidirectional",
    "Greedy",
    "Recurrent",
    "Sample",
    "Stack",
    "VariationalDropout",
    "__version__",
    "cells",
    "from_torch",
    "load",
    "recurrent",
    "to_torch",
    "train",
    "transformer",
]

_HOMES = {
    "Attention": "seqloom.layers.attention.attention",
    "Beam": "seqloom.decoding.tokens.beam",
    "Bidirectional": "seqloom.layers.recurrent.bidirectional",
    "Greedy": "seqloom.decoding.tokens.greedy",
    "Recurrent": "seqloom.layers.recurrent.recurrent",
    "Sample": "seqloom.decoding.tokens.sample",
    "Stack": "seqloom.layers.stack",
    "VariationalDropout": "seqloom.layers.dropout",
    "from_torch": "seqloom.layers.torch_conversion",
    "load": "seqloom.model",
    "recurrent": "seqloom.layers.build",
    "to_torch": "seqloom.layers.torch_conversion",
    "train": "seqloom.workflow",
    "transformer": "seqloom.layers.transformer.block",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: torch takes a second or two, and not everyone needs it."""
    if name == "cells":
        return import_module("seqloom.cells")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
