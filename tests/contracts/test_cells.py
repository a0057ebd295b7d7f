"""The laws of seqloom.testing for every cell, and what holds for the built-in cells beyond them."""

from functools import cache
from typing import Any

import pytest
import torch
from tests.cells import equations
from tests.contracts.registry import HIDDEN, INPUT, cells, classes, noise, randomize

from seqloom import cells as public
from seqloom.cells.cell import Cell
from seqloom.testing.cells import CellCase, direct_path, equations_hold, laws_for
from seqloom.testing.laws import Law, check_law

pytestmark = pytest.mark.sampled(10)

WITHOUT_RECURRENT_PRODUCT = (public.IndRNN, public.MinGRU, public.MinLSTM, public.SRU)
EVERY_CELL = pytest.mark.parametrize("name", cells())


@cache  # the laws share the layer of a case
def case(name: str, **settings: Any) -> CellCase:
    options: dict[str, Any] = {
        "input_size": INPUT,
        "hidden_size": HIDDEN,
        "require_fused": True,
        "reference": equations.run,
    }
    return CellCase(cells()[name], name, **(options | settings))


def make(name: str) -> Cell:
    cell = cells()[name](INPUT, HIDDEN).eval()
    randomize(cell)
    return cell


def laws() -> list[Any]:
    return [pytest.param(law, name, id=f"{law.__name__}-{name}") for name in cells() for law in laws_for(case(name))]


def test_every_cell_is_public() -> None:
    assert {value.__name__ for value in classes()} | {"Cell"} == set(public.__all__)


@pytest.mark.parametrize(("law", "name"), laws())
def test_law(law: Law, name: str) -> None:
    check_law(law, case(name))


@EVERY_CELL
def test_the_equations_hold_in_single_precision(name: str) -> None:
    check_law(equations_hold, case(name, dtype=torch.float32))


@EVERY_CELL
def test_the_initial_state_is_zero(name: str) -> None:
    start = make(name).start(2)
    assert all(torch.equal(field, torch.zeros(2, HIDDEN, dtype=torch.float64)) for field in start)


# Zoneout carries the state without a single gate, and RecurrentDropout refuses it.
@pytest.mark.parametrize("name", [name for name in cells() if not name.startswith("Zoneout")])
def test_a_cell_without_carry_has_no_direct_path(name: str) -> None:
    cell = make(name)
    gradient, gates = direct_path(cell, noise(2, 1, INPUT))
    expected = cell.carried(gates)
    assert torch.allclose(gradient, torch.zeros_like(gradient) if expected is None else expected, rtol=0, atol=1e-14)


@EVERY_CELL
def test_plots_explain_the_gates_that_open_and_close(name: str) -> None:
    cell = make(name)
    assert set(cell.effects) == set(cell.gates) - {"candidate"}
    assert cell.carry is None or cell.effects[cell.carry] == "keeps"
    assert cell.write is None or cell.effects[cell.write] == "writes"


@EVERY_CELL
def test_sizes_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="input_size must be at least 1, got 0"):
        cells()[name](0, HIDDEN)
    with pytest.raises(ValueError, match="hidden_size must be at least 1, got -1"):
        cells()[name](INPUT, -1)


@EVERY_CELL
def test_recurrent_matrices_are_initially_orthogonal(name: str) -> None:
    torch.manual_seed(0)
    cell = cells()[name](INPUT, HIDDEN)
    blocks = [
        block
        for parameter_name, parameter in cell.named_parameters()
        if parameter.dim() == 2
        and parameter_name.rpartition(".")[0].endswith(("recurrent", "recurrent.0", "candidate"))
        for block in torch.split(parameter, HIDDEN)
    ]
    for block in blocks:
        assert torch.allclose(block @ block.T, torch.eye(HIDDEN), rtol=0, atol=1e-5)
    assert blocks or isinstance(cell, WITHOUT_RECURRENT_PRODUCT)
