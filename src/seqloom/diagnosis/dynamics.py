"""A recurrence as a dynamical system: singular values of its matrices and step Jacobians, its Lyapunov exponent.

Everything is computed from the cell's ``step`` alone, by vector-Jacobian products along real sequences.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seqloom.cells.cell import Cell
from seqloom.diagnosis.recording import CellCall, Step

JACOBIANS = 12
"""Steps of each layer whose whole Jacobian is computed, spread evenly over all real steps."""
MAX_ROWS = 4096
"""Rows of a step that are computed at once."""
TRAJECTORIES = 8
"""Sequences along which the Lyapunov exponent is computed: the longest ones."""
WARM_UP = 10
"""Steps in which a random vector turns towards the direction of largest growth; they are not counted."""


@dataclass(frozen=True)
class MatrixNorm:
    """The largest singular value of a recurrent matrix, or of the block of one gate."""

    matrix: str
    value: float


@dataclass(frozen=True)
class Dynamics:
    """How a step of a recurrent layer stretches small differences of its state."""

    layer: str
    direction: str
    matrices: list[MatrixNorm]
    jacobian: list[float]  # largest singular value of ∂ state / ∂ previous state, at several steps of real sequences
    exponents: list[float]  # largest Lyapunov exponent per step along each of several sequences
    steps: int  # over which the exponents were averaged, mean over the sequences

    @property
    def exponent(self) -> float:
        """The mean of the exponents; NaN: the sequences are too short."""
        return sum(self.exponents) / len(self.exponents) if self.exponents else math.nan

    @property
    def singular_value(self) -> float:
        """The geometric mean of the largest singular values along the sequences."""
        logs = [math.log(value) if value else -math.inf for value in self.jacobian]
        return math.exp(sum(logs) / len(logs)) if logs else math.nan


def dynamics(call: CellCall, direction: str) -> Dynamics:
    """Measure one recurrent layer."""
    exponents, steps = lyapunov_exponents(call)
    matrices = recurrent_matrices(call.cell)
    return Dynamics(call.name, direction, matrices, singular_values(call), exponents, steps)


def recurrent_matrices(cell: Cell) -> list[MatrixNorm]:
    """The largest singular value of each matrix of a cell that is not part of its input projection, gate by gate."""
    blocks: list[tuple[str, Tensor]] = []
    for name, parameter in cell.named_parameters():
        if parameter.dim() != 2 or "input" in name.split("."):
            continue
        rows, columns = parameter.shape
        count = rows // cell.hidden_size if columns == cell.hidden_size and not rows % cell.hidden_size else 1
        short = name.removesuffix(".weight")
        names = [short] if count == 1 else [f"{short} {number}" for number in range(1, count + 1)]
        blocks += zip(names, parameter.detach().chunk(count), strict=True)
    if len(blocks) == len(cell.gates):  # one matrix for each gate, in their order
        blocks = [(gate, block) for gate, (_, block) in zip(cell.gates, blocks, strict=True)]
    return [MatrixNorm(name, float(torch.linalg.matrix_norm(block.double(), ord=2))) for name, block in blocks]


def singular_values(call: CellCall) -> list[float]:
    """The largest singular values of the step's Jacobian at several steps of real sequences."""
    values = []
    for step, row in _sample(call, JACOBIANS):
        before = tuple(value[row : row + 1] for value in step.before)
        jacobian = step_jacobian(call.cell, step.projected[row : row + 1], before).double()
        if not bool(jacobian.isfinite().all()):
            values.append(math.inf)
            continue
        values.append(math.sqrt(max(float(torch.linalg.eigvalsh(jacobian @ jacobian.t())[-1]), 0.0)))
    return values


def step_jacobian(
    cell: Cell,
    projected: Tensor,  # (1, P)
    state: Sequence[Tensor],  # fields of (1, ...)
) -> Tensor:  # (S, S), all fields of the state in one vector
    """∂ next state / ∂ state, one row for each number of the next state."""
    size = sum(value.numel() for value in state)
    rows = []
    for unit in torch.eye(size, dtype=projected.dtype, device=projected.device).split(MAX_ROWS):
        count = len(unit)
        repeated = [value.expand(count, *value.shape[1:]) for value in state]
        rows.append(vector_jacobian(cell, projected.expand(count, -1), repeated, unit))
    return torch.cat(rows)


def vector_jacobian(
    cell: Cell,
    projected: Tensor,  # (n, P)
    state: Sequence[Tensor],  # fields of (n, ...)
    vectors: Tensor,  # (n, S)
) -> Tensor:  # (n, S)
    """The product of each vector with the Jacobian of a step; the rows of a step are independent of each other."""
    with torch.enable_grad():
        before = [value.detach().clone().requires_grad_() for value in state]
        after, _ = cell.step(projected.detach(), cell.State(*before))
        flat = torch.cat([value.flatten(1) for value in after], dim=1)
        if not flat.requires_grad:
            return torch.zeros_like(vectors)
        grads = torch.autograd.grad(flat, before, vectors, allow_unused=True, materialize_grads=True)
    return torch.cat([grad.flatten(1) for grad in grads], dim=1)


def lyapunov_exponents(call: CellCall) -> tuple[list[float], int]:
    """The largest Lyapunov exponent per step along each of the longest sequences, and the mean number of steps.

    A vector is pulled back through the Jacobians of a sequence, last step first, and normalised after each (the QR
    iteration with one column). The product of transposed Jacobians has the same singular values, hence the same
    exponent. Where a state no longer depends on the one before, the exponent is -inf.
    """
    lengths = call.mask.sum(dim=1)
    order = lengths.argsort(descending=True, stable=True)[:TRAJECTORIES]
    rows = order[lengths[order] > 2 * WARM_UP]
    if not len(rows) or not call.steps:
        return [], 0
    size = sum(value[0].numel() for value in call.steps[0].state)
    first = call.steps[0].projected
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(len(rows), size, generator=generator).to(first)
    vectors = vectors / vectors.norm(dim=1, keepdim=True)
    total = torch.zeros(len(rows), dtype=torch.float64, device=first.device)
    taken = torch.zeros_like(total)
    for step in reversed(call.steps):
        index, chosen = _rows_of(step, rows)
        real = call.is_real(step)[index]
        index, chosen = index[real], chosen[real]
        if not len(index):
            continue
        before = [value[index] for value in step.before]
        pulled = vector_jacobian(call.cell, step.projected[index], before, vectors[chosen])
        growth = pulled.norm(dim=1, keepdim=True)
        vectors[chosen] = torch.where(growth > 0, pulled / growth, vectors[chosen])
        counted = taken[chosen] >= WARM_UP
        total[chosen] += torch.where(counted, growth.squeeze(1).double().log(), 0)
        taken[chosen] += 1
    counted = taken - WARM_UP
    exponents = [float(value) for value in total / counted]
    return exponents, round(float(counted.mean()))


def _rows_of(step: Step, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Where the rows stand in a step, and which of them take it."""
    matches = step.rows.unsqueeze(1) == rows  # (n, R)
    return matches.nonzero().unbind(1)  # type: ignore[return-value]


def _sample(call: CellCall, count: int) -> list[tuple[Step, int]]:
    """Steps and rows, spread evenly over all real steps; the first step of a sequence has no past."""
    pairs = [
        (step, row) for step in call.steps[1:] or call.steps for row in call.is_real(step).nonzero().squeeze(1).tolist()
    ]
    if len(pairs) <= count:
        return pairs
    return [pairs[(2 * number + 1) * len(pairs) // (2 * count)] for number in range(count)]
