"""Fusion: a search by the weighted sum of several log-probabilities, such as of a decoder and a language model."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqloom.decoding.tokens.search import MaxGain, Step, no_gain
from seqloom.decoding.tokens.search_record import Doubles, Integers


class Scorer(NamedTuple):
    """One part of the scores of a search."""

    step: Step
    state: Any  # of B rows, before the first token
    weight: float = 1.0  # above 0
    max_gain: MaxGain = no_gain  # without the weight
    restricts: bool = False  # a token with -inf is not in the lexicon


class WeightedSum:
    """The step of several scorers together; a state is the tuple of their states."""

    def __init__(self, scorers: Sequence[Scorer]) -> None:
        self.scorers = scorers

    def __call__(self, tokens: Tensor, state: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
        results = [scorer.step(tokens, part) for scorer, part in zip(self.scorers, state, strict=True)]
        weighted = [scorer.weight * scores.double() for scorer, (scores, _) in zip(self.scorers, results, strict=True)]
        return torch.stack(weighted).sum(dim=0), tuple(part for _, part in results)

    def unrestricted(self, tokens: Tensor, state: tuple[Any, ...]) -> Tensor | None:
        """The sum without the scorers that exclude tokens; None: there is none."""
        parts = [(scorer, part) for scorer, part in zip(self.scorers, state, strict=True) if not scorer.restricts]
        if len(parts) == len(self.scorers):
            return None
        scores, _ = WeightedSum([scorer for scorer, _ in parts])(tokens, tuple(part for _, part in parts))
        return scores


def fuse(scorers: Sequence[Scorer]) -> Scorer:
    """The weighted sum of all scores; its state is the tuple of their states."""
    if invalid := [scorer.weight for scorer in scorers if not scorer.weight > 0]:
        raise ValueError(f"the weight of a scorer is {invalid[0]}, expected a number above 0")
    if len(scorers) == 1 and scorers[0].weight == 1:
        return scorers[0]

    def max_gain(tokens: Integers) -> Doubles:
        gains: Doubles = np.stack([scorer.weight * scorer.max_gain(tokens) for scorer in scorers]).sum(axis=0)
        return gains

    return Scorer(WeightedSum(scorers), tuple(scorer.state for scorer in scorers), max_gain=max_gain)


def bonus_scorer(bonuses: Doubles) -> Scorer:  # (V,)
    """A constant score for each token."""
    row, largest = torch.from_numpy(bonuses), max(0.0, float(bonuses.max()))

    def step(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return row.to(tokens.device).expand(len(tokens), -1), state

    return Scorer(step, (), max_gain=lambda tokens: largest * tokens.astype(np.float64))
