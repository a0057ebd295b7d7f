"""Bridge from encoder to decoder: the decoder's initial state is computed from the encoder's last state."""

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


class CellState(NamedTuple):
    """Position of a cell's state within a layer's state, and its fields."""

    path: tuple[int, ...]
    fields: dict[str, int]  # widths by name; the first field is the output


Level = list[CellState]
"""One recurrent layer: a cell state for each direction."""


class BridgedLayer(Layer):
    """Wraps a decoder layer whose recurrences start from the encoder's last state.

    linear: each field is W s + b, with tanh for the output field, where s is the last state of the matching encoder
            layer: all fields of both directions. Cells, widths and directions may differ. For an encoder without
            recurrence s is the mean of its memory.
    copy:   the fields of the encoder layer, with two directions concatenated. For an encoder without recurrence, the
            mean of its memory is the output field, and the others are zero.
    zero:   zeros.

    Layers are matched from the top; the extra low layers of a deeper decoder use the encoder's lowest layer.
    """

    def __init__(
        self,
        layer: Layer,
        encoder: Layer | None,  # the layer that returns memory.state; None: not a Layer
        *,
        memory_size: int,  # width of memory.values
        kind: str = "linear",
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}, expected one of {', '.join(KINDS)}")
        super().__init__(layer.input_size, layer.output_size)
        self.layer = layer
        self.kind = kind
        encoder_levels = [] if encoder is None else recurrent_levels(encoder)
        self.targets = [cell_state for level in recurrent_levels(layer) for cell_state in level]
        self.sources = _match_levels(encoder_levels, len(self.targets))
        self.maps = nn.ModuleList()
        if kind == "copy":
            for index, (target, source) in enumerate(zip(self.targets, self.sources, strict=True)):
                _check_copy(index, target, source, memory_size=memory_size)
        if kind == "linear":
            for target, source in zip(self.targets, self.sources, strict=True):
                width = sum(sum(cell_state.fields.values()) for cell_state in source) or memory_size
                self.maps.append(nn.ModuleList(_linear(width, size) for size in target.fields.values()))

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> Any:
        state = self.layer.start(batch, memory, coverage=coverage)
        if self.kind == "zero":
            return state
        if memory is None:
            raise ValueError(f"memory is None, but the {self.kind} bridge needs it: call start(batch, memory)")
        for index, (target, source) in enumerate(zip(self.targets, self.sources, strict=True)):
            last = [_get(memory.state, cell_state.path) for cell_state in source]
            fields = self._copy(index, last, memory) if self.kind == "copy" else self._map(index, last, memory)
            state = _replace(state, target.path, fields)
        return state

    def _copy(self, index: int, last: list[Any], memory: Memory) -> list[Tensor]:
        if not last:
            mean = mean_memory(memory)
            _, *others = self.targets[index].fields.values()
            return [mean, *(mean.new_zeros(len(mean), size) for size in others)]
        return [torch.cat(directions, dim=1) for directions in zip(*last, strict=True)]

    def _map(self, index: int, last: list[Any], memory: Memory) -> list[Tensor]:
        inputs = torch.cat([field for state in last for field in state], dim=1) if last else mean_memory(memory)
        output, *others = (linear(inputs) for linear in cast(nn.ModuleList, self.maps[index]))
        return [torch.tanh(output), *others]

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        y, state = self.layer(x, mask, state)
        return y, state

    def extra_repr(self) -> str:
        return f"kind={self.kind}"


def recurrent_levels(layer: Layer, path: tuple[int, ...] = ()) -> list[Level]:
    """Return the cell states of all recurrent layers inside a layer, lowest first."""
    if isinstance(layer, BridgedLayer):
        return recurrent_levels(layer.layer, path)
    if isinstance(layer, Stack):
        return [
            level
            for index, inner in enumerate(layer.layers)
            for level in recurrent_levels(cast(Layer, inner), (*path, index))
        ]
    if isinstance(layer, Bidirectional):
        return [[_cell_state(layer.forward_layer, (*path, 0)), _cell_state(layer.backward_layer, (*path, 1))]]
    if isinstance(layer, BahdanauAttention):
        return [[_cell_state(layer, (*path, 0))]]
    return [[_cell_state(layer, path)]] if isinstance(layer, Recurrent) else []


def _cell_state(layer: Recurrent | BahdanauAttention, path: tuple[int, ...]) -> CellState:
    start = layer.cell.start(1)
    return CellState(path, {name: field.shape[1] for name, field in zip(start._fields, start, strict=True)})


def _match_levels(levels: list[Level], count: int) -> list[Level]:
    """Return the encoder level for each of ``count`` recurrences of the decoder, lowest first."""
    return [levels[max(0, len(levels) - count + index)] if levels else [] for index in range(count)]


def _linear(size: int, output_size: int) -> nn.Linear:
    linear = nn.Linear(size, output_size)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def _check_copy(index: int, target: CellState, source: Level, *, memory_size: int) -> None:
    names = dict.fromkeys(name for cell_state in source for name in cell_state.fields)
    widths = {name: sum(cell_state.fields.get(name, 0) for cell_state in source) for name in names}
    fits = widths == target.fields if source else memory_size == next(iter(target.fields.values()))
    if not fits:
        available = f"fields of widths {widths}" if source else f"no recurrence, and a memory of width {memory_size}"
        raise ValueError(
            f"the encoder has {available}, but recurrence {index} of the decoder has {target.fields}: "
            "copy needs equal fields; change hidden_size, or use the linear bridge"
        )


def _get(state: Any, path: Sequence[int]) -> Any:
    for index in path:
        state = state[index]
    return state


def _replace(state: Any, path: Sequence[int], fields: list[Tensor]) -> Any:
    """Return the state with the fields of one cell replaced."""
    if not path:
        return type(state)(*fields)
    parts = list(state)
    parts[path[0]] = _replace(parts[path[0]], path[1:], fields)
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
