"""Attention of one prediction, chosen and named: layer by layer, head by head, and of the pooling."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.insight.attention_capture import CapturedAttention, capture_attention
from seqloom.insight.explanation import AttentionMap
from seqloom.insight.gates import FunctionModule
from seqloom.layers.transformer.block import TransformerBlock
from seqloom.models.pooling import AttentionPooling

OTHER_SEQUENCES = r"\.pretrained\.|encoder\.backward_layer"
"""Names of modules inside pretrained inputs, or that read backwards: they do not attend to the sequence itself."""

AttentionLayers = Sequence[tuple[str, Tensor]]
"""Names of layers and their weights (heads, T, S)."""


class SelfAttention(NamedTuple):
    """The result of a function, and the self-attention of the model while it ran."""

    result: Any
    layers: AttentionLayers
    pooling: list[float] | None  # weight of each element; None: no attention pooling


def self_attention(
    model: nn.Module,
    function: Callable[[], Any],
    *,
    lengths: Sequence[int] = (),  # of the sequences, if there are several rows
) -> SelfAttention:
    """Run a function that applies the model to one sequence, and capture its self-attention.

    Several sequences are joined to one, with an empty element between them; each attends only to itself.
    """
    call = FunctionModule(model, function)
    result, captured = capture_attention(call)
    captured = [attention for attention in captured if not re.search(OTHER_SEQUENCES, attention.name)]
    pooling = [attention for attention in captured if isinstance(call.get_submodule(attention.name), AttentionPooling)]
    weights = _joined_vectors(pooling[0].weights[:, 0, 0], lengths).tolist() if pooling else None
    return SelfAttention(result, attention_layers(call, captured, to_self=True, lengths=lengths), weights)


def _joined_vectors(weights: Tensor, lengths: Sequence[int]) -> Tensor:  # (rows, T) → (T',)
    parts = [row[:length] for row, length in zip(weights, lengths, strict=True)] if lengths else [weights[0]]
    gap = weights.new_zeros(1)
    return torch.cat([part for index, row in enumerate(parts) for part in ([gap, row] if index else [row])])


def _joined_maps(weights: Tensor, lengths: Sequence[int]) -> Tensor:  # (rows, heads, T, T) → (heads, T', T')
    if not lengths:
        return weights[0]
    size, start = sum(lengths) + len(lengths) - 1, 0
    joined = weights.new_zeros(weights.shape[1], size, size)
    for row, length in zip(weights, lengths, strict=True):
        joined[:, start : start + length, start : start + length] = row[:, :length, :length]
        start += length + 1
    return joined


def attention_layers(
    model: nn.Module,
    captured: Sequence[CapturedAttention],
    *,
    to_self: bool,
    lengths: Sequence[int] = (),  # of joined sequences
) -> AttentionLayers:
    """The layers of self-attention, or those that attend to another sequence."""
    chosen = []
    for attention in captured:
        parent, _, last = attention.name.rpartition(".")
        is_self = isinstance(model.get_submodule(parent), TransformerBlock) and last == "attention"
        is_pooling = isinstance(model.get_submodule(attention.name), AttentionPooling)
        if is_self is to_self and not is_pooling:
            chosen.append(_joined_maps(attention.weights, lengths).double())
    return [(f"layer {number}", weights) for number, weights in enumerate(chosen, start=1)]


def mean_of_heads(layers: AttentionLayers, rows: list[str], columns: list[str]) -> AttentionMap | None:
    """The last layer, averaged over its heads."""
    if not layers:
        return None
    layer, weights = layers[-1]
    name = layer if len(layers) > 1 else "attention"
    if len(weights) > 1:
        name = f"{layer}, mean of {len(weights)} heads"
    return AttentionMap(name, rows, columns, weights.mean(dim=0).tolist())


def all_heads(layers: AttentionLayers, rows: list[str], columns: list[str]) -> list[AttentionMap]:
    """Each head of each layer."""
    return [
        AttentionMap(f"{layer}, head {number}", rows, columns, head.tolist())
        for layer, weights in layers
        for number, head in enumerate(weights, start=1)
    ]
