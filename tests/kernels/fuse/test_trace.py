"""Tracing of steps, and the reasons why steps cannot be fused, as the user reads them."""

import random
from collections.abc import Callable, Mapping
from contextlib import suppress

import pytest
import torch
from tests.contracts.registry import noise
from torch import Tensor

from seqloom.kernels.fuse.expression import row_width
from seqloom.kernels.fuse.symbols import BatchSum, OuterProductSum, TracedStep, Unfusable
from seqloom.kernels.fuse.trace import trace

OUTSIDE = noise(4)
Parameters = Mapping[str, Tensor]
Step = Callable[[Parameters, Tensor, Tensor], Tensor]


def trace_step(function: Step) -> TracedStep:
    def step(parameters: Parameters, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (function(parameters, x, state[0]),)

    return trace(step, {"matrix": noise(4, 4), "vector": noise(4)}, 4, (4,))


def reads_a_value(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return x if h.sum().item() > 0 else h


def branches(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return x if (h > 0).all() else h


def views_three_dimensions(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return x + h.view(-1, 2, 2).sum(dim=1).repeat(1, 2)


def adds_a_dimension(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return (x.unsqueeze(-1) * h.unsqueeze(1)).amax(dim=-1)


def samples(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return x + h * torch.rand_like(h)


def applies_dropout(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return torch.dropout(x + h, 0.5, train=True)


def changes_a_view(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    y = x * h
    y[:, :2].mul_(2)
    return y


def uses_a_tensor_from_outside(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return x + h * OUTSIDE


def makes_a_tensor(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return x + h * torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)


def centres_the_batch(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return x + h - h.mean(dim=0)


def sums_everything(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return x + h * h.sum()


def flips_the_batch(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return x + h.flip(0)


def shifts_the_batch(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return x + torch.cat([h[1:], h[:1]])


def compares_rows(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return (h @ h.T) @ x


def multiplies_a_computed_matrix(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return x + h @ p["matrix"].exp()


def changes_its_width(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return torch.cat([x, h], dim=1)


def returns_zeros(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return torch.zeros_like(h)


def sorts(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return x + h.sort(dim=1).values


def scales_a_product(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return torch.addmm(x, h, p["matrix"], alpha=0.5)


def rounds_a_quotient(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return h + torch.div(x, 0.5, rounding_mode="floor")


def transforms(p: Parameters, x: Tensor, h: Tensor) -> Tensor:
    return torch.add(x, torch.fft.fft(h).real)


REASONS: dict[Step, str] = {
    scales_a_product: r"torch\.addmm with alpha is not supported in a compiled step",
    rounds_a_quotient: r"torch\.div with rounding_mode is not supported in a compiled step",
    reads_a_value: r"Tensor\.item is not supported",
    branches: r"Tensor\.all is not supported",
    views_three_dimensions: r"Tensor\.repeat is not supported",
    adds_a_dimension: r"Tensor\.amax .*shape \(B, 4, 4\)",
    samples: r"torch\.rand_like is not supported",
    applies_dropout: r"torch\.dropout is not supported",
    changes_a_view: r"Tensor\.mul_ changes a tensor that has other views",
    uses_a_tensor_from_outside: r"shape \(4,\) that is neither a parameter nor its input",
    makes_a_tensor: "neither a parameter nor its input",
    centres_the_batch: r"Tensor\.sub .*: a computation with a sum over the batch",
    sums_everything: r"Tensor\.mul .*: a computation with a sum over the batch",
    flips_the_batch: r"Tensor\.flip is not supported",
    shifts_the_batch: r"indexing .*dimension 0 of a tensor of shape \(B, 4\)",
    compares_rows: r"Tensor\.matmul .*: a product of two computed matrices",
    multiplies_a_computed_matrix: r"Tensor\.exp .*: arithmetic with a whole matrix",
    changes_its_width: r"width 4 becomes one of shape \(B, 8\)",
    returns_zeros: "does not depend",
    sorts: r"Tensor\.sort is not supported in a compiled step",
    transforms: r"torch\.fft\.fft is not supported in a compiled step",
}


@pytest.mark.parametrize("function", REASONS, ids=lambda function: function.__name__)
def test_unfusable_steps_raise_with_a_reason(function: Step) -> None:
    with pytest.raises(Unfusable, match=REASONS[function]) as error:
        trace_step(function)
    assert "aten" not in str(error.value)


def test_a_parameter_of_three_dimensions_is_named() -> None:
    with pytest.raises(Unfusable, match="parameter cube has 3 dimensions"):
        trace(lambda p, x, state: (x + state[0] * p["cube"].sum(),), {"cube": noise(2, 2, 2)}, 4, (4,))


@pytest.mark.parametrize("function", [samples, flips_the_batch, lambda p, x, h: x + h @ p["matrix"]])
def test_tracing_does_not_change_the_random_state(
    function: Step,
) -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    before = random.getstate()
    with suppress(Unfusable):
        trace_step(function)
    assert torch.equal(torch.rand(4), expected)
    assert random.getstate() == before


def test_parameters_are_not_modified() -> None:
    parameters = {"matrix": noise(4, 4).requires_grad_(), "vector": noise(4)}
    trace(lambda p, x, state: (x + state[0] @ p["matrix"] + p["vector"],), parameters, 4, (4,))
    assert parameters["matrix"].grad is None
    assert not parameters["vector"].requires_grad
    assert torch.equal(parameters["matrix"], noise(4, 4))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_are_traced_without_grad_mode(mode: Callable[[], torch.no_grad]) -> None:
    with mode():
        traced = trace_step(lambda p, x, h: torch.tanh(x + h @ p["matrix"] + p["vector"]))
    assert isinstance(traced.parameter_gradient["matrix"], OuterProductSum)
    assert isinstance(traced.parameter_gradient["vector"], BatchSum)


def test_a_step_becomes_products_and_rows() -> None:
    traced = trace_step(lambda p, x, h: torch.tanh(x + h @ p["matrix"] + h @ p["matrix"] + x @ p["matrix"].T))
    forward = [product for product in traced.products if product.operand[0].node.operation in ("state", "projected")]
    assert [product.describe() for product in forward] == ["matrix False 4", "matrix True 4"]
    assert [row_width(row) for row in traced.next_state] == [4]
    assert traced.parameter_gradient["vector"] is None
    outer = traced.parameter_gradient["matrix"]
    assert isinstance(outer, OuterProductSum)
    assert {(row_width(left), row_width(right)) for left, right in outer.terms} == {(4, 4)}
