"""The bridge from an encoder to a decoder: how the recurrence of one begins with what the other ended with."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from seqloom.layers.attention.decoder_attention import BahdanauAttention, mean_memory
from seqloom.layers.layer import Layer, Memory
from seqloom.layers.recurrent.bidirectional import Bidirectional
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack

KINDS = ("linear", "copy", "zero")


class Place(NamedTuple):
    """Where in a state the state of a cell is, and what it consists of."""

    path: tuple[int, ...]
    fields: dict[str, int]  # their widths by name; the first is the output


Level = list[Place]
"""One layer: a place for each direction."""


class Bridged(Layer):
    """A decoder's layer whose recurrences begin with what the encoder ended with; in all else it is the layer inside.

    linear: each field is W s + b, where s is all that the matching layer of the encoder ended with, both directions
            and all fields; tanh of it for the output field. All kinds, widths and directions fit. An encoder without
            recurrence gives the mean of its memory.
    copy:   the same fields, as they are; two directions side by side.
    zero:   nothing.

    Layers are matched from the top; a decoder that is deeper begins its lowest layers as the encoder's lowest ended.
    """

    def __init__(
        self,
        layer: Layer,
        encoder: Layer | None,  # what memory.state comes from; None: not from a layer of this library
        *,
        memory_size: int,  # the width of memory.values
        kind: str = "linear",
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}, expected one of {', '.join(KINDS)}")
        super().__init__(layer.input_size, layer.output_size)
        self.layer = layer
        self.kind = kind
        below = [] if encoder is None else levels(encoder)
        self.targets = [place for level in levels(layer) for place in level]
        self.sources = _matched(below, len(self.targets))
        self.maps = nn.ModuleList()
        if kind == "copy":
            for index, (target, source) in enumerate(zip(self.targets, self.sources, strict=True)):
                _check_copy(index, target, source)
        if kind == "linear":
            for target, source in zip(self.targets, self.sources, strict=True):
                width = sum(sum(place.fields.values()) for place in source) or memory_size
                self.maps.append(nn.ModuleList(_map(width, size) for size in target.fields.values()))

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> Any:
        state = self.layer.start(batch, memory, coverage=coverage)
        if self.kind == "zero":
            return state
        if memory is None:
            raise ValueError(f"memory is None, but a bridge of kind {self.kind!r} begins with it")
        for index, (target, source) in enumerate(zip(self.targets, self.sources, strict=True)):
            ended = [_get(memory.state, place.path) for place in source]
            fields = self._copied(ended) if self.kind == "copy" else self._mapped(index, ended, memory)
            state = _put(state, target.path, fields)
        return state

    def _copied(self, ended: list[Any]) -> list[Tensor]:
        return [torch.cat(directions, dim=1) for directions in zip(*ended, strict=True)]

    def _mapped(self, index: int, ended: list[Any], memory: Memory) -> list[Tensor]:
        read = torch.cat([field for state in ended for field in state], dim=1) if ended else mean_memory(memory)
        output, *others = (linear(read) for linear in cast(nn.ModuleList, self.maps[index]))
        return [torch.tanh(output), *others]

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        y, state = self.layer(x, mask, state)
        return y, state

    def extra_repr(self) -> str:
        return f"kind={self.kind}"


def levels(layer: Layer, path: tuple[int, ...] = ()) -> list[Level]:
    """The recurrences of a layer, lowest first."""
    if isinstance(layer, Bridged):
        return levels(layer.layer, path)
    if isinstance(layer, Stack):
        return [
            level for index, inner in enumerate(layer.layers) for level in levels(cast(Layer, inner), (*path, index))
        ]
    if isinstance(layer, Bidirectional):
        return [[_place(layer.ahead, (*path, 0)), _place(layer.back, (*path, 1))]]
    if isinstance(layer, BahdanauAttention):
        return [[_place(layer, (*path, 0))]]
    return [[_place(layer, path)]] if isinstance(layer, Recurrent) else []


def _place(layer: Recurrent | BahdanauAttention, path: tuple[int, ...]) -> Place:
    start = layer.cell.start(1)
    return Place(path, {name: field.shape[1] for name, field in zip(start._fields, start, strict=True)})


def _matched(below: list[Level], count: int) -> list[Level]:
    """For each of ``count`` recurrences of the decoder, lowest first, the layer of the encoder that it begins with."""
    return [below[max(0, len(below) - count + index)] if below else [] for index in range(count)]


def _map(size: int, output_size: int) -> nn.Linear:
    linear = nn.Linear(size, output_size)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def _check_copy(index: int, target: Place, source: Level) -> None:
    expected = target.fields
    found = {name: sum(place.fields.get(name, 0) for place in source) for place in source for name in place.fields}
    if found != expected:
        there = f"fields of widths {found}" if source else "no recurrence"
        raise ValueError(
            f"the encoder has {there}, and recurrence {index} of the decoder {expected}: a copy needs the same; "
            "kind 'linear' fits any"
        )


def _get(state: Any, path: Sequence[int]) -> Any:
    for index in path:
        state = state[index]
    return state


def _put(state: Any, path: Sequence[int], fields: list[Tensor]) -> Any:
    """The state with the state of one cell replaced."""
    if not path:
        return type(state)(*fields)
    parts = list(state)
    parts[path[0]] = _put(parts[path[0]], path[1:], fields)
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
