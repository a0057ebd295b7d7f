"""Models in int8: which weights are rounded, and which layers multiply in int8.

The weights of linear maps, embeddings and convolutions are rounded to integers, with a scale for each row (output
channel or token). Recurrent layers and the linear maps of Seqloom also round the rows that they multiply, each by
itself, so that neither the batch nor padding affects a row; other layers multiply the rounded weights as floats.
"""

import torch
from torch import Tensor, nn

from seqloom.kernels.linalg.quantized import QuantizedWeight, quantize_weight
from seqloom.layers.linear import Linear
from seqloom.layers.recurrent.recurrent import Recurrent

ROUNDED = (nn.Linear, nn.Embedding, nn.Conv1d, nn.Conv2d, nn.Conv3d)
"""Modules whose weights are rounded: one scale for each entry of their first dimension."""


def rounded_weights(module: nn.Module) -> dict[str, Tensor]:
    """The weights of a model that are rounded, by their names in its state; a shared weight has several names."""
    weights = {}
    for name, part in module.named_modules(remove_duplicate=False):
        if isinstance(part, ROUNDED) and part.weight.dtype == torch.float32:
            weights[f"{name}.weight" if name else "weight"] = part.weight
    return weights


def quantize(weight: Tensor) -> QuantizedWeight:
    """Integers and scales of a weight, with the dimensions after the first one flattened."""
    return quantize_weight(weight.flatten(1))


def round_weights(module: nn.Module) -> None:
    """Round the weights of a model in place; rounding them again changes nothing. ValueError if it has none."""
    weights = rounded_weights(module)
    if not weights:
        raise ValueError("no weights to quantize: the model has no linear maps, embeddings or convolutions")
    with torch.no_grad():
        for weight in {id(weight): weight for weight in weights.values()}.values():
            weight.copy_(quantize(weight).dequantize().view_as(weight))


def use_int8(module: nn.Module) -> None:
    """Let a model of rounded weights multiply in int8 where no gradient is needed."""
    for part in module.modules():
        if isinstance(part, Linear | Recurrent):
            part.int8 = True
    module.eval()  # discards weights that are packed already
