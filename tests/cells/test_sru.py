import pytest
import torch
from tests.cells import equations

from seqloom.cells import SRU
from seqloom.testing import check_cell


@pytest.mark.parametrize(("m", "n"), [(3, 7), (7, 7)])
def test_parameters(m: int, n: int) -> None:
    weights = (3 if m == n else 4) * m * n
    assert sum(parameter.numel() for parameter in SRU(m, n).parameters()) == weights + 4 * n
    assert sum(parameter.numel() for parameter in SRU(m, n, bias=False).parameters()) == weights + 2 * n


def test_an_input_as_wide_as_the_output_is_passed_on_unprojected() -> None:
    check_cell(SRU, input_size=5, hidden_size=5, require_fused=True, reference=equations.run)


def test_initial_biases() -> None:
    cell = SRU(3, 3, forget_bias=2.0, reset_bias=-3.0)
    assert cell.bias is not None
    assert cell.bias.tolist() == [2.0] * 3 + [-3.0] * 3
    assert cell.scale == pytest.approx((1 + 2 * torch.tensor(-3.0).exp().item()) ** 0.5)
