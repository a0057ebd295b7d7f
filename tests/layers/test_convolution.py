from collections.abc import Callable
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.registry import make_mask, noise, randomize
from torch import Tensor
from torch.nn import functional

from seqloom.layers.convolution import ACTIVATIONS, Convolution

CAUSAL_AND_CENTRED = pytest.mark.parametrize("causal", [True, False])
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "gelu": functional.gelu,
    "none": lambda value: value,
}


def build(window: int, *, causal: bool, activation: str = "tanh") -> Convolution:
    layer = Convolution(3, 4, window=window, causal=causal, activation=activation)
    randomize(layer)
    return layer


def by_torch(layer: Convolution, x: Tensor) -> Tensor:
    """The same with torch's convolution, for rows without padding."""
    before = layer.window - 1 if layer.causal else (layer.window - 1) // 2
    padded = functional.pad(x.transpose(1, 2), (before, layer.window - 1 - before))
    weight = layer.linear.weight.view(4, layer.window, 3).transpose(1, 2)
    actual: Tensor = layer.activation(functional.conv1d(padded, weight, layer.linear.bias))
    return actual.transpose(1, 2)


@CAUSAL_AND_CENTRED
@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 9])
def test_equals_torch_s_convolution_with_gradients(window: int, causal: bool) -> None:
    layer = build(window, causal=causal)
    x = noise(2, 7, 3).requires_grad_()
    actual, expected = layer(x)[0], by_torch(layer, x)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-14)
    weights, variables = noise(2, 7, 4, seed=1), [x, *layer.parameters()]
    slopes = [torch.autograd.grad((value * weights).sum(), variables) for value in (actual, expected)]
    for left, right in zip(*slopes, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-13)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_by_name(activation: str) -> None:
    layer = build(1, causal=False, activation=activation)
    x = noise(2, 5, 3)
    expected = FUNCTIONS[activation](x @ layer.linear.weight.T + layer.linear.bias)
    torch.testing.assert_close(layer(x)[0], expected, rtol=0, atol=1e-14)


@CAUSAL_AND_CENTRED
@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4), window=st.integers(1, 5))
def test_each_row_is_independent_of_padding_and_other_rows(causal: bool, lengths: list[int], window: int) -> None:
    layer, time = build(window, causal=causal), max(lengths) + 2
    mask = make_mask(lengths, time)
    x = noise(len(lengths), time, 3).masked_fill(~mask.unsqueeze(-1), float("nan"))
    actual, state = layer(x, mask)
    for row, length in enumerate(lengths):
        expected, last = layer(x[row : row + 1, :length])
        torch.testing.assert_close(actual[row : row + 1, :length], expected, rtol=0, atol=1e-14)
        torch.testing.assert_close(state.past[row : row + 1], last.past, rtol=0, atol=0)
        assert torch.equal(actual[row, length:], torch.zeros(time - length, 4, dtype=torch.float64))


@given(cuts=st.lists(st.integers(0, 8), max_size=5).map(sorted), window=st.integers(1, 5))
def test_causal_chunks_equal_the_whole(cuts: list[int], window: int) -> None:
    layer = build(window, causal=True)
    x, mask = noise(3, 8, 3), make_mask([8, 0, 5], 8)
    whole, last = layer(x, mask)
    state, chunks = None, []
    for start, stop in zip([0, *cuts], [*cuts, 8], strict=True):
        chunk, state = layer(x[:, start:stop], mask[:, start:stop], state)
        chunks.append(chunk)
    torch.testing.assert_close(torch.cat(chunks, dim=1), whole, rtol=0, atol=1e-14)
    assert state is not None
    assert torch.equal(state.past, last.past)


def test_causal_outputs_do_not_depend_on_later_inputs() -> None:
    layer = build(3, causal=True)
    x = noise(1, 6, 3).requires_grad_()
    outputs, _ = layer(x)
    for step, source in product(range(6), range(6)):
        (slope,) = torch.autograd.grad(outputs[0, step].sum(), x, retain_graph=True)
        assert bool((slope[0, source] != 0).any()) == (step - 2 <= source <= step)


@CAUSAL_AND_CENTRED
def test_gradients_are_right_by_finite_differences(causal: bool) -> None:
    layer, mask = build(3, causal=causal), make_mask([4, 2, 0], 4)
    past = noise(3, 2, 3, seed=1).requires_grad_()
    x = noise(3, 4, 3).requires_grad_()

    def run(x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        outputs, state = layer(x, mask, Convolution.State(past))
        return outputs, state.past

    assert torch.autograd.gradcheck(run, (x, past))


@CAUSAL_AND_CENTRED
def test_a_window_of_one_has_an_empty_state(causal: bool) -> None:
    _, state = build(1, causal=causal)(noise(2, 4, 3))
    assert state.past.shape == (2, 0, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window must be at least 1, got 0"),
        ({"activation": "reul"}, "activation is 'reul', expected one of relu, tanh"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Convolution(3, 4, **options)  # type: ignore[arg-type]
