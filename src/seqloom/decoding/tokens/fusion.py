"""Fusion: a search by the weighted sum of several log-probabilities, such as of a decoder and a language model."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.decoding.tokens.search import Step


class Scorer(NamedTuple):
    """One part of the scores of a search."""

    step: Step
    state: Any  # of B rows, before the first token
    weight: float = 1.0  # above 0


def fuse(scorers: Sequence[Scorer]) -> tuple[Step, Any]:
    """The step that returns the weighted sum of all scores, and its state: the tuple of their states."""
    if invalid := [scorer.weight for scorer in scorers if not scorer.weight > 0]:
        raise ValueError(f"the weight of a scorer is {invalid[0]}, expected a number above 0")
    if len(scorers) == 1 and scorers[0].weight == 1:
        return scorers[0].step, scorers[0].state

    def step(tokens: Tensor, state: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
        results = [scorer.step(tokens, part) for scorer, part in zip(scorers, state, strict=True)]
        weighted = [scorer.weight * scores.double() for scorer, (scores, _) in zip(scorers, results, strict=True)]
        return torch.stack(weighted).sum(dim=0), tuple(part for _, part in results)

    return step, tuple(scorer.state for scorer in scorers)
