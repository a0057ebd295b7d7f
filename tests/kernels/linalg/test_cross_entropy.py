"""The loss of a softmax and its gradient against torch in double precision."""

import pytest
import torch
from tests.contracts.registry import noise

from seqloom.kernels.linalg.cross_entropy import cross_entropy


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float64, 1e-14)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("rows", "size"), [(1, 1), (3, 7), (5, 16), (4, 33), (40, 1000)])
@pytest.mark.parametrize("biased", [True, False])
def test_loss_and_gradient_are_those_of_torch(
    dtype: torch.dtype, tolerance: float, smoothing: float, rows: int, size: int, *, biased: bool
) -> None:
    logits = 3 * noise(rows, size, dtype=dtype)
    bias = noise(size, seed=1, dtype=dtype) if biased else None
    target = (torch.arange(rows) * 7) % size
    exact = (logits.double() + (0 if bias is None else bias.double())).requires_grad_()
    expected = torch.nn.functional.cross_entropy(exact, target, reduction="none", label_smoothing=smoothing)
    (gradient,) = torch.autograd.grad(expected.sum(), exact)
    bias_gradient = torch.ones(size, dtype=dtype) if biased else None
    actual = cross_entropy(logits, bias, target, smoothing=smoothing, bias_gradient=bias_gradient)
    torch.testing.assert_close(actual.double(), expected.detach(), rtol=tolerance, atol=10 * tolerance)
    torch.testing.assert_close(logits.double(), gradient, rtol=0, atol=tolerance)
    if bias_gradient is not None:
        torch.testing.assert_close(bias_gradient.double(), 1 + gradient.sum(dim=0), rtol=0, atol=rows * tolerance)


def test_large_logits_stay_finite_and_nan_propagates() -> None:
    logits = torch.tensor([[300.0, -300.0, 0.0], [1.0, torch.nan, 2.0]])
    losses = cross_entropy(logits, None, torch.tensor([1, 0]), smoothing=0.0)
    torch.testing.assert_close(losses[0], torch.tensor(600.0))
    torch.testing.assert_close(logits[0], torch.tensor([1.0, -1.0, 0.0]))
    assert losses[1].isnan()


def test_strided_rows_and_no_rows() -> None:
    wide = noise(4, 9)
    part, whole = wide.clone()[:, :5], wide[:, :5].clone()
    target = torch.tensor([0, 4, 2, 1])
    losses = [cross_entropy(logits, None, target, smoothing=0.2) for logits in (part, whole)]
    assert torch.equal(*losses)
    assert torch.equal(part, whole)
    assert cross_entropy(noise(0, 5), None, target[:0], smoothing=0.0).shape == (0,)
