import itertools
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from seqloom.data.text.unigram import build_lattices, expected_counts, log_probabilities, removal_losses, train_unigram

PIECES = ["a", "b", "ab", "ba", "aba", "abab"]
STEMS = ["walk", "jump", "look", "call", "open", "turn", "wait", "play"]
WORDS = Counter({"ababa": 3, "bab": 2, "a": 5, "abab": 1})


def cuts(word: str, pieces: list[str]) -> Iterator[tuple[str, ...]]:
    """All segmentations of a word into pieces."""
    for marks in itertools.product([False, True], repeat=len(word) - 1):
        ends = [0, *(location for location, mark in enumerate(marks, start=1) if mark), len(word)]
        parts = tuple(word[start:stop] for start, stop in itertools.pairwise(ends))
        if set(parts) <= set(pieces):
            yield parts


def test_expected_counts_sum_over_all_segmentations() -> None:
    scores = log_probabilities(np.arange(1.0, len(PIECES) + 1))
    probability = dict(zip(PIECES, np.exp(scores), strict=False))
    expected: Counter[str] = Counter()
    for word, number in WORDS.items():
        weights = {parts: math.prod(probability[part] for part in parts) for parts in cuts(word, PIECES)}
        for parts, weight in weights.items():
            for part in parts:
                expected[part] += number * weight / sum(weights.values())
    actual = expected_counts(list(build_lattices(WORDS, PIECES)), scores)
    np.testing.assert_allclose(actual, [expected[piece] for piece in PIECES], rtol=1e-12)


def test_removal_loss_uses_the_best_segmentation() -> None:
    weights = np.arange(1.0, len(PIECES) + 1)
    scores = dict(zip(PIECES, log_probabilities(weights), strict=False))
    actual = removal_losses(
        list(build_lattices(Counter({piece: 1 for piece in PIECES if len(piece) > 1}), PIECES)), weights
    )
    for piece, weight, loss in zip(PIECES, weights, actual, strict=True):
        others = [sum(scores[part] for part in parts) for parts in cuts(piece, PIECES) if len(parts) > 1]
        assert loss == pytest.approx(weight * (scores[piece] - max(others)) if others else math.inf, rel=1e-12)


def test_repeated_substrings_become_pieces() -> None:
    words = Counter({f"▁{stem}{ending}": 5 for stem in STEMS for ending in ("", "ing", "ed", "s")})
    pieces = dict(train_unigram(words, size=len(set("".join(words))) + 20))
    assert {f"▁{stem}" for stem in STEMS} <= pieces.keys()
    assert set("".join(words)) <= pieces.keys()
    assert sum(map(math.exp, pieces.values())) == pytest.approx(1)


@pytest.mark.parametrize("size", [1, 3, 10, 1000])
def test_size_is_respected_for_words_of_any_length(size: int) -> None:
    words = Counter({"x" * 1000: 1, "abcabc": 4, "<s>": 9})
    pieces = train_unigram(words, size=size, reserved=("<s>",))
    assert 0 < len(pieces) <= size
    assert "<s>" not in dict(pieces)
    assert pieces == train_unigram(Counter(dict(reversed(words.items()))), size=size, reserved=("<s>",))


def test_no_words_give_no_pieces() -> None:
    assert train_unigram(Counter(), size=5) == []
