"""ROUGE against the values of rouge_score 0.1.2, and the longest common subsequence against brute force."""

import random
from itertools import combinations

import pytest

from seqloom.metrics.rouge import rouge, rouge_sums


@pytest.mark.parametrize(
    ("hypothesis", "reference", "scores"),
    [
        ("the cat sat on the mat", "the cat was on the mat", (0.8333333333, 0.6, 0.8333333333)),
        (
            "The quick brown fox jumps over the lazy dog",
            "The quick brown dog jumps on the log.",
            (0.7058823529, 0.2666666667, 0.5882352941),
        ),
        ("a b a b a", "b a b", (0.75, 0.6666666667, 0.75)),
        ("police killed the gunman", "the gunman kill police", (0.75, 0.3333333333, 0.5)),
        ("", "a b", (0, 0, 0)),
    ],
)
def test_scores_are_those_of_rouge_score(hypothesis: str, reference: str, scores: tuple[float, ...]) -> None:
    assert tuple(rouge(hypothesis, reference).values()) == pytest.approx(scores, abs=1e-9)


def test_the_longest_common_subsequence_is_the_longest() -> None:
    draw = random.Random(1)  # noqa: S311
    for _ in range(30):
        left, right = (draw.choices("abc", k=draw.randint(1, 6)) for _ in range(2))
        common = max(
            size for size in range(len(left) + 1) if {*combinations(left, size)} & {*combinations(right, size)}
        )
        expected = 2 * common / (len(left) + len(right))
        assert rouge(" ".join(left), " ".join(right))["rouge_l"] == pytest.approx(expected)


def test_the_score_of_a_file_is_the_mean_of_its_examples() -> None:
    sums = rouge_sums(["a b", "c"], ["a b", "a"], "rouge_1")
    assert sums.whole == 0.5
    assert sums.value(sums.rows[0]) == 1
