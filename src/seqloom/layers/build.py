"""Recurrent layers by name: the shortcut for the usual arrangements."""

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from torch import nn

from seqloom import cells
from seqloom.cells.cell import Cell
from seqloom.cells.recurrent_dropout import RecurrentDropout
from seqloom.cells.wrapper import Wrapper
from seqloom.cells.zoneout import Zoneout
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
    connect: str = "plain",  # see Stack
    dropout: float = 0.0,  # between layers, so that one layer has none
    variational: bool = False,  # the same dropout mask at every time step
    zoneout: float = 0.0,
    recurrent_dropout: float = 0.0,
    **cell_options: Any,
) -> Layer:
    """A Recurrent layer, a Bidirectional one, or a Stack of them.

    For example ``recurrent("lstm", 100, 256, layers=2, bidirectional=True, connect="residual", dropout=0.3)``. In both
    directions together the width is twice the hidden size. ``cell_options`` go to the cell.
    """
    if layers < 1:
        raise ValueError(f"layers must be at least 1, got {layers}")
    if bidirectional and reverse:
        raise ValueError("bidirectional and reverse are both True: a bidirectional layer has a reverse one inside")
    make = find(cell) if isinstance(cell, str) else cell

    def one_way(size: int, *, backward: bool) -> Recurrent:
        inside = make(size, hidden_size, **cell_options)
        if recurrent_dropout:
            inside = RecurrentDropout(inside, recurrent_dropout)
        if zoneout:
            inside = Zoneout(inside, zoneout)
        return Recurrent(inside, reverse=backward)

    def layer(size: int) -> Layer:
        if bidirectional:
            return Bidirectional(one_way(size, backward=False), one_way(size, backward=True))
        return one_way(size, backward=reverse)

    if layers == 1 and connect == "plain":
        return layer(input_size)
    width = 2 * hidden_size if bidirectional else hidden_size
    sizes = [input_size + index * width if connect == "dense" else width for index in range(1, layers)]
    between: nn.Module = VariationalDropout(dropout) if variational else Dropout(dropout)
    return Stack([layer(size) for size in (input_size, *sizes)], connect=connect, dropout=between)


def names() -> dict[str, type[Cell]]:
    """The cells by the names of their files, without those that wrap another cell."""
    found = {}
    for entry in iter_modules(cells.__path__):
        module = import_module(f"{cells.__name__}.{entry.name}")
        for value in vars(module).values():
            concrete = inspect.isclass(value) and issubclass(value, Cell) and not inspect.isabstract(value)
            if concrete and not issubclass(value, Wrapper) and value.__module__ == module.__name__:
                found[entry.name] = value
    return found


def find(name: str) -> type[Cell]:
    """The cell of that name, or an error with the nearest name and all of them."""
    known = names()
    if name in known:
        return known[name]
    near = [f"did you mean {found!r}? " for found in get_close_matches(name.lower(), known, n=1, cutoff=0.5)]
    raise ValueError(f"cell is {name!r}: {''.join(near)}Wanted one of {', '.join(known)}, or a cell class")
