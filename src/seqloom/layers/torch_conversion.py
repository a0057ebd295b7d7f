"""Convert recurrent modules of torch.nn to layers of this library, and back."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqloom.cells.cell import Cell
from seqloom.cells.elman import Elman
from seqloom.cells.gru import GRU
from seqloom.cells.lstm import LSTM
from seqloom.layers.layer import Layer
from seqloom.layers.recurrent.bidirectional import Bidirectional
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack


def from_torch(module: nn.LSTM | nn.GRU | nn.RNN) -> Layer:
    """Return a layer with the weights of an ``nn.LSTM``, ``nn.GRU`` or ``nn.RNN``.

    The two biases of torch.nn become one where the equations add them. The layer is batch first, whatever the module.
    """
    if type(module) not in (nn.LSTM, nn.GRU, nn.RNN):
        raise TypeError(f"module is {type(module).__name__}, expected nn.LSTM, nn.GRU or nn.RNN")
    if module.proj_size:
        raise ValueError(f"module has proj_size {module.proj_size}, expected 0: projected outputs are not supported")
    directions = 2 if module.bidirectional else 1
    recurrent_layers = [
        Recurrent(convert_cell(module, weights), reverse=bool(index % directions))
        for index, weights in enumerate(module.all_weights)  # layer by layer, the forward direction first
    ]
    layers: list[Layer] = list(recurrent_layers)
    if module.bidirectional:
        layers = [Bidirectional(*pair) for pair in zip(recurrent_layers[::2], recurrent_layers[1::2], strict=True)]
    layer = layers[0] if len(layers) == 1 else Stack(layers, dropout=module.dropout)
    return layer.train(module.training)


def to_torch(layer: Layer) -> nn.LSTM | nn.GRU | nn.RNN:
    """Return the module of ``torch.nn`` (batch first) with the weights of a layer.

    The layer is a Recurrent or Bidirectional layer or a plain Stack of either, with LSTM cells, GRU cells with
    reset="after", or Elman cells with tanh or relu. The module's second bias is zero where one suffices.
    """
    layers = list(layer.layers) if isinstance(layer, Stack) else [layer]
    cells = [layer_cells(part, where=f"layer {index}") for index, part in enumerate(layers)]
    specs = [[module_spec(cell, where=f"layer {index}") for cell in pair] for index, pair in enumerate(cells)]
    for index, pair in enumerate(specs):
        if len(pair) != len(specs[0]):
            raise ValueError(f"layer {index} has {len(pair)} directions, expected {len(specs[0])} like layer 0")
        for spec in pair:
            if spec != specs[0][0]:
                raise ValueError(
                    f"layer {index} is {spec}, expected {specs[0][0]} like layer 0: layers of torch.nn are all alike"
                )
    spec, like = specs[0][0], next(layer.parameters())
    module = spec.module(
        layer.input_size,
        spec.hidden_size,
        len(layers),
        bias=spec.bias,
        batch_first=True,
        dropout=dropout_rate(layer),
        bidirectional=len(cells[0]) == 2,
        device=like.device,
        dtype=like.dtype,
        **({"nonlinearity": spec.activation} if spec.activation else {}),
    )
    for cell, parameters in zip([cell for pair in cells for cell in pair], module.all_weights, strict=True):
        for target, source in zip(parameters, convert_to_torch(cell), strict=True):
            copy_parameter(target, source)
    return module.train(layer.training)


class ModuleSpec(NamedTuple):
    """What all layers and directions of a torch.nn module have in common."""

    module: type[nn.LSTM] | type[nn.GRU] | type[nn.RNN]
    activation: str | None
    hidden_size: int
    bias: bool

    def __str__(self) -> str:
        activation = "" if self.activation is None else f"{self.activation}, "
        return f"{self.module.__name__}({activation}hidden_size={self.hidden_size}, bias={self.bias})"


def module_spec(cell: Cell, *, where: str) -> ModuleSpec:
    """Return the equivalent of a cell, or raise an error that says why there is none."""
    if type(cell) is LSTM:
        return ModuleSpec(nn.LSTM, None, cell.hidden_size, cell.input.bias is not None)
    if type(cell) is GRU:
        if cell.reset != "after":
            raise ValueError(f"{where} is a GRU with reset={cell.reset!r}, expected 'after', as in nn.GRU")
        if cell.update_gate != "keep":
            raise ValueError(f"{where} is a GRU with update_gate={cell.update_gate!r}, expected 'keep', as in nn.GRU")
        return ModuleSpec(nn.GRU, None, cell.hidden_size, cell.input.bias is not None)
    if type(cell) is Elman:
        if cell.activation not in ("tanh", "relu"):
            raise ValueError(f"{where} has activation={cell.activation!r}, expected 'tanh' or 'relu', as in nn.RNN")
        return ModuleSpec(nn.RNN, cell.activation, cell.hidden_size, cell.input.bias is not None)
    raise TypeError(
        f"{where} has a {type(cell).__name__} cell, which torch.nn does not have: expected LSTM, GRU or Elman"
    )


def layer_cells(layer: nn.Module, *, where: str) -> list[Cell]:
    """Return a layer's cells, forward and backward, or raise an error that says why torch.nn has no such layer."""
    if isinstance(layer, Bidirectional):
        return [layer.forward_layer.cell, layer.backward_layer.cell]
    if not isinstance(layer, Recurrent):
        raise TypeError(
            f"{where} is {type(layer).__name__}, which torch.nn does not have: expected Recurrent or Bidirectional"
        )
    if layer.reverse:
        raise ValueError(
            f"{where} has reverse=True, expected False: torch.nn runs backward only in bidirectional modules"
        )
    return [layer.cell]


def dropout_rate(layer: Layer) -> float:
    """Return the dropout between the layers of a stack, or raise an error if torch.nn has no such stack."""
    if not isinstance(layer, Stack):
        return 0.0
    if layer.connection != "plain":
        raise ValueError(f"connection is {layer.connection!r}, expected 'plain', as in torch.nn")
    if not isinstance(layer.dropout, nn.Dropout):
        raise TypeError(f"dropout is {type(layer.dropout).__name__}, expected nn.Dropout, as in torch.nn")
    return layer.dropout.p if len(layer.layers) > 1 else 0.0


def convert_cell(module: nn.LSTM | nn.GRU | nn.RNN, weights: Sequence[Tensor]) -> Cell:
    """Return a cell with the weights of one layer and direction of a torch.nn module."""
    size, like = weights[0].shape[1], weights[0]
    # On the meta device first, because initial values that are overwritten would cost time and random numbers.
    with torch.device("meta"):
        cell: Cell
        match module:
            case nn.LSTM():
                cell = LSTM(size, module.hidden_size, bias=module.bias)
            case nn.GRU():
                cell = GRU(size, module.hidden_size, reset="after", bias=module.bias)
            case nn.RNN():
                cell = Elman(size, module.hidden_size, activation=module.nonlinearity, bias=module.bias)
    cell.to(like.dtype).to_empty(device=like.device)
    for name, source in convert_from_torch(module, *weights).items():
        copy_parameter(cell.get_parameter(name), source)
    return cell


# Both libraries have the same order of gates: i f z o in the LSTM, r z h̃ in the GRU.


@torch.enable_grad()  # so that sums and parts of parameters keep requires_grad
def convert_from_torch(
    module: nn.RNNBase,
    weight: Tensor,  # (gates * H, D)
    recurrent: Tensor,  # (gates * H, H)
    bias: Tensor | None = None,  # (gates * H,)
    recurrent_bias: Tensor | None = None,  # (gates * H,)
) -> dict[str, Tensor]:
    """Return a cell's parameters by name from those of torch.nn."""
    split = 2 * module.hidden_size if isinstance(module, nn.GRU) else len(recurrent)
    parameters = {"input.weight": weight, "recurrent.weight": recurrent[:split]}
    if bias is not None and recurrent_bias is not None:
        parameters["input.bias"] = torch.cat([bias[:split] + recurrent_bias[:split], bias[split:]])
    if isinstance(module, nn.GRU):
        parameters["candidate.weight"] = recurrent[split:]
        if recurrent_bias is not None:
            parameters["candidate.bias"] = recurrent_bias[split:]
    return parameters


@torch.enable_grad()  # as above
def convert_to_torch(cell: Cell) -> list[Tensor]:
    """Return the parameters of torch.nn in their order: weights, recurrent weights and, if any, the two biases."""
    parameters: dict[str, Tensor] = dict(cell.named_parameters())
    converted = [parameters["input.weight"], parameters["recurrent.weight"]]
    if "input.bias" in parameters:
        bias = parameters["input.bias"]
        converted += [bias, torch.zeros_like(bias).requires_grad_(bias.requires_grad)]
    if isinstance(cell, GRU):
        converted[1] = torch.cat([parameters["recurrent.weight"], parameters["candidate.weight"]])
        if "candidate.bias" in parameters:
            converted[3] = torch.cat([converted[3][: 2 * cell.hidden_size], parameters["candidate.bias"]])
    return converted


def copy_parameter(target: Tensor, source: Tensor) -> None:
    """Copy the values and ``requires_grad``."""
    with torch.no_grad():
        target.copy_(source)
    target.requires_grad_(source.requires_grad)
