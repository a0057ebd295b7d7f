"""Training in bfloat16: gradients of every cell and Transformer block, and the laws that hold as in float."""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from tests.contracts import test_attention_layers, test_transformer
from tests.contracts.attention_layers import layers as attention_layers
from tests.contracts.registry import HIDDEN, cells, layers, make_mask, randomize, recurrent_case
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from seqloom import state as states
from seqloom.cells.sru import SRU
from seqloom.layers.bfloat16_products import Bfloat16Products, unsupported
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.transformer.block import TransformerBlock
from seqloom.testing.laws import Law, check_law
from seqloom.testing.layers import (
    LayerCase,
    a_full_mask_is_no_mask,
    a_row_equals_the_row_alone,
    a_row_of_nan_does_not_spread,
    calls_have_no_side_effects,
    empty_rows_keep_their_state,
    padding_is_invisible,
    pieces_equal_the_whole,
    rows_are_independent,
    run,
    saved_weights_restore_the_layer,
)

pytestmark = [
    pytest.mark.sampled(24),
    pytest.mark.skipif(unsupported() is not None, reason="no bfloat16 instructions"),
]

ROUNDOFF = 2.0**-8
"""The relative error of a number that is rounded to 8 significant bits, at most."""
OUTPUT_BOUND = 2 * ROUNDOFF
"""Relative to the norm: the two factors of a product are rounded. The errors of different elements and steps are
independent, so that they add up to no more."""
GRADIENT_BOUND = 4 * ROUNDOFF
"""The same for the factors of the gradient's products, one of which has the errors of the forward pass already."""
NORMALIZED_GRADIENT_BOUND = 8 * ROUNDOFF
"""Layer normalisation after a narrow residual connection amplifies errors, here up to twice."""
SUMS = ROUNDOFF / 2
"""Sums are float32: what remains is a number whose last bit decides to which neighbour it is rounded."""
FLIPPED = 2 * ROUNDOFF
"""Sums in another order may lead to another neighbour as well; relative to the largest value of a tensor."""

LAWS: tuple[Law, ...] = (
    padding_is_invisible,
    a_full_mask_is_no_mask,
    rows_are_independent,
    a_row_equals_the_row_alone,
    a_row_of_nan_does_not_spread,
    empty_rows_keep_their_state,
    calls_have_no_side_effects,
    saved_weights_restore_the_layer,
)


@cache
def recurrent_cases() -> dict[str, LayerCase]:
    pairs = [(cell, "forward") for cell in cells()] + [("LSTM()", layer) for layer in layers()]
    return {f"{cell}-{layer}": recurrent_case(cell, layer, dtype=torch.float32) for cell, layer in pairs}


@cache
def other_cases() -> dict[str, LayerCase]:
    """Transformer blocks, and decoders with attention.

    With a smooth activation: rounding moves some inputs of a ReLU across zero, where its gradient jumps.
    """
    named = test_transformer.cases() | {name: test_attention_layers.case(name) for name in attention_layers()}
    result = {name: replace(case, layer=copy.deepcopy(case.layer).float()) for name, case in named.items()}
    for case in result.values():
        for part in case.layer.modules():
            if isinstance(part, TransformerBlock):
                part.feed_forward[1] = nn.GELU()
    return result


class RoundedLinear(torch.autograd.Function):
    """The product from its definition: every factor of each of the three products is rounded, by torch."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        context.save_for_backward(x, weight)
        out = rounded(x) @ rounded(weight).t()
        return out if bias is None else out + bias

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = context.saved_tensors
        rows, gradients = x.reshape(-1, x.shape[-1]), gradient.reshape(-1, len(weight))
        bias = gradients.sum(dim=0) if context.needs_input_grad[2] else None
        return rounded(gradient) @ rounded(weight), rounded(gradients).t() @ rounded(rows), bias


def rounded(x: Tensor) -> Tensor:
    return x.bfloat16().to(x.dtype)


class RoundedProducts(TorchFunctionMode):
    """The truth for ``Bfloat16Products``, in float64 and without kernels."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is functional.linear:
            x, weight, *bias = args
            multiply: Any = RoundedLinear.apply
            return multiply(x, weight, bias[0] if bias else (kwargs or {}).get("bias"))
        return func(*args, **(kwargs or {}))


def gradients(case: LayerCase, products: AbstractContextManager[Any]) -> dict[str, Tensor]:
    """The outputs of a layer and all gradients, with rows of different lengths."""
    single = replace(case, layer=copy.deepcopy(case.layer).float())  # whose inputs are numbers of single precision
    x, memory = single.input(4, 6), single.memory([3, 1, 4, 2])
    if memory is not None:
        memory = states.apply(lambda tensor: tensor.to(case.dtype) if tensor.is_floating_point() else tensor, memory)
    with products:
        return run(case, x.to(case.dtype), make_mask([6, 0, 3, 5], 6), memory=memory).everything()


def deviations(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> tuple[float, float]:
    """Relative errors, by the norm: of the outputs, and of all gradients together."""
    assert actual.keys() == expected.keys()
    errors = []
    for is_gradient in (False, True):
        names = [name for name in expected if name.startswith("gradient") == is_gradient]
        values = [torch.cat([found[name].double().flatten() for name in names]) for found in (actual, expected)]
        errors.append(float((values[0] - values[1]).norm() / values[1].norm()))
    return errors[0], errors[1]


def in_double(case: LayerCase) -> LayerCase:
    layer = copy.deepcopy(case.layer).double()
    for part in layer.modules():
        if isinstance(part, Recurrent):
            part.fused = False
    return replace(case, layer=layer)


def check_gradients(case: LayerCase, bound: float = GRADIENT_BOUND) -> None:
    actual, expected = gradients(case, Bfloat16Products()), gradients(case, nullcontext())
    truth = gradients(in_double(case), RoundedProducts())
    assert max(deviations(actual, truth)) < SUMS
    outputs, gradient = deviations(actual, expected)
    assert outputs < OUTPUT_BOUND
    assert ROUNDOFF / 100 < gradient < bound


@pytest.mark.parametrize("name", recurrent_cases())
def test_gradients_of_recurrent_layers(name: str) -> None:
    check_gradients(recurrent_cases()[name])


def test_gradients_of_an_input_that_the_step_reads_as_well() -> None:
    layer = Recurrent(SRU(HIDDEN, HIDDEN)).eval()
    randomize(layer, dtype=torch.float32)
    check_gradients(LayerCase(layer, "SRU of equal sizes"))


@pytest.mark.parametrize("name", other_cases())
def test_gradients_of_attention_and_transformers(name: str) -> None:
    check_gradients(other_cases()[name], NORMALIZED_GRADIENT_BOUND if "post" in name else GRADIENT_BOUND)


def check_laws(case: LayerCase) -> None:
    laws = LAWS if case.direction == "both" else (*LAWS, pieces_equal_the_whole)
    with Bfloat16Products():
        for law in laws:
            check_law(law, replace(case, tolerance=FLIPPED))


@pytest.mark.parametrize("name", recurrent_cases())
def test_laws_of_recurrent_layers(name: str) -> None:
    check_laws(recurrent_cases()[name])


@pytest.mark.parametrize("name", other_cases())
def test_laws_of_attention_and_transformers(name: str) -> None:
    check_laws(other_cases()[name])
