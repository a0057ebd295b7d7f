"""Soft and hard attention in the lab: alignments by hand, weights, and the verdict on made-up places."""

import pytest

from seqloom.lab.hard_attention import HardAttention, Outcome, agreement, attention_weights, hits
from seqloom.lab.translation import FIRST_WORD, Language

ALIGNED = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)


def rows(wrong: tuple[int, ...]) -> list[Outcome]:
    """Hard attention that looks at the wrong word for some of ten words, by seed."""
    return [
        outcome
        for seed, count in enumerate(wrong)
        for outcome in (
            Outcome("soft", seed, 1.0, ALIGNED, ALIGNED),
            Outcome("hard", seed, 0.9, (*([99] * count), *ALIGNED[count:]), ALIGNED),
        )
    ]


@pytest.mark.parametrize(
    ("wrong", "status"),
    [((0, 1, 0), "holds"), ((7, 8, 7), "does not hold here"), ((0, 5, 1), "not decided"), ((0,), "not decided")],
)
def test_the_verdict_follows_the_rule(wrong: tuple[int, ...], status: str) -> None:
    assert HardAttention().verdict(rows(wrong)).status == status


def test_shares_are_those_of_equal_places() -> None:
    soft, hard = rows((4,))
    assert agreement(soft, hard) == hits(hard) == pytest.approx(0.6)
    assert hits(soft) == 1


def test_the_alignment_is_that_of_the_translation() -> None:
    language = Language(words=6)  # 3 … 8, of which 6, 7 and 8 change places with the next word
    assert language.alignment([7, 8, 3]) == [1, 0, 2]
    assert language.alignment([3, 6, 4, 8]) == [0, 2, 1, 3]
    for source in ([7, 8, 3, 4], [3, 4], [8], [6, 6, 6]):
        translated = [FIRST_WORD + (source[place] - FIRST_WORD + 1) % 6 for place in language.alignment(source)]
        assert language.translate(source) == translated


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_weights_are_those_of_the_source_words(kind: str) -> None:
    experiment = HardAttention(**HardAttention.quick)
    model, _ = experiment.train_translator(1, lengths=(2, 4), attention="soft" if kind == "soft" else "hard")
    pairs = experiment.new_sentences()
    weights = attention_weights(model, pairs)
    assert weights == attention_weights(model, pairs)
    for (source, target), rows_of_weights in zip(pairs, weights, strict=True):
        assert len(rows_of_weights) == len(target)
        for row in rows_of_weights:
            assert len(row) == len(source) + 1
            assert sum(row) == pytest.approx(1, abs=1e-5)
            assert kind == "soft" or sorted(row) == [0] * len(source) + [1]
