"""Compiled steps against those of the layers: shared by the tests of recurrent and Transformer decoders."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom import state as states
from seqloom.models.decoder import Decoder

V, WIDTH, MEMORY, S = 37, 12, 6, 5
# A step adds some hundred rounded values.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
EVERY_DTYPE = pytest.mark.parametrize("dtype", TOLERANCE)
ROWS = torch.tensor([2, 0, 0, 1, 3, 3])
CHANGES: list[Callable[[Any], Any]] = [
    lambda state: state,
    lambda state: states.select(state, ROWS),
    lambda state: states.select(state, ROWS[:2]),
    lambda state: states.repeat(state, 3),
    lambda state: states.select(states.repeat(state, 2), ROWS[1:]),
    lambda state: states.where(torch.tensor([True, False, True, False]), state, states.select(state, ROWS[:4])),
    lambda state: state,
]
"""Operations of a search on the states of four rows."""


def make_tokens(batch: int, step: int) -> Tensor:
    return (torch.arange(batch) * 7 + step * 5) % (V - 1) + 1


def plain_step(decoder: Decoder, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
    logits, state = decoder(tokens.unsqueeze(1), state)
    return torch.log_softmax(logits[:, -1], dim=-1), state


def compare(
    decoder: Decoder, one: Any, other: Any, *, reference: Decoder, steps: int, first: int = 0
) -> tuple[Any, Any]:
    """Run compiled steps from one state and steps of the reference's layers from the other; they must agree."""
    for step in range(first, first + steps):
        tokens = make_tokens(_rows(one), step)
        result = decoder.step(tokens, one)
        assert result is not None
        actual, one = result
        expected, other = plain_step(reference, tokens, other)
        assert_equal_states(actual, expected)
        assert_equal_states(one, other)
    return one, other


def assert_equal_states(one: Any, other: Any) -> None:
    """Check that two states have the same structure, dtypes and, in used slots, values."""
    if isinstance(one, Tensor):
        scale = max(1.0, other.abs().max().item()) if other.numel() and other.is_floating_point() else 1.0
        torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE.get(one.dtype, 0) * scale)
        return
    assert type(one) is type(other)
    if hasattr(one, "slots"):
        one, other = (
            (cache.keys[:, : cache.length], cache.values[:, : cache.length], cache.real(), cache.position, cache.slots)
            for cache in (one, other)
        )
    for left, right in zip(one, other, strict=True):
        assert_equal_states(left, right)


def _rows(state: Any) -> int:
    while not isinstance(state, Tensor):
        state = state[0]
    return len(state)
