"""Weights exchange with torch.nn: their recurrent modules to our layers, and back."""

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
    """Our layer with the weights of an ``nn.LSTM``, ``nn.GRU`` or ``nn.RNN``.

    Their two biases are added up where the equations add them. Our layers are batch first, whatever the module is.
    """
    if type(module) not in (nn.LSTM, nn.GRU, nn.RNN):
        raise TypeError(f"module is {type(module).__name__}, expected nn.LSTM, nn.GRU or nn.RNN")
    if module.proj_size:
        raise ValueError(f"module has proj_size {module.proj_size}, expected 0: a projected output has no counterpart")
    directions = 2 if module.bidirectional else 1
    ways = [
        Recurrent(counterpart(module, weights), reverse=bool(index % directions))
        for index, weights in enumerate(module.all_weights)  # layer by layer, the forward direction first
    ]
    layers: list[Layer] = list(ways)
    if module.bidirectional:
        layers = [Bidirectional(ahead, back) for ahead, back in zip(ways[::2], ways[1::2], strict=True)]
    layer = layers[0] if len(layers) == 1 else Stack(layers, dropout=module.dropout)
    return layer.train(module.training)


def to_torch(layer: Layer) -> nn.LSTM | nn.GRU | nn.RNN:
    """The module of ``torch.nn`` (batch first) with the weights of our layer.

    It takes a Recurrent layer, a Bidirectional one or a plain Stack of either, of LSTM cells, of GRU cells with
    reset="after" or of Elman cells with tanh or relu. Of their two biases the second is zero where one would do.
    """
    layers = list(layer.layers) if isinstance(layer, Stack) else [layer]
    cells = [cells_of(part, where=f"layer {index}") for index, part in enumerate(layers)]
    kinds = [[kind_of(cell, where=f"layer {index}") for cell in pair] for index, pair in enumerate(cells)]
    for index, pair in enumerate(kinds):
        if len(pair) != len(kinds[0]):
            raise ValueError(f"layer {index} has {len(pair)} directions, expected {len(kinds[0])} as layer 0")
        for kind in pair:
            if kind != kinds[0][0]:
                raise ValueError(f"layer {index} has {kind}, expected {kinds[0][0]} as layer 0: torch.nn has one for all")
    kind, like = kinds[0][0], next(layer.parameters())
    module = kind.module(
        layer.input_size,
        kind.hidden_size,
        len(layers),
        bias=kind.bias,
        batch_first=True,
        dropout=rate_of(layer),
        bidirectional=len(cells[0]) == 2,
        device=like.device,
        dtype=like.dtype,
        **({"nonlinearity": kind.activation} if kind.activation else {}),
    )
    for cell, theirs in zip([cell for pair in cells for cell in pair], module.all_weights, strict=True):
        for target, source in zip(theirs, convert_to_torch(cell), strict=True):
            copy_parameter(target, source)
    return module.train(layer.training)


class Kind(NamedTuple):
    """What torch.nn has only once for all layers and directions."""

    module: type[nn.LSTM] | type[nn.GRU] | type[nn.RNN]
    activation: str | None
    hidden_size: int
    bias: bool

    def __str__(self) -> str:
        activation = "" if self.activation is None else f"{self.activation}, "
        return f"{self.module.__name__}({activation}hidden_size={self.hidden_size}, bias={self.bias})"


def kind_of(cell: Cell, *, where: str) -> Kind:
    """The counterpart of a cell, or an error that says why there is none."""
    if type(cell) is LSTM:
        return Kind(nn.LSTM, None, cell.hidden_size, cell.input.bias is not None)
    if type(cell) is GRU:
        if cell.reset != "after":
            raise ValueError(f"{where} is a GRU with reset={cell.reset!r}, expected 'after': nn.GRU has no other")
        return Kind(nn.GRU, None, cell.hidden_size, cell.input.bias is not None)
    if type(cell) is Elman:
        if cell.activation not in ("tanh", "relu"):
            raise ValueError(
                f"{where} has activation={cell.activation!r}, expected 'tanh' or 'relu': nn.RNN has no other"
            )
        return Kind(nn.RNN, cell.activation, cell.hidden_size, cell.input.bias is not None)
    raise TypeError(f"{where} has a {type(cell).__name__} cell, which has no counterpart: expected LSTM, GRU or Elman")


def cells_of(layer: nn.Module, *, where: str) -> list[Cell]:
    """The cells of a layer, forward and backward, or an error that says why torch.nn has no such layer."""
    if isinstance(layer, Bidirectional):
        return [layer.ahead.cell, layer.back.cell]
    if not isinstance(layer, Recurrent):
        raise TypeError(
            f"{where} is {type(layer).__name__}, which has no counterpart: expected Recurrent or Bidirectional"
        )
    if layer.reverse:
        raise ValueError(f"{where} has reverse=True, expected False: torch.nn runs backwards only in both directions")
    return [layer.cell]


def rate_of(layer: Layer) -> float:
    """The dropout between the layers of a stack, or an error that says what torch.nn does not have."""
    if not isinstance(layer, Stack):
        return 0.0
    if layer.connect != "plain":
        raise ValueError(f"connect is {layer.connect!r}, expected 'plain': torch.nn has no other")
    if not isinstance(layer.dropout, nn.Dropout):
        raise TypeError(f"dropout is {type(layer.dropout).__name__}, expected nn.Dropout: torch.nn has no other")
    return layer.dropout.p if len(layer.layers) > 1 else 0.0


def counterpart(module: nn.LSTM | nn.GRU | nn.RNN, weights: Sequence[Tensor]) -> Cell:
    """Our cell with the weights of one layer and direction of theirs."""
    size, like = weights[0].shape[1], weights[0]
    # On the meta device first: an initialisation that is overwritten would cost time and random numbers.
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


# Both have the gates in the same order: i f z o of the LSTM, r z h̃ of the GRU.


@torch.enable_grad()  # so that a sum or a part of parameters says whether they are trained
def convert_from_torch(
    module: nn.RNNBase,
    weight: Tensor,  # (gates * H, D)
    recurrent: Tensor,  # (gates * H, H)
    bias: Tensor | None = None,  # (gates * H,)
    recurrent_bias: Tensor | None = None,  # (gates * H,)
) -> dict[str, Tensor]:
    """Our parameters by name from theirs."""
    split = 2 * module.hidden_size if isinstance(module, nn.GRU) else len(recurrent)
    ours = {"input.weight": weight, "recurrent.weight": recurrent[:split]}
    if bias is not None and recurrent_bias is not None:
        ours["input.bias"] = torch.cat([bias[:split] + recurrent_bias[:split], bias[split:]])
    if isinstance(module, nn.GRU):
        ours["candidate.weight"] = recurrent[split:]
        if recurrent_bias is not None:
            ours["candidate.bias"] = recurrent_bias[split:]
    return ours


@torch.enable_grad()  # as above
def convert_to_torch(cell: Cell) -> list[Tensor]:
    """Their parameters in their order from ours: weights, recurrent weights and, if there are any, the two biases."""
    ours: dict[str, Tensor] = dict(cell.named_parameters())
    theirs = [ours["input.weight"], ours["recurrent.weight"]]
    if "input.bias" in ours:
        bias = ours["input.bias"]
        theirs += [bias, torch.zeros_like(bias).requires_grad_(bias.requires_grad)]
    if isinstance(cell, GRU):
        theirs[1] = torch.cat([ours["recurrent.weight"], ours["candidate.weight"]])
        if "candidate.bias" in ours:
            theirs[3] = torch.cat([theirs[3][: 2 * cell.hidden_size], ours["candidate.bias"]])
    return theirs


def copy_parameter(target: Tensor, source: Tensor) -> None:
    """Copy the values, and whether they are trained."""
    with torch.no_grad():
        target.copy_(source)
    target.requires_grad_(source.requires_grad)
