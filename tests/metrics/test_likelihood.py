"""Negative log-likelihoods against values computed by hand."""

import pytest

from seqloom.metrics.likelihood import nll_scores, nll_sums

LIKELIHOODS = [[-1.0, -2.0, -3.0], [0.5]]


def test_means_are_over_elements_and_over_sequences() -> None:
    scores = nll_scores(LIKELIHOODS, sequence="piece", element="frame")
    assert scores == {"nll": 5.5 / 4, "nll_per_piece": 5.5 / 2, "pieces": 2, "frames": 4}
    assert nll_scores([], sequence="piece", element="frame")["nll"] == 0


def test_sums_give_the_mean_of_an_element() -> None:
    assert nll_sums(LIKELIHOODS).whole == pytest.approx(5.5 / 4)
    assert nll_sums(LIKELIHOODS[:1]).whole == pytest.approx(2)
