"""The gradient by lag is that of finite differences, for every cell, direction, stack and Transformer."""

import math
from typing import Any

import pytest
import torch
from tests.contracts.registry import build, cells
from torch import Tensor, nn

import seqloom
from seqloom.cells import LSTM
from seqloom.cells.cell import Cell
from seqloom.diagnosis.gradients import gradients_by_lag, reach_of
from seqloom.diagnosis.recording import CellCall, Part, record
from seqloom.layers.recurrent.recurrent import Recurrent, steps

pytestmark = pytest.mark.sampled(3)

STEP = 1e-6
"""Central differences in float64: an error of STEP² plus 1e-16 / STEP, hence the tolerance of 1e-6."""


def recorded(layer: nn.Module, x: Tensor, weights: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Part]:
    def compute() -> Tensor:
        outputs: Tensor = layer(x, mask)[0]
        return (outputs * weights).sum()

    loss, (part,) = record(layer, compute)
    return loss, part


def run_from(cell: Cell, projected: Tensor, state: Any, *, reverse: bool) -> Tensor:
    """The last output of the steps after a state."""
    *_, (last, _) = steps(cell, projected, None, state, reverse=reverse)
    output: Tensor = last[0]
    return output


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", cells())
def test_gradients_of_every_cell_are_those_of_finite_differences(name: str, reverse: bool) -> None:
    torch.manual_seed(1)
    built = build(name)
    assert isinstance(built, Recurrent)
    cell, length = built.cell, 6
    layer = Recurrent(cell, reverse=reverse).eval()
    x = torch.randn(1, length, layer.input_size, dtype=torch.float64)
    weights = torch.zeros(1, length, layer.output_size, dtype=torch.float64)
    target = 0 if reverse else length - 1
    weights[0, target] = torch.randn(layer.output_size, dtype=torch.float64)
    loss, part = recorded(layer, x, weights)
    (curve,), entry = gradients_by_lag(part, loss, targets=1)
    assert curve.direction == ("backward" if reverse else "forward")
    assert entry.at_ends
    with torch.no_grad():
        projected = cell.project(x.transpose(0, 1))
        history = [state for state, _ in steps(cell, projected, None, cell.start(1), reverse=reverse)]
    expected = []
    for lag in range(1, length):
        state = history[length - 1 - lag]
        rest = projected[: -(length - lag)] if reverse else projected[length - lag :]
        slopes = []
        for index, field in enumerate(state):
            for unit in range(field.numel()):
                outcomes = []
                for sign in (1, -1):
                    moved = field.clone()
                    moved.view(-1)[unit] += sign * STEP
                    changed = cell.State(*[moved if other == index else value for other, value in enumerate(state)])
                    with torch.no_grad():
                        last = run_from(cell, rest, changed, reverse=reverse)
                    outcomes.append(float((last * weights[:, target]).sum()))
                slopes.append((outcomes[0] - outcomes[1]) / (2 * STEP))
        expected.append(math.hypot(*slopes))
    assert curve.mean[0] == pytest.approx(float(weights[0, target].norm()), rel=1e-12)
    assert curve.mean[1:] == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert curve.left[1:] == pytest.approx([value / curve.mean[0] for value in expected], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_of_a_transformer_are_those_of_its_inputs(causal: bool) -> None:
    torch.manual_seed(2)
    layer = seqloom.transformer(6, 8, layers=2, heads=2, causal=causal, positions="rotary").double()
    x = torch.randn(1, 7, 6, dtype=torch.float64)
    weights = torch.zeros(1, 7, 8, dtype=torch.float64)
    weights[0, 4] = torch.randn(8, dtype=torch.float64)
    loss, part = recorded(layer, x, weights)
    curves = {(curve.layer, curve.direction): curve for curve in gradients_by_lag(part, loss, targets=1)[0]}
    assert len(curves) == (2 if causal else 4)
    first = layer.layers[0](x)[0].detach()  # what the first block reads

    def after(values: Tensor) -> float:
        for block in list(layer.layers)[1:]:
            values = block(values)[0]
        return float((values * weights).sum())

    for lag in range(5):
        slopes = []
        for unit in range(8):
            moved = torch.zeros_like(first)
            moved[0, 4 - lag, unit] = STEP
            with torch.no_grad():
                slopes.append((after(first + moved) - after(first - moved)) / (2 * STEP))
        assert curves["layers.1", "forward"].mean[lag] == pytest.approx(math.hypot(*slopes), rel=1e-6)
    if not causal:
        assert len(curves["layers.1", "backward"].mean) == 3


def test_upper_layers_carry_the_gradient_of_lower_ones() -> None:
    """The gradient with respect to a state of the first of two layers, by autograd of an independent loop."""
    torch.manual_seed(3)
    layer: Any = seqloom.recurrent("gru", 3, 4, layers=2).double()
    x = torch.randn(2, 8, 3, dtype=torch.float64)
    weights = torch.zeros(2, 8, 4, dtype=torch.float64)
    weights[:, -1] = torch.randn(2, 4, dtype=torch.float64)
    loss, part = recorded(layer, x, weights)
    curves = {curve.layer: curve for curve in gradients_by_lag(part, loss, targets=2)[0]}
    lower, upper = layer.layers
    hidden, below = torch.zeros(2, 4, dtype=torch.float64), []
    for x_t in lower.cell.project(x.transpose(0, 1)):
        hidden = lower.cell.step(x_t, lower.cell.State(hidden))[0].hidden
        below.append(hidden)
    hidden = torch.zeros(2, 4, dtype=torch.float64)
    for x_t in upper.cell.project(torch.stack(below)):
        hidden = upper.cell.step(x_t, upper.cell.State(hidden))[0].hidden
    grads = torch.autograd.grad((hidden * weights[:, -1]).sum(), below)
    expected = [float(grad.norm(dim=1).mean()) for grad in reversed(grads)]
    assert curves["layers.0"].mean == pytest.approx(expected, rel=1e-10)


def test_many_targets_are_measured_one_by_one() -> None:
    """Mean, spread and count over several targets in rows of different lengths, from separate backward passes."""
    torch.manual_seed(4)
    layer = seqloom.recurrent("lstm", 3, 4).double()
    x, lengths = torch.randn(3, 9, 3, dtype=torch.float64), torch.tensor([9, 5, 2])
    mask = torch.arange(9) < lengths[:, None]
    weights = torch.randn(3, 9, 4, dtype=torch.float64)
    loss, part = recorded(layer, x, weights, mask)
    (curve,), entry = gradients_by_lag(part, loss, targets=1000)  # all of them
    assert not entry.at_ends
    assert curve.targets[0] == 16
    norms: dict[int, list[float]] = {}
    for row, length in enumerate(lengths.tolist()):
        for target in range(length):
            only = torch.zeros_like(weights)
            only[row, target] = weights[row, target]
            _, alone = recorded(layer, x, only, mask)
            call: CellCall = alone.cells[0]
            states = [value for step in call.steps for value in step.state]
            grads = torch.autograd.grad((alone.outputs * only).sum(), states, materialize_grads=True, allow_unused=True)
            for lag in range(target + 1):
                fields = grads[2 * (target - lag) : 2 * (target - lag) + 2]
                norms.setdefault(lag, []).append(math.hypot(*(float(grad[row].norm()) for grad in fields)))
    lags = len(curve.mean)
    assert lags == 5  # further ones have fewer than five targets
    assert curve.targets == [len(norms[lag]) for lag in range(lags)]
    assert curve.mean == pytest.approx([sum(norms[lag]) / len(norms[lag]) for lag in range(lags)], rel=1e-10)
    for name, share in (("low", 0.1), ("high", 0.9)):
        expected = [float(torch.tensor(norms[lag]).double().quantile(share)) for lag in range(lags)]
        assert getattr(curve, name) == pytest.approx(expected, rel=1e-6)


def test_the_final_state_is_a_target_of_its_own() -> None:
    """A loss of the final state enters both directions where they end."""
    torch.manual_seed(5)
    layer = seqloom.recurrent("gru", 3, 4, bidirectional=True).double()
    x = torch.randn(6, 7, 3, dtype=torch.float64)

    def of_state() -> Tensor:
        state = layer(x)[1]
        total: Tensor = (state.forward.hidden + state.backward.hidden).sum()
        return total

    loss, (part,) = record(layer, of_state)
    curves, entry = gradients_by_lag(part, loss, targets=6)
    assert entry.final_state
    assert [(curve.direction, len(curve.mean)) for curve in curves] == [("forward", 7), ("backward", 7)]
    assert [curve.mean[0] for curve in curves] == pytest.approx([2.0, 2.0])  # of a sum of four units


def test_the_reach_of_each_output_is_that_of_a_loop_with_gradients() -> None:
    torch.manual_seed(2)
    length = 5
    layer = Recurrent(LSTM(3, 4).double()).eval()
    x, weights = torch.randn(1, length, 3).double(), torch.randn(1, length, 4).double()
    loss, part = recorded(layer, x, weights)
    (reach,) = reach_of(part, loss, most=length)
    assert (reach.direction, reach.of, reach.outputs) == ("forward", "state", list(range(length)))
    cell = layer.cell
    projected = cell.project(x.transpose(0, 1))
    expected = torch.zeros(length, length, dtype=torch.float64)
    for step in range(length):
        before = [state for state, _ in steps(cell, projected[: step + 1], None, cell.start(1), reverse=False)][-1]
        state = cell.State(*[field.detach().requires_grad_() for field in before])
        rest = steps(cell, projected[step + 1 :], None, state, reverse=False)
        outputs = [state[0], *(after[0] for after, _ in rest)]
        for output, at in zip(outputs, range(step, length), strict=True):
            score = (output * weights[0, at]).sum()
            grads = torch.autograd.grad(score, state, retain_graph=True, allow_unused=True)
            expected[at, step] = math.sqrt(sum(float(grad.square().sum()) for grad in grads if grad is not None))
    torch.testing.assert_close(torch.tensor(reach.norms, dtype=torch.float64), expected, rtol=1e-9, atol=1e-12)
    few = reach_of(part, loss, most=2)[0]
    assert few.outputs == [2, 4]  # evenly spaced, the last one included
    assert few.norms == [reach.norms[2], reach.norms[4]]
