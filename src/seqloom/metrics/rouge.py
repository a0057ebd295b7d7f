"""ROUGE (Lin 2004): the overlap of a summary with its reference in words, pairs and the longest common sequence.

As in Google's rouge_score without stemming: texts in lowercase, letters and digits only, the F-measure of each example,
averaged over examples.
"""

import re
from collections import Counter
from collections.abc import Sequence

from seqloom.metrics.confidence import MetricSums, ratio_of_sums

NAMES = ("rouge_1", "rouge_2", "rouge_l")
WORD = re.compile(r"[^\W_]+")


def rouge(hypothesis: str, reference: str) -> dict[str, float]:
    """The F-measures of one summary by name, from 0 to 1."""
    left, right = (WORD.findall(text.lower()) for text in (hypothesis, reference))
    return {
        "rouge_1": _ngram_f1(left, right, 1),
        "rouge_2": _ngram_f1(left, right, 2),
        "rouge_l": _f1(_common_length(left, right), len(left), len(right)),
    }


def rouge_sums(hypotheses: Sequence[str], references: Sequence[str], name: str) -> MetricSums:
    """The mean of one of the scores over all examples."""
    pairs = zip(hypotheses, references, strict=True)
    return ratio_of_sums([rouge(left, right)[name] for left, right in pairs], [1] * len(references))


def _ngram_f1(left: Sequence[str], right: Sequence[str], order: int) -> float:
    counts = [
        Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1))
        for words in (left, right)
    ]
    return _f1((counts[0] & counts[1]).total(), counts[0].total(), counts[1].total())


def _f1(common: int, predicted: int, reference: int) -> float:
    return 2 * common / (predicted + reference) if common else 0.0


def _common_length(left: Sequence[str], right: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    best = [0] * (len(right) + 1)
    for word in left:
        previous = 0
        for index, other in enumerate(right, start=1):
            previous, best[index] = best[index], previous + 1 if word == other else max(best[index], best[index - 1])
    return best[-1]
