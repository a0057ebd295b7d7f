"""The answers of a search as arrays, to be compared with those of a graph."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.decoding.tokens.search import Hypothesis


def feed_tokens(collate: Callable[[Sequence[Any]], Any], examples: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """The tokens of examples as inputs of a graph."""
    values, mask = collate(examples).inputs
    return {"tokens": values.numpy(), "lengths": mask.sum(dim=1).numpy()}


def greedy_outputs(hypotheses: Sequence[Sequence[Hypothesis]], end: int) -> dict[str, NDArray[Any]]:
    """The best hypothesis of each row: tokens, filled with the end token, and log-probabilities, filled with 0."""
    best = [row[0] for row in hypotheses]
    steps = max(len(hypothesis.log_probabilities) for hypothesis in best)
    tokens = np.full((len(best), steps), end)
    values = np.zeros((len(best), steps), dtype=np.float32)
    for row, hypothesis in enumerate(best):
        tokens[row, : len(hypothesis.tokens)] = hypothesis.tokens
        values[row, : len(hypothesis.log_probabilities)] = hypothesis.log_probabilities
    return {"output": tokens, "log_probabilities": values}
