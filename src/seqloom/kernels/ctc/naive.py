"""CTC (Graves et al. 2006) by its definition, slow and readable: the reference that the kernels are tested against."""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Tokens = tuple[int, ...]


def collapse(path: Sequence[int], blank: int) -> Tokens:
    """What a path (one token or blank per frame) spells: repeated tokens count once, blanks are dropped."""
    return tuple(token for token, _ in groupby(path) if token != blank)


def path_log_probs(log_probs: Floats, blank: int = 0) -> dict[Tokens, list[float]]:  # (T, V)
    """The log-probabilities of all Vᵀ paths, by the sequence that they spell."""
    result: dict[Tokens, list[float]] = defaultdict(list)
    rows = log_probs.tolist()
    for path in product(range(log_probs.shape[1]), repeat=len(log_probs)):
        total = math.fsum([row[token] for row, token in zip(rows, path, strict=True)])
        if total > -math.inf:
            result[collapse(path, blank)].append(total)
    return dict(result)


def sequence_log_probs(log_probs: Floats, blank: int = 0) -> dict[Tokens, float]:  # (T, V)
    """The log-probability of every sequence: the sum over all of its paths."""
    paths = path_log_probs(log_probs, blank)
    return {tokens: float(np.logaddexp.reduce(values)) for tokens, values in paths.items()}


def blank_extended(target: Sequence[int], blank: int) -> list[int]:
    """The states of a target of S tokens: blank, token, blank, …, token, blank (2 S + 1)."""
    return [blank, *(state for token in target for state in (int(token), blank))]


def predecessors(states: Sequence[int], at: int, blank: int) -> list[int]:
    """The states before state ``at``: the same, the previous one, or two back if the blank between may be skipped."""
    before = [state for state in (at, at - 1) if state >= 0]
    if at > 1 and states[at] not in (blank, states[at - 2]):
        before.append(at - 2)
    return before


def loss_and_gradient(logits: Floats, target: Sequence[int], blank: int = 0) -> tuple[float, Floats]:  # (T, V)
    """−log p(target) and its gradient for the logits, by the forward-backward algorithm in log space.

    The gradient is softmax(logits) minus the posterior probability that a path of the target is at each token.
    """
    log_probs = logits.astype(np.float64)
    log_probs -= np.logaddexp.reduce(log_probs, axis=1, keepdims=True)
    states = blank_extended(target, blank)
    ends = (len(states) - 1, len(states) - 2) if len(states) > 1 else (0,)
    emissions = log_probs[:, states]  # (T, 2 S + 1)
    forward, backward = np.full_like(emissions, -np.inf), np.full_like(emissions, -np.inf)
    for t in range(len(emissions)):
        for at in range(len(states)):
            before = predecessors(states, at, blank)
            arriving = [forward[t - 1, state] for state in before] if t else [0.0] * (at < 2)
            forward[t, at] = emissions[t, at] + np.logaddexp.reduce([-np.inf, *arriving])
    for t in range(len(emissions) - 1, -1, -1):
        for at in range(len(states)):
            if t == len(emissions) - 1:
                backward[t, at] = 0.0 if at in ends else -np.inf
                continue
            after = [s for s in range(at, min(at + 3, len(states))) if at in predecessors(states, s, blank)]
            leaving = [emissions[t + 1, state] + backward[t + 1, state] for state in after]
            backward[t, at] = np.logaddexp.reduce([-np.inf, *leaving])
    total = float(np.logaddexp.reduce([forward[-1, end] for end in ends]))
    gradient = np.exp(log_probs)
    for at, token in enumerate(states):
        gradient[:, token] -= np.exp(forward[:, at] + backward[:, at] - total)
    return -total, gradient


def viterbi(log_probs: Floats, target: Sequence[int], blank: int = 0) -> tuple[float, list[int]]:  # (T, V)
    """The most probable path of a target: its log-probability, and its token or blank in each frame."""
    states = blank_extended(target, blank)
    best: dict[int, tuple[float, list[int]]] = {
        at: (float(log_probs[0, states[at]]), [states[at]]) for at in range(min(2, len(states)))
    }
    for frame in log_probs[1:]:
        following = {}
        for at, token in enumerate(states):
            arriving = [best[state] for state in predecessors(states, at, blank) if state in best]
            if arriving:
                score, path = max(arriving, key=lambda scored: scored[0])
                following[at] = (score + float(frame[token]), [*path, token])
        best = following
    impossible = (-math.inf, list[int]())
    return max((best.get(at, impossible) for at in (len(states) - 2, len(states) - 1)), key=lambda scored: scored[0])
