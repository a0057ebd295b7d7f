"""The distribution of the next point against torch.distributions, and samples against its moments."""

import math

import pytest
import torch
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from seqloom.models.stroke_distribution import DRAW, END, LIFT, StrokeDistribution


def make(*batch: int, components: int = 3) -> StrokeDistribution:
    torch.manual_seed(2)
    values = torch.randn(*batch, StrokeDistribution.size(components), dtype=torch.float64)
    return StrokeDistribution.of(values, components)


def reference(distribution: StrokeDistribution) -> MixtureSameFamily:
    x, y = distribution.deviations.unbind(dim=-1)
    joint = distribution.correlations * x * y
    rows = [torch.stack([x.square(), joint], dim=-1), torch.stack([joint, y.square()], dim=-1)]
    normal = MultivariateNormal(distribution.means, torch.stack(rows, dim=-2))
    return MixtureSameFamily(Categorical(logits=distribution.log_weights), normal)


def test_the_density_is_that_of_a_mixture_of_normals() -> None:
    distribution, movement = make(4, 7), torch.randn(4, 7, 2, dtype=torch.float64)
    expected = reference(distribution).log_prob(movement)
    assert torch.allclose(distribution.log_density(movement), expected, rtol=0, atol=1e-10)


def test_the_end_has_no_movement() -> None:
    distribution, movement = make(3), torch.randn(3, 2, dtype=torch.float64)
    pen = torch.tensor([DRAW, LIFT, END])
    expected = distribution.log_pen[torch.arange(3), pen]
    expected[:2] += reference(distribution).log_prob(movement)[:2]
    assert torch.allclose(distribution.log_probability(movement, pen), expected, rtol=0, atol=1e-10)


def test_samples_have_the_moments_of_the_mixture() -> None:
    count = 40_000
    single = make(1)
    many = StrokeDistribution(*(field.expand(count, *field.shape[1:]) for field in single))
    movement, pen = many.sample(torch.Generator().manual_seed(1))
    mixture = reference(single)
    error = 5 * mixture.variance[0].sqrt() / math.sqrt(count)  # five standard errors
    assert ((movement.mean(dim=0) - mixture.mean[0]).abs() < error).all()
    assert torch.allclose(movement.var(dim=0), mixture.variance[0], rtol=0.05)
    frequencies = torch.bincount(pen, minlength=3) / count
    assert torch.allclose(frequencies.double(), single.log_pen[0].exp(), rtol=0, atol=5 * 0.5 / math.sqrt(count))


def test_a_bias_makes_samples_tidier() -> None:
    distribution = make(2)
    tidy = distribution.biased(1.0)
    assert torch.allclose(tidy.deviations, distribution.deviations / math.e)
    assert (tidy.log_weights.max(dim=-1).values > distribution.log_weights.max(dim=-1).values).all()
    assert tidy.log_weights.exp().sum(dim=-1).tolist() == pytest.approx([1, 1])
    assert distribution.biased(0.0) is distribution


def test_some_rows_go_on() -> None:
    distribution = make(2)
    pen = distribution.without_end(torch.tensor([True, False])).log_pen.exp()
    draws, lifts, _ = distribution.log_pen[0].exp().tolist()
    assert pen[0].tolist() == pytest.approx([draws / (draws + lifts), lifts / (draws + lifts), 0])
    assert torch.allclose(pen[1], distribution.log_pen[1].exp())
