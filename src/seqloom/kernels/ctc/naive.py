"""CTC (Graves et al. 2006) by its definition, slow and readable: the oracle of the kernels here."""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Symbols = tuple[int, ...]


def collapse(path: Sequence[int], blank: int) -> Symbols:
    """What a path (one symbol or blank per frame) spells: repeated symbols count once, blanks are dropped."""
    return tuple(symbol for symbol, _ in groupby(path) if symbol != blank)


def path_log_probs(log_probs: Floats, blank: int = 0) -> dict[Symbols, list[float]]:  # (T, V)
    """The log-probabilities of all Vᵀ paths, by the sequence that they spell."""
    result: dict[Symbols, list[float]] = defaultdict(list)
    rows = log_probs.tolist()
    for path in product(range(log_probs.shape[1]), repeat=len(log_probs)):
        total = math.fsum([row[symbol] for row, symbol in zip(rows, path, strict=True)])
        if total > -math.inf:
            result[collapse(path, blank)].append(total)
    return dict(result)


def sequence_log_probs(log_probs: Floats, blank: int = 0) -> dict[Symbols, float]:  # (T, V)
    """The log-probability of every sequence: the sum over all of its paths."""
    paths = path_log_probs(log_probs, blank)
    return {symbols: float(np.logaddexp.reduce(values)) for symbols, values in paths.items()}


def chain(target: Sequence[int], blank: int) -> list[int]:
    """The states of a target of S symbols: blank, symbol, blank, …, symbol, blank (2 S + 1)."""
    return [blank, *(state for symbol in target for state in (int(symbol), blank))]


def predecessors(states: Sequence[int], at: int, blank: int) -> list[int]:
    """States from which a path comes: the same, the one before, or two before if that skips a needless blank."""
    before = [state for state in (at, at - 1) if state >= 0]
    if at > 1 and states[at] not in (blank, states[at - 2]):
        before.append(at - 2)
    return before


def loss_and_gradient(logits: Floats, target: Sequence[int], blank: int = 0) -> tuple[float, Floats]:  # (T, V)
    """−log p(target) and its gradient for the logits, by the forward-backward algorithm in log space.

    The gradient is softmax(logits) minus the posterior probability that a path of the target is at each symbol.
    """
    log_probs = logits.astype(np.float64)
    log_probs -= np.logaddexp.reduce(log_probs, axis=1, keepdims=True)
    states = chain(target, blank)
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
    for at, symbol in enumerate(states):
        gradient[:, symbol] -= np.exp(forward[:, at] + backward[:, at] - total)
    return -total, gradient


def viterbi(log_probs: Floats, target: Sequence[int], blank: int = 0) -> tuple[float, list[int]]:  # (T, V)
    """The most probable path of a target: its log-probability, and its symbol or blank in each frame."""
    states = chain(target, blank)
    best: dict[int, tuple[float, list[int]]] = {
        at: (float(log_probs[0, states[at]]), [states[at]]) for at in range(min(2, len(states)))
    }
    for frame in log_probs[1:]:
        following = {}
        for at, symbol in enumerate(states):
            arriving = [best[state] for state in predecessors(states, at, blank) if state in best]
            if arriving:
                score, path = max(arriving, key=lambda one: one[0])
                following[at] = (score + float(frame[symbol]), [*path, symbol])
        best = following
    impossible = (-math.inf, list[int]())
    return max((best.get(at, impossible) for at in (len(states) - 2, len(states) - 1)), key=lambda one: one[0])
