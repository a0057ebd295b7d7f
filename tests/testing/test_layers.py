"""check_layer accepts correct layers, and each law catches a layer that breaks it."""

from typing import Any, NamedTuple

import pytest
import torch
from tests.testing.broken import Broken, assert_caught, each
from torch import Tensor, nn

import seqloom
from seqloom import Layer
from seqloom.layers.attention.attention import Attention
from seqloom.layers.attention.decoder_attention import LuongAttention
from seqloom.testing import check_layer
from seqloom.testing import layers as laws
from seqloom.testing.laws import Law, check_law, randomize
from seqloom.testing.layers import Direction, LayerCase


class State(NamedTuple):
    total: Tensor  # (B, D)


class RunningSum(Layer):
    """y_t = W (x_1 + … + x_t); the broken layers below change one thing each."""

    def __init__(self, input_size: int = 3, output_size: int = 4) -> None:
        super().__init__(input_size, output_size)
        self.linear = nn.Linear(input_size, output_size, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        total = x.cumsum(dim=1)
        if state is not None:
            total = total + state.total.unsqueeze(1)
        y = self.linear(total)
        before = x.new_zeros(len(x), x.shape[2]) if state is None else state.total
        y = y if mask is None else y.masked_fill(~mask.unsqueeze(-1), 0)
        return y, State(x.sum(dim=1) + before)


class WrongSize(RunningSum):
    def __init__(self) -> None:
        super().__init__()
        self.output_size = 5


class TimeFirstState(RunningSum):
    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        y, (total,) = super().forward(x, mask, None if state is None else State(state.total.squeeze(0)))
        return y, State(total.unsqueeze(0))


class Forgetful(RunningSum):
    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        y, total = super().forward(x, mask)
        return y, total if state is None else state


class NoZerosInPadding(RunningSum):
    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        _, after = super().forward(x, mask, state)
        clean = x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0)
        return super().forward(clean, None, state)[0], after


class ReadsPadding(RunningSum):
    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        return super().forward(x * x.shape[1], mask, state)


class MaskScales(RunningSum):
    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        return super().forward(x if mask is None else 1.01 * x, mask, state)


class CentresTheBatch(RunningSum):
    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        clean = x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0)
        return super().forward(x - clean.mean(dim=0, keepdim=True), mask, state)


class SpreadsNaN(RunningSum):
    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        clean = x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0)
        return super().forward(x + 0 * clean.sum(), mask, state)


class CountsEmptyRows(RunningSum):
    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        y, (total,) = super().forward(x, mask, state)
        return y, State(total + 1)


class KeepsItsState(RunningSum):
    """Hands on a copy of its first row only, and keeps the rest to itself."""

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        y, after = super().forward(x, mask, None if state is None else self.__dict__["kept"])
        self.__dict__["kept"] = after
        return y, after


class ChangesItsInput(RunningSum):
    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        with torch.no_grad():
            x.mul_(0.5)
        return super().forward(x, mask, state)


class DependsOnGradientMode(RunningSum):
    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        return super().forward(x if torch.is_grad_enabled() else 1.01 * x, mask, state)


class UnsavedWeight(RunningSum):
    def __init__(self) -> None:
        super().__init__()
        self.scale = float(torch.rand(()))

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        return super().forward(x * self.scale, mask, state)


class NoticesTracing(Layer):
    def __init__(self) -> None:
        super().__init__(3, 4)
        self.inside = seqloom.recurrent("gru", 3, 4)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
        return self.inside(2 * x if self.inside._forward_pre_hooks else x, mask, state)  # type: ignore[no-any-return]


BROKEN: list[Broken] = [
    (WrongSize, laws.shapes_are_right, r"outputs: expected shape \(3, 4, 5\), found \(3, 4, 4\)"),
    (TimeFirstState, laws.shapes_are_right, r"state.total: expected 3 rows \(batch first\), found shape \(1, 3, 3\)"),
    (Forgetful, laws.pieces_equal_the_whole, r"outputs\[0, 1, 0\]"),
    (NoZerosInPadding, laws.padding_is_invisible, "outputs in padding"),
    (ReadsPadding, laws.padding_is_invisible, "outputs"),
    (ReadsPadding, laws.a_row_equals_the_row_alone, "outputs of row 1"),
    (MaskScales, laws.a_full_mask_is_no_mask, "outputs"),
    (CentresTheBatch, laws.rows_are_independent, "outputs"),
    (SpreadsNaN, laws.a_row_of_nan_does_not_spread, r"outputs\[0, 0, 0\]: expected .*, found nan"),
    (CountsEmptyRows, laws.empty_rows_keep_their_state, "state.total"),
    (KeepsItsState, laws.rows_of_a_state_can_be_selected, "raised RuntimeError"),
    (KeepsItsState, laws.calls_have_no_side_effects, "outputs of the second call"),
    (ChangesItsInput, laws.calls_have_no_side_effects, "x"),
    (DependsOnGradientMode, laws.recording_gradients_changes_nothing, "outputs"),
    (UnsavedWeight, laws.saved_weights_restore_the_layer, "outputs"),
    (NoticesTracing, laws.tracing_changes_nothing, "outputs"),
]


def case(make: type[Layer]) -> LayerCase:
    layer = make().eval()  # type: ignore[call-arg]
    randomize(layer)
    return LayerCase(layer, make.__name__, make=make)


@each(BROKEN)
def test_each_law_catches_a_layer_that_breaks_it(kind: type[Layer], law: Law, message: str) -> None:
    def check() -> None:
        check_layer(lambda _: kind())  # type: ignore[call-arg]

    assert_caught(law, correct=case(RunningSum), broken=case(kind), message=message, check=check)


def test_every_law_is_tested_here() -> None:
    assert {law for _, law, _ in BROKEN} == {*laws.LAWS, *laws.STREAMING_LAWS}


def test_a_hidden_parameter_is_caught_without_a_factory() -> None:
    class Frozen(RunningSum):
        """Multiplies by a copy of its weights, which nobody can load."""

        def __init__(self) -> None:
            super().__init__()
            self.copied = self.linear.weight.detach().clone().double()

        def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
            y, after = super().forward(x, mask, state)
            return y * 0 + (x.masked_fill(~mask.unsqueeze(-1), 0) if mask is not None else x) @ self.copied.T, after

    layer = Frozen().double().eval()
    with pytest.raises(AssertionError, match="do not depend on the parameters"):
        check_law(laws.saved_weights_restore_the_layer, LayerCase(layer, "Frozen"))


@pytest.mark.parametrize("direction", ["forward", "both"])
def test_a_correct_layer_passes(direction: Direction) -> None:
    check_layer(RunningSum(), direction=direction)


@pytest.mark.parametrize(
    ("options", "direction"), [({"reverse": True}, "backward"), ({"bidirectional": True, "layers": 2}, "both")]
)
def test_built_in_layers_pass(options: dict[str, Any], direction: Direction) -> None:
    layer = seqloom.recurrent("gru", 3, 4, **options)
    check_layer(layer, direction=direction)
    wrong: Direction = "forward"
    with pytest.raises(AssertionError, match="pieces_equal_the_whole"):
        check_layer(layer, direction=wrong)


def test_a_layer_with_attention_or_a_cache_passes() -> None:
    check_layer(LuongAttention(Attention(3, 4), 5), memory_size=4)
    transformer = seqloom.transformer(3, 8, layers=1, heads=2, causal=True)
    check_layer(transformer, comparable_state=False)


def test_a_module_of_torch_is_wrapped() -> None:
    check_layer(lambda size: nn.Sequential(nn.Linear(size, 4), nn.Tanh()), input_size=2)
    with pytest.raises(AssertionError, match=r"Softmax .*'(padding_is_invisible|pieces_equal_the_whole)'"):
        check_layer(nn.Softmax(dim=1))


def test_the_checked_layer_is_left_as_it_was() -> None:
    layer = RunningSum().train()
    before = layer.linear.weight.detach().clone()
    check_layer(layer)
    assert layer.training
    assert torch.equal(layer.linear.weight, before)
