"""Kneser-Ney estimation against the equations over dictionaries."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.models.ngram.kneser_ney import estimate, estimate_discounts
from seqloom.models.ngram.ngram import NGram

START, END = 0, 1
Gram = tuple[int, ...]


def zipf(*, sentences: int, vocabulary: int, seed: int = 0) -> list[list[int]]:
    """Sentences in which each word depends on the one before it, with frequent and rare words."""
    random = np.random.default_rng(seed)
    weights = 1 / np.arange(1, vocabulary - 1)
    rows = [np.roll(weights, 3 * word) / weights.sum() for word in range(vocabulary)]
    texts = []
    for length in random.integers(0, 12, sentences):
        words = [START]
        for _ in range(length):
            words.append(2 + int(random.choice(vocabulary - 2, p=rows[words[-1]])))
        texts.append(words[1:])
    return texts


class Equations:
    """Chen and Goodman's equations over dictionaries."""

    def __init__(self, sentences: list[list[int]], order: int, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        raw: dict[int, Counter[Gram]] = {k: Counter() for k in range(1, order + 1)}
        for sentence in sentences:
            text = (START, *sentence, END)
            for k, grams in raw.items():
                grams.update(text[i : i + k] for i in range(len(text) - k + 1))
        del raw[1][START,]
        self.counts: dict[Gram, int] = {}
        self.discounts: dict[int, list[float]] = {}
        self.followers: dict[Gram, set[int]] = defaultdict(set)
        for k, grams in raw.items():
            for gram, count in grams.items():
                before = {longer[0] for longer in raw.get(k + 1, ()) if longer[1:] == gram}
                self.counts[gram] = count if k == order or gram[0] == START else len(before)
                self.followers[gram[:-1]].add(gram[-1])
            self.discounts[k] = self.discount([self.counts[gram] for gram in grams])

    @staticmethod
    def discount(counts: list[int]) -> list[float]:
        n1, n2, n3, n4 = (counts.count(number) for number in (1, 2, 3, 4))
        if n1 and n2 and n3:
            y = n1 / (n1 + 2 * n2)
            discounts = [1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
            if min(discounts) > 0:
                return [0.0, *discounts]
        return [0, 0.5, 1, 1.5]

    def probability(self, word: int, context: Gram) -> float:
        below = self.probability(word, context[1:]) if context else float(word != START) / (self.vocabulary - 1)
        followers = self.followers.get(context)
        if not followers:
            return below
        counts = {follower: self.counts[(*context, follower)] for follower in followers}
        by_count = self.discounts[len(context) + 1]
        discounts = {follower: by_count[min(counts[follower], 3)] for follower in followers}
        own = counts.get(word, 0) - discounts.get(word, 0)
        return (own + sum(discounts.values()) * below) / sum(counts.values())


def check_equations(model: NGram, equations: Equations, contexts: set[Gram]) -> None:
    state = np.array(
        [(-1,) * (model.order - 1 - len(context)) + context for context in contexts], dtype=np.int64
    ).reshape(len(contexts), model.order - 1)
    expected = [[equations.probability(word, context) for word in range(model.vocabulary)] for context in contexts]
    # Tables are float32: half a unit in the last place of a logarithm down to -16, a few of them added.
    np.testing.assert_allclose(np.exp(model.next(state)), expected, rtol=4e-6, atol=0)


def test_probabilities_by_hand() -> None:
    a, b, c = 2, 3, 4
    model = estimate([[a, b], [a, c]], order=2, start=START, end=END, vocabulary=5)
    assert model.fallbacks == (1, 2)
    # Adjusted counts of words: a 1, b 1, c 1, </s> 2, of 5; γ = (3 × 0.5 + 1) / 5; uniform 1/4.
    words = [0, 1 / 5 + 0.5 / 4, 0.5 / 5 + 0.5 / 4, 0.5 / 5 + 0.5 / 4, 0.5 / 5 + 0.5 / 4]
    np.testing.assert_allclose(np.exp(model.log_probabilities[0]), words, rtol=1e-6)
    contexts = np.array([[START], [a], [b], [b]])
    actual = model.log_probability(np.array([a, b, END, c]), contexts)
    expected = [1 / 2 + 0.5 * 0.225, 0.5 / 2 + 0.5 * 0.225, 0.5 / 1 + 0.5 * 0.325, 0.5 * 0.225]
    np.testing.assert_allclose(np.exp(actual), expected, rtol=1e-6)


def test_discounts_by_hand() -> None:
    # n1 … n4 are 4, 2, 1, 1: Y = 4 / 8.
    actual = estimate_discounts(np.array([1, 1, 1, 1, 2, 2, 3, 4, 5, 9, 0]))
    assert actual is not None
    np.testing.assert_allclose(actual, [0, 0.5, 1.25, 1])


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([], id="nothing"),
        pytest.param([1, 1, 1, 2], id="no count of three"),
        pytest.param([1, 2, 3, 3, 3, 3], id="negative"),
    ],
)
def test_undefined_discounts_are_none(counts: list[int]) -> None:
    assert estimate_discounts(np.array(counts, dtype=np.int64)) is None


@settings(deadline=None, max_examples=60)
@given(
    sentences=st.lists(st.lists(st.integers(2, 6), max_size=7), min_size=1, max_size=12),
    order=st.integers(1, 5),
    context=st.lists(st.integers(2, 7), max_size=4),
)
def test_random_texts_match_the_equations(sentences: list[list[int]], order: int, context: list[int]) -> None:
    model = estimate(sentences, order=order, start=START, end=END, vocabulary=8)
    equations = Equations(sentences, order, 8)
    texts = [(START, *sentence) for sentence in [*sentences, context]]
    windows = {text[max(0, end - order + 1) : end] for text in texts for end in range(len(text) + 1)}
    check_equations(model, equations, windows | {tuple(context[: order - 1])})


def test_estimated_discounts_match_the_equations() -> None:
    sentences = zipf(sentences=150, vocabulary=40)
    model = estimate(sentences, order=3, start=START, end=END, vocabulary=41)
    assert model.fallbacks == (1,)  # forty words are too few
    equations = Equations(sentences, 3, 41)
    contexts = {(), (START,), (2,), (START, 4), (40, 40), (5, 40)} | {(2, word) for word in range(2, 40)}
    check_equations(model, equations, contexts)


def test_a_longer_context_helps() -> None:
    sentences = zipf(sentences=600, vocabulary=40)
    train, held_out = sentences[:500], sentences[500:]
    losses = []
    for order in (1, 2):
        model = estimate(train, order=order, start=START, end=END, vocabulary=40)
        losses.append(-np.concatenate(model.score(held_out)).mean())
    assert losses[1] < losses[0] < math.log(39)


def test_keys_of_a_large_vocabulary() -> None:
    words = [70_000 - 7 * index for index in range(9_000)]
    model = estimate([words], order=5, start=START, end=END, vocabulary=70_001)
    assert [len(values) for values in model.log_probabilities] == [70_001, 9_001, 9_000, 8_999, 8_998]
    (actual,) = model.score([words])
    again = estimate([[9_001 - index for index in range(9_000)]], order=5, start=START, end=END, vocabulary=70_001)
    np.testing.assert_array_equal(actual, again.score([[9_001 - index for index in range(9_000)]])[0])


@pytest.mark.parametrize(
    ("sentences", "order", "message"),
    [
        pytest.param([[2]], 0, "order is 0, expected at least 1", id="order"),
        pytest.param([], 2, "there are no sentences", id="nothing"),
        pytest.param([[2], [3, 9]], 2, "text 1 contains token 9, expected token ids from 0 to 4", id="outside"),
        pytest.param([[], [2], [2, START]], 2, r"text 2 contains token 0.* other than 0 \(start\)", id="start"),
        pytest.param([[END]], 2, "text 0 contains token 1", id="end"),
    ],
)
def test_invalid_arguments_are_rejected(sentences: list[list[int]], order: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimate(sentences, order=order, start=START, end=END, vocabulary=5)
