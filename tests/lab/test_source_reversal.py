"""Source reversal: the verdict on made-up accuracies, and accuracy by position."""

import pytest

from seqloom.lab.source_reversal import FORWARD, REVERSED, Score, SourceReversal, accuracies
from seqloom.lab.translation import right_by_position


def rows(reading: str, accuracies: tuple[float, ...]) -> list[Score]:
    return [
        Score(reading, seed, length, value, (value,) * length)
        for seed, value in enumerate(accuracies)
        for length in (2, 4)
    ]


@pytest.mark.parametrize(
    ("accuracies", "status"),
    [
        ((0.6, 0.62, 0.59), "holds"),
        ((0.4, 0.42, 0.39), "does not hold here"),
        ((0.4, 0.7, 0.45), "not decided"),
        ((0.9,), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(accuracies: tuple[float, ...], status: str) -> None:
    measured = rows(FORWARD, (0.5, 0.51, 0.49)) + rows(REVERSED, accuracies)
    assert SourceReversal().verdict(measured).status == status


def test_positions_are_compared_one_by_one() -> None:
    pairs = [([3, 4, 5], [7, 8, 9]), ([3, 4, 5], [7, 8, 9])]
    assert right_by_position([[7, 8, 9], [7, 9]], pairs, 3) == (1.0, 0.5, 0.5)
    assert right_by_position([[8, 9], []], pairs, 3) == (0.0, 0.0, 0.0)


def test_means_are_over_lengths() -> None:
    measured = [Score(FORWARD, 3, 2, 0.5, ()), Score(FORWARD, 3, 4, 0.7, ()), Score(REVERSED, 3, 4, 0.1, ())]
    assert accuracies(measured, FORWARD) == {3: pytest.approx(0.6)}
