import pytest
import torch
from torch import nn

from seqloom.cells import GRU


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 7)])
@pytest.mark.parametrize("reset", ["before", "after"])
def test_parameters(reset: str, m: int, n: int) -> None:
    more = n if reset == "after" else 0
    assert sum(parameter.numel() for parameter in GRU(m, n, reset=reset).parameters()) == 3 * (m * n + n * n + n) + more
    cell = GRU(m, n, reset=reset, bias=False)
    assert sum(parameter.numel() for parameter in cell.parameters()) == 3 * (m * n + n * n)


def test_a_step_with_reset_after_the_product_equals_that_of_torch() -> None:
    torch.manual_seed(0)
    cell, reference = GRU(3, 5, reset="after"), nn.GRUCell(3, 5)
    with torch.no_grad():
        reference.weight_ih.copy_(cell.get_parameter("input.weight"))
        reference.weight_hh.copy_(
            torch.cat([cell.get_parameter("recurrent.weight"), cell.get_parameter("candidate.weight")])
        )
        cell.get_parameter("input.bias").copy_(reference.bias_ih)
        cell.get_parameter("input.bias")[:10].add_(reference.bias_hh[:10])
        cell.get_parameter("candidate.bias").copy_(reference.bias_hh[10:])
    x, hidden = torch.randn(2, 3), torch.randn(2, 5)
    state, _ = cell.step(cell.project(x), GRU.State(hidden))
    torch.testing.assert_close(state.hidden, reference(x, hidden), rtol=0, atol=1e-6)


def test_a_gate_that_writes_is_one_that_keeps_with_negated_weights() -> None:
    torch.manual_seed(0)
    keep, write = GRU(3, 5), GRU(3, 5, update_gate="write")
    weights = {name: value.clone() for name, value in keep.state_dict().items()}
    for name in ("input.weight", "input.bias", "recurrent.weight"):
        weights[name][5:10] *= -1
    write.load_state_dict(weights)
    x, hidden = torch.randn(2, 3), torch.randn(2, 5)
    kept, (_, z, _) = keep.step(keep.project(x), GRU.State(hidden))
    written, (_, opposite, _) = write.step(write.project(x), GRU.State(hidden))
    torch.testing.assert_close(written.hidden, kept.hidden)
    torch.testing.assert_close(opposite, 1 - z)
    with pytest.raises(ValueError, match="update_gate is 'new', expected 'keep' or 'write'"):
        GRU(3, 5, update_gate="new")


def test_another_reset_is_refused() -> None:
    with pytest.raises(ValueError, match="reset is 'never', expected 'before' or 'after'"):
        GRU(3, 5, reset="never")
