"""Jacobians by finite differences, singular values and the Lyapunov exponent of recurrences that are known."""

import math
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
from tests.contracts.registry import build, cells
from torch import Tensor, nn

import seqloom
from seqloom.cells.cell import Cell, projection
from seqloom.cells.elman import Elman
from seqloom.diagnosis.dynamics import dynamics, recurrent_matrices, step_jacobian
from seqloom.diagnosis.recording import CellCall, record
from seqloom.layers.recurrent.recurrent import Recurrent

STEP = 1e-6
"""Central differences in float64: an error of STEP² plus 1e-16 / STEP, hence the tolerance of 1e-7."""


@pytest.mark.parametrize("name", cells())
def test_the_jacobian_of_every_cell_is_that_of_finite_differences(name: str) -> None:
    torch.manual_seed(1)
    layer = build(name)
    assert isinstance(layer, Recurrent)
    cell = layer.cell
    projected = cell.project(torch.randn(1, 1, cell.input_size, dtype=torch.float64))[0].detach()
    state = [torch.rand_like(field) - 0.3 for field in cell.start(1)]
    jacobian = step_jacobian(cell, projected, state)
    flat = torch.cat([field.flatten() for field in state])
    sizes, shapes = [field.numel() for field in state], [field.shape for field in state]

    def after(vector: Tensor) -> Tensor:
        fields = [part.view(shape) for part, shape in zip(vector.split(sizes), shapes, strict=True)]
        with torch.no_grad():
            return torch.cat([field.flatten() for field in cell.step(projected, cell.State(*fields))[0]])

    columns = []
    for unit in range(len(flat)):
        moved = torch.zeros_like(flat)
        moved[unit] = STEP
        columns.append((after(flat + moved) - after(flat - moved)) / (2 * STEP))
    torch.testing.assert_close(jacobian, torch.stack(columns, dim=1), rtol=1e-6, atol=1e-7)


def call_of(layer: nn.Module, x: Tensor) -> CellCall:
    def loss() -> Tensor:
        outputs: Tensor = layer(x)[0]
        return outputs.sum()

    _, (part,) = record(layer, loss)
    (call,) = part.cells
    return call


def linear(matrix: Tensor) -> Any:
    """h' = W x + U h with a given U."""
    layer: Any = Recurrent(Elman(2, len(matrix), activation="leaky_relu", negative_slope=1.0)).double()
    with torch.no_grad():
        layer.cell.recurrent.weight.copy_(matrix)
    return layer


def test_a_linear_recurrence_has_known_singular_values_and_exponent() -> None:
    torch.manual_seed(2)
    bases = [torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))[0] for _ in range(2)]
    matrix = bases[0] @ torch.diag(torch.tensor([1.7, 0.9, 0.6, 0.5, 0.1], dtype=torch.float64)) @ bases[1]
    result = dynamics(call_of(linear(matrix), torch.randn(3, 400, 2, dtype=torch.float64)), "forward")
    assert result.jacobian == pytest.approx([1.7] * len(result.jacobian), rel=1e-9)
    assert result.singular_value == pytest.approx(1.7, rel=1e-9)
    assert {norm.matrix: norm.value for norm in result.matrices} == pytest.approx({"recurrent": 1.7}, rel=1e-9)
    largest = float(torch.linalg.eigvals(matrix).abs().max())
    # A pair of complex eigenvalues lets the norm oscillate: an error of a constant over 390 steps.
    assert result.exponent == pytest.approx(math.log(largest), abs=0.01)
    assert len(result.exponents) == 3
    assert result.steps == 390


def test_a_scaled_rotation_has_the_exponent_of_its_scale() -> None:
    torch.manual_seed(3)
    matrix = 0.8 * torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))[0]
    x = torch.randn(2, 50, 2, dtype=torch.float64)
    assert dynamics(call_of(linear(matrix), x), "forward").exponent == pytest.approx(math.log(0.8), rel=1e-9)


def test_the_exponent_agrees_with_forward_products_of_jacobians() -> None:
    """The same limit as with the textbook's QR of J_t Q_(t-1), forwards in time, for a tanh network."""
    torch.manual_seed(5)
    layer: Any = Recurrent(Elman(2, 6)).double()
    with torch.no_grad():
        layer.cell.recurrent.weight.mul_(1.5)
    call = call_of(layer, 0.5 * torch.randn(1, 800, 2, dtype=torch.float64))
    column, logs = torch.ones(6, 1, dtype=torch.float64), []
    for step in call.steps:
        column = step_jacobian(call.cell, step.projected, step.before) @ column
        column, scale = torch.linalg.qr(column)
        logs.append(float(scale.abs().log()))
    expected = sum(logs[10:]) / len(logs[10:])
    # Both are estimates over the same 800 steps that differ by their start.
    assert dynamics(call, "forward").exponent == pytest.approx(expected, abs=0.01)


class Leaky(Cell):
    """A cell as a user writes it: h' = (1 - rate) h + rate tanh(W x + h U), with a matrix of its own."""

    class State(NamedTuple):
        hidden: Tensor

    gates: ClassVar[tuple[str, ...]] = ()

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=1)
        self.mixing = nn.Parameter(3 * torch.eye(hidden_size))
        self.rate = nn.Parameter(torch.tensor(0.25))

    def step(self, projected: Tensor, state: State) -> tuple[State, tuple[Tensor, ...]]:
        candidate = torch.tanh(projected + state.hidden @ self.mixing)
        return self.State((1 - self.rate) * state.hidden + self.rate * candidate), ()


def test_a_cell_of_a_user_is_measured_from_its_step_alone() -> None:
    torch.manual_seed(6)
    layer = Recurrent(Leaky(3, 4)).double()
    call = call_of(layer, torch.randn(2, 40, 3, dtype=torch.float64))
    result = dynamics(call, "forward")
    assert {norm.matrix: norm.value for norm in result.matrices} == pytest.approx({"mixing": 3.0})
    # The Jacobian is diagonal: 1 - rate + rate * 3 * (1 - candidate²).
    for step, value in zip(call.steps[1:2], result.jacobian, strict=False):
        assert 0.75 <= value <= 1.5
        assert step.position == 1
    diagnosis = seqloom.doctor(layer, torch.randn(2, 40, 3, dtype=torch.float64))
    assert diagnosis.parts[0].cell == "Leaky"
    assert {finding.name for finding in diagnosis.findings} == {"memory", "stability", "gates", "units"}


def test_matrices_are_named_by_their_gates() -> None:
    built: dict[str, Any] = {name: seqloom.recurrent(name, 3, 4) for name in ("lstm", "gru", "elman")}
    names = {name: [norm.matrix for norm in recurrent_matrices(layer.cell)] for name, layer in built.items()}
    assert names == {
        "lstm": ["input", "forget", "candidate", "output"],
        "gru": ["reset", "update", "candidate"],
        "elman": ["recurrent"],
    }
    values = [norm.value for norm in recurrent_matrices(built["lstm"].cell)]
    assert values == pytest.approx([1.0] * 4, rel=1e-5)  # orthogonal at the start


def test_short_sequences_have_no_exponent() -> None:
    result = dynamics(call_of(seqloom.recurrent("gru", 2, 3), torch.randn(2, 8, 2)), "forward")
    assert result.exponents == []
    assert math.isnan(result.exponent)
