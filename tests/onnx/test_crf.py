"""Viterbi and label probabilities inside the graph, against the enumeration of all label sequences."""

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts.registry import randomize

from seqloom.models.crf import CRF, allowed_transitions
from seqloom.onnx import crf
from seqloom.onnx.exported import open_session
from seqloom.onnx.graph import Graph
from seqloom.onnx.modules import Rows

NAMES = ["O", "B-X", "I-X"]


def enumerated(emissions: Any, model: CRF) -> tuple[list[int], list[float]]:
    """The best labels of one row (T, L), and the probability of each, by summing over all sequences."""
    start, transitions, end = (part.detach().double().numpy() for part in model.allowed_chain)
    scores = {}
    for labels in product(range(emissions.shape[1]), repeat=len(emissions)):
        steps = sum(transitions[left, right] for left, right in pairwise(labels))
        scores[labels] = start[labels[0]] + end[labels[-1]] + steps + emissions[range(len(labels)), labels].sum()
    best = max(scores, key=lambda labels: scores[labels])
    weights = {labels: np.exp(score - scores[best]) for labels, score in scores.items()}
    total = sum(weights.values())
    shares = [
        sum(weight for labels, weight in weights.items() if labels[step] == best[step]) / total
        for step in range(len(best))
    ]
    return list(best), shares


@pytest.mark.parametrize("constrained", [False, True])
def test_best_labels_and_their_probabilities(constrained: bool) -> None:
    model = CRF(3, allowed=allowed_transitions(NAMES) if constrained else None)
    randomize(model, dtype=torch.float32)
    graph = Graph()
    emissions = graph.input("emissions", np.float32, ["batch", "time", 3])
    rows = Rows.of(emissions, graph.input("lengths", np.int64, ["batch"]))
    labels, probabilities = crf.decode(model, emissions, rows)
    graph.output("labels", labels, ["batch", "time"])
    graph.output("probabilities", probabilities, ["batch", "time"])
    session = open_session(graph.finish("crf", {}).SerializeToString())
    values = 2 * np.random.default_rng(3).standard_normal((4, 6, 3)).astype(np.float32)
    lengths = np.array([6, 1, 0, 4])
    for row, length in enumerate(lengths):
        values[row, length:] = np.nan
    found, shares = session.run(None, {"emissions": values, "lengths": lengths})
    for row, length in enumerate(lengths):
        assert not found[row, length:].any()
        assert not shares[row, length:].any()
        if length:
            best, expected = enumerated(values[row, :length].astype(np.float64), model)
            assert found[row, :length].tolist() == best
            np.testing.assert_allclose(shares[row, :length], expected, rtol=1e-5)  # float32
