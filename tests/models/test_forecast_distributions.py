"""Distributions of forecasts: likelihoods and quantiles compared with SciPy, gradients with finite differences."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats
from torch import Tensor

from seqloom.models.forecast_distributions import (
    ForecastDistribution,
    Gaussian,
    GaussianMixture,
    NegativeBinomial,
    Point,
    Quantiles,
    Reference,
    StudentT,
    build_distribution,
    count_quantiles,
    pinball_losses,
    point_losses,
    student_quantiles,
)

LEVELS = (0.025, 0.1, 0.5, 0.9, 0.975)
HORIZON, TARGETS = 3, 2
squared = partial(point_losses, function="mse", unit=1.0)


def numbers(size: int, *, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    return torch.randn(4, 1, HORIZON, TARGETS, size, dtype=torch.float64)


def reference(*, seed: int = 1) -> Reference:
    torch.manual_seed(seed)
    base = torch.randn(4, 1, HORIZON, TARGETS, dtype=torch.float64)
    return Reference(base, torch.rand(HORIZON, TARGETS, dtype=torch.float64) + 0.5)


def softplus(values: Tensor) -> np.ndarray:
    return np.asarray(np.log1p(np.exp(values.numpy())) + 1e-3)


def expand(values: Tensor) -> np.ndarray:
    return values.expand(4, 1, HORIZON, TARGETS).numpy()


def test_gaussian_against_scipy() -> None:
    given, at = numbers(2), reference()
    truth = numbers(1, seed=2)[..., 0]
    unit = expand(at.unit)
    normal = stats.norm(at.base.numpy() + unit * given[..., 0].numpy(), unit * softplus(given[..., 1]))
    model = Gaussian()
    expected = -normal.logpdf(truth.numpy()) - np.log(unit)  # the likelihood is that of values in units
    np.testing.assert_allclose(model.loss(given, truth, at).numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(model.point(given, at).numpy(), normal.mean(), rtol=1e-12)
    for place, level in enumerate(LEVELS):
        np.testing.assert_allclose(model.quantiles(given, LEVELS, at)[..., place], normal.ppf(level), rtol=1e-6)


def test_student_against_scipy() -> None:
    model = StudentT(HORIZON).double()
    with torch.no_grad():
        model.tail.copy_(torch.tensor([[-2.0], [1.0], [3.0]]))
    given, at, truth = numbers(2), reference(), numbers(1, seed=2)[..., 0]
    unit, freedom = expand(at.unit), expand(model.freedom.detach())
    student = stats.t(freedom, at.base.numpy() + unit * given[..., 0].numpy(), unit * softplus(given[..., 1]))
    expected = -student.logpdf(truth.numpy()) - np.log(unit)
    np.testing.assert_allclose(model.loss(given, truth, at).detach().numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(model.point(given, at).numpy(), student.mean(), rtol=1e-12)
    for place, level in enumerate(LEVELS):  # summed on a grid of 20,000 angles
        np.testing.assert_allclose(model.quantiles(given, LEVELS, at)[..., place], student.ppf(level), atol=1e-4)


@pytest.mark.parametrize("freedom", [2.05, 3.0, 12.5, 200.0])
def test_student_quantiles(freedom: float) -> None:
    levels = (0.001, 0.025, 0.3, 0.5, 0.8, 0.999)
    np.testing.assert_allclose(student_quantiles(levels, freedom), stats.t(freedom).ppf(levels), rtol=1e-4, atol=1e-9)


def test_mixture_against_numerical_integration() -> None:
    model, at = GaussianMixture(), reference()
    given, truth = numbers(9), numbers(1, seed=2)[..., 0]
    losses, points, quantiles = model.loss(given, truth, at), model.point(given, at), model.quantiles(given, LEVELS, at)
    for index in ((0, 0, 0, 0), (3, 0, 2, 1), (1, 0, 1, 0)):
        row = given[index].numpy()
        weights, centres, scales = np.exp(row[:3]) / np.exp(row[:3]).sum(), row[3:6], np.log1p(np.exp(row[6:])) + 1e-3
        base, unit = at.base[index].item(), at.unit[index[2:]].item()

        def density(z: float, w=weights, m=centres, s=scales) -> float:  # type: ignore[no-untyped-def]
            return float((w * stats.norm(m, s).pdf(z)).sum())

        assert losses[index].item() == pytest.approx(-math.log(density((truth[index].item() - base) / unit)), rel=1e-9)
        mean = integrate.quad(lambda z: z * density(z), -40, 40, limit=300)[0]
        assert points[index].item() == pytest.approx(base + unit * mean, rel=1e-6)
        for place, level in enumerate(LEVELS):
            expected = optimize.brentq(
                lambda z, w=weights, m=centres, s=scales, a=level: float((w * stats.norm(m, s).cdf(z)).sum() - a),
                -60,
                60,
            )
            assert quantiles[index][place].item() == pytest.approx(base + unit * expected, abs=1e-5)


def test_counts_against_scipy() -> None:
    mean, deviation = torch.tensor([5.0, 40.0], dtype=torch.float64), torch.tensor([3.0, 25.0], dtype=torch.float64)
    model, given, at = NegativeBinomial(mean, deviation), numbers(2), reference()
    counts = torch.randint(0, 60, (4, 1, HORIZON, TARGETS)).double()
    base = (at.base * deviation + mean).clamp(min=0) + 0.1 * mean
    expected, dispersion = (base * given[..., 0].exp()).numpy(), softplus(given[..., 1])
    shape = 1 / dispersion
    binomial = stats.nbinom(shape, shape / (shape + expected))
    np.testing.assert_allclose(
        model.loss(given, (counts - mean) / deviation, at).numpy(), -binomial.logpmf(counts.numpy()), rtol=1e-6
    )
    np.testing.assert_allclose((model.point(given, at) * deviation + mean).numpy(), binomial.mean(), rtol=1e-9)
    found = model.quantiles(given, LEVELS, at) * deviation.unsqueeze(-1) + mean.unsqueeze(-1)
    for place, level in enumerate(LEVELS):
        np.testing.assert_allclose(found[..., place].numpy(), binomial.ppf(level), atol=1e-6)


def test_quantiles_of_large_counts_follow_from_moments() -> None:
    expected, dispersion = torch.tensor([5000.0]).double(), torch.tensor([0.02]).double()
    exact = stats.nbinom(50, 50 / 5050).ppf(LEVELS)
    np.testing.assert_allclose(count_quantiles(expected, dispersion, LEVELS)[0].numpy(), exact, rtol=2e-3)


def test_the_pinball_loss_is_least_at_the_quantile() -> None:
    sample = torch.tensor(np.random.default_rng(0).exponential(size=20_001))
    grid = torch.linspace(0, 5, 501, dtype=torch.float64)
    for level in (0.1, 0.5, 0.9):
        means = pinball_losses(grid.expand(len(sample), -1), sample.unsqueeze(1), [level] * len(grid)).mean(dim=0)
        # The grid has steps of 0.01.
        assert grid[means.argmin()].item() == pytest.approx(np.quantile(sample.numpy(), level), abs=0.01)


def test_quantiles_do_not_cross_and_the_point_keeps_its_loss() -> None:
    model = Quantiles(squared, LEVELS, 1.0)
    given, at, truth = numbers(6), reference(), numbers(1, seed=2)[..., 0]
    found = model.quantiles(given, LEVELS, at)
    assert (found.diff(dim=-1) >= 0).all()
    raw = at.base.unsqueeze(-1) + at.unit.unsqueeze(-1) * given[..., 1:]
    assert not (raw.diff(dim=-1) >= 0).all()  # the network's outputs did cross
    alphas, errors = np.array(LEVELS), (truth.unsqueeze(-1) - raw).numpy()
    pinball = np.where(errors >= 0, alphas * errors, (alphas - 1) * errors).mean(axis=-1)
    point = (model.point(given, at) - truth).square().numpy()
    np.testing.assert_allclose(model.loss(given, truth, at).numpy(), point + 2 * pinball, rtol=1e-9)
    with pytest.raises(ValueError, match=r"trained for the quantiles"):
        model.quantiles(given, (0.1,), at)


NAMES = ("none", "quantiles", "gaussian", "student_t", "gaussian_mixture", "negative_binomial")


def built(name: str) -> ForecastDistribution:
    counts = torch.tensor([5.0, 40.0]).double(), torch.tensor([3.0, 25.0]).double()
    return build_distribution(
        name, point_loss=squared, unit=1.0, levels=LEVELS, horizon=HORIZON, counts=counts
    ).double()


@pytest.mark.parametrize("name", NAMES)
def test_gradients_and_the_start(name: str) -> None:
    model, at = built(name), reference()
    given = numbers(model.size).requires_grad_()
    truth = numbers(1, seed=2)[..., 0]
    if name == "negative_binomial":
        truth = (torch.randint(0, 30, truth.shape) - torch.tensor([5.0, 40.0])) / torch.tensor([3.0, 25.0])
        truth = truth.double()
    assert torch.autograd.gradcheck(lambda each: model.loss(each, truth, at), (given,))
    start = model.initial().double().expand(4, 1, HORIZON, TARGETS, -1)
    if name != "negative_binomial":  # whose base is never zero
        torch.testing.assert_close(model.point(start, at), at.base, atol=1e-6, rtol=0)
    assert model.quantiles(start, LEVELS, at).shape[-1] == (0 if isinstance(model, Point) else len(LEVELS))


def test_an_unchanging_column_has_a_finite_loss() -> None:
    at = reference()._replace(unit=torch.zeros(HORIZON, TARGETS, dtype=torch.float64))
    for name in ("gaussian", "student_t", "gaussian_mixture"):
        model = built(name)
        assert torch.isfinite(model.loss(numbers(model.size), at.base, at)).all()
