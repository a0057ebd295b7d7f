"""Interpolated modified Kneser-Ney estimation (Chen and Goodman 1998; Heafield et al. 2013), without pruning."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from seqloom.models.ngram.ngram import Doubles, Floats, Integers, NGram, flatten

FALLBACK = (0.5, 1.0, 1.5)
"""Default discounts of counts 1, 2 and more, for data that are too few or too regular to estimate them."""


class Counts(NamedTuple):
    """The n-grams of one order: rows sorted by key."""

    keys: Integers
    suffixes: Integers  # row of the n-gram without its first word in the order below
    adjusted: Integers  # count; below the highest order, the number of distinct preceding words


def estimate(
    sentences: Iterable[Sequence[int]],
    *,
    order: int,
    start: int,  # token before each sentence, which occurs in none
    end: int,  # token after each sentence, which occurs in none
    vocabulary: int,  # number of tokens, start and end included
) -> NGram:
    """Estimate an n-gram model from sentences of token ids.

    With a(·) the adjusted count, D its discount and v the context u without its first word:
    p(w | u) = (a(uw) - D(a(uw))) / Σ a(u·) + γ(u) p(w | v),  γ(u) = Σ D(a(u·)) / Σ a(u·).
    Unigrams are interpolated with the uniform distribution over all tokens except ``start``, so unseen words share the
    remaining probability.
    """
    if order < 1:
        raise ValueError(f"order is {order}, expected at least 1")
    text, depth = flatten(sentences, start=start, end=end, vocabulary=vocabulary)
    if not text.size:
        raise ValueError("there are no sentences, expected at least one")
    counted = count(text, depth, order=order, start=start, vocabulary=vocabulary)
    probabilities: list[Floats] = []
    backoffs: list[Floats] = []
    fallbacks = []
    lower = np.full(vocabulary, 1 / (vocabulary - 1))  # p(w | v) of every n-gram of the order below
    lower[start] = 0
    contexts = 1  # of unigrams: the empty context
    for number, (keys, suffixes, adjusted) in enumerate(counted, start=1):
        discounts = estimate_discounts(adjusted)
        if discounts is None:
            discounts = np.array([0, *FALLBACK])
            fallbacks.append(number)
        discounted = discounts[np.minimum(adjusted, 3)]
        context = keys // vocabulary
        total = np.bincount(context, weights=adjusted, minlength=contexts)
        gamma = np.ones(contexts)  # 1 for n-grams that end a sentence: nothing follows them
        np.divide(np.bincount(context, weights=discounted, minlength=contexts), total, out=gamma, where=total > 0)
        lower = (adjusted - discounted) / total[context] + gamma[context] * lower[suffixes]
        probabilities.append(logarithm(lower))
        if number > 1:
            backoffs.append(logarithm(gamma))
        contexts = keys.size
    return NGram(
        vocabulary,
        start,
        end,
        keys=tuple(counts.keys for counts in counted[1:]),
        log_probabilities=tuple(probabilities),
        log_backoffs=tuple(backoffs),
        fallbacks=tuple(fallbacks),
    )


def count(
    text: Integers,  # (T,)
    depth: Integers,  # (T,), position of each word in its sentence
    *,
    order: int,
    start: int,
    vocabulary: int,
) -> list[Counts]:
    """The n-grams of each order; those at the start of a sentence keep their raw count, since no word precedes them."""
    rows = text  # of the n-gram that ends at each position
    keys = suffixes = np.arange(vocabulary)
    raw = np.bincount(text, minlength=vocabulary)
    raw[start] = 0  # never predicted
    at_start = keys == start
    orders = []
    for number in range(2, order + 1):
        at = np.flatnonzero(depth >= number - 1)
        longer, inverse, times = np.unique(
            rows[at - 1] * vocabulary + text[at], return_inverse=True, return_counts=True
        )
        shorter = np.empty(longer.size, dtype=np.int64)
        shorter[inverse] = rows[at]
        orders.append(Counts(keys, suffixes, np.where(at_start, raw, np.bincount(shorter, minlength=keys.size))))
        rows = np.empty_like(text)
        rows[at] = inverse
        keys, suffixes, raw = longer, shorter, times
        at_start = np.zeros(longer.size, dtype=np.bool_)
        at_start[inverse[depth[at] == number - 1]] = True
    return [*orders, Counts(keys, suffixes, raw)]


def estimate_discounts(counts: Integers) -> Doubles | None:  # (4,): of counts 0, 1, 2, and more
    """Chen and Goodman's equation 26; None where it is undefined or discounts nothing."""
    n = np.bincount(np.minimum(counts, 5), minlength=6)
    if not n[1:4].all():
        return None
    j = np.arange(1, 4)
    discounts = j - (j + 1) * n[1] / (n[1] + 2 * n[2]) * n[2:5] / n[1:4]
    return np.concatenate([[0.0], discounts]) if (discounts > 0).all() else None


def logarithm(probabilities: Doubles) -> Floats:
    with np.errstate(divide="ignore"):
        return np.minimum(np.log(probabilities), 0).astype(np.float32)
