"""Places with similar states are those that brute force finds; collecting states changes nothing."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from seqloom.cells import GRU, LSTM
from seqloom.insight.gates import trace_gates
from seqloom.insight.state_search import LayerStates, index_states, layer_outputs
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.transformer.block import TransformerBlock


def states(lengths: list[int], units: int = 5) -> LayerStates:
    values = np.random.default_rng(1).normal(size=(sum(lengths), units)).astype(np.float32)
    return LayerStates(values, np.concatenate([[0], np.cumsum(lengths)]))


def cosine(first: NDArray[Any], second: NDArray[Any]) -> float:
    return float((first * second).sum() / np.sqrt((first**2).sum() * (second**2).sum()))


@pytest.mark.parametrize("length", [1, 2, 4])
def test_the_most_similar_phrases_are_those_of_brute_force(length: int) -> None:
    layer = states([3, 7, 1, 5])
    phrase = np.random.default_rng(2).normal(size=(length, 5)).astype(np.float32)
    mean = layer.values.mean(axis=0)
    best = []
    for example, (start, stop) in enumerate(zip(layer.starts[:-1], layer.starts[1:], strict=True)):
        inside = [
            (cosine(layer.values[place : place + length] - mean, phrase - mean), place - start)
            for place in range(start, stop - length + 1)
        ]
        if inside:
            value, place = max(inside)
            best.append((value, example, place))
    expected = sorted(best, reverse=True)
    found = layer.find_similar(phrase, most=10)
    assert [(match.example, match.start, match.stop - match.start) for match in found] == [
        (example, place, length) for _, example, place in expected
    ]
    np.testing.assert_allclose([match.value for match in found], [value for value, *_ in expected], rtol=1e-4)


def test_a_phrase_finds_itself_first() -> None:
    layer = states([6, 6, 6])
    match = layer.find_similar(layer.values[8:10])[0]
    assert (match.example, match.start, match.stop) == (1, 2, 4)
    assert match.value == pytest.approx(1)


def test_no_phrase_is_found_across_the_end_of_an_example() -> None:
    layer = states([2, 2])
    assert layer.find_similar(np.ones((3, 5), np.float32)) == []
    assert layer.find_similar(np.ones((9, 5), np.float32)) == []


def test_the_activity_of_a_unit() -> None:
    layer = states([3, 4, 2])
    values = layer.values[:, 3]
    activity = layer.activity(3, most=3)
    assert activity.highest[0].value == pytest.approx(values.max())
    assert activity.lowest[0].value == pytest.approx(values.min())
    place = activity.highest[0]
    assert layer.values[layer.starts[place.example] + place.start, 3] == values.max()
    assert (activity.mean, activity.deviation) == pytest.approx((values.mean(), values.std()), rel=1e-5)


class Both(nn.Module):
    """Two recurrent layers, one of them backwards, and a Transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.forwards, self.backwards = Recurrent(LSTM(4, 6)), Recurrent(GRU(4, 6), reverse=True)
        self.block = TransformerBlock(12, heads=2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        joined = torch.cat([self.forwards(x, mask)[0], self.backwards(x, mask)[0]], dim=-1)
        result: torch.Tensor = self.block(joined, mask)[0]
        return result


def test_states_are_those_of_the_layers_without_padding() -> None:
    torch.manual_seed(0)
    module = Both().eval()
    lengths = [[5, 2, 4], [3]]
    inputs = [torch.randn(len(rows), max(rows), 4) for rows in lengths]
    masks = [torch.arange(max(rows)) < torch.tensor(rows)[:, None] for rows in lengths]
    pairs = list(zip(inputs, masks, strict=True))
    random = torch.get_rng_state()
    before = [module(x, mask) for x, mask in pairs]
    index = index_states(module, ((rows, partial(module, *pair)) for rows, pair in zip(lengths, pairs, strict=True)))
    assert all(torch.equal(module(x, mask), known) for (x, mask), known in zip(pairs, before, strict=True))
    assert torch.equal(torch.get_rng_state(), random)
    assert not any(part._forward_hooks for part in module.modules())
    assert (index.examples, index.elements) == (4, 14)
    assert set(index.layers) == {"forwards", "backwards", "block"}
    assert index.layers["block"].starts.tolist() == [0, 5, 7, 11, 14]
    for name in ("forwards", "backwards"):  # the plain loop, step by step
        _, traces = trace_gates(module, *pairs[0])
        (trace,) = [each for each in traces if each.name == name]
        hidden = next(iter(trace.states.values()))
        expected = np.concatenate([hidden[row, :length].numpy() for row, length in enumerate(lengths[0])])
        np.testing.assert_allclose(index.layers[name].values[:11], expected, atol=1e-6)


def test_layers_that_read_other_sequences_are_not_indexed() -> None:
    module = Both().eval()
    x = torch.randn(1, 3, 4)
    index = index_states(module, [([4], lambda: module(x, torch.ones(1, 3, dtype=torch.bool)))])
    assert index.layers == {}
    assert set(layer_outputs(module, lambda: None)) == set()
