"""Encoders: an embedding, then recurrent or Transformer layers, as configured by ``RecurrenceConfig``."""

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from itertools import groupby
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from seqloom.cells.cell import Cell
from seqloom.config import ConfigSection
from seqloom.config.names import KnownNames
from seqloom.config.schema import Unlisted
from seqloom.layers.build import cell_classes, find_cell, recurrent
from seqloom.layers.convolution import ActivationName, Convolution
from seqloom.layers.custom import CustomLayer, check_cell_class
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.layer import Layer, Memory
from seqloom.layers.layer_error import LayerError
from seqloom.layers.stack import Stack
from seqloom.layers.transformer.block import TransformerBlock, transformer

TRANSFORMER = "transformer"
"""The name of Transformer layers, in place of a cell's name."""

LayerFactory = type[Cell] | Callable[[int], nn.Module]
"""A custom cell class, or a function from the input size to a module (see ``CustomLayer``)."""


ConnectionName = Literal["plain", "residual", "highway", "dense"]


class HiddenLayersConfig(ConfigSection):
    """Layers with an activation function."""

    layers: int = Field(default=0, ge=0, le=1000, description="Number of layers (0: none).")
    size: int = Field(default=128, ge=1, description="Output size of each layer.")
    activation: ActivationName = Field(default="relu", description="Activation function of each layer.")
    negative_slope: float = Field(default=0.01, description="Slope of leaky_relu below 0.")
    elu_alpha: float = Field(default=1.0, gt=0, description="elu approaches minus this value below 0.")


class PrenetConfig(HiddenLayersConfig):
    """Feed-forward or convolutional layers before the recurrence."""

    window: int = Field(default=1, ge=1, description="Convolution width in time steps (1: a feed-forward layer).")
    connection: ConnectionName = Field(default="plain", description="Connection between the layers.")

    def build(self, input_size: int, *, causal: bool, dropout: nn.Module) -> list[Layer]:
        """The layers; connected ones as a single layer, with dropout between them."""
        layers: list[Layer] = []
        size = input_size
        for _ in range(self.layers):
            layer = Convolution(
                size,
                self.size,
                window=self.window,
                activation=self.activation,
                negative_slope=self.negative_slope,
                elu_alpha=self.elu_alpha,
                causal=causal,
            )
            layers.append(layer)
            size = size + self.size if self.connection == "dense" else self.size
        connected = layers and self.connection != "plain"
        return [Stack(layers, connection=self.connection, dropout=dropout)] if connected else layers


class RecurrenceConfig(ConfigSection):
    """Recurrent or Transformer layers."""

    cell: Annotated[str | tuple[str, ...], KnownNames("cell", lambda: [*cell_classes(), TRANSFORMER])] = Field(
        default="lstm",
        description='Cell: "lstm", "gru", "elman", … or "transformer"; or a list with one name per layer, such as '
        '["lstm", "transformer"].',
    )
    hidden_size: int = Field(default=128, ge=1, description="Output size of each layer and direction.")
    layers: int = Field(default=1, ge=0, le=1000, description="Number of stacked layers (0: only the prenet).")
    bidirectional: bool = Field(
        default=False,
        description="Read in both directions; a Transformer without it attends to earlier positions only.",
    )
    connection: ConnectionName = Field(default="plain", description="Connection between stacked layers.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout between layers and on the output.")
    variational_dropout: bool = Field(default=False, description="Use the same dropout mask at every time step.")
    zoneout: float = Field(
        default=0.0, ge=0, lt=1, description="Zoneout: probability that a state value keeps its previous value."
    )
    recurrent_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Dropout on the previous hidden state, with the same mask at every step."
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description='Options of the cell, such as { activation = "relu" }; of a Transformer: heads, feed_forward, '
        "activation, norm, positions, combine_positions, position_size, max_distance, max_positions, "
        "attention, context.",
    )
    custom_layer: Annotated[str, Unlisted()] = Field(
        default="", description="Name of the custom layer or cell passed with --layer (set by training)."
    )
    layer_factory: Any = Field(default=None, exclude=True, repr=False)  # not saved: a run names no code to import

    @field_validator("cell", mode="before")
    @classmethod
    def convert_list(cls, cell: Any) -> Any:
        return tuple(cell) if isinstance(cell, list) else cell

    @model_validator(mode="after")
    def check_layers(self) -> Self:
        counted = "layers" in self.model_fields_set and self.layers not in (1, len(self.cell))
        if not isinstance(self.cell, str) and counted:
            raise ValueError(
                f"layers is {self.layers}, but cell lists {len(self.cell)} names: remove layers, or list as many names"
            )
        return self

    def require_custom_layer(self) -> None:
        """Raise if a custom layer is named, but was not passed."""
        if self.custom_layer and self.layer_factory is None:
            raise LayerError(
                f"this model was trained with the custom layer {self.custom_layer}: pass it again (--layer module:name)"
            )

    @property
    def kinds(self) -> tuple[str, ...]:
        """The cell name of each layer."""
        return (self.cell,) * self.layers if isinstance(self.cell, str) else self.cell


class BidirectionalEncoder(RecurrenceConfig):
    """Recurrent or Transformer layers that read in both directions by default."""

    bidirectional: bool = Field(
        default=True, description="Read in both directions; a Transformer attends to all positions."
    )


class DecoderConfig(RecurrenceConfig):
    """Recurrent or Transformer layers of a decoder, which reads forwards only."""

    layers: int = Field(default=1, ge=0, le=1000, description="Number of stacked layers.")
    bidirectional: Annotated[bool, Unlisted()] = Field(
        default=False, description="Must be false: a decoder must not see what it predicts."
    )


def build_stack(
    prenet: PrenetConfig,
    recurrence: RecurrenceConfig,
    input_size: int,
    *,
    causal: bool = False,  # an output must not see later input
    memory_size: int = 0,  # width of the memory that Transformers attend to
) -> Layer:
    """The prenet and the recurrent or Transformer layers as one layer."""
    recurrence.require_custom_layer()
    between = VariationalDropout(recurrence.dropout) if recurrence.variational_dropout else Dropout(recurrence.dropout)
    layers = prenet.build(input_size, causal=causal, dropout=between)
    size = layers[-1].output_size if layers else input_size
    layers += group_layers(recurrence, size, memory_size=memory_size)
    if not layers:
        raise ValueError("layers is 0 and there is no prenet: set layers or prenet.layers to at least 1")
    return layers[0] if len(layers) == 1 else Stack(layers, dropout=between)


def group_layers(recurrence: RecurrenceConfig, size: int, *, memory_size: int = 0) -> list[Layer]:
    """The layers; adjacent ones with the same cell are one."""
    factory = recurrence.layer_factory
    if factory is not None and recurrence.layers and not is_cell_class(factory):
        return [CustomLayer.build(factory, size)]
    makers: dict[str, Callable[..., Any]] = {
        name: transformer if name == TRANSFORMER else factory or find_cell(name)
        for name in dict.fromkeys(recurrence.kinds)
    }
    known = {name: _options(name, make) for name, make in makers.items()}
    for option in recurrence.options:
        allowed = sorted(set().union(*known.values()))
        if makers and option not in allowed:
            hints = [f"; did you mean {name!r}?" for name in get_close_matches(option, allowed, n=1)]
            raise ValueError(f"the cell {' and '.join(makers)} has no option {option!r}{''.join(hints)}")
    if set(recurrence.kinds) == {TRANSFORMER}:
        defaults = RecurrenceConfig()
        for field in ("connection", "variational_dropout", "zoneout", "recurrent_dropout"):
            if (value := getattr(recurrence, field)) != getattr(defaults, field):
                raise ValueError(f"{field} is {value!r}, which applies to recurrent layers only, not to a transformer")
    if factory is not None and recurrence.layers:
        own_options = {name: value for name, value in recurrence.options.items() if name in _options("", factory)}
        check_cell_class(factory, size, recurrence.hidden_size, **own_options)
    layers: list[Layer] = []
    for name, group in groupby(recurrence.kinds):
        options = {option: value for option, value in recurrence.options.items() if option in known[name]}
        options["layers"] = len(list(group))
        if name == TRANSFORMER:
            options |= {"dropout": recurrence.dropout, "causal": not recurrence.bidirectional}
            layers.append(transformer(size, recurrence.hidden_size, memory_size=memory_size, **options))
        else:
            layers.append(
                recurrent(
                    makers[name],
                    size,
                    recurrence.hidden_size,
                    bidirectional=recurrence.bidirectional,
                    connection=recurrence.connection,
                    dropout=recurrence.dropout,
                    variational_dropout=recurrence.variational_dropout,
                    zoneout=recurrence.zoneout,
                    recurrent_dropout=recurrence.recurrent_dropout,
                    **options,
                )
            )
        size = layers[-1].output_size
    return layers


def group_above(recurrence: RecurrenceConfig, size: int, wrap: Callable[[Layer], Layer]) -> list[Layer]:
    """The lowest layer inside another one, such as one that attends before each step, and the layers above it."""
    kinds = recurrence.kinds
    (lowest,) = group_layers(
        recurrence.model_copy(update={"cell": kinds[:1], "layers": 1, "connection": "plain"}), size
    )
    first = wrap(lowest)
    rest = recurrence.model_copy(update={"cell": kinds[1:], "layers": len(kinds) - 1})
    return [first, *group_layers(rest, first.output_size)]


def layer_name(factory: LayerFactory) -> str:
    """The name of a custom layer or cell, which a run keeps."""
    return str(getattr(factory, "__qualname__", type(factory).__qualname__))


def is_cell_class(factory: LayerFactory) -> bool:
    return isinstance(factory, type) and issubclass(factory, Cell)


def _options(name: str, make: Callable[..., Any]) -> set[str]:
    """The options of a cell besides its sizes."""
    if name != TRANSFORMER:
        return set(list(inspect.signature(make).parameters)[2:])
    options = {*inspect.signature(transformer).parameters, *inspect.signature(TransformerBlock).parameters}
    return options - {"input_size", "size", "layers", "options", "dropout", "causal", "memory_size"}


class Encoder(nn.Module):
    """An embedding of the inputs, then a layer."""

    def __init__(self, embed: nn.Module, layer: Layer, *, dropout: float = 0.0, variational: bool = False) -> None:
        super().__init__()
        self.embed = embed  # the task's inputs → (B, T, layer.input_size)
        self.layer = layer
        self.dropout: nn.Module = VariationalDropout(dropout) if variational else Dropout(dropout)
        self.size = layer.output_size

    @property
    def last_layer(self) -> Layer:
        """The layer whose last state summarises the input."""
        return self.layer

    def forward(
        self,
        inputs: Any,
        mask: Tensor,  # (B, T)
        state: Any = None,
    ) -> Memory:
        return self.encode(*self.embed_inputs(inputs, mask), state)

    def embed_inputs(self, inputs: Any, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The vectors that the layer reads, and their mask."""
        return self.embed(inputs), mask

    def encode(
        self,
        vectors: Tensor,  # (B, T, layer.input_size), embedded inputs
        mask: Tensor,  # (B, T)
        state: Any = None,
    ) -> Memory:
        values, state = self.layer(vectors, mask, state)
        return Memory(self.dropout(values), mask, state)
