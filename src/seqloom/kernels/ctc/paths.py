"""The paths of a CTC target: the most probable ones, how many there are, and their probability together."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqloom.kernels.ctc.naive import Floats, blank_extended, predecessors


@dataclass(frozen=True)
class TargetPaths:
    """Paths that collapse to a target."""

    count: int  # all of them
    log_prob: float  # of all of them together: log p(target)
    best: list[tuple[float, list[int]]]  # log-probability and a token or blank for each frame, the most probable first


def target_paths(log_probs: Floats, target: Sequence[int], *, blank: int = 0, limit: int) -> TargetPaths:  # (T, V)
    """The ``limit`` most probable paths of a target, by a Viterbi search that keeps as many ways to each state."""
    states = blank_extended(target, blank)
    arriving = [predecessors(states, at, blank) for at in range(len(states))]
    starts = range(min(2, len(states)))
    if not len(log_probs):
        return TargetPaths(int(not target), 0.0 if not target else -np.inf, [] if target else [(0.0, [])])
    # A path is a chain of pairs (token, path before it).
    kept: list[list[tuple[float, Any]]]
    kept = [[(float(log_probs[0, token]), (token, None))] if at in starts else [] for at, token in enumerate(states)]
    sums = np.array([float(log_probs[0, token]) if at in starts else -np.inf for at, token in enumerate(states)])
    counts = [int(at in starts) for at in range(len(states))]
    for frame in log_probs[1:].tolist():
        kept = [
            [
                (score + frame[token], (token, path))
                for score, path in heapq.nlargest(
                    limit, (each for before in arriving[at] for each in kept[before]), key=lambda scored: scored[0]
                )
            ]
            for at, token in enumerate(states)
        ]
        sums = np.array([np.logaddexp.reduce(sums[arriving[at]]) + frame[token] for at, token in enumerate(states)])
        counts = [sum(counts[before] for before in arriving[at]) for at in range(len(states))]
    ends = range(max(len(states) - 2, 0), len(states))
    best = heapq.nlargest(limit, (each for end in ends for each in kept[end]), key=lambda scored: scored[0])
    total = float(np.logaddexp.reduce([sums[end] for end in ends]))
    return TargetPaths(sum(counts[end] for end in ends), total, [(score, _unchain(path)) for score, path in best])


def _unchain(path: object) -> list[int]:
    tokens = []
    while isinstance(path, tuple):
        token, path = path
        tokens.append(token)
    return tokens[::-1]
