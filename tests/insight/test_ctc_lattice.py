"""The lattice of a CTC target against all of its paths, one by one."""

import math
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from seqloom.insight.ctc_lattice import CTCLattice, ctc_lattice, draw_lattice
from seqloom.insight.plotting import plot_theme
from seqloom.kernels.ctc.naive import collapse


def log_probabilities(frames: int, tokens: int, seed: int) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(0, 1.5, (frames, tokens))
    normalised: np.ndarray = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return normalised


def made(log_probs: np.ndarray, target: list[int]) -> CTCLattice:
    lattice = ctc_lattice(log_probs, target, names=[f"t{token}" for token in target])
    assert lattice is not None
    return lattice


def state_path(path: tuple[int, ...]) -> list[int]:
    """The states of a path through blank, token, blank, …: each token that begins goes on to the next odd state."""
    states, tokens, previous = [], 0, 0
    for token in path:
        tokens += token not in (0, previous)
        states.append(2 * tokens if token == 0 else 2 * tokens - 1)
        previous = token
    return states


@pytest.mark.parametrize(
    ("frames", "target"), [(5, [1, 2]), (6, [1, 1]), (5, [2, 1, 2]), (4, [1]), (4, []), (3, [1, 2, 1])]
)
def test_posteriors_equal_sums_over_all_paths(frames: int, target: list[int]) -> None:
    log_probs = log_probabilities(frames, 3, seed=len(target) + frames)
    nodes, total, best = np.zeros((2 * len(target) + 1, frames)), 0.0, (0.0, [0])
    edges: dict[tuple[int, ...], float] = {}
    for path in product(range(3), repeat=frames):
        if collapse(path, 0) != tuple(target):
            continue
        probability = math.exp(math.fsum(log_probs[frame, token] for frame, token in enumerate(path)))
        states = state_path(path)
        total += probability
        best = max(best, (probability, states))
        for frame, state in enumerate(states):
            nodes[state, frame] += probability
        for frame, pair in enumerate(pairwise(states)):
            edges[frame, *pair] = edges.get((frame, *pair), 0.0) + probability
    lattice = made(log_probs, target)
    # Up to 3^6 terms in another order, in float64.
    np.testing.assert_allclose(np.array(lattice.posteriors), nodes / total, rtol=1e-10, atol=1e-14)
    assert lattice.log_probability == pytest.approx(math.log(total), abs=1e-12)
    assert lattice.best == best[1]
    assert {(edge.frame, edge.start, edge.end) for edge in lattice.edges} == {
        key for key, value in edges.items() if value / total > 1e-3
    }
    for edge in lattice.edges:
        expected = edges[edge.frame, edge.start, edge.end] / total
        assert edge.posterior == pytest.approx(expected, rel=1e-10)


def test_states_are_named_and_frames_sum_to_one() -> None:
    lattice = made(log_probabilities(8, 4, seed=1), [3, 1])
    assert lattice.states == ["", "t3", "", "t1", ""]
    np.testing.assert_allclose(np.sum(lattice.posteriors, axis=0), 1, atol=1e-12)


def test_a_target_that_does_not_fit_has_no_lattice() -> None:
    assert ctc_lattice(log_probabilities(2, 3, seed=1), [1, 1], names=["a", "a"]) is None
    assert ctc_lattice(np.zeros((0, 3)), [1], names=["a"]) is None


@pytest.mark.parametrize(("frames", "theme"), [(7, "light"), (7, "dark"), (300, "light")])
def test_lattices_are_drawn_as_nodes_or_as_a_heat_map(frames: int, theme: str, tmp_path: Path) -> None:
    with plot_theme(theme):  # type: ignore[arg-type]
        draw_lattice(made(log_probabilities(frames, 3, seed=2), [1, 2]), tmp_path / "x.svg", text="a$b", title="t")
    text = (tmp_path / "x.svg").read_text()
    assert "blank" in text
    assert "most probable path" in text
