import pytest
import torch

from seqloom.cells import Coupled


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 7)])
def test_parameters(m: int, n: int) -> None:
    assert sum(parameter.numel() for parameter in Coupled(m, n).parameters()) == 3 * (m * n + n * n + n)
    assert sum(parameter.numel() for parameter in Coupled(m, n, bias=False).parameters()) == 3 * (m * n + n * n)


def test_the_forget_bias_is_that_of_the_forget_gate() -> None:
    cell = Coupled(3, 5, forget_bias=2.0)
    _, gates = cell.step(cell.project(torch.zeros(1, 3)), cell.start(1))
    forget = gates[cell.gates.index("forget")]
    torch.testing.assert_close(forget, torch.tensor(2.0).sigmoid().expand(1, 5), rtol=0, atol=1e-6)


def test_input_and_forget_gate_add_up_to_one() -> None:
    torch.manual_seed(0)
    cell = Coupled(3, 5)
    _, (i, f, _, _) = cell.step(cell.project(torch.randn(2, 3)), cell.start(2))
    torch.testing.assert_close(i + f, torch.ones(2, 5), rtol=0, atol=1e-6)
