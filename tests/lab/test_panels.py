"""Planes of figures."""

import numpy as np
import torch

from seqloom.lab.panels import plane_of


def test_a_plane_holds_the_largest_variances() -> None:
    vectors = torch.randn(20, 5, generator=torch.Generator().manual_seed(1)) * torch.tensor([1.0, 5.0, 0.1, 3.0, 0.2])
    points = plane_of(vectors)
    values, directions = np.linalg.eigh(np.cov(vectors.double().numpy().T))
    expected = (vectors.double().numpy() - vectors.double().numpy().mean(0)) @ directions[:, [-1, -2]]
    # Principal components are unique up to their sign.
    np.testing.assert_allclose(np.abs(points.numpy()), np.abs(expected), atol=1e-5)
    assert (points[1] >= points[0]).all()
    assert np.isclose(points.var(dim=0)[0].item(), values[-1])
