"""Long sentences: the verdict on made-up accuracies, and what is kept from the shortest to the longest."""

import pytest

from seqloom.lab.long_sentences import ALL, ATTENTION, SHORT, VECTOR, LongSentences, Score, kept_shares


def rows(model: str, training: str, long: tuple[float, ...], *, short: float = 1.0) -> list[Score]:
    return [
        Score(model, training, seed, length, accuracy)
        for seed, value in enumerate(long)
        for length, accuracy in ((5, short), (10, 0.0), (30, value))
    ]


GOOD, BAD = (0.97, 0.98, 0.99), (0.3, 0.2, 0.25)


@pytest.mark.parametrize(
    ("attention_short", "vector_all", "status"),
    [
        (GOOD, BAD, "holds"),
        (BAD, BAD, "does not hold here"),  # attention fails beyond the lengths of training
        (GOOD, GOOD, "does not hold here"),  # a fixed vector is as good
        ((0.5, 0.9, 1.0), BAD, "not decided"),
        ((0.97,), BAD, "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(
    attention_short: tuple[float, ...], vector_all: tuple[float, ...], status: str
) -> None:
    measured = [
        *rows(ATTENTION, SHORT, attention_short),
        *rows(ATTENTION, ALL, GOOD),
        *rows(VECTOR, SHORT, BAD),
        *rows(VECTOR, ALL, vector_all),
    ]
    assert LongSentences().verdict(measured).status == status


def test_what_is_kept_is_relative_to_the_shortest_sentences() -> None:
    measured = rows(ATTENTION, ALL, (0.4, 0.2), short=0.8) + rows(ATTENTION, SHORT, (0.1,)) + rows(VECTOR, ALL, (0.0,))
    assert kept_shares(measured, ATTENTION, ALL) == [0.5, 0.25]
    assert kept_shares(measured, VECTOR, ALL) == [0.001]  # a ratio of zero has no logarithm


def test_training_on_short_sentences_and_on_all_share_the_new_lengths() -> None:
    experiment = LongSentences(**LongSentences.quick)
    for training in (SHORT, ALL):
        assert [row.length for row in experiment._measure(ATTENTION, training, 1)] == [2, 6]
