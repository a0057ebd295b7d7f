import pytest
import torch

from seqloom.cells import LayerNormGRU


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 7)])
def test_parameters(m: int, n: int) -> None:
    count = sum(parameter.numel() for parameter in LayerNormGRU(m, n).parameters())
    assert count == 3 * (m * n + n * n + 3 * n) + n
    count = sum(parameter.numel() for parameter in LayerNormGRU(m, n, bias=False).parameters())
    assert count == 3 * (m * n + n * n + 2 * n)


def test_the_scale_of_the_input_does_not_matter() -> None:
    torch.manual_seed(0)
    cell = LayerNormGRU(3, 8).double()
    x = torch.randn(2, 3, dtype=torch.float64)
    # Not exactly equal: the variance has 10⁻⁵ added.
    torch.testing.assert_close(cell.project(100 * x), cell.project(1000 * x), rtol=0, atol=1e-6)
