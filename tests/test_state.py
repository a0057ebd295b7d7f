"""The four operations on states, against plain indexing."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from seqloom import state as states


class Inner(NamedTuple):
    hidden: Tensor  # (B, 2)
    cache: Tensor  # (B, 3, 2)


class Outer(NamedTuple):
    layers: tuple[Inner, Inner]
    length: Tensor  # (B,)


def make() -> Outer:
    first = Inner(torch.arange(8.0).view(4, 2), torch.arange(24.0).view(4, 3, 2))
    second = Inner(-torch.arange(8.0).view(4, 2), -torch.arange(24.0).view(4, 3, 2))
    return Outer((first, second), torch.arange(4))


def tensors(state: Outer) -> list[Tensor]:
    return [*state.layers[0], *state.layers[1], state.length]


def test_apply_keeps_the_structure() -> None:
    actual = states.apply(lambda left, right: left + 2 * right, make(), make())
    assert isinstance(actual, Outer)
    assert type(actual.layers) is tuple
    assert all(isinstance(layer, Inner) for layer in actual.layers)
    assert all(torch.equal(left, 3 * right) for left, right in zip(tensors(actual), tensors(make()), strict=True))


def test_select_takes_rows_in_any_order_and_more_than_once() -> None:
    actual = states.select(make(), torch.tensor([3, 0, 3]))
    for left, right in zip(tensors(actual), tensors(make()), strict=True):
        assert torch.equal(left, torch.stack([right[3], right[0], right[3]]))


def test_repeat_puts_the_copies_of_a_row_next_to_each_other() -> None:
    actual = states.repeat(make(), 2)
    for left, right in zip(tensors(actual), tensors(make()), strict=True):
        assert torch.equal(left, torch.stack([row for row in right for _ in range(2)]))


def test_where_chooses_row_by_row() -> None:
    other = states.apply(lambda tensor: tensor + 100, make())
    rows = torch.tensor([True, False, False, True])
    actual = states.where(rows, make(), other)
    for value, left, right in zip(tensors(actual), tensors(make()), tensors(other), strict=True):
        assert torch.equal(value, torch.stack([left[0], right[1], right[2], left[3]]))


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="a state consists of tensors and tuples of them, got list"):
        states.apply(torch.neg, [torch.zeros(1)])


def test_states_of_different_structure_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        states.apply(torch.add, (torch.zeros(1),), (torch.zeros(1), torch.zeros(1)))
