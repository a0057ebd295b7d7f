"""What a forecaster predicts for each value: a number, quantiles, or the parameters of a distribution.

The network gives ``size`` numbers for each value. They are relative to a base forecast b, in units u of its usual
error: a value y is seen as (y − b) / u.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

MIN_SCALE = 1e-3  # smallest scale of a distribution, in units of the base forecast's error
MIN_FREEDOM = 2.0  # degrees of freedom, above which a Student distribution has a variance
COMPONENTS = 3  # of a mixture
BISECTIONS = 40  # of the quantiles of a mixture, which start from a range of a few units
EMPTY_SHARE = 0.1  # of the mean count, which is added to a base forecast, so that none is zero
MAX_LOG_RATIO = 10.0  # of an expected count and the base forecast
MAX_SUMMED = 1000.0  # expected count, above which quantiles follow from the first three moments

PointLoss = Callable[[Tensor, Tensor], Tensor]  # of numbers and the truth, one for each


class Reference(NamedTuple):
    """What the numbers of a network refer to."""

    base: Tensor  # (..., horizon, targets), base forecast, scaled
    unit: Tensor  # (horizon, targets), usual error of the base forecast, scaled


class ForecastDistribution(nn.Module, ABC):
    """Turns the numbers that a network gives for a value into a loss, a point forecast and quantiles."""

    size: int
    """Numbers for each value."""

    @abstractmethod
    def initial(self) -> Tensor:  # (size,)
        """The numbers before training: the base forecast, with its usual error."""

    @abstractmethod
    def loss(self, numbers: Tensor, truth: Tensor, reference: Reference) -> Tensor:  # (..., size), (...) → (...)
        """The loss of each value; the truth is scaled."""

    @abstractmethod
    def point(self, numbers: Tensor, reference: Reference) -> Tensor:  # (..., size) → (...)
        """The point forecast, scaled."""

    @abstractmethod
    def quantiles(self, numbers: Tensor, levels: Sequence[float], reference: Reference) -> Tensor:  # → (..., levels)
        """The values that the truth does not exceed with these probabilities, scaled and in ascending order."""

    can_move: bool = True
    """Whether forecasts can be moved and widened after training; counts cannot."""


class Point(ForecastDistribution):
    """One number, and no quantiles."""

    size = 1

    def __init__(self, point_loss: PointLoss) -> None:
        super().__init__()
        self.point_loss = point_loss

    def initial(self) -> Tensor:
        return torch.zeros(1)

    def loss(self, numbers: Tensor, truth: Tensor, reference: Reference) -> Tensor:
        return self.point_loss(self.point(numbers, reference), truth)

    def point(self, numbers: Tensor, reference: Reference) -> Tensor:
        return reference.base + reference.unit * numbers[..., 0]

    def quantiles(self, numbers: Tensor, levels: Sequence[float], reference: Reference) -> Tensor:  # noqa: ARG002
        return numbers.new_empty((*numbers.shape[:-1], 0))


class Quantiles(ForecastDistribution):
    """A point forecast, and quantiles that minimise the pinball loss (Koenker & Bassett 1978).

    Both have outputs of their own, so that the point forecast is what its loss makes it: the mean for squared errors,
    the median for absolute ones. Quantiles are sorted, so that none cross (Chernozhukov et al. 2010).
    """

    def __init__(self, point_loss: PointLoss, levels: Sequence[float], loss_unit: float) -> None:
        super().__init__()
        self.point_loss, self.levels, self.loss_unit = point_loss, tuple(levels), loss_unit
        self.size = 1 + len(self.levels)

    def initial(self) -> Tensor:
        return torch.cat([torch.zeros(1), normal_quantile(torch.tensor(self.levels))])

    def loss(self, numbers: Tensor, truth: Tensor, reference: Reference) -> Tensor:
        point = reference.base + reference.unit * numbers[..., 0]
        quantiles = self._raw(numbers, reference) / self.loss_unit
        # Twice the mean pinball loss over evenly spaced levels is the CRPS.
        pinball = pinball_losses(quantiles, truth.unsqueeze(-1) / self.loss_unit, self.levels).mean(dim=-1)
        return self.point_loss(point, truth) + 2 * pinball

    def point(self, numbers: Tensor, reference: Reference) -> Tensor:
        return reference.base + reference.unit * numbers[..., 0]

    def _raw(self, numbers: Tensor, reference: Reference) -> Tensor:
        return reference.base.unsqueeze(-1) + reference.unit.unsqueeze(-1) * numbers[..., 1:]

    def quantiles(self, numbers: Tensor, levels: Sequence[float], reference: Reference) -> Tensor:
        if tuple(levels) != self.levels:
            raise ValueError(f"the model was trained for the quantiles {self.levels}, not for {tuple(levels)}")
        return self._raw(numbers, reference).sort(dim=-1).values


class Gaussian(ForecastDistribution):
    """A normal distribution: its mean and standard deviation."""

    size = 2

    def initial(self) -> Tensor:
        return torch.tensor([0.0, _inverse_softplus(1.0)])

    def loss(self, numbers: Tensor, truth: Tensor, reference: Reference) -> Tensor:
        location, scale = _location_scale(numbers)
        return 0.5 * ((_standardized(truth, reference) - location) / scale).square() + scale.log() + HALF_LOG_2_PI

    def point(self, numbers: Tensor, reference: Reference) -> Tensor:
        return reference.base + reference.unit * numbers[..., 0]

    def quantiles(self, numbers: Tensor, levels: Sequence[float], reference: Reference) -> Tensor:
        location, scale = _location_scale(numbers)
        deviates = normal_quantile(numbers.new_tensor(levels))
        return _restored(location.unsqueeze(-1) + scale.unsqueeze(-1) * deviates, reference)


class StudentT(ForecastDistribution):
    """A Student distribution with a location and scale for each value, and learned degrees of freedom for each step."""

    size = 2

    def __init__(self, horizon: int) -> None:
        super().__init__()
        self.tail = nn.Parameter(torch.full((horizon, 1), _inverse_softplus(8.0)))

    @property
    def freedom(self) -> Tensor:  # (horizon, 1)
        return MIN_FREEDOM + nn.functional.softplus(self.tail)

    def initial(self) -> Tensor:
        return torch.tensor([0.0, _inverse_softplus(1.0)])

    def loss(self, numbers: Tensor, truth: Tensor, reference: Reference) -> Tensor:
        (location, scale), freedom = _location_scale(numbers), self.freedom
        squares = ((_standardized(truth, reference) - location) / scale).square() / freedom
        constant = torch.lgamma(freedom / 2) - torch.lgamma((freedom + 1) / 2) + 0.5 * (math.pi * freedom).log()
        return (freedom + 1) / 2 * squares.log1p() + scale.log() + constant

    def point(self, numbers: Tensor, reference: Reference) -> Tensor:
        return reference.base + reference.unit * numbers[..., 0]

    def quantiles(self, numbers: Tensor, levels: Sequence[float], reference: Reference) -> Tensor:
        location, scale = _location_scale(numbers)
        freedom = self.freedom.detach().double().cpu().numpy()[:, 0]
        deviates = numbers.new_tensor(np.stack([student_quantiles(levels, float(each)) for each in freedom]))
        return _restored(location.unsqueeze(-1) + scale.unsqueeze(-1) * deviates.unsqueeze(1), reference)


class GaussianMixture(ForecastDistribution):
    """A mixture of normal distributions: their weights, means and standard deviations (Bishop 1994)."""

    size = 3 * COMPONENTS

    def initial(self) -> Tensor:
        spread = torch.linspace(-0.5, 0.5, COMPONENTS)  # equal components would stay equal
        return torch.cat([torch.zeros(COMPONENTS), spread, torch.full((COMPONENTS,), _inverse_softplus(1.0))])

    @staticmethod
    def _parts(numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # each (..., components)
        logits, locations, scales = numbers.unflatten(-1, (3, COMPONENTS)).unbind(dim=-2)
        return logits.log_softmax(dim=-1), locations, nn.functional.softplus(scales) + MIN_SCALE

    def loss(self, numbers: Tensor, truth: Tensor, reference: Reference) -> Tensor:
        log_weights, locations, scales = self._parts(numbers)
        distances = (_standardized(truth, reference).unsqueeze(-1) - locations) / scales
        return -(log_weights - 0.5 * distances.square() - scales.log() - HALF_LOG_2_PI).logsumexp(dim=-1)

    def point(self, numbers: Tensor, reference: Reference) -> Tensor:
        log_weights, locations, _ = self._parts(numbers)
        return reference.base + reference.unit * (log_weights.exp() * locations).sum(dim=-1)

    def quantiles(self, numbers: Tensor, levels: Sequence[float], reference: Reference) -> Tensor:
        log_weights, locations, scales = (part.double() for part in self._parts(numbers))
        probabilities = locations.new_tensor(levels)
        # A quantile of the mixture lies between those of its components.
        ends = locations.unsqueeze(-1) + scales.unsqueeze(-1) * normal_quantile(
            probabilities
        )  # (..., components, levels)
        low, high = ends.amin(dim=-2), ends.amax(dim=-2)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            places = (middle.unsqueeze(-2) - locations.unsqueeze(-1)) / scales.unsqueeze(-1)
            below = (log_weights.exp().unsqueeze(-1) * torch.special.ndtr(places)).sum(dim=-2) < probabilities
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return _restored(((low + high) / 2).to(numbers.dtype), reference)


class NegativeBinomial(ForecastDistribution):
    """Counts with mean μ and variance μ + d μ²; the network gives log μ relative to the base forecast, and d."""

    size = 2
    can_move = False
    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Tensor, deviation: Tensor) -> None:  # (targets,) each, of the counts
        super().__init__()
        self.register_buffer("mean", mean, persistent=False)
        self.register_buffer("deviation", deviation, persistent=False)

    def initial(self) -> Tensor:
        return torch.tensor([0.0, _inverse_softplus(0.5)])

    def _parts(self, numbers: Tensor, reference: Reference) -> tuple[Tensor, Tensor]:
        base = (reference.base * self.deviation + self.mean).clamp(min=0) + EMPTY_SHARE * self.mean.clamp(min=MIN_SCALE)
        expected = base * numbers[..., 0].clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
        return expected, nn.functional.softplus(numbers[..., 1]) + MIN_SCALE

    def loss(self, numbers: Tensor, truth: Tensor, reference: Reference) -> Tensor:
        expected, dispersion = self._parts(numbers, reference)
        count, shape = (truth * self.deviation + self.mean).round().clamp(min=0), 1 / dispersion
        log_ways = torch.lgamma(count + shape) - torch.lgamma(shape) - torch.lgamma(count + 1)
        log_total = (expected + shape).log()
        return -(log_ways + shape * (shape.log() - log_total) + count * (expected.log() - log_total))

    def point(self, numbers: Tensor, reference: Reference) -> Tensor:
        return (self._parts(numbers, reference)[0] - self.mean) / self.deviation

    def quantiles(self, numbers: Tensor, levels: Sequence[float], reference: Reference) -> Tensor:
        expected, dispersion = (part.double() for part in self._parts(numbers, reference))
        counts = count_quantiles(expected, dispersion, levels)
        return ((counts - self.mean.unsqueeze(-1)) / self.deviation.unsqueeze(-1)).to(numbers.dtype)


HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)

LOSS_FUNCTIONS = {"mse": nn.functional.mse_loss, "mae": nn.functional.l1_loss, "huber": nn.functional.smooth_l1_loss}


def point_losses(forecast: Tensor, truth: Tensor, *, function: str, unit: float) -> Tensor:
    """The loss of each number by the name of its function, in a unit."""
    return LOSS_FUNCTIONS[function](forecast / unit, truth / unit, reduction="none")


def build_distribution(
    name: str,
    *,
    point_loss: PointLoss,
    unit: float,  # of the pinball loss
    levels: Sequence[float],
    horizon: int,
    counts: tuple[Tensor, Tensor],  # (targets,) each: means and deviations of the data
) -> ForecastDistribution:
    """The distribution of a name."""
    build: dict[str, Callable[[], ForecastDistribution]] = {
        "none": lambda: Point(point_loss),
        "quantiles": lambda: Quantiles(point_loss, levels, unit),
        "gaussian": Gaussian,
        "student_t": lambda: StudentT(horizon),
        "gaussian_mixture": GaussianMixture,
        "negative_binomial": lambda: NegativeBinomial(*counts),
    }
    return build[name]()


def pinball_losses(
    quantiles: Tensor, truth: Tensor, levels: Sequence[float]
) -> Tensor:  # (..., levels) → (..., levels)
    """α (y − q) where the truth y lies above the quantile q of level α, (1 − α) (q − y) below."""
    errors = truth - quantiles
    alphas = quantiles.new_tensor(levels)
    return torch.maximum(alphas * errors, (alphas - 1) * errors)


def normal_quantile(levels: Tensor) -> Tensor:
    """The quantiles of the standard normal distribution."""
    quantiles: Tensor = torch.special.ndtri(levels.double()).to(levels.dtype)
    return quantiles


def student_quantiles(levels: Sequence[float], freedom: float) -> NDArray[np.float64]:
    """The quantiles of Student's distribution.

    With t = √ν tan θ, its density is proportional to cos^(ν − 1) θ on (−π/2, π/2), which is summed up.
    """
    angles = np.linspace(-math.pi / 2, math.pi / 2, 20_001)
    density = np.cos(angles).clip(0) ** (freedom - 1)
    total = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return np.asarray(math.sqrt(freedom) * np.tan(np.interp(np.asarray(levels) * total[-1], total, angles)))


def count_quantiles(expected: Tensor, dispersion: Tensor, levels: Sequence[float]) -> Tensor:  # (...) → (..., levels)
    """The quantiles of negative binomial distributions: the smallest counts with at least these probabilities."""
    probabilities = expected.new_tensor(levels)
    # From the moments (Cornish & Fisher 1938), where sums would be long; their error is small beside such counts.
    variance = expected + dispersion * expected.square()
    skewness = (1 + 2 * dispersion * expected) / variance.clamp(min=MIN_SCALE).sqrt()
    deviates = normal_quantile(probabilities)
    moved = deviates + skewness.unsqueeze(-1) * (deviates.square() - 1) / 6
    result = (expected.unsqueeze(-1) + variance.sqrt().unsqueeze(-1) * moved).floor().clamp(min=0)
    small = expected <= MAX_SUMMED
    mean, shape = expected[small], 1 / dispersion[small]
    log_failure = (mean / (mean + shape)).log()
    probability = (shape * (shape / (mean + shape)).log()).exp()
    total, count = probability.clone(), 0
    counts_at = mean.new_full((*mean.shape, len(levels)), -1.0)
    while True:
        counts_at = torch.where((counts_at < 0) & (total.unsqueeze(-1) >= probabilities), float(count), counts_at)
        if (counts_at >= 0).all() or count > 100 * MAX_SUMMED:
            break
        count += 1
        probability = probability * log_failure.exp() * (shape + count - 1) / count
        total = total + probability
    result[small] = torch.where(counts_at < 0, result[small], counts_at)
    return result


def _location_scale(numbers: Tensor) -> tuple[Tensor, Tensor]:
    return numbers[..., 0], nn.functional.softplus(numbers[..., 1]) + MIN_SCALE


def _standardized(truth: Tensor, reference: Reference) -> Tensor:
    return (truth - reference.base) / torch.where(reference.unit > 0, reference.unit, 1.0)  # 0: it never changes


def _restored(values: Tensor, reference: Reference) -> Tensor:  # (..., levels)
    return reference.base.unsqueeze(-1) + reference.unit.unsqueeze(-1) * values


def _inverse_softplus(value: float) -> float:
    return math.log(math.expm1(value))
