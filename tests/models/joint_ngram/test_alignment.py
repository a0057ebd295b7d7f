"""Alignments against expectation maximisation over all alignments, written out."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from seqloom.kernels.joint_ngram import EPSILON
from seqloom.models.joint_ngram import alignment
from seqloom.models.joint_ngram.alignment import align, needed_chunk

Unit = tuple[int, tuple[int, ...]]
Pair = tuple[list[int], list[int]]

PAIRS: list[Pair] = [
    ([3, 4], [5, 6]),
    ([3, 5, 4], [5, 7, 7, 6]),
    ([4], [6]),
    ([5, 5], [7, 7]),
    ([6, 3], [5]),
    ([3], []),
    ([4, 3, 6], [6, 5, 8]),
]


def alignments(source: Sequence[int], target: Sequence[int], longest: int) -> Iterator[list[Unit]]:
    if not source:
        if not target:
            yield []
        return
    for size in range(min(longest, len(target)) + 1):
        for rest in alignments(source[1:], target[size:], longest):
            yield [(source[0], tuple(target[:size])), *rest]


def aligned_by_hand(pairs: Sequence[Pair], longest: int) -> tuple[list[list[Unit]], dict[Unit, float]]:
    """The most probable alignment of each pair that has one, and the probabilities, after as many iterations."""
    every = [list(alignments(source, target, longest)) for source, target in pairs]
    units = {unit for each in every for path in each for unit in path}
    probabilities = dict.fromkeys(units, 1 / len(units))
    for _ in range(alignment.ITERATIONS):
        counts: defaultdict[Unit, float] = defaultdict(float)
        for each in every:
            weights = [math.prod(probabilities[unit] for unit in path) for path in each]
            for weight, path in zip(weights, each, strict=True):
                for unit in path:
                    counts[unit] += weight / sum(weights)
        probabilities = {unit: counts[unit] / sum(counts.values()) for unit in units}
    best = [max(each, key=lambda path: math.prod(probabilities[unit] for unit in path)) for each in every if each]
    return best, probabilities


@pytest.mark.parametrize("longest", [1, 2, 3])
def test_against_all_alignments(longest: int) -> None:
    found = align(PAIRS, longest_chunk=longest)
    table = [(row[0], tuple(token for token in row[1:] if token != EPSILON)) for row in found.units.tolist()]
    texts, probabilities = aligned_by_hand(PAIRS, longest)
    assert [[table[unit] for unit in text] for text in found.texts] == texts
    np.testing.assert_allclose(np.exp(found.log_probabilities), [probabilities[unit] for unit in table], rtol=1e-9)
    assert [row[0] for row in found.units.tolist()] == sorted(row[0] for row in found.units.tolist())


def test_double_letters_are_always_aligned_in_the_same_way() -> None:
    """The first letter stands for nothing, whatever is before and after them: rounding decides nothing."""
    random = np.random.default_rng(3)
    others = [random.integers(4, 12, int(random.integers(0, 6))).tolist() for _ in range(400)]
    pairs = [([*left, 3, 3, *right], [*left, 3, *right]) for left, right in zip(others[::2], others[1::2], strict=True)]
    found = align([*pairs, *(([token], [token]) for token in range(4, 12))], longest_chunk=2)
    for (source, _), text in zip(pairs, found.texts, strict=False):
        first = source.index(3)
        chunks = found.units[text[first : first + 2], 1]
        assert chunks.tolist() == [EPSILON, 3]


def test_pairs_without_an_alignment_are_skipped() -> None:
    found = align([([3], [4, 4, 4]), ([], [4]), ([3], [4])], longest_chunk=2)
    assert found.units.tolist() == [[3, 4, EPSILON]]
    assert [text.tolist() for text in found.texts] == [[0]]
    with pytest.raises(ValueError, match="no pair can be aligned: all targets have more than 2 tokens"):
        align([([3], [4, 4, 4])], longest_chunk=2)


def test_too_many_possible_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "MAX_UNITS", 1 << 12)
    tokens = list(range(3, 103))
    with pytest.raises(ValueError, match=r"more than 4,096 possible units .* for short pairs in the same order"):
        align([(tokens, tokens)], longest_chunk=3)


def test_long_pairs_do_not_underflow() -> None:
    generator = np.random.default_rng(1)
    pairs = [(text.tolist(), (text + 10).tolist()) for text in generator.integers(3, 9, (4, 400))]
    found = align(pairs, longest_chunk=2)
    assert all((found.units[text, 1] == found.units[text, 0] + 10).all() for text in found.texts)


def test_needed_chunk() -> None:
    assert needed_chunk([(3, 3), (2, 4)]) == needed_chunk([]) == 2
    assert needed_chunk([(2, 5)]) == 3
    assert needed_chunk([(1, 90)]) == 8
    assert needed_chunk([(1, 1)] * 999 + [(1, 7)]) == 2
