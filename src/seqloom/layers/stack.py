"""Layers on top of each other."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from torch import Tensor, nn

from seqloom.layers.connection import CONNECTIONS, Plain
from seqloom.layers.dropout import Dropout
from seqloom.layers.layer import Layer, Memory, check_input

Call = Callable[[Layer, Tensor, Tensor | None, Any], tuple[Layer, Tensor, Any]]
"""Runs a layer: the last one that was run, its output, the state."""


class Stack(Layer):
    """Each layer reads the one below; ``connect`` says how a layer's output y meets what it read, x.

    plain: y. residual: y + x. highway: t ∘ y + (1 - t) ∘ x with a learnt gate t. dense: x and y side by side, so that a
    layer reads the input and all earlier outputs; the output is the last layer's alone.

    Dropout acts between layers, on what a layer reads from those below, not on what skips it. The state is the tuple of
    the layers' states.
    """

    def __init__(
        self,
        layers: Iterable[Layer],
        *,
        connect: str = "plain",
        dropout: float | nn.Module = 0.0,  # a rate, or a module such as Variational
    ) -> None:
        layers = list(layers)
        if not layers:
            raise ValueError("layers is empty, expected at least one layer")
        if connect not in CONNECTIONS:
            raise ValueError(f"connect is {connect!r}, expected one of {', '.join(CONNECTIONS)}")
        for index, layer in enumerate(layers):
            if not isinstance(layer, Layer):
                raise TypeError(f"layer {index} is {type(layer).__qualname__}, expected a Layer of this library")
        size = layers[0].input_size
        connections = []
        for index, layer in enumerate(layers):
            if layer.input_size != size:
                raise ValueError(
                    f"layer {index} has input_size {layer.input_size}, expected {size}: what it reads is that wide"
                )
            kind = Plain if connect == "dense" and index == len(layers) - 1 else CONNECTIONS[connect]
            connections.append(kind(layer.input_size, layer.output_size))
            size = connections[-1].size
        super().__init__(layers[0].input_size, size)
        self.connect = connect
        self.layers = nn.ModuleList(layers)
        self.connections = nn.ModuleList(connections)
        self.dropout = dropout if isinstance(dropout, nn.Module) else Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, tuple[Any, ...]]:
        states = []
        for _, found, following in self._run(x, mask, state, _call):
            x = found
            states.append(following)
        return x, tuple(states)

    def levels(
        self,
        x: Tensor,  # (B, T, input_size)
        mask: Tensor | None = None,  # (B, T)
        state: Any = None,
    ) -> tuple[list[tuple[Layer, Tensor]], tuple[Any, ...]]:
        """As ``forward``, with all that is made on the way: each layer, also those of stacks inside, and its output."""
        found: list[tuple[Layer, Tensor]] = []
        states = []

        def call(layer: Layer, x: Tensor, mask: Tensor | None, state: Any) -> tuple[Layer, Tensor, Any]:
            if not isinstance(layer, Stack):
                return _call(layer, x, mask, state)
            (*lower, (last, y)), following = layer.levels(x, mask, state)
            found.extend(lower)
            return last, y, following

        for layer, output, following in self._run(x, mask, state, call):
            found.append((layer, output))
            states.append(following)
        return found, tuple(states)

    def _run(self, x: Tensor, mask: Tensor | None, state: Any, call: Call) -> Iterator[tuple[Layer, Tensor, Any]]:
        """Each layer, what the next one reads, and its state."""
        check_input(x, mask, size=self.input_size, like=next(self.parameters()))
        if state is None:
            state = (None,) * len(self.layers)
        if not isinstance(state, tuple) or len(state) != len(self.layers):
            raise TypeError(f"state is {describe(state)}, expected a tuple of the states of {len(self.layers)} layers")
        if mask is not None:
            # A skip connection must not carry what the padding holds.
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        for index, (layer, connection) in enumerate(zip(self.layers, self.connections, strict=True)):
            last, y, following = call(cast(Layer, layer), self.dropout(x) if index else x, mask, state[index])
            x = connection(x, y)
            yield last, x, following

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> tuple[Any, ...]:
        return tuple(cast(Layer, layer).start(batch, memory, coverage=coverage) for layer in self.layers)

    def extra_repr(self) -> str:
        return f"connect={self.connect}"


def _call(layer: Layer, x: Tensor, mask: Tensor | None, state: Any) -> tuple[Layer, Tensor, Any]:
    return layer, *layer(x, mask, state)


def describe(state: object) -> str:
    return f"a tuple of {len(state)}" if isinstance(state, tuple) else type(state).__name__
