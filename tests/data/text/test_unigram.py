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
    """All ways to cut a word into pieces."""
    for marks in itertools.product([False, True], repeat=len(word) - 1):
        ends = [0, *(location for location, mark in enumerate(marks, start=1) if mark), len(word)]
        parts = tuple(word[start:stop] for start, stop in itertools.pairwise(ends))
        if set(parts) <= set(pieces):
            yield parts


def test_expected_counts_are_those_over_all_cuts() -> None:
    scores = log_probabilities(np.arange(1.0, len(PIECES) + 1))
    probability = dict(zip(PIECES, np.exp(scores), strict=False))
    wanted: Counter[str] = Counter()
    for word, number in WORDS.items():
        weights = {parts: math.prod(probability[part] for part in parts) for parts in cuts(word, PIECES)}
        for parts, weight in weights.items():
            for part in parts:
                wanted[part] += number * weight / sum(weights.values())
    found = expected_counts(list(build_lattices(WORDS, PIECES)), scores)
    np.testing.assert_allclose(found, [wanted[piece] for piece in PIECES], rtol=1e-12)


def test_the_loss_of_a_piece_is_that_of_its_best_cut() -> None:
    weights = np.arange(1.0, len(PIECES) + 1)
    scores = dict(zip(PIECES, log_probabilities(weights), strict=False))
    found = removal_losses(
        list(build_lattices(Counter({piece: 1 for piece in PIECES if len(piece) > 1}), PIECES)), weights
    )
    for piece, weight, loss in zip(PIECES, weights, found, strict=True):
        others = [sum(scores[part] for part in parts) for parts in cuts(piece, PIECES) if len(parts) > 1]
        assert loss == pytest.approx(weight * (scores[piece] - max(others)) if others else math.inf, rel=1e-12)


def test_what_repeats_becomes_a_piece() -> None:
    words = Counter({f"▁{stem}{ending}": 5 for stem in STEMS for ending in ("", "ing", "ed", "s")})
    pieces = dict(train_unigram(words, size=len(set("".join(words))) + 20))
    assert {f"▁{stem}" for stem in STEMS} <= pieces.keys()
    assert set("".join(words)) <= pieces.keys()
    assert sum(map(math.exp, pieces.values())) == pytest.approx(1)


@pytest.mark.parametrize("size", [1, 3, 10, 1000])
def test_size_is_kept_and_words_of_any_length_are_learnt_from(size: int) -> None:
    words = Counter({"x" * 1000: 1, "abcabc": 4, "<s>": 9})
    pieces = train_unigram(words, size=size, reserved=("<s>",))
    assert 0 < len(pieces) <= size
    assert "<s>" not in dict(pieces)
    assert pieces == train_unigram(Counter(dict(reversed(words.items()))), size=size, reserved=("<s>",))


def test_nothing_is_learnt_from_nothing() -> None:
    assert train_unigram(Counter(), size=5) == []
