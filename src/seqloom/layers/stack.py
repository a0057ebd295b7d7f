"""Stacked layers."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from torch import Tensor, nn

from seqloom.layers.connection import CONNECTIONS, Plain
from seqloom.layers.dropout import Dropout
from seqloom.layers.layer import Layer, Memory, check_input

Call = Callable[[Layer, Tensor, Tensor | None, Any], tuple[Layer, Tensor, Any]]
"""Runs a layer and returns the innermost last layer, its output and the new state."""


class Stack(Layer):
    """Each layer reads the output of the one below; ``connection`` combines a layer's output y with its input x.

    plain: y. residual: y + x. highway: t ∘ y + (1 - t) ∘ x with a learned gate t. dense: [x; y], so that a layer reads
    the input and all earlier outputs; the output of the stack is that of the last layer only.

    Dropout is applied to the input of each layer but the first, not to the skip connections. The state is the tuple of
    the layers' states.
    """

    def __init__(
        self,
        layers: Iterable[Layer],
        *,
        connection: str = "plain",
        dropout: float | nn.Module = 0.0,  # a rate, or a module such as VariationalDropout
    ) -> None:
        layers = list(layers)
        if not layers:
            raise ValueError("layers is empty, expected at least one layer")
        if connection not in CONNECTIONS:
            raise ValueError(f"connection is {connection!r}, expected one of {', '.join(CONNECTIONS)}")
        for index, layer in enumerate(layers):
            if not isinstance(layer, Layer):
                raise TypeError(f"layer {index} is {type(layer).__qualname__}, expected a seqloom Layer")
        size = layers[0].input_size
        connections = []
        for index, layer in enumerate(layers):
            if layer.input_size != size:
                raise ValueError(
                    f"layer {index} has input_size {layer.input_size}, expected {size}: the width of its input"
                )
            kind = Plain if connection == "dense" and index == len(layers) - 1 else CONNECTIONS[connection]
            connections.append(kind(layer.input_size, layer.output_size))
            size = connections[-1].size
        super().__init__(layers[0].input_size, size)
        self.connection = connection
        self.layers = nn.ModuleList(layers)
        self.connections = nn.ModuleList(connections)
        self.dropout = dropout if isinstance(dropout, nn.Module) else Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, tuple[Any, ...]]:
        states = []
        for _, output, next_state in self._run(x, mask, state, _call):
            x = output
            states.append(next_state)
        return x, tuple(states)

    def layer_outputs(
        self,
        x: Tensor,  # (B, T, input_size)
        mask: Tensor | None = None,  # (B, T)
        state: Any = None,
    ) -> tuple[list[tuple[Layer, Tensor]], tuple[Any, ...]]:
        """Like ``forward``, but return every layer, those of nested stacks included, with its output."""
        outputs: list[tuple[Layer, Tensor]] = []
        states = []

        def call(layer: Layer, x: Tensor, mask: Tensor | None, state: Any) -> tuple[Layer, Tensor, Any]:
            if not isinstance(layer, Stack):
                return _call(layer, x, mask, state)
            (*lower, (last, y)), next_state = layer.layer_outputs(x, mask, state)
            outputs.extend(lower)
            return last, y, next_state

        for layer, output, next_state in self._run(x, mask, state, call):
            outputs.append((layer, output))
            states.append(next_state)
        return outputs, tuple(states)

    def _run(self, x: Tensor, mask: Tensor | None, state: Any, call: Call) -> Iterator[tuple[Layer, Tensor, Any]]:
        """Yield each layer, the input of the next one, and the layer's state."""
        check_input(x, mask, size=self.input_size, like=next(self.parameters()))
        if state is None:
            state = (None,) * len(self.layers)
        if not isinstance(state, tuple) or len(state) != len(self.layers):
            raise TypeError(f"state is {_describe(state)}, expected a tuple of the states of {len(self.layers)} layers")
        if mask is not None:
            # A skip connection must not pass on the content of the padding.
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        for index, (layer, combine) in enumerate(zip(self.layers, self.connections, strict=True)):
            last, y, next_state = call(cast(Layer, layer), self.dropout(x) if index else x, mask, state[index])
            x = combine(x, y)
            yield last, x, next_state

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> tuple[Any, ...]:
        return tuple(cast(Layer, layer).start(batch, memory, coverage=coverage) for layer in self.layers)

    def extra_repr(self) -> str:
        return f"connection={self.connection}"


def _call(layer: Layer, x: Tensor, mask: Tensor | None, state: Any) -> tuple[Layer, Tensor, Any]:
    return layer, *layer(x, mask, state)


def _describe(state: object) -> str:
    return f"a tuple of {len(state)}" if isinstance(state, tuple) else type(state).__name__
