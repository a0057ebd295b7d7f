import numpy as np
import pytest
import torch

from seqloom.layers.scalar_mix import ScalarMix


def test_equals_its_equation_in_numpy() -> None:
    torch.manual_seed(0)
    mixture = ScalarMix([4, 3, 3]).double()
    torch.nn.init.normal_(mixture.scores)
    torch.nn.init.constant_(mixture.scale, 1.7)
    layers = [torch.randn(2, 5, size, dtype=torch.float64) for size in (4, 3, 3)]
    scores = mixture.scores.detach().numpy()
    weights = np.exp(scores) / np.exp(scores).sum()
    lowest, *others = (layer.numpy() for layer in layers)
    weight = mixture.get_parameter("maps.0.weight").detach().numpy()
    expected = 1.7 * sum(
        layer_weight * layer for layer_weight, layer in zip(weights, [lowest @ weight.T, *others], strict=True)
    )
    np.testing.assert_allclose(mixture(layers).detach().numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(mixture.layer_weights.detach().numpy(), weights, rtol=1e-12)


def test_initially_equals_the_mean() -> None:
    layers = [torch.randn(2, 3, 4) for _ in range(3)]
    torch.testing.assert_close(ScalarMix([4, 4, 4])(layers), torch.stack(layers).mean(dim=0))


def test_gradients() -> None:
    torch.manual_seed(0)
    mixture = ScalarMix([2, 3]).double()
    layers = [torch.randn(1, 2, size, dtype=torch.float64, requires_grad=True) for size in (2, 3)]
    values = [*layers, mixture.scores, mixture.scale]
    assert torch.autograd.gradcheck(lambda *tensors: mixture(tensors[:2]), values)


def test_mismatched_layers_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 2 layers, got 1"):
        ScalarMix([3, 3])([torch.zeros(1, 1, 3)])
    with pytest.raises(ValueError, match="sizes is empty"):
        ScalarMix([])
