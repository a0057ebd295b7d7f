"""The softmax in chunks against torch's cross-entropy of all logits at once."""

from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from seqloom.layers import softmax_loss
from seqloom.layers.softmax_loss import cross_entropy, log_probabilities, score_tokens

EXACT = 1e-12  # float64, sums of some dozen terms


def make_inputs(
    count: int, vocab_size: int, *, size: int = 4, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    hidden, weight, bias = (
        torch.randn(shape, generator=random, dtype=dtype)
        for shape in ((count, size), (vocab_size, size), (vocab_size,))
    )
    return hidden, weight, bias, torch.randint(vocab_size, (count,), generator=random)


def as_linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    vocab_size, size = weight.shape
    linear = nn.Linear(size, vocab_size, bias=bias is not None, dtype=weight.dtype)
    linear.load_state_dict({"weight": weight} if bias is None else {"weight": weight, "bias": bias})
    return linear


def reference(hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    logits = functional.linear(hidden, weight, bias)
    return functional.cross_entropy(logits, target, reduction="sum", label_smoothing=smoothing)


def relative(actual: Tensor, expected: Tensor) -> float:
    return float(((actual - expected).abs().max() / expected.abs().max().clamp(min=1)).detach())


@given(
    count=st.integers(1, 30),
    vocab_size=st.integers(1, 20),
    rows=st.integers(1, 40),  # per chunk
    smoothing=st.sampled_from([0.0, 0.1, 0.9]),
    biased=st.booleans(),
    scale=st.sampled_from([1.0, 0.25, -3.0]),
)
def test_value_and_gradients_equal_those_of_torch(
    count: int, vocab_size: int, rows: int, smoothing: float, biased: bool, scale: float
) -> None:
    hidden, weight, bias, target = make_inputs(count, vocab_size)
    parts = [part.requires_grad_() for part in ((hidden, weight, bias) if biased else (hidden, weight))]
    expected = reference(hidden, weight, bias if biased else None, target, smoothing=smoothing)
    gradients = torch.autograd.grad(scale * expected, parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax_loss, "MAX_LOGITS", rows * vocab_size)
        actual = cross_entropy(hidden, weight, bias if biased else None, target, smoothing=smoothing)
        chunked = torch.autograd.grad(scale * actual, parts)
        with torch.no_grad():
            evaluated = cross_entropy(hidden, weight, bias if biased else None, target, smoothing=smoothing)
        scores = log_probabilities(hidden, as_linear(weight, bias if biased else None), target)
    assert relative(actual, expected) < EXACT
    assert relative(evaluated, expected) < EXACT
    assert not evaluated.requires_grad
    assert all(relative(*pair) < EXACT for pair in zip(chunked, gradients, strict=True))
    whole = functional.linear(hidden, weight, bias if biased else None).log_softmax(dim=1)
    assert relative(scores, whole.gather(1, target.unsqueeze(1)).squeeze(1)) < EXACT
    assert not scores.requires_grad


@pytest.mark.parametrize("only", ["hidden", "weight", "bias"])
def test_gradients_of_single_arguments(only: str) -> None:
    parts = make_inputs(5, 7)
    variable = parts[["hidden", "weight", "bias"].index(only)].requires_grad_()
    (expected,) = torch.autograd.grad(reference(*parts), variable)
    (actual,) = torch.autograd.grad(cross_entropy(*parts), variable)
    assert relative(actual, expected) < EXACT


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_extreme_logits_stay_finite(dtype: torch.dtype, smoothing: float) -> None:
    weight = torch.eye(3, dtype=dtype, requires_grad=True)
    hidden = torch.tensor([[300.0, -300, 0], [-300, 300, 300], [-300, -300, -300]], dtype=dtype, requires_grad=True)
    target = torch.tensor([1, 0, 2])  # exp(-600) underflows to zero in float32
    actual = cross_entropy(hidden, weight, None, target, smoothing=smoothing)
    expected = reference(hidden.double(), weight.double(), None, target, smoothing=smoothing)
    assert torch.isfinite(actual)
    assert relative(actual.double(), expected) < (1e-6 if dtype == torch.float32 else EXACT)
    actual.backward()
    assert torch.isfinite(hidden.grad if hidden.grad is not None else torch.tensor(torch.nan)).all()
    scores = log_probabilities(hidden, as_linear(weight, None), target)
    assert torch.allclose(
        scores.double(), torch.tensor([-600, -600 - 0.6931471805599453, -1.0986122886681098]).double()
    )


def test_no_rows_have_a_loss_of_zero() -> None:
    hidden, weight, bias, target = make_inputs(0, 7)
    for part in (hidden, weight, bias):
        part.requires_grad_()
    actual = cross_entropy(hidden, weight, bias, target)
    gradients = torch.autograd.grad(actual, (hidden, weight, bias))
    assert float(actual.detach()) == 0
    assert all(not gradient.any() for gradient in gradients)
    with torch.no_grad():
        assert float(cross_entropy(hidden, weight, bias, target)) == 0
    assert log_probabilities(hidden, as_linear(weight, bias), target).shape == (0,)


def test_logits_never_exist_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    plain = softmax_loss._logit_gradients

    def recorded(hidden: Tensor, *others: Any) -> AbstractContextManager[tuple[Tensor, Tensor]]:
        sizes.append(len(hidden))
        return plain(hidden, *others)

    monkeypatch.setattr(softmax_loss, "_logit_gradients", recorded)
    monkeypatch.setattr(softmax_loss, "MAX_LOGITS", 70)
    hidden, weight, bias, target = make_inputs(23, 7)
    cross_entropy(hidden.requires_grad_(), weight, bias, target)
    assert sum(sizes) == 23
    assert max(sizes) <= 10


@pytest.mark.parametrize("count", [0, 1, 23])
def test_the_most_probable_tokens_are_recognised(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax_loss, "MAX_LOGITS", 30)
    hidden, weight, bias, target = make_inputs(count, 3)
    values, correct = score_tokens(hidden, as_linear(weight, bias), target)
    logits = functional.linear(hidden, weight, bias)
    assert torch.equal(correct, logits.argmax(dim=1) == target)
    assert torch.allclose(values, logits.log_softmax(dim=1).gather(1, target.unsqueeze(1)).squeeze(1))
