import pytest
import torch

from seqloom.cells import SLSTM
from seqloom.layers.recurrent.recurrent import Recurrent


def test_parameters() -> None:
    assert sum(parameter.numel() for parameter in SLSTM(3, 7).parameters()) == 4 * (3 * 7 + 7 * 7 + 7)
    with pytest.raises(ValueError, match="forget_gate is 'tanh', expected 'sigmoid' or 'exponential'"):
        SLSTM(3, 7, forget_gate="tanh")


@pytest.mark.parametrize("forget_gate", ["sigmoid", "exponential"])
def test_huge_exponents_are_stable(forget_gate: str) -> None:
    """exp(1000) is infinite; the stabiliser keeps outputs and gradients finite, and outputs below one."""
    torch.manual_seed(0)
    layer = Recurrent(SLSTM(3, 5, forget_gate=forget_gate))
    x = (1000 * torch.randn(2, 8, 3)).requires_grad_()
    out, state = layer(x)
    gradients = torch.autograd.grad(out.sum(), [x, *layer.parameters()])
    assert out.isfinite().all()
    assert out.abs().max() <= 1
    assert bool((state.normalizer >= 1).all())
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
