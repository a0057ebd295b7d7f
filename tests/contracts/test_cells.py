"""What holds for every cell: its equations, its gates, its state."""

import numpy as np
import pytest
import torch
from tests.cells import equations
from tests.contracts.registry import HIDDEN, INPUT, cells, classes, noise, shake

from seqloom import cells as public
from seqloom.cells.cell import Cell
from seqloom.layers.recurrent.recurrent import Recurrent

EVERY_CELL = pytest.mark.parametrize("name", cells())


def make(name: str, *, dtype: torch.dtype = torch.float64) -> Cell:
    cell = cells()[name](INPUT, HIDDEN).to(dtype).eval()
    shake(cell, dtype=dtype)
    return cell


def test_every_cell_is_public() -> None:
    assert {value.__name__ for value in classes()} | {"Cell"} == set(public.__all__)


# float64: rounding only, over 12 steps. float32: 12 steps of rounding at 6e-8 each, through normalisation too.
@EVERY_CELL
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_outputs_and_state_equal_the_equations(name: str, dtype: torch.dtype, tolerance: float) -> None:
    cell = make(name, dtype=dtype)
    x = noise(4, 12, INPUT, dtype=dtype)
    found, state = Recurrent(cell)(x)
    wanted, last, _ = equations.run(cell, x.double().numpy())
    np.testing.assert_allclose(found.detach().double().numpy(), wanted, rtol=0, atol=tolerance)
    for field, value in state._asdict().items():
        np.testing.assert_allclose(value.detach().double().numpy(), last[field], rtol=0, atol=tolerance)


@EVERY_CELL
def test_gates_equal_the_equations(name: str) -> None:
    cell = make(name)
    x = noise(2, 6, INPUT)
    _, _, wanted = equations.run(cell, x.numpy())
    state, found = cell.start(2), []
    for projected in cell.project(x.transpose(0, 1)):
        state, gates = cell.step(projected, state)
        found.append(gates)
    assert {len(gates) for gates in found} == {len(cell.gates)}
    for index, gate in enumerate(cell.gates):
        values = torch.stack([gates[index] for gates in found], dim=1).detach().numpy()
        np.testing.assert_allclose(values, wanted[gate], rtol=0, atol=1e-12)


@EVERY_CELL
def test_the_state_begins_at_zero_and_its_first_field_is_the_output(name: str) -> None:
    cell = make(name)
    start = cell.start(2)
    assert isinstance(start, tuple)
    assert all(torch.equal(field, torch.zeros(2, HIDDEN, dtype=torch.float64)) for field in start)
    outputs, state = Recurrent(cell)(noise(2, 4, INPUT))
    assert torch.equal(outputs[:, -1], state[0])


@EVERY_CELL
def test_a_step_is_pure_also_when_training(name: str) -> None:
    cell = make(name).train()
    state = type(cell.start(2))(*[noise(2, HIDDEN, seed=index) for index, _ in enumerate(cell.start(2))])
    projected = cell.project(noise(1, 2, INPUT))[0]
    first, second = cell.step(projected, state), cell.step(projected, state)
    assert all(torch.equal(left, right) for left, right in zip(first[0] + first[1], second[0] + second[1], strict=True))


# Zoneout carries by no single gate, and RecurrentDropout refuses it.
@pytest.mark.parametrize("name", [name for name in cells() if not name.startswith("Zoneout")])
def test_carry_is_the_direct_path_from_old_to_new_output(name: str) -> None:
    cell = make(name)
    with torch.no_grad():
        for parameter_name, parameter in cell.named_parameters():
            if parameter.dim() == 2 and "input" not in parameter_name:
                parameter.zero_()
    state = cell.start(2)
    hidden = noise(2, HIDDEN).requires_grad_()
    following, gates = cell.step(cell.project(noise(1, 2, INPUT))[0], type(state)(hidden, *state[1:]))
    (found,) = torch.autograd.grad(following[0].sum(), hidden, allow_unused=True, materialize_grads=True)
    wanted = torch.zeros_like(found) if cell.carry is None else gates[cell.gates.index(cell.carry)]
    assert torch.allclose(found, wanted, rtol=0, atol=1e-14)


@EVERY_CELL
def test_gradients_reach_every_parameter_and_the_input(name: str) -> None:
    cell = make(name).train()
    x = noise(3, 4, INPUT).requires_grad_()
    torch.manual_seed(0)
    Recurrent(cell)(x)[0].square().sum().backward()
    for parameter_name, value in [*cell.named_parameters(), ("x", x)]:
        assert value.grad is not None, parameter_name
        assert value.grad.isfinite().all(), parameter_name
        assert value.grad.abs().sum() > 0, parameter_name


@EVERY_CELL
def test_sizes_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="input_size must be at least 1, found 0"):
        cells()[name](0, HIDDEN)
    with pytest.raises(ValueError, match="hidden_size must be at least 1, found -1"):
        cells()[name](INPUT, -1)


@EVERY_CELL
def test_recurrent_matrices_begin_orthogonal(name: str) -> None:
    torch.manual_seed(0)
    cell = cells()[name](INPUT, HIDDEN)
    found = 0
    for parameter_name, parameter in cell.named_parameters():
        if parameter.dim() == 2 and "input" not in parameter_name:
            for block in torch.split(parameter, HIDDEN):
                assert torch.allclose(block @ block.T, torch.eye(HIDDEN), rtol=0, atol=1e-5)
                found += 1
    assert found
