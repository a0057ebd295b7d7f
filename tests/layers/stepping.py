"""Steps by compiled code beside those of the layers: what the tests of both kinds share."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom import state as states
from seqloom.models.decoder import Decoder

V, WIDTH, MEMORY, S = 37, 12, 6, 5
# float32: a step adds some hundred rounded numbers; float64: the same.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
EVERY_TYPE = pytest.mark.parametrize("dtype", TOLERANCE)
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
"""What a search does to the states of four rows."""


def drawn(batch: int, number: int) -> Tensor:
    return (torch.arange(batch) * 7 + number * 5) % (V - 1) + 1


def plain(decoder: Decoder, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
    logits, state = decoder(tokens.unsqueeze(1), state)
    return torch.log_softmax(logits[:, -1], dim=-1), state


def compare(decoder: Decoder, one: Any, other: Any, *, truth: Decoder, steps: int, begin: int = 0) -> tuple[Any, Any]:
    """Steps by compiled code from one state, and by the layers of the truth from the other."""
    for number in range(begin, begin + steps):
        tokens = drawn(_rows(one), number)
        done = decoder.step(tokens, one)
        assert done is not None
        found, one = done
        wanted, other = plain(truth, tokens, other)
        held(found, wanted)
        held(one, other)
    return one, other


def held(one: Any, other: Any) -> None:
    """The states have the same structure, types and, where they are used, values."""
    if isinstance(one, Tensor):
        scale = max(1.0, other.abs().max().item()) if other.numel() and other.is_floating_point() else 1.0
        torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE.get(one.dtype, 0) * scale)
        return
    assert type(one) is type(other)
    if hasattr(one, "slots"):
        one, other = (
            (found.keys[:, : found.length], found.values[:, : found.length], found.real(), found.position, found.slots)
            for found in (one, other)
        )
    for left, right in zip(one, other, strict=True):
        held(left, right)


def _rows(state: Any) -> int:
    while not isinstance(state, Tensor):
        state = state[0]
    return len(state)
