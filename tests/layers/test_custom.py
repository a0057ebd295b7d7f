import inspect
import re
from typing import Any

import pytest
import torch
from tests.contracts.registry import make_mask, noise
from torch import Tensor, nn

from seqloom.cells import Cell, Elman
from seqloom.cells.cell import projection, recurrence
from seqloom.layers.custom import CustomLayer, check_cell_class
from seqloom.layers.layer_error import LayerError
from seqloom.layers.recurrent.recurrent import Recurrent


class RunningSum(nn.Module):
    """A user's layer with a state: the running sum, twice as wide."""

    def forward(self, x: Tensor, mask: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
        start = 0 if state is None else state
        assert mask is None or mask.shape == x.shape[:2]
        total = x.cumsum(dim=1) + start
        return torch.cat([total, -total], dim=2), total[:, -1:]


class Broken(nn.Module):
    def forward(self, x: Tensor, mask: Tensor, state: Any) -> tuple[Tensor, Any]:
        raise TypeError(f"an internal error: {x.shape}, {mask.shape}, {state}")


class WithoutState(nn.Module):
    def forward(self, x: Tensor, mask: Tensor, state: Any) -> Tensor:
        return x * mask.unsqueeze(-1) + (state or 0)


class TwoInputs(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x * mask.unsqueeze(-1)


def test_a_stateless_module() -> None:
    linear = nn.Linear(3, 5)
    layer = CustomLayer(linear, 3)
    x, mask = noise(2, 4, 3, dtype=torch.float32), make_mask([4, 1], 4)
    outputs, state = layer(x, mask)
    expected = (x @ linear.weight.T + linear.bias).masked_fill(~mask.unsqueeze(-1), 0)
    torch.testing.assert_close(outputs, expected)
    assert (layer.output_size, state) == (5, ())
    torch.testing.assert_close(layer(x, None, state)[0], linear(x))


def test_a_module_with_state_in_chunks() -> None:
    layer = CustomLayer(RunningSum(), 3)
    x = noise(2, 5, 3, dtype=torch.float32)
    whole, last = layer(x)
    first, state = layer(x[:, :2])
    second, state = layer(x[:, 2:], None, state)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)
    torch.testing.assert_close(state, last)
    torch.testing.assert_close(last, x.sum(dim=1, keepdim=True))
    assert layer.output_size == 6


def test_padding_is_zero_for_the_module() -> None:
    layer = CustomLayer(RunningSum(), 3)
    x, mask = noise(2, 4, 3, dtype=torch.float32), make_mask([4, 2], 4)
    x[1, 2:] = float("nan")
    outputs, state = layer(x, mask)
    torch.testing.assert_close(state[1, 0], x[1, :2].sum(dim=0))
    assert torch.equal(outputs[1, 2:], torch.zeros(2, 6))


def test_the_trial_call_leaves_the_module_unchanged() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2))).train()
    module[1].eval()
    random = torch.random.get_rng_state()
    CustomLayer(module, 3)
    assert [part.training for part in module.modules()] == [True, True, False, False, False]
    assert torch.equal(torch.random.get_rng_state(), random)


def test_the_trial_call_uses_the_module_s_dtype() -> None:
    layer = CustomLayer(nn.Linear(3, 5).double(), 3)
    assert layer(noise(1, 2, 3))[0].dtype == torch.float64


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Flatten(), "Flatten.forward got x (2, 3, 3) and returned (2, 9), expected (2, 3, output size)"),
        (
            nn.LSTM(3, 5),
            "LSTM.forward got x (2, 3, 3) and returned ((2, 3, 5), ((1, 3, 5), (1, 3, 5))), expected (2, 3, ",
        ),
        (
            WithoutState(),
            "state None and returned (2, 3, 3), expected a pair of a tensor (2, 3, output size) and a state",
        ),
        (Broken(), "Broken.forward failed on x (2, 3, 3), mask (2, 3) and state None: TypeError: an internal error"),
        (
            nn.Linear(4, 4),
            "Linear.forward failed on x (2, 3, 3): RuntimeError: mat1 and mat2 shapes cannot be multiplied",
        ),
        (TwoInputs(), "TwoInputs.forward takes (x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor, expected (x) or"),
    ],
)
def test_unsuitable_modules_are_refused(module: nn.Module, message: str) -> None:
    with pytest.raises(LayerError, match=re.escape(message)) as caught:
        CustomLayer(module, 3)
    assert "\n" not in str(caught.value)


def test_errors_name_the_line_of_the_user() -> None:
    line = inspect.getsourcelines(Broken.forward)[1] + 1
    with pytest.raises(LayerError, match=rf"\(test_custom\.py:{line}\)$"):
        CustomLayer(Broken(), 3)


class Shrinking(nn.Module):
    """Right for three steps, wrong for others."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.shape[1] == 3 else x[:, :1, :2]


def test_outputs_are_checked_in_every_call() -> None:
    layer = CustomLayer(Shrinking(), 4)
    expected = r"Shrinking.forward got x \(5, 2, 4\) and returned \(5, 1, 2\), expected \(5, 2, 4\)"
    with pytest.raises(LayerError, match=expected):
        layer(torch.zeros(5, 2, 4))


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (nn.Linear, "(3) failed: TypeError: "),
        (lambda size: [size], "(3) returned list, expected an nn.Module"),
    ],
)
def test_unsuitable_factories_are_refused(factory: Any, message: str) -> None:
    with pytest.raises(LayerError, match=re.escape(message)):
        CustomLayer.build(factory, 3)


class Plain(Cell):
    """A cell whose step may go wrong."""

    gates = ()
    State = Elman.State

    def __init__(self, input_size: int, hidden_size: int, *, mistake: str = "") -> None:
        super().__init__(input_size, hidden_size)
        self.input, self.recurrent, self.mistake = projection(input_size, hidden_size, blocks=1), recurrence(4), mistake

    def step(self, projected: Tensor, state: Any) -> Any:
        output = torch.tanh(projected + self.recurrent(state[0]))
        return {"": (self.State(output), ()), "row": (self.State(output[0]), ()), "state": output}[self.mistake]


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        (
            (3, 4),
            {"mistake": "row"},
            "failed on x (2, 3) and a state of (2, 4): ValueError: Plain.step returned state.hidden of shape (4,)",
        ),
        (
            (3, 4),
            {"mistake": "state"},
            "failed on x (2, 3) and a state of (2, 4): TypeError: Plain.step returned Tensor",
        ),
        ((3, 5), {}, "the cell Plain failed on x (2, 3) and a state of (2, 5): RuntimeError: mat1 and mat2 shapes"),
        ((3, 4), {"bias": 1}, "Plain(3, 4, bias=1) failed: TypeError: "),
    ],
)
def test_unsuitable_cells_are_refused(sizes: tuple[int, int], options: Any, message: str) -> None:
    random = torch.random.get_rng_state()
    check_cell_class(Plain, 3, 4)
    assert torch.equal(torch.random.get_rng_state(), random)
    with pytest.raises(LayerError, match=re.escape(message)):
        check_cell_class(Plain, *sizes, **options)


class FailsOnLargeBatches(Elman):
    def step(self, projected: Tensor, state: Any) -> Any:
        if len(projected) > 2:
            projected = projected.view(1, 1)
        return super().step(projected, state)


def test_a_cell_that_fails_on_a_real_batch_names_its_line() -> None:
    check_cell_class(FailsOnLargeBatches, 3, 4)
    layer = Recurrent(FailsOnLargeBatches(3, 4))
    layer.fused = False  # a kernel runs what the step did with a small batch
    layer(noise(2, 5, 3, dtype=torch.float32))
    line = inspect.getsourcelines(FailsOnLargeBatches)[1] + 3
    message = "the cell FailsOnLargeBatches failed on x (3, 5, 3): RuntimeError: shape '[1, 1]' is invalid"
    with pytest.raises(LayerError, match=re.escape(message) + rf".* \(test_custom\.py:{line}\)$"):
        layer(noise(3, 5, 3, dtype=torch.float32))
