"""A loop over the active rows equals a loop over each row alone."""

from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.registry import make_mask, noise
from torch import Tensor

from seqloom import state as states
from seqloom.layers.recurrent.active_rows import ActiveRows


class State(NamedTuple):
    total: Tensor  # (B, 2)


def add_up(active: ActiveRows, x: Tensor, start: State) -> tuple[Tensor, State]:
    """Running sum with the loop that the class is made for."""
    state, finished, sums = active.sort(start), [], []
    for time, x_t in enumerate(active.pack(x)):
        if not len(x_t):
            break
        if len(x_t) < len(state.total):
            finished.append(State(state.total[len(x_t) :]))
            state = State(state.total[: len(x_t)])
        state = active.mask_state(time, State(state.total + x_t), state)
        sums.append(state.total)
    return active.unpack(sums) if sums else torch.zeros_like(x), active.unsort([state, *reversed(finished)])


@pytest.mark.parametrize("all_rows", [False, True])
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=5), extra=st.integers(0, 2))
def test_a_running_sum(all_rows: bool, lengths: list[int], extra: int) -> None:
    time = max(lengths) + extra
    mask, x, start = make_mask(lengths, time), noise(len(lengths), time, 2), State(noise(len(lengths), 2, seed=1))
    x = x.masked_fill(~mask.unsqueeze(-1), float("nan"))
    actual, last = add_up(ActiveRows(mask, (len(x), time), all_rows=all_rows), x, start)
    for row, length in enumerate(lengths):
        expected = start.total[row] + x[row, :length].cumsum(dim=0)
        torch.testing.assert_close(actual[row, :length], expected)
        assert not actual[row, length:].any()
        torch.testing.assert_close(last.total[row], expected[-1] if length else start.total[row])


def test_rows_are_active_until_they_end() -> None:
    active = ActiveRows(make_mask([1, 3, 0, 3], 4), (4, 4))
    assert active.counts == [3, 2, 2, 0]
    assert active.order is not None
    assert active.order.tolist() == [1, 3, 0, 2]
    for whole in (None, torch.ones(4, 4, dtype=torch.bool)):
        active = ActiveRows(whole, (4, 4))
        assert active.counts == [4, 4, 4, 4]
        state: Any = State(noise(4, 2))
        assert active.sort(state) is state
        assert active.unsort([state]) is state
    shared = states.Shared((noise(2, 3),), torch.tensor([0, 0, 1, 1]))
    assert ActiveRows(make_mask([1, 3, 0, 3], 4), (4, 4)).sort(shared).rows.tolist() == [0, 1, 0, 1]
