"""The two-dimensional LSTM against a plain double loop over pixels: outputs and gradients, four directions, padding."""

import torch
from tests.contracts.registry import make_mask, noise, randomize
from torch import Tensor

from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.recurrent.two_dimensional import TwoDimensionalLSTM


def by_double_loop(layer: TwoDimensionalLSTM, x: Tensor) -> Tensor:  # (rows, columns, D) → (rows, columns, 4 n)
    n, (rows, columns, _) = layer.hidden_size, x.shape
    outputs = []
    for index, (from_bottom, from_right) in enumerate([(False, False), (False, True), (True, False), (True, True)]):
        blocks = slice(5 * n * index, 5 * n * (index + 1))
        weight, bias = layer.input.weight[blocks], layer.input.bias[blocks]
        above, before = (layer.get_parameter(f"directions.{index}.cell.{name}.weight") for name in ("above", "before"))
        hidden: dict[tuple[int, int], Tensor] = {}
        memory: dict[tuple[int, int], Tensor] = {}
        zero = x.new_zeros(n)
        for row in range(rows)[:: -1 if from_bottom else 1]:
            for column in range(columns)[:: -1 if from_right else 1]:
                up = (row + 1 if from_bottom else row - 1, column)
                left = (row, column + 1 if from_right else column - 1)
                total = weight @ x[row, column] + bias
                total = total + above @ hidden.get(up, zero) + before @ hidden.get(left, zero)
                i, f1, f2, z, o = total.split(n)
                c = f1.sigmoid() * memory.get(up, zero) + f2.sigmoid() * memory.get(left, zero) + i.sigmoid() * z.tanh()
                memory[row, column], hidden[row, column] = c, o.sigmoid() * c.tanh()
        outputs.append(torch.stack([hidden[i, j] for i in range(rows) for j in range(columns)]).view(rows, columns, n))
    return torch.cat(outputs, dim=-1)


def build() -> TwoDimensionalLSTM:
    layer = TwoDimensionalLSTM(3, 4)
    randomize(layer)
    return layer


def test_outputs_and_gradients_equal_those_of_a_double_loop_without_padding() -> None:
    layer, x, lengths = build(), noise(2, 3, 5, 3).requires_grad_(), (5, 2)
    mask = make_mask([*lengths], 5)
    actual = layer(torch.where(mask[:, None, :, None], x, torch.nan), mask)
    weights, variables = noise(2, 3, 5, 16, seed=1), [x, *layer.parameters()]
    expected = torch.zeros_like(actual)
    for row, length in enumerate(lengths):
        expected[row, :, :length] = by_double_loop(layer, x[row, :, :length])
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    gradients = [torch.autograd.grad((value * weights).sum(), variables) for value in (actual, expected)]
    for left, right in zip(*gradients, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-11)


def test_rows_are_compiled_and_parameters_counted() -> None:
    layer = build()
    assert all(isinstance(part, Recurrent) and part.path == "fused" for part in layer.directions)
    assert sum(parameter.numel() for parameter in layer.parameters()) == 4 * 5 * (3 * 4 + 2 * 4 * 4 + 4)
