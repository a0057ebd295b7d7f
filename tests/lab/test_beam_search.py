"""Beam search: the verdict on made-up accuracies, and translations that are cut off."""

import pytest
import torch

from seqloom.lab.beam_search import BeamSearch, Ranking, Score, cut, differences


def rows(ranking: Ranking, size: int, accuracies: tuple[float, ...]) -> list[Score]:
    return [Score(ranking, size, seed, value, 1.0) for seed, value in enumerate(accuracies)]


GREEDY, SMALL = (0.6, 0.61, 0.62), (0.7, 0.71, 0.73)


@pytest.mark.parametrize(
    ("small", "wide", "status"),
    [
        (SMALL, (0.4, 0.41, 0.39), "holds"),
        (SMALL, (0.8, 0.81, 0.84), "does not hold here"),  # wide beams help
        ((0.5, 0.51, 0.53), (0.4, 0.41, 0.39), "does not hold here"),  # greedy search is better
        (SMALL, (0.4, 0.9, 0.7), "not decided"),
        ((0.5, 0.9, 0.65), (0.2, 0.21, 0.22), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(small: tuple[float, ...], wide: tuple[float, ...], status: str) -> None:
    """The ranking by probability counts, whatever the other one does."""
    measured = [
        *(row for ranking in ("none", "length") for row in rows(ranking, 1, GREEDY)),
        *rows("length", 4, GREEDY),
        *rows("none", 4, small),
        *rows("length", 64, SMALL),
        *rows("none", 64, wide),
    ]
    assert BeamSearch().verdict(measured).status == status


def test_differences_are_those_of_the_same_seed() -> None:
    measured = rows("none", 1, (0.5, 0.25)) + rows("none", 4, (0.75, 0.75))
    assert differences(measured, ("none", 4), ("none", 1)) == [0.25, 0.5]


def test_a_share_of_the_translations_is_cut_off() -> None:
    pairs = [([3, 4, 5], [6, 7, 8])] * 1000
    whole = cut(pairs, 0.0, torch.Generator().manual_seed(1))
    assert whole == pairs
    shortened = cut(pairs, 0.3, torch.Generator().manual_seed(1))
    assert all(target == [6, 7, 8][: len(target)] for _, target in shortened)
    share = sum(len(target) < 3 for _, target in shortened) / 1000
    assert share == pytest.approx(0.3, abs=0.05)  # 3 standard deviations: 0.043
    assert {len(target) for _, target in shortened} == {0, 1, 2, 3}


def test_greedy_search_does_not_depend_on_the_ranking() -> None:
    """With a beam of 1 there is nothing to rank."""
    measured = BeamSearch(**BeamSearch.quick)._measure(1)
    first = {row.ranking: (row.accuracy, row.length) for row in measured if row.size == 1}
    assert first["none"] == first["length"]
