"""Elements in, vectors that know their neighbours out: what stands between the input and the answer of every task."""

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Literal

from pydantic import Field, field_validator
from torch import Tensor, nn

from seqloom.cells.cell import Cell
from seqloom.config import Part
from seqloom.layers.build import find, names, recurrent
from seqloom.layers.convolution import Convolution
from seqloom.layers.dropout import Dropout, Variational
from seqloom.layers.layer import Layer, Memory
from seqloom.layers.own import Own
from seqloom.layers.stack import Stack

GivenLayer = type[Cell] | Callable[[int], nn.Module]
"""A user's own: a cell class, or a function from the width of the input to a module (see ``Own``)."""


class Front(Part):
    """Feed-forward or convolutional layers before the recurrence."""

    layers: int = Field(default=0, ge=0, description="How many; 0: the recurrence reads the input itself.")
    size: int = Field(default=128, ge=1, description="Width of each.")
    window: int = Field(
        default=1, ge=1, description="Elements that each output sees: 1 is a plain layer, more a convolution."
    )
    activation: Literal["relu", "tanh", "sigmoid", "leaky_relu", "elu", "gelu", "none"] = Field(
        default="relu", description="Their non-linearity."
    )


class Recurrence(Part):
    """Recurrent layers by name."""

    cell: str = Field(
        default="lstm", description="A file of cells/: elman, lstm, peephole, coupled, gru, layer_norm_lstm, …"
    )
    hidden: int = Field(default=128, ge=1, description="Width of each layer and direction.")
    layers: int = Field(
        default=1, ge=0, description="How many on top of each other; 0: none, the front is all there is."
    )
    bidirectional: bool = Field(default=False, description="Read in both directions.")
    connect: Literal["plain", "residual", "highway", "dense"] = Field(default="plain", description="How layers meet.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Between layers and on the output.")
    variational: bool = Field(default=False, description="The same dropout mask at every step.")
    zoneout: float = Field(default=0.0, ge=0, lt=1, description="Share of the state that stays as it was.")
    recurrent_dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout inside the recurrence.")
    options: dict[str, Any] = Field(default_factory=dict, description='Of the cell, such as { activation = "relu" }.')
    own: str = Field(
        default="", description="Name of a layer or cell of your own that is given with --layer; for information."
    )
    given: Any = Field(default=None, exclude=True, repr=False)  # GivenLayer, never saved: a run names no code to import

    @field_validator("cell")
    @classmethod
    def check_cell(cls, cell: str) -> str:
        known = names()
        if cell not in known:
            near = get_close_matches(cell.lower(), known, n=1, cutoff=0.5)
            hint = f'did you mean "{near[0]}"?' if near else "there is no such cell"
            raise ValueError(f"{hint} (allowed: {', '.join(known)})")
        return cell


def stack(front: Front, recurrence: Recurrence, input_size: int, *, causal: bool = False) -> Layer:
    """The front and the recurrent layers as one layer; ``causal`` where an output must not see later input."""
    if recurrence.own and recurrence.given is None:
        raise ValueError(
            f"this model was trained with a layer of your own, {recurrence.own}: give it again (--layer module:name)"
        )
    layers: list[Layer] = []
    size = input_size
    for _ in range(front.layers):
        layers.append(Convolution(size, front.size, window=front.window, activation=front.activation, causal=causal))
        size = front.size
    if recurrence.layers:
        layers.append(_recurrent(recurrence, size))
    if not layers:
        raise ValueError("front.layers and encoder.layers are both 0: there is nothing to train")
    between = Variational(recurrence.dropout) if recurrence.variational else Dropout(recurrence.dropout)
    return layers[0] if len(layers) == 1 else Stack(layers, dropout=between)


def _recurrent(recurrence: Recurrence, size: int) -> Layer:
    given = recurrence.given
    if given is not None and not (isinstance(given, type) and issubclass(given, Cell)):
        return Own(given(size), size)
    cell = given or find(recurrence.cell)
    known = list(inspect.signature(cell).parameters)[2:]
    for name in recurrence.options:
        if name not in known:
            near = [f": did you mean {found!r}?" for found in get_close_matches(name, known, n=1)]
            raise ValueError(f"the cell {recurrence.cell} has no option {name!r}{''.join(near)}")
    options = recurrence.model_dump(exclude={"cell", "hidden", "options", "own"})
    return recurrent(cell, size, recurrence.hidden, **options, **recurrence.options)


class Encoder(nn.Module):
    """An embedding of any input, then a layer."""

    def __init__(self, embed: nn.Module, layer: Layer, *, dropout: float = 0.0, variational: bool = False) -> None:
        super().__init__()
        self.embed = embed  # the task's inputs → (B, T, layer.input_size)
        self.layer = layer
        self.dropout: nn.Module = Variational(dropout) if variational else Dropout(dropout)
        self.size = layer.output_size

    def forward(
        self,
        inputs: Any,
        mask: Tensor,  # (B, T)
        state: Any = None,
    ) -> Memory:
        values, state = self.layer(self.embed(inputs), mask, state)
        return Memory(self.dropout(values), mask, state)
