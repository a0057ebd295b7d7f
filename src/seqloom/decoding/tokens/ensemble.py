"""Several models that choose together: the mean of their probabilities."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from seqloom.decoding.tokens.search import Step


def ensemble(steps: Sequence[Step], weights: Sequence[float] | None = None) -> Step:
    """One step of all; its state is the tuple of their states."""
    weights = [1.0] * len(steps) if weights is None else list(weights)
    if not steps or len(weights) != len(steps):
        raise ValueError(f"an ensemble has {len(steps)} steps and {len(weights)} weights, wanted as many, at least one")
    if not all(0 < weight < math.inf for weight in weights):
        raise ValueError(f"the weights of an ensemble are {weights}, wanted positive numbers")
    shares = [math.log(weight / math.fsum(weights)) for weight in weights]

    def together(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        if not isinstance(state, tuple) or len(state) != len(steps):
            raise ValueError(f"the state of an ensemble is a tuple of {len(steps)} states, one for each of its steps")
        results = [step(tokens, part) for step, part in zip(steps, state, strict=True)]
        if len({scores.shape for scores, _ in results}) > 1:
            sizes = ", ".join(str(scores.shape[-1]) for scores, _ in results)
            raise ValueError(f"the vocabularies of an ensemble have {sizes} symbols, wanted the same")
        each = [scores + share for (scores, _), share in zip(results, shares, strict=True)]
        return torch.stack(each).logsumexp(dim=0), tuple(part for _, part in results)

    return together
