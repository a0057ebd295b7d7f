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
from seqloom.testing.certificate import CellReport, LawChecker, certificate_lines, failure
from seqloom.testing.laws import Law, check_law
from seqloom.testing.speed import compare_speed


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


def test_the_certificate_says_what_holds(capsys: pytest.CaptureFixture[str]) -> None:
    report = check_cell(Leaky, require_fused=True, reference=reference, input_size=2, hidden_size=4)
    printed = capsys.readouterr().out
    assert printed.strip() == str(report).strip()
    expected = {law.__name__ for law in laws.laws_for(CellCase(Leaky, "Leaky", reference=reference))}
    assert expected < {law.name for law in report.laws}  # and those of layers
    assert not report.broken
    assert printed.startswith(f"Leaky keeps all {len(report.laws)} laws (40 parameters")
    assert printed.count("✓") == len(report.laws)
    assert "fused: step is compiled into one loop over time" in printed
    assert report.to_dict()["laws"][0]["name"] == "parts_are_named"
    by_pair = {(each.first, each.second, each.dtype): each.difference for each in report.gradients}
    assert set(by_pair) == {
        ("kernel", "plain loop", "float64"),
        ("kernel", "plain loop", "float32"),
        ("kernel", "finite differences", "float64"),
        ("plain loop", "finite differences", "float64"),
    }
    assert by_pair["kernel", "plain loop", "float64"] <= 1e-12
    assert 0 < by_pair["kernel", "plain loop", "float32"] <= 1e-5  # rounding, which is never exactly alike
    # Central differences with a step of 1e-5: an error of about its square, and rounding of 1e-16 / 1e-5.
    assert 0 < by_pair["kernel", "finite differences", "float64"] < 1e-8


def test_the_gradient_error_shows_a_wrong_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., tuple[Tensor, Any]] = Recurrent._scan

    def scan(self: Recurrent, kernel: Any, x: Tensor, mask: Tensor | None, state: Any) -> tuple[Tensor, Any]:
        outputs, final = right(self, kernel, x, mask, state)
        error = 1e-3 * state[0].sum()
        return outputs + error - error.detach(), final

    case = CellCase(Leaky, "Leaky")
    assert laws.gradient_error(case, fused=True) < 1e-8
    monkeypatch.setattr(Recurrent, "_scan", scan)
    assert laws.gradient_error(case, fused=True) > 1e-5
    assert laws.gradient_error(case, fused=False) < 1e-8


def test_laws_that_build_on_a_broken_one_are_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    class Noisy(Leaky):
        def step(self, projected: Tensor, state: Hidden) -> tuple[Hidden, tuple[Tensor, ...]]:
            return super().step(projected + torch.randn_like(projected), state)

    with pytest.raises(AssertionError, match="step draws random numbers"):
        check_cell(Noisy)
    printed = capsys.readouterr().out
    assert printed.startswith("Noisy breaks 1 of ")
    assert "Noisy [float64, evaluation]: step draws random numbers; draw them in project" in printed
    assert "more laws build on these, and were not checked" in printed


def test_the_certificate_names_every_broken_law_and_what_was_found() -> None:
    checker = LawChecker()
    case = CellCase(CentredOverTheBatch, "CentredOverTheBatch")
    assert not checker.check((laws.parts_are_named, laws.outputs_follow_the_steps), case)
    report = CellReport("CentredOverTheBatch", checker.results, path="fused")
    assert [law.name for law in report.broken] == ["outputs_follow_the_steps"]
    assert str(report).startswith("CentredOverTheBatch breaks 1 of 2 laws")
    assert "✗  The layer's outputs and last state are those of step" in str(report)
    assert "CentredOverTheBatch [float64, evaluation]: outputs of row 0[0, 0, 0]: expected" in str(report)
    assert failure(report).startswith("CentredOverTheBatch [float64, evaluation] breaks the law 'outputs_follow")
    doubled = CellReport("x", (*report.broken, *report.broken))
    assert failure(doubled).endswith("(1 more laws are broken)")


def test_speed_is_measured_beside_the_lstm_only_on_request() -> None:
    measured = compare_speed(Leaky, batch_size=2, steps=3, size=4, pairs=3)
    assert (measured.pairs, measured.hidden_size) == (3, 4)
    assert 0 < measured.lowest_ratio <= measured.ratio <= measured.highest_ratio
    lines = "\n".join(certificate_lines(CellReport("Leaky", (), path="fused", speed=measured)))
    assert "measured now on this machine" in lines
    assert f"{measured.ratio:.2f} × the time of our LSTM" in lines
    assert "LSTM" not in "\n".join(certificate_lines(CellReport("Leaky", (), path="fused")))


def test_a_module_that_is_not_a_cell_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"expected a seqloom\.Cell, found LSTMCell"):
        check_law(laws.parts_are_named, CellCase(nn.LSTMCell, "LSTMCell"))  # type: ignore[arg-type]
