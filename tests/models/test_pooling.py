"""Pooling against NumPy; padding has no effect on values and gradients."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.contracts.registry import make_mask, noise, randomize

from seqloom.layers.layer import Memory
from seqloom.models.pooling import POOLINGS, AttentionPooling, EndsPooling, Pooling

Array = NDArray[np.float64]
EVERY = pytest.mark.parametrize("name", POOLINGS)
LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=5)


def build(name: str, size: int = 4) -> Pooling:
    pooling = POOLINGS[name](size).double()
    randomize(pooling)
    return pooling


def memory(lengths: list[int], *, extra: int = 0, filling: float = float("nan")) -> Memory:
    time = max(lengths) or 1
    mask = make_mask(lengths, time + extra)
    values = noise(len(lengths), time, 4)
    values = torch.nn.functional.pad(values, (0, 0, 0, extra)).masked_fill(~mask.unsqueeze(-1), filling)
    return Memory(values, mask, None)


def attend(row: Array, pooling: Pooling) -> Array:
    assert isinstance(pooling, AttentionPooling)
    weight, bias, query = (parameter.detach().numpy() for parameter in pooling.parameters())
    scores = np.exp(np.tanh(row @ weight.T + bias) @ query[0])
    weights: Array = scores / scores.sum()
    return weights


BY_NUMPY: dict[str, Callable[[Array, Pooling], Array]] = {
    "last": lambda row, _: row[-1],
    "ends": lambda row, _: np.concatenate([row[-1, :2], row[0, 2:]]),
    "mean": lambda row, _: row.mean(axis=0),
    "max": lambda row, _: row.max(axis=0),
    "attention": lambda row, pooling: attend(row, pooling) @ row,
}


@EVERY
@given(lengths=LENGTHS)
def test_each_row_matches_numpy_whatever_the_padding_holds(name: str, lengths: list[int]) -> None:
    pooling = build(name)
    source = memory(lengths)
    actual = pooling(source).detach().numpy()
    for row, length in enumerate(lengths):
        expected = BY_NUMPY[name](source.values[row, :length].numpy(), pooling) if length else np.zeros(4)
        np.testing.assert_allclose(actual[row], expected, rtol=0, atol=1e-14)


@EVERY
@given(lengths=LENGTHS, extra=st.integers(0, 20), filling=st.sampled_from([0.0, 1e30, float("inf"), float("nan")]))
def test_gradients_do_not_see_the_padding(name: str, lengths: list[int], extra: int, filling: float) -> None:
    pooling = build(name)
    gradients = []
    for source in (memory(lengths), memory(lengths, extra=extra, filling=filling)):
        values = source.values.requires_grad_()
        loss = (pooling(source) * noise(len(lengths), 4, seed=1)).sum()
        variables = [values, *pooling.parameters()]
        gradient, *rest = torch.autograd.grad(loss, variables, allow_unused=True, materialize_grads=True)
        assert torch.equal(gradient[~source.mask], torch.zeros_like(gradient[~source.mask]))
        gradients.append([gradient[source.mask], *rest])
    for left, right in zip(*gradients, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-14)


@EVERY
def test_gradients_match_finite_differences(name: str) -> None:
    pooling, source = build(name), memory([3, 0, 2, 1], filling=0.0)
    values = source.values.requires_grad_()
    assert torch.autograd.gradcheck(lambda values: pooling(source._replace(values=values)), (values,))


@given(lengths=LENGTHS)
def test_attention_weights_match_numpy(lengths: list[int]) -> None:
    pooling, source = AttentionPooling(4), memory(lengths)
    randomize(pooling)
    weights = pooling.weights(source).detach()
    for row, length in enumerate(lengths):
        expected = np.zeros(source.mask.shape[1])
        if length:
            expected[:length] = attend(source.values[row, :length].numpy(), pooling)
        np.testing.assert_allclose(weights[row].numpy(), expected, rtol=0, atol=1e-14)


def test_ends_need_two_directions() -> None:
    with pytest.raises(ValueError, match="needs a bidirectional encoder with an even size, found size 5"):
        EndsPooling(5)
