"""The negative log-likelihood of sequences under a model that generates them."""

import math
from collections.abc import Sequence

from seqloom.metrics.confidence import MetricSums, ratio_of_sums


def nll_scores(
    likelihoods: Sequence[Sequence[float]],  # log-likelihood of each element of each sequence, in nats
    *,
    sequence: str,  # what a sequence is called, such as drawing
    element: str,  # what an element is called, such as point
) -> dict[str, float]:
    """The mean of an element and of a sequence, and the number of both."""
    total = -math.fsum(value for row in likelihoods for value in row)
    elements = sum(map(len, likelihoods))
    return {
        "nll": total / max(elements, 1),
        f"nll_per_{sequence}": total / max(len(likelihoods), 1),
        f"{sequence}s": len(likelihoods),
        f"{element}s": elements,
    }


def nll_sums(likelihoods: Sequence[Sequence[float]]) -> MetricSums:
    """Sums per sequence, from which the mean of an element is computed."""
    return ratio_of_sums([-math.fsum(row) for row in likelihoods], [len(row) for row in likelihoods])
