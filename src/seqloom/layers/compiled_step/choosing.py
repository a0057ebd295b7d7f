"""Several steps in one call: each chooses the most probable token, which is the input of the next."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.kernels.program.operations import float_bits

MAX_STEPS, MIN_STEPS = 64, 16


def steps_at_once(steps: int, rows: int) -> int:
    """The most steps in one call: key-value caches grow by as many slots, and finished rows are copied with them."""
    return min(steps, max(MIN_STEPS, MAX_STEPS // rows))


class Choice(NamedTuple):
    """What is chosen, and when to stop."""

    end: int  # stop after the step in which a row chooses this token
    suppressed: Tensor  # (N,), tokens that are not chosen
    highest: float  # stop if the largest log-probability is above it, NaN or -inf
    steps: int  # stop after this many


class Chosen(NamedTuple):
    """The tokens of the steps that were made, at least one."""

    tokens: Tensor  # (T, B)
    log_probabilities: Tensor  # (T, B)
    state: Any  # after the last step


class Choosing:
    """The memory of such a call."""

    def __init__(
        self,
        choice: Choice,
        tokens: Tensor,  # (B,), the first input
        *,
        steps: int,
        vocab_size: int,
        dtype: torch.dtype,
    ) -> None:
        rows = len(tokens)
        self._tokens, self._values = torch.empty(steps, rows, dtype=torch.int64), torch.empty(steps, rows, dtype=dtype)
        self._inputs, self._scores = tokens.clone(), torch.empty(rows, vocab_size, dtype=dtype)
        self._suppressed = choice.suppressed.contiguous()
        self.addresses = {
            "tokens": self._inputs.data_ptr(),
            "out": self._scores.data_ptr(),
            "suppressed": self._suppressed.data_ptr(),
            "suppressed_count": len(self._suppressed),
            "end": choice.end,
            "highest": float_bits(choice.highest),
            "chosen": self._tokens.data_ptr(),
            "chosen_scores": self._values.data_ptr(),
        }
        self.growing = {"chosen": 8 * rows, "chosen_scores": self._values.element_size() * rows}

    def result(self, done: int, state: Any) -> Chosen:
        return Chosen(self._tokens[:done], self._values[:done], state)
