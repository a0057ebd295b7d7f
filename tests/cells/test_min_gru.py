import torch

from seqloom.cells import MinGRU, RecurrentDropout
from seqloom.layers.recurrent.recurrent import Recurrent


def test_parameters() -> None:
    assert sum(parameter.numel() for parameter in MinGRU(3, 7).parameters()) == 2 * (3 * 7 + 7)
    assert sum(parameter.numel() for parameter in MinGRU(3, 7, bias=False).parameters()) == 2 * 3 * 7


def test_a_step_multiplies_no_matrix() -> None:
    kernel = Recurrent(MinGRU(3, 7)).kernel(torch.zeros(1))
    assert not isinstance(kernel, str)
    assert not kernel.plan.traced.products


def test_recurrent_dropout_does_not_change_it() -> None:
    torch.manual_seed(0)
    cell, x = MinGRU(3, 7), torch.randn(2, 5, 3)
    expected, _ = Recurrent(cell)(x)
    torch.testing.assert_close(Recurrent(RecurrentDropout(cell, 0.5)).train()(x)[0], expected)
