"""The sliding window against the equations of Graves (2013) in NumPy."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seqloom.cells import LSTM
from seqloom.kernels.sliding_window import slide, slide_naive
from seqloom.layers.attention.sliding_window import SlidingWindow
from seqloom.layers.layer import Memory


def sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    value: NDArray[np.float64] = 1 / (1 + np.exp(-x))
    return value


@torch.no_grad()
def test_the_equations() -> None:
    torch.manual_seed(3)
    size, hidden, width, components, length = 3, 5, 4, 2, 6
    layer = SlidingWindow(LSTM(size + width, hidden), width, components=components).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    x, source = torch.randn(1, 7, size).double(), torch.randn(1, length, width).double()
    memory = Memory(source, torch.ones(1, length, dtype=torch.bool), None)
    y, state = layer(x, None, layer.start(1, memory))
    weights = layer.weights(x, None, layer.start(1, memory))[0, 0].numpy()

    parameters = {name: value.numpy() for name, value in layer.named_parameters()}
    input_weight, input_bias = parameters["cell.input.weight"], parameters["cell.input.bias"]
    recurrent = parameters["cell.recurrent.weight"]
    h, c, w, position = np.zeros(hidden), np.zeros(hidden), np.zeros(width), np.zeros(components)
    for step, point in enumerate(x[0].numpy()):
        i, f, z, o = np.split(input_weight @ np.concatenate([point, w]) + input_bias + recurrent @ h, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(z)
        h = sigmoid(o) * np.tanh(c)
        values = parameters["window_output.weight"] @ h + parameters["window_output.bias"]
        alpha, beta, move = np.exp(np.split(values, 3))
        position = position + move
        places = np.arange(length)
        phi = sum(alpha[k] * np.exp(-beta[k] * (position[k] - places) ** 2) for k in range(components))
        w = phi @ source[0].numpy()
        assert np.allclose(weights[step], phi, rtol=0, atol=1e-12)
        assert np.allclose(y[0, step].numpy(), np.concatenate([h, w]), rtol=0, atol=1e-12)
    assert np.allclose(state.position[0].numpy(), position, rtol=0, atol=1e-12)


def test_the_kernel_equals_the_plain_step_in_outputs_and_gradients() -> None:
    torch.manual_seed(2)
    rows, components, length, width = 3, 4, 5, 2
    mask = torch.arange(length) < torch.tensor([[5], [3], [1]])
    inputs = torch.randn(rows, 3 * components), torch.rand(rows, components), torch.randn(rows, length, width)
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        raw, position, values = (each.to(dtype).requires_grad_() for each in inputs)
        results = []
        for function in (slide, slide_naive):
            source = values.masked_fill(~mask.unsqueeze(-1), 0)
            moved, centre, weight, window = function(raw, position, source, mask)
            loss = (moved.cos() + 1).sum() + weight.square().sum() + (window * window.detach().sin()).sum()
            gradients = torch.autograd.grad(loss, (raw, position, values))
            results.append([moved, centre, weight, window, *gradients])
        for compiled, plain in zip(*results, strict=True):
            assert torch.allclose(compiled, plain, rtol=tolerance, atol=tolerance)


def test_the_window_never_moves_back() -> None:
    torch.manual_seed(1)
    layer = SlidingWindow(LSTM(2 + 3, 4), 3)
    memory = Memory(torch.randn(2, 5, 3), torch.ones(2, 5, dtype=torch.bool), None)
    state = layer.start(2, memory)
    before = state.position
    for _ in range(4):
        _, state = layer(torch.randn(2, 1, 2), None, state)
        assert (state.position > before).all()
        before = state.position


def test_a_cell_that_cannot_read_the_window_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cell has input_size 3, expected more than 3: it reads \[x; window\]"):
        SlidingWindow(LSTM(3, 4), 3)
