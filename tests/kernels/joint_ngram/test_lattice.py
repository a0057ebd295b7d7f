"""Lattices of outputs: conditional weights, several target tokens in a row, and reading one token.

``tests/models/joint_ngram`` compares them with all sequences of units.
"""

from typing import Any

import numpy as np

from seqloom.kernels.joint_ngram import EPSILON
from seqloom.kernels.joint_ngram import lattice as kernel

END = 9


def spelled() -> Any:
    """A source of two tokens: the first stands for nothing or for 4 5, the second for 5; then comes the end."""
    origins, destinations = np.array([0, 0, 1, 2, 3]), np.array([1, 2, 3, 3, 4])
    weights = np.array([0.2, 0.6, 0.5, 0.5, 0.1])
    units, first_arcs = np.array([0, 1, 2, 2, -1]), np.array([0, 2, 4, 5])
    conditional = kernel.condition(origins, destinations, weights, first_arcs, np.array([1, 0.2, 0.6, 0.4, 0.04]), 0.0)
    chunks = np.array([[-1, -1], [4, 5], [5, -1]])
    return kernel.spell(origins, destinations, units, conditional, first_arcs, chunks, END)


def test_weights_that_leave_a_node_add_up_to_one() -> None:
    origins, destinations, labels, places, weights = spelled()
    assert labels.tolist() == [EPSILON, 4, 5, 5, 5, END]
    assert places.tolist() == [0, 0, 0, 1, 1, 2]
    np.testing.assert_allclose(np.bincount(origins, weights), 1)
    np.testing.assert_allclose(weights, [0.25, 0.75, 1, 1, 1, 1])
    for node in set(origins.tolist()) - {0}:
        assert np.flatnonzero(destinations == node).max() < np.flatnonzero(origins == node).min()


def test_unlikely_arcs_are_left_out() -> None:
    origins, destinations, first_arcs = np.array([0, 0, 1, 2]), np.array([1, 2, 3, 3]), np.array([0, 2, 4])
    weights = np.array([0.999, 0.001, 0.5, 0.5])
    conditional = kernel.condition(origins, destinations, weights, first_arcs, np.array([1, 0.999, 0.001, 0.5]), 0.01)
    np.testing.assert_allclose(conditional, [1, 0, 1, 0])


def test_reading_tokens() -> None:
    origins, destinations, labels, _, weights = (part[np.newaxis] for part in spelled())
    rows, vocabulary = np.zeros(2, dtype=np.int64), 10
    before = np.zeros((2, 6))
    before[:, 0] = 1

    def read(tokens: list[int], *, started: bool) -> np.ndarray:
        nonlocal before
        after, probabilities = np.empty_like(before), np.empty((2, vocabulary))
        begun = np.full(2, started)
        kernel.step(
            np.array([6]),
            origins,
            destinations,
            labels,
            weights,
            rows,
            np.array(tokens),
            begun,
            before,
            after,
            probabilities,
        )
        before = after
        return probabilities

    first = read([END, END], started=False)
    np.testing.assert_allclose(first[:, [4, 5]], [[0.75, 0.25]] * 2)
    second = read([4, 5], started=True)
    np.testing.assert_allclose(second[:, [5, END]], [[1, 0], [0, 1]])
    third = read([5, 7], started=True)
    np.testing.assert_allclose(third[:, 5], [1, 0])
    assert not third[1].any()  # no output begins with 5 7
