"""The context of bfloat16 products against float64 products of rounded factors, and where it does not apply."""

import gc
from typing import Any

import pytest
import torch
from tests.contracts.registry import noise
from torch import Tensor, nn
from torch.nn import functional

from seqloom.cells.lstm import LSTM
from seqloom.kernels.linalg.bfloat16 import Bfloat16Matrix
from seqloom.kernels.llvm import jit_cache
from seqloom.layers import bfloat16_products, softmax_loss
from seqloom.layers.bfloat16_products import Bfloat16Products, active_products, paused_products, unsupported
from seqloom.layers.linear import Linear
from seqloom.layers.recurrent.recurrent import Recurrent

pytestmark = pytest.mark.skipif(unsupported() is not None, reason="no bfloat16 instructions")


def single(*shape: int, seed: int = 0) -> Tensor:
    return noise(*shape, seed=seed, dtype=torch.float32)


def rounded(x: Tensor) -> Tensor:
    return x.detach().bfloat16().double()


def assert_close(actual: Tensor | None, expected: Tensor) -> None:
    """Sums of up to a hundred products in float32."""
    assert actual is not None
    torch.testing.assert_close(actual.detach().double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(4, 33), (2, 3, 33), (33,)])
@pytest.mark.parametrize("kind", [nn.Linear, Linear])
def test_a_linear_map(kind: type[nn.Linear], shape: tuple[int, ...], bias: bool) -> None:
    linear, x, gradient = kind(33, 40, bias=bias), single(*shape).requires_grad_(), single(*shape[:-1], 40, seed=1)
    with Bfloat16Products():
        y = linear(x)
    y.backward(gradient)
    rows, gradients = rounded(x).view(-1, 33), rounded(gradient).view(-1, 40)
    exact = rounded(x) @ rounded(linear.weight).t()
    assert_close(y, exact + linear.bias.detach().double() if bias else exact)
    assert_close(x.grad, rounded(gradient) @ rounded(linear.weight))
    assert_close(linear.weight.grad, gradients.t() @ rows)
    if bias:
        assert_close(linear.bias.grad, gradient.double().view(-1, 40).sum(dim=0))  # a sum is not rounded


def test_frozen_inputs_and_weights_have_no_gradient() -> None:
    linear, x = nn.Linear(5, 6), single(3, 5)
    with Bfloat16Products():
        linear(x).sum().backward()
        frozen = linear.requires_grad_(requires_grad=False)(x.requires_grad_())
    assert x.grad is None
    frozen.sum().backward()
    assert x.grad is not None


def test_without_gradients_and_in_double_precision_nothing_is_rounded() -> None:
    linear, x = nn.Linear(5, 6), single(3, 5)
    with torch.no_grad():
        expected = linear(x)
        with Bfloat16Products():
            assert torch.equal(linear(x), expected)
    double = nn.Linear(5, 6, dtype=torch.float64)
    with Bfloat16Products():
        assert torch.equal(double(x.double()), functional.linear(x.double(), double.weight, double.bias))


def test_the_context_ends_also_with_an_error_and_can_be_paused() -> None:
    products, linear, x = Bfloat16Products(), nn.Linear(5, 6), single(3, 5)
    exact = linear(x)
    with products:
        assert active_products() is products
        with products:
            assert not torch.equal(linear(x), exact)
        assert active_products() is products
        with paused_products():
            assert active_products() is None
            assert torch.equal(linear(x), exact)
    with pytest.raises(KeyError), products:
        raise KeyError
    assert active_products() is None
    assert torch.equal(linear(x), exact)


class CountedMatrix(Bfloat16Matrix):
    made = 0

    def __init__(self, matrix: Tensor) -> None:
        CountedMatrix.made += 1
        super().__init__(matrix)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[CountedMatrix]:
    CountedMatrix.made = 0
    monkeypatch.setattr(bfloat16_products, "Bfloat16Matrix", CountedMatrix)
    return CountedMatrix


def test_a_weight_is_rounded_once_per_update(counted: type[CountedMatrix]) -> None:
    products, linear, x = Bfloat16Products(), nn.Linear(5, 6), single(3, 5).requires_grad_()
    optimizer = torch.optim.Adam(linear.parameters(), lr=0.1, fused=True)
    for update in range(1, 3):
        for _ in range(3):  # parts of a batch
            with products:
                y = linear(x)
            y.sum().backward()
        assert counted.made == 2 * update  # one for each direction
        assert_close(y, rounded(x) @ rounded(linear.weight).t() + linear.bias.detach().double())
        optimizer.step()
    del linear, optimizer, y
    gc.collect()
    assert len(products._weights) == 0  # nothing else shows that the memory is free


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("logits", [8_000_000, 100])
def test_cross_entropy(monkeypatch: pytest.MonkeyPatch, smoothing: float, logits: int) -> None:
    monkeypatch.setattr(softmax_loss, "MAX_LOGITS", logits)  # in one chunk, or in several
    hidden, weight, bias = single(7, 33).requires_grad_(), single(41, 33, seed=1).requires_grad_(), single(41, seed=2)
    bias.requires_grad_()
    target = torch.arange(7)
    with Bfloat16Products():
        loss = softmax_loss.cross_entropy(hidden, weight, bias, target, smoothing=smoothing)
    loss.backward()
    scores = (rounded(hidden) @ rounded(weight).t() + bias.detach().double()).requires_grad_()
    expected = functional.cross_entropy(scores, target, reduction="sum", label_smoothing=smoothing)
    expected.backward()
    assert_close(loss, expected.detach())
    assert scores.grad is not None
    assert_close(bias.grad, scores.grad.sum(dim=0))
    gradient = scores.grad.float()
    # Rounded to 8 bits, a gradient that differs in the last bit of a float may differ by 2⁻⁸.
    for actual, product in (
        (hidden.grad, rounded(gradient) @ rounded(weight)),
        (weight.grad, rounded(gradient).t() @ rounded(hidden)),
    ):
        assert actual is not None
        assert (actual.double() - product).norm() < 2.0**-9 * product.norm()


def test_cross_entropy_of_no_rows_and_of_sampled_tokens() -> None:
    weight, bias = single(50, 8).requires_grad_(), single(50).requires_grad_()
    with Bfloat16Products():
        loss = softmax_loss.cross_entropy(single(0, 8).requires_grad_(), weight, bias, torch.arange(0))
        loss.backward()
        torch.manual_seed(1)
        hidden = single(5, 8, seed=3).requires_grad_()
        sampled = softmax_loss.sampled_cross_entropy(hidden, weight, bias, torch.arange(5), samples=20)
    torch.manual_seed(1)
    expected = softmax_loss.sampled_cross_entropy(hidden, weight, bias, torch.arange(5), samples=20)
    assert loss.item() == 0
    assert weight.grad is not None
    assert not weight.grad.any()
    assert sampled.item() != expected.item()
    assert sampled.item() == pytest.approx(expected.item(), rel=2.0**-7)


def test_a_recurrent_layer_has_a_kernel_of_its_own_in_the_context() -> None:
    layer, x, products = Recurrent(LSTM(5, 6)), single(3, 4, 5), Bfloat16Products()
    exact, _ = layer(x)
    for _ in range(2):
        with products:
            y, _ = layer(x)
            kernel: Any = layer.kernel(x)
        assert kernel.bfloat16
        assert not torch.equal(y, exact)
        torch.testing.assert_close(y, exact, rtol=0.02, atol=0.02)
        assert torch.equal(layer(x)[0], exact)
    with products, torch.no_grad():
        assert torch.equal(layer(x)[0], exact)


def test_gradients_can_be_differentiated_once_only() -> None:
    linear, x = nn.Linear(5, 6), single(3, 5).requires_grad_()
    with Bfloat16Products():
        y = linear(x).square().sum()
    with pytest.raises(RuntimeError, match="create_graph"):
        torch.autograd.grad(y, x, create_graph=True)


def test_another_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_cache, "has_cpu_feature", lambda _: False)
    with pytest.raises(RuntimeError, match="AVX512_BF16"):
        Bfloat16Products()
