"""check_cell accepts a correct cell, and each law catches a cell that breaks it."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from tests.testing.broken import Broken, assert_caught, each
from torch import Tensor, nn

from seqloom import Cell, Recurrent, projection, recurrence
from seqloom.testing import cells as laws
from seqloom.testing import check_cell
from seqloom.testing.cells import CellCase
from seqloom.testing.laws import Law, check_law


class Hidden(NamedTuple):
    hidden: Tensor


class Leaky(Cell):
    """f = σ(W_f x + U h), h' = f ∘ h + (1 − f) ∘ tanh(W_z x); the broken cells below change one thing each."""

    gates = ("forget",)
    State = Hidden
    carry: ClassVar[str | None] = "forget"

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=2)
        self.recurrent = recurrence(hidden_size)

    def step(self, projected: Tensor, state: Hidden) -> tuple[Hidden, tuple[Tensor, ...]]:
        f, z = projected.chunk(2, dim=-1)
        f = torch.sigmoid(f + self.recurrent(state.hidden))
        return Hidden(f * state.hidden + (1 - f) * torch.tanh(z)), (f,)


class WithoutGates(Leaky):
    def step(self, projected: Tensor, state: Hidden) -> tuple[Hidden, tuple[Tensor, ...]]:
        return super().step(projected, state)[0], ()


class UnequalStart(Leaky):
    def start(self, batch: int) -> Any:
        (hidden,) = super().start(batch)
        return Hidden(hidden + torch.arange(batch).unsqueeze(1))


class Random(Leaky):
    def step(self, projected: Tensor, state: Hidden) -> tuple[Hidden, tuple[Tensor, ...]]:
        next_state, gates = super().step(projected, state)
        return Hidden(next_state.hidden * torch.rand(()).to(projected.dtype)), gates


class InPlace(Leaky):
    def step(self, projected: Tensor, state: Hidden) -> tuple[Hidden, tuple[Tensor, ...]]:
        with torch.no_grad():
            projected.mul_(0.5)
        return super().step(projected, state)


class Counting(Leaky):
    calls = 0

    def step(self, projected: Tensor, state: Hidden) -> tuple[Hidden, tuple[Tensor, ...]]:
        self.calls += 1
        return super().step(projected * self.calls, state)


class CentredOverTheBatch(Leaky):
    def project(self, x: Tensor) -> Tensor:
        projected = super().project(x)
        return projected - projected.mean(dim=1, keepdim=True)


class DependsOnGradientMode(Leaky):
    def step(self, projected: Tensor, state: Hidden) -> tuple[Hidden, tuple[Tensor, ...]]:
        next_state, gates = super().step(projected, state)
        values = next_state.hidden.sort(dim=-1).values  # which no kernel can do
        return Hidden(values if torch.is_grad_enabled() else 2 * values), gates


class _WrongDerivative(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        gradient: Tensor = gradients[0] * (1 - x.tanh())  # the square is missing
        return gradient


class WrongGradient(Leaky):
    def step(self, projected: Tensor, state: Hidden) -> tuple[Hidden, tuple[Tensor, ...]]:
        next_state, gates = super().step(projected, state)
        return Hidden(_WrongDerivative.apply(next_state.hidden)), gates  # type: ignore[no-untyped-call]


class UnusedParameter(Leaky):
    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.spare = nn.Parameter(torch.ones(hidden_size))


class UnsavedWeight(Leaky):
    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.scale = float(torch.rand(()))

    def step(self, projected: Tensor, state: Hidden) -> tuple[Hidden, tuple[Tensor, ...]]:
        return super().step(projected * self.scale, state)


class WrongCarry(Leaky):
    def step(self, projected: Tensor, state: Hidden) -> tuple[Hidden, tuple[Tensor, ...]]:
        next_state, (f,) = super().step(projected, state)
        return next_state, (1 - f,)


BROKEN: list[Broken] = [
    (WithoutGates, laws.parts_are_named, "step returned 0 gates, expected 1"),
    (UnequalStart, laws.every_row_starts_alike, r"state.hidden\[1, 0\]: expected 0, found 1"),
    (Random, laws.step_is_pure, "step draws random numbers"),
    (InPlace, laws.step_is_pure, "hidden|projected"),
    (Counting, laws.step_is_pure, "state.hidden"),
    (CentredOverTheBatch, laws.outputs_follow_the_steps, "outputs of row 0"),
    (DependsOnGradientMode, laws.kernel_equals_the_loop_without_gradients, r"outputs \(1 rows, 1 steps\)"),
    (WrongGradient, laws.gradients_equal_finite_differences, "by the kernel|by the plain loop"),
    (UnusedParameter, laws.gradients_reach_every_parameter, "spare"),
    (UnsavedWeight, laws.saved_weights_restore_the_cell, "outputs"),
    (WrongCarry, laws.carry_is_the_direct_path, "∂h'/∂h"),
]


def sigmoid(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


def reference(cell: Any, x: Any, *, leak: float = 1.0) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    weights = {name: value.double().numpy() for name, value in cell.state_dict().items()}
    hidden, outputs, gates = np.zeros((len(x), cell.hidden_size)), [], []
    for x_t in x.swapaxes(0, 1):
        f, z = np.split(x_t @ weights["input.weight"].T + weights["input.bias"], 2, axis=1)
        f = sigmoid(f + hidden @ weights["recurrent.weight"].T)
        hidden = leak * f * hidden + (1 - f) * np.tanh(z)
        outputs.append(hidden)
        gates.append(f)
    return np.stack(outputs, axis=1), {"hidden": hidden}, {"forget": np.stack(gates, axis=1)}


def test_a_correct_cell_passes() -> None:
    check_cell(Leaky, require_fused=True, reference=reference, input_size=2, hidden_size=4)


@each(BROKEN)
def test_each_law_catches_a_cell_that_breaks_it(kind: type[Cell], law: Law, message: str) -> None:
    correct, broken = CellCase(Leaky, "Leaky"), CellCase(kind, kind.__name__)
    assert_caught(law, correct=correct, broken=broken, message=message, check=lambda: check_cell(kind))


def test_every_law_is_tested_here() -> None:
    others = {laws.kernel_equals_the_loop, laws.equations_hold}
    assert {law for _, law, _ in BROKEN} | others == {*laws.LAWS, laws.carry_is_the_direct_path, laws.equations_hold}


@pytest.mark.parametrize("wrong", ["value", "gradient"])
def test_a_wrong_kernel_is_caught(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., tuple[Tensor, Any]] = Recurrent._scan

    def scan(self: Recurrent, kernel: Any, x: Tensor, mask: Tensor | None, state: Any) -> tuple[Tensor, Any]:
        outputs, final = right(self, kernel, x, mask, state)
        error = 1e-4 * state[0].sum()
        return outputs + (error if wrong == "value" else error - error.detach()), final

    monkeypatch.setattr(Recurrent, "_scan", scan)
    expected = "outputs" if wrong == "value" else "gradient of first hidden"
    with pytest.raises(AssertionError, match=rf"'kernel_equals_the_loop'.*{expected}"):
        check_law(laws.kernel_equals_the_loop, CellCase(Leaky, "Leaky"))


def test_a_cell_that_differs_from_its_reference_is_caught() -> None:
    def wrong(cell: Any, x: Any) -> Any:
        return reference(cell, x, leak=0.999)

    with pytest.raises(AssertionError, match=r"Leaky.*'equations_hold'.*outputs"):
        check_cell(Leaky, reference=wrong)


def test_a_cell_that_cannot_be_fused_is_refused_only_on_request() -> None:
    class Sorted(Leaky):
        carry = None

        def step(self, projected: Tensor, state: Hidden) -> tuple[Hidden, tuple[Tensor, ...]]:
            next_state, gates = super().step(projected, state)
            return Hidden(next_state.hidden.sort(dim=-1).values), gates

    check_cell(Sorted)
    with pytest.raises(AssertionError, match=r"'kernel_equals_the_loop'.*no fused kernel \(loop: .*sort"):
        check_cell(Sorted, require_fused=True)


def test_a_module_that_is_not_a_cell_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"expected a seqloom\.Cell, found LSTMCell"):
        check_law(laws.parts_are_named, CellCase(nn.LSTMCell, "LSTMCell"))  # type: ignore[arg-type]
