"""CTC loss (Graves et al. 2006) of one sequence, with its gradient. ``naive`` is the readable reference."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.kernels.ctc.log_space import log_space_loss
from seqloom.kernels.ctc.scaled import UNDERFLOWS, scaled_loss, workspace_size
from seqloom.kernels.ctc.viterbi import frames_needed
from seqloom.kernels.runtime.buffers import borrow

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]
FLOAT64 = torch.empty(0, dtype=torch.float64)


def loss(
    logits: Floats,  # (T, V)
    gradient: Floats,  # (T, V) the softmax of the logits; replaced by the gradient for the logits
    target: Integers,  # (S,) without blanks
    blank: int,
) -> float:
    """−log p(target); inf where there are too few frames for the target."""
    frames = len(logits)
    if frames < frames_needed(target):
        gradient[:] = 0
        return math.inf
    if not frames:
        return 0.0
    result = -1.0
    with borrow(workspace_size(frames, len(target)), FLOAT64) as workspace:
        for underflow in UNDERFLOWS:
            if result < 0:
                result = scaled_loss(gradient, target, blank, underflow, workspace.numpy())
    if result < 0:
        result = log_space_loss(np.ascontiguousarray(logits), gradient, target, blank)
    if not math.isfinite(result):
        gradient[:] = math.nan if math.isnan(result) else 0
    return result
