"""Small sequence models on the machine you have: a cell is its equations, everything else is derived."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqloom import cells
    from seqloom.decoding.beam import Beam
    from seqloom.decoding.greedy import Greedy
    from seqloom.decoding.sample import Sample
    from seqloom.layers.attention import Attention
    from seqloom.layers.bidirectional import Bidirectional
    from seqloom.layers.build import recurrent
    from seqloom.layers.dropout import Variational
    from seqloom.layers.exchange import from_torch, to_torch
    from seqloom.layers.recurrent import Recurrent
    from seqloom.layers.stack import Stack
    from seqloom.layers.transformer import transformer
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
    "Variational",
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
    "Attention": "seqloom.layers.attention",
    "Beam": "seqloom.decoding.beam",
    "Bidirectional": "seqloom.layers.bidirectional",
    "Greedy": "seqloom.decoding.greedy",
    "Recurrent": "seqloom.layers.recurrent",
    "Sample": "seqloom.decoding.sample",
    "Stack": "seqloom.layers.stack",
    "Variational": "seqloom.layers.dropout",
    "from_torch": "seqloom.layers.exchange",
    "load": "seqloom.model",
    "recurrent": "seqloom.layers.build",
    "to_torch": "seqloom.layers.exchange",
    "train": "seqloom.workflow",
    "transformer": "seqloom.layers.transformer",
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
