"""The probability of a text: of each token, of the whole, and as perplexity."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

MAX_LOG = 700.0  # perplexities above exp(700) would be infinite


def perplexity(loss: float, tokens: float) -> float:
    """The exponential of the mean loss of some tokens, given their summed negative log-probability."""
    return math.exp(min(loss / max(tokens, 1), MAX_LOG))


def perplexity_of(log_probabilities: Sequence[float]) -> float:
    """The perplexity of tokens with these log-probabilities."""
    return perplexity(-math.fsum(log_probabilities), len(log_probabilities))


@dataclass(frozen=True, slots=True)
class TextScore:
    """The probability of a text."""

    log_probability: float  # log-probability of the whole text, natural logarithm
    perplexity: float  # per token
    log_probabilities: list[float]  # each token given the previous ones; the last is the end of the line

    def __str__(self) -> str:
        return f"{self.log_probability:.4f}\t{self.perplexity:.4g}"

    @property
    def token_log_probabilities(self) -> Sequence[float]:
        """The log-probability of each token; their sum is that of the text."""
        return self.log_probabilities

    @classmethod
    def of(cls, log_probabilities: list[float]) -> Self:
        """The score of tokens with these log-probabilities."""
        return cls(math.fsum(log_probabilities), perplexity_of(log_probabilities), log_probabilities)


@dataclass(frozen=True, slots=True)
class BidirectionalTextScore(TextScore):
    """The probability of a text in both directions; the log-probability is the mean of the two."""

    backward: list[float]  # log-probabilities of the start of the line and each token, given the following ones

    @property
    def token_log_probabilities(self) -> Sequence[float]:
        return [
            (forward + backward) / 2 for forward, backward in zip(self.log_probabilities, self.backward, strict=True)
        ]

    @classmethod
    def of_both(cls, forward: list[float], backward: list[float]) -> Self:
        """The score of tokens with these log-probabilities; ``backward`` in the order of reading, the last first."""
        total = math.fsum([*forward, *backward]) / 2
        return cls(total, perplexity_of([*forward, *backward]), forward, backward[::-1])
