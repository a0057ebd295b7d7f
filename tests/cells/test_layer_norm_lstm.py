import pytest
import torch

from seqloom.cells import LayerNormLSTM


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 7)])
def test_parameters(m: int, n: int) -> None:
    count = sum(parameter.numel() for parameter in LayerNormLSTM(m, n).parameters())
    assert count == 4 * (m * n + n * n + 3 * n) + 2 * n
    count = sum(parameter.numel() for parameter in LayerNormLSTM(m, n, bias=False).parameters())
    assert count == 4 * (m * n + n * n + 2 * n) + n


def test_only_the_forget_gate_starts_with_a_bias() -> None:
    cell = LayerNormLSTM(3, 2, forget_bias=2.5)
    _, (i, f, z, o) = cell.step(cell.project(torch.zeros(1, 3)), cell.start(1))
    half = torch.full((1, 2), 0.5)
    assert torch.equal(torch.cat([i, f, z, o]), torch.cat([half, torch.full((1, 2), 2.5).sigmoid(), 0 * half, half]))


def test_the_scale_of_the_input_does_not_matter() -> None:
    torch.manual_seed(0)
    cell = LayerNormLSTM(3, 8).double()
    x = torch.randn(2, 3, dtype=torch.float64)
    # Not exactly equal: the variance has 10⁻⁵ added.
    torch.testing.assert_close(cell.project(100 * x), cell.project(1000 * x), rtol=0, atol=1e-6)
