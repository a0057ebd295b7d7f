from itertools import combinations

import pytest
import torch

from seqloom.cells import LSTM, Peephole

SUBSETS = [subset for size in range(4) for subset in combinations(("input", "forget", "output"), size)]


@pytest.mark.parametrize("peepholes", SUBSETS)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 7)])
def test_parameters(peepholes: tuple[str, ...], m: int, n: int) -> None:
    cell = Peephole(m, n, peepholes=peepholes)
    assert sum(parameter.numel() for parameter in cell.parameters()) == 4 * (m * n + n * n + n) + len(peepholes) * n
    cell = Peephole(m, n, peepholes=peepholes, bias=False)
    assert sum(parameter.numel() for parameter in cell.parameters()) == 4 * (m * n + n * n) + len(peepholes) * n


def test_full_matrices() -> None:
    cell = Peephole(3, 7, peepholes=("input", "output"), peephole_weights="full")
    assert sum(parameter.numel() for parameter in cell.parameters()) == 4 * (21 + 49 + 7) + 2 * 49
    with pytest.raises(ValueError, match="peephole_weights is 'dense', expected 'diagonal' or 'full'"):
        Peephole(3, 5, peephole_weights="dense")


def test_initially_equals_an_lstm() -> None:
    torch.manual_seed(0)
    cell, lstm = Peephole(3, 5, forget_bias=0.5), LSTM(3, 5)
    lstm.load_state_dict({name: value for name, value in cell.state_dict().items() if "peepholes" not in name})
    x, state = torch.randn(2, 3), (torch.randn(2, 5), torch.randn(2, 5))
    actual, _ = cell.step(cell.project(x), Peephole.State(*state))
    expected, _ = lstm.step(lstm.project(x), LSTM.State(*state))
    assert torch.equal(actual.hidden, expected.hidden)
    assert torch.equal(cell.get_parameter("input.bias")[5:10], torch.full((5,), 0.5))


@pytest.mark.parametrize("gate", ["input", "forget", "output"])
def test_each_gate_reads_the_memory_only_through_its_own_peephole(gate: str) -> None:
    torch.manual_seed(0)
    cell = Peephole(3, 5, peepholes=(gate,))
    with torch.no_grad():
        cell.get_parameter(f"peepholes.{gate}").fill_(3.0)
    projected = cell.project(torch.randn(2, 3))
    hidden, memory = torch.zeros(2, 5), torch.randn(2, 5)
    plain = cell.step(projected, Peephole.State(hidden, torch.zeros(2, 5)))[1]
    _, gates = cell.step(projected, Peephole.State(hidden, memory))
    changed = {name for name, left, right in zip(cell.gates, gates, plain, strict=True) if not torch.equal(left, right)}
    assert changed == {gate}


@pytest.mark.parametrize("peepholes", ["input", ("input", "candidate")])
def test_unknown_peepholes_are_refused_with_the_known_ones(peepholes: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"expected a subset of \('input', 'forget', 'output'\)"):
        Peephole(3, 5, peepholes=peepholes)
