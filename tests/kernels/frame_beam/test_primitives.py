"""Building blocks of the beam searches against NumPy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seqloom.kernels.frame_beam.primitives import (
    common_ancestor,
    descends_from,
    fill_child_table,
    find_child,
    keep_best,
    log_add,
    mark_ancestors,
    path_between,
    sort_descending,
)


def test_log_add() -> None:
    random = np.random.default_rng(1)
    pairs = random.uniform(-40, 40, size=(2000, 2))
    actual = [log_add(x, y) for x, y in pairs]
    assert np.abs(actual - np.logaddexp(*pairs.T)).max() < 2e-11  # error of the cubic spline
    assert log_add(-np.inf, -np.inf) == -np.inf
    assert log_add(-np.inf, 3.0) == log_add(3.0, -np.inf) == 3.0


SCORES = st.sampled_from([-np.inf, -1e9 - 0.5, -1e9, *np.arange(0.0, 10.0), 1e-300, 0.1, 0.1 + 1e-16])


@given(st.lists(SCORES, min_size=1, max_size=40), st.data())
def test_the_best_scores_move_to_the_front_with_their_payload(values: list[float], data: st.DataObject) -> None:
    kept = data.draw(st.integers(1, len(values)))
    scores, payload = np.array(values, np.float64), np.stack([np.arange(len(values)), -np.arange(len(values))], axis=1)
    payload = payload.astype(np.int32)
    keep_best(scores, payload, len(values), kept)
    assert sorted(scores[:kept]) == sorted(values)[-kept:]
    assert scores.tolist() == [values[index] for index in payload[:, 0]]
    assert (payload[:, 0] == -payload[:, 1]).all()
    order = np.arange(len(values), dtype=np.int32)
    sort_descending(scores, order, len(values))
    assert scores[order].tolist() == sorted(values, reverse=True)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.data())
def test_trees_in_arrays(draws: list[int], data: st.DataObject) -> None:
    parents = np.array([-1, *(draw % (index + 1) for index, draw in enumerate(draws))], np.int32)
    labels = np.array([-1, *range(len(draws))], np.int32)

    def ancestors(node: int) -> list[int]:
        path = [node]
        while path[-1]:
            path.append(int(parents[path[-1]]))
        return path

    nodes = data.draw(st.lists(st.integers(0, len(draws)), min_size=1, max_size=5))
    chosen = np.array(nodes, np.int32)
    paths = [ancestors(node) for node in nodes]
    assert np.flatnonzero(mark_ancestors(parents, chosen)).tolist() == sorted({0}.union(*paths))
    assert common_ancestor(parents, chosen) == max(set(paths[0]).intersection(*paths))
    assert path_between(parents, nodes[0], 0).tolist() == paths[0][-2::-1]
    assert [descends_from(parents, nodes[0], other) for other in range(len(parents))] == [
        other in paths[0] for other in range(len(parents))
    ]
    table = np.empty(256, np.int32)
    fill_child_table(table, parents, labels, len(parents))
    for node in range(1, len(parents)):
        assert table[find_child(table, parents, labels, parents[node], labels[node])] == node
    assert table[find_child(table, parents, labels, 0, 5000)] == -1
