"""Build the common arrangements of recurrent layers from a cell's name."""

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from torch import nn

from seqloom import cells
from seqloom.cells.cell import Cell
from seqloom.cells.wrapper import RecurrentDropout, Wrapper, Zoneout
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.layer import Layer
from seqloom.layers.recurrent.bidirectional import Bidirectional
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack


def recurrent(
    cell: str | Callable[..., Cell],  # the name of a file in cells/, or a cell class
    input_size: int,
    hidden_size: int,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    reverse: bool = False,
    connection: str = "plain",  # see Stack
    dropout: float = 0.0,  # between layers; a single layer has none
    variational_dropout: bool = False,  # the same dropout mask at every time step
    zoneout: float = 0.0,
    recurrent_dropout: float = 0.0,
    **cell_options: Any,
) -> Layer:
    """A Recurrent layer, a Bidirectional one, or a Stack of them.

    For example ``recurrent("lstm", 100, 256, layers=2, bidirectional=True, connection="residual", dropout=0.3)``. A
    bidirectional layer is twice as wide as ``hidden_size``. ``cell_options`` are passed to the cell.
    """
    if layers < 1:
        raise ValueError(f"layers must be at least 1, got {layers}")
    if bidirectional and reverse:
        raise ValueError("bidirectional and reverse are both True: a bidirectional layer contains a reverse one")
    make_cell = find_cell(cell) if isinstance(cell, str) else cell

    def one_direction(size: int, *, backward: bool) -> Recurrent:
        inner = make_cell(size, hidden_size, **cell_options)
        if recurrent_dropout:
            inner = RecurrentDropout(inner, recurrent_dropout)
        if zoneout:
            inner = Zoneout(inner, zoneout)
        return Recurrent(inner, reverse=backward)

    def layer(size: int) -> Layer:
        if bidirectional:
            return Bidirectional(one_direction(size, backward=False), one_direction(size, backward=True))
        return one_direction(size, backward=reverse)

    if layers == 1 and connection == "plain":
        return layer(input_size)
    width = 2 * hidden_size if bidirectional else hidden_size
    sizes = [input_size + index * width if connection == "dense" else width for index in range(1, layers)]
    between_layers: nn.Module = VariationalDropout(dropout) if variational_dropout else Dropout(dropout)
    return Stack([layer(size) for size in (input_size, *sizes)], connection=connection, dropout=between_layers)


def cell_classes() -> dict[str, type[Cell]]:
    """Return all cell classes by file name, except those that wrap another cell."""
    classes = {}
    for entry in iter_modules(cells.__path__):
        module = import_module(f"{cells.__name__}.{entry.name}")
        for value in vars(module).values():
            concrete = inspect.isclass(value) and issubclass(value, Cell) and not inspect.isabstract(value)
            if concrete and not issubclass(value, Wrapper) and value.__module__ == module.__name__:
                classes[entry.name] = value
    return classes


def find_cell(name: str) -> type[Cell]:
    """Return the cell class of this name, or raise an error that suggests the nearest name."""
    classes = cell_classes()
    if name in classes:
        return classes[name]
    hint = [f"did you mean {near!r}? " for near in get_close_matches(name.lower(), classes, n=1, cutoff=0.5)]
    raise ValueError(f"cell is {name!r}: {''.join(hint)}Expected one of {', '.join(classes)}, or a cell class")
