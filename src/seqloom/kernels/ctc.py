"""Connectionist temporal classification (Graves et al. 2006): the loss and its gradient, and the most probable path."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.kernels.buffers import borrow
from seqloom.kernels.ctc_logarithms import logarithmic
from seqloom.kernels.ctc_path import follow, join
from seqloom.kernels.ctc_products import DROPPED, memory_needed, scaled

Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.int64]
DOUBLE = torch.empty(0, dtype=torch.float64)


def loss(logits: Floats, gradient: Floats, target: Numbers, blank: int) -> float:
    """Minus the log-likelihood; inf where there is no path. Where ``gradient`` held the softmax, it is one then."""
    frames = len(logits)
    if frames < frames_needed(target):
        gradient[:] = 0
        return math.inf
    if not frames:
        return 0.0
    found = -1.0
    with borrow(memory_needed(frames, len(target)), DOUBLE) as memory:
        for dropped in DROPPED:
            if found < 0:
                found = scaled(gradient, target, blank, dropped, memory.numpy())
    if found < 0:
        found = logarithmic(np.ascontiguousarray(logits), gradient, target, blank)
    if not math.isfinite(found):
        gradient[:] = math.nan if math.isnan(found) else 0
    return found


def frames_needed(target: Numbers) -> int:
    """Without a blank between them, equal neighbours would be one symbol."""
    return len(target) + int(np.count_nonzero(target[1:] == target[:-1]))


def viterbi(
    log_probabilities: Floats,  # (T, V), float32 or float64
    target: Numbers,  # (S,), without blanks
    blank: int,
) -> Numbers:  # (S, 2)
    """The first and the last frame of each symbol on the most probable path."""
    found = follow(np.ascontiguousarray(log_probabilities), join([[target.tolist()]]), blank=blank)
    if found is None:
        needed, given = frames_needed(target), len(log_probabilities)
        raise ValueError(f"an alignment of these {len(target)} symbols needs {needed} frames, not {given}")
    return found
