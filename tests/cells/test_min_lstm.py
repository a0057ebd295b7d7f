import torch

from seqloom.cells import MinLSTM
from seqloom.layers.recurrent.recurrent import Recurrent


def test_parameters() -> None:
    cell = MinLSTM(3, 7)
    assert sum(parameter.numel() for parameter in cell.parameters()) == 3 * (3 * 7 + 7)
    assert sum(parameter.numel() for parameter in MinLSTM(3, 7, bias=False).parameters()) == 3 * 3 * 7
    assert torch.equal(cell.get_parameter("input.bias")[7:14], torch.ones(7))


def test_gates_that_are_both_closed_still_sum_to_one() -> None:
    """σ(-200) is zero in float32, and i / (i + f) would not be a number."""
    x = torch.full((1, 2, 1), -200.0)
    layer = Recurrent(MinLSTM(1, 2))
    with torch.no_grad():
        layer.cell.get_parameter("input.weight").fill_(1.0)
        layer.cell.get_parameter("input.bias").zero_()
    out, _ = layer(x)
    torch.testing.assert_close(out[0], torch.tensor([[-100.0, -100.0], [-150.0, -150.0]]))
