"""The next movement of a pen: a mixture of Gaussians, and whether it draws, lifts or ends (Graves 2013)."""

import math
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional

DRAW, LIFT, END = range(3)  # states of the pen: the line goes on, ends here, or this was the last point
PEN_STATES = 3
MIN_DEVIATION = 1e-3  # of a Gaussian, in units of the usual movement
MAX_CORRELATION = 0.999


class StrokeDistribution(NamedTuple):
    """The distribution of the next movement (dx, dy), in units of the usual one, and of the state of the pen."""

    log_weights: Tensor  # (..., K)
    means: Tensor  # (..., K, 2)
    deviations: Tensor  # (..., K, 2)
    correlations: Tensor  # (..., K)
    log_pen: Tensor  # (..., 3), of DRAW, LIFT and END

    @staticmethod
    def size(components: int) -> int:
        """The number of values that describe a distribution."""
        return 6 * components + PEN_STATES

    @classmethod
    def of(cls, values: Tensor, components: int) -> Self:
        """The distribution that the outputs (..., 6 K + 3) of a network describe."""
        weights, means, deviations, correlations, pen = values.split(
            [components, 2 * components, 2 * components, components, PEN_STATES], dim=-1
        )
        return cls(
            weights.log_softmax(dim=-1),
            means.unflatten(-1, (components, 2)),
            functional.softplus(deviations.unflatten(-1, (components, 2))) + MIN_DEVIATION,
            MAX_CORRELATION * torch.tanh(correlations),
            pen.log_softmax(dim=-1),
        )

    def log_density(self, movement: Tensor) -> Tensor:  # (..., 2) → (...)
        """The logarithm of the density of a movement."""
        distance = (movement.unsqueeze(-2) - self.means) / self.deviations  # (..., K, 2)
        x, y = distance.unbind(dim=-1)
        rest = 1 - self.correlations.square()
        exponent = (x.square() + y.square() - 2 * self.correlations * x * y) / (2 * rest)
        norm = math.log(2 * math.pi) + self.deviations.log().sum(dim=-1) + 0.5 * rest.log()
        return torch.logsumexp(self.log_weights - exponent - norm, dim=-1)

    def log_probability(
        self,
        movement: Tensor,  # (..., 2)
        pen: Tensor,  # (...), state of the pen; at the end there is no movement
    ) -> Tensor:  # (...)
        """The log-probability of a step."""
        log_pen = self.log_pen.gather(-1, pen.unsqueeze(-1)).squeeze(-1)
        return log_pen + self.log_density(movement).masked_fill(pen == END, 0)

    def biased(self, bias: float) -> Self:
        """A tidier distribution (Graves 2013, section 5.4): probable components and small deviations are favoured."""
        if bias == 0:
            return self
        return self._replace(
            log_weights=(self.log_weights * (1 + bias)).log_softmax(dim=-1),
            deviations=self.deviations * math.exp(-bias),
        )

    def without_end(self, steps: Tensor) -> Self:  # (...), True: the pen must not end
        """The same distributions, some of which must go on."""
        never = torch.zeros_like(self.log_pen, dtype=torch.bool)
        never[..., END] = steps
        return self._replace(log_pen=self.log_pen.masked_fill(never, -math.inf).log_softmax(dim=-1))

    def sample(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:  # (B, 2), (B,)
        """Draw a movement and a state of the pen from each of B distributions."""
        pen = torch.multinomial(self.log_pen.exp(), 1, generator=generator).squeeze(-1)
        component = torch.multinomial(self.log_weights.exp(), 1, generator=generator).squeeze(-1)
        rows = torch.arange(len(component), device=component.device)
        mean, deviation = self.means[rows, component], self.deviations[rows, component]
        correlation = self.correlations[rows, component]
        noise = torch.randn(len(rows), 2, generator=generator, dtype=mean.dtype, device=mean.device)
        y = correlation * noise[:, 0] + (1 - correlation.square()).sqrt() * noise[:, 1]
        return mean + deviation * torch.stack([noise[:, 0], y], dim=-1), pen
