"""Where the heads of attention look: how far, and at how many places at once."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.diagnosis.recording import PRETRAINED, Part, evaluating
from seqloom.insight.attention_capture import attention_modules, capture_attention
from seqloom.insight.gates import FunctionModule
from seqloom.layers.transformer.block import TransformerBlock


@dataclass(frozen=True)
class HeadUse:
    """One head of attention, averaged over all real queries that see more than one place."""

    layer: str
    head: int  # from 1
    distance: float | None  # mean distance between query and key in steps; None: they are in different sequences
    entropy: float  # of the weights, relative to the largest possible: 0 a single place, 1 all places alike
    places: float  # exp of the entropy: the number of places that it looks at
    visible: float  # mean number of places that it could look at


def head_use(module: nn.Module, call: Callable[[], Any], parts: Sequence[Part]) -> list[HeadUse]:
    """The heads of all attention modules while a function calls the module."""
    if not attention_modules(module):
        return []
    wrapper = FunctionModule(module, call)
    with evaluating(wrapper), torch.no_grad(), torch.random.fork_rng(devices=[]):
        _, captured = capture_attention(wrapper)
    heads = []
    for attention in captured:
        name = attention.name.removeprefix("module").removeprefix(".")
        if PRETRAINED in f".{name}." or attention.weights.shape[2] < 2:
            continue
        parent, _, last = attention.name.rpartition(".")
        to_self = isinstance(wrapper.get_submodule(parent), TransformerBlock) and last == "attention"
        mask = _query_mask(name, attention.weights, parts)
        for number in range(attention.weights.shape[1]):
            use = _measure(name, number + 1, attention.weights[:, number], mask, to_self=to_self)
            heads += [use] if use is not None else []
    return heads


def _query_mask(name: str, weights: Tensor, parts: Sequence[Part]) -> Tensor:  # (B, T)
    """Which queries are real: as the mask of the part of the model says, if it is of the same length."""
    for part in parts:
        if name.startswith(part.name) and part.mask.shape == (weights.shape[0], weights.shape[2]):
            return part.mask
    return torch.ones(weights.shape[0], weights.shape[2], dtype=torch.bool, device=weights.device)


def _measure(name: str, head: int, weights: Tensor, mask: Tensor, *, to_self: bool) -> HeadUse | None:
    """Average over the queries of one head, whose weights are (B, T, S)."""
    weights = weights.double()
    visible = (weights > 0).sum(dim=-1)
    chosen = mask & (visible > 1)
    if not bool(chosen.any()):
        return None
    entropy = -(weights * weights.clamp(min=1e-300).log()).sum(dim=-1)[chosen]
    seen = visible[chosen].double()
    distance: float | None = None
    if to_self:
        steps = torch.arange(weights.shape[1], device=weights.device)
        offset = weights.shape[2] - weights.shape[1]
        distances = (steps.unsqueeze(1) + offset - torch.arange(weights.shape[2], device=weights.device)).abs()
        distance = float((weights * distances).sum(dim=-1)[chosen].mean())
    relative = float((entropy / seen.log()).mean())
    return HeadUse(name, head, distance, min(relative, 1.0), math.exp(float(entropy.mean())), float(seen.mean()))
