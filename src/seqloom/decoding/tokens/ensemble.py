"""Ensembles: one step function that averages the probabilities of several."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from seqloom.decoding.tokens.search import Step


def ensemble(steps: Sequence[Step], weights: Sequence[float] | None = None) -> Step:
    """The weighted mean of the steps' probabilities; its state is the tuple of their states."""
    weights = [1.0] * len(steps) if weights is None else list(weights)
    if not steps or len(weights) != len(steps):
        raise ValueError(
            f"an ensemble needs one weight per model, found {len(steps)} models and {len(weights)} weights"
        )
    if not all(0 < weight < math.inf for weight in weights):
        raise ValueError(f"the weights of an ensemble must be positive numbers, found {weights}")
    log_weights = [math.log(weight / math.fsum(weights)) for weight in weights]

    def ensemble_step(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        if not isinstance(state, tuple) or len(state) != len(steps):
            raise ValueError(f"the state of an ensemble must be a tuple of {len(steps)} states, one for each model")
        results = [step(tokens, part) for step, part in zip(steps, state, strict=True)]
        if len({scores.shape for scores, _ in results}) > 1:
            sizes = ", ".join(str(scores.shape[-1]) for scores, _ in results)
            raise ValueError(f"the models of an ensemble must share a vocabulary, found vocabularies of {sizes} tokens")
        weighted = [scores + weight for (scores, _), weight in zip(results, log_weights, strict=True)]
        return torch.stack(weighted).logsumexp(dim=0), tuple(part for _, part in results)

    return ensemble_step
