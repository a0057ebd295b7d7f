"""Forecasters: an encoder, and a linear output for the following steps."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.data.batch import Padded
from seqloom.layers.layer import Memory
from seqloom.models.encoder import Encoder
from seqloom.models.forecast_distributions import ForecastDistribution, Point, Reference
from seqloom.models.pooling import LastPooling
from seqloom.state import apply


class ForecastInputs(NamedTuple):
    """Histories with covariates: values that are known in advance, such as the weekday or a price."""

    values: Tensor  # (B, T, features, columns)
    mask: Tensor  # (B, T), True where real
    known: Tensor  # (B, T, covariates) of the rows of the history
    future: Tensor  # (B, T or 1, horizon, covariates) of the rows to forecast

    @property
    def lengths(self) -> Tensor:  # (B,)
        return self.mask.sum(dim=1)


class ForecastOutput(NamedTuple):
    """A forecast, scaled as the inputs are."""

    point: Tensor  # (B, T or 1, horizon, targets)
    quantiles: Tensor  # (B, T or 1, horizon, targets, levels)


class LinearBase(NamedTuple):
    """A linear forecast of each target from the end of its own history, the same for all targets."""

    weight: Tensor  # (horizon, length)
    bias: Tensor  # (horizon,)
    unit: Tensor  # (horizon, targets), its usual error


class Forecaster(nn.Module):
    """ŷ_{t+1…t+horizon} = W h_t + b at every step t (``every_step``), or at the last one only.

    With ``horizon_changes`` c it forecasts the change from the last value: ŷ_{t+k} = x_t + c_k ∘ (W_k h_t + b_k), which
    starts as the persistence forecast; with a ``linear`` base, the change from the linear forecast. ``separate``
    forecasts each target from its own history, with shared weights. A ``distribution`` makes quantiles of several
    outputs per value.
    """

    targets: Tensor
    horizon_changes: Tensor | None
    linear_weight: Tensor | None
    linear_bias: Tensor | None
    shrinkage: Tensor | None
    interval_shifts: Tensor | None

    def __init__(
        self,
        encoder: Encoder,
        horizon: int,
        *,
        targets: Sequence[int],  # columns of the input that are forecast
        every_step: bool = False,
        separate: bool = False,
        horizon_changes: Tensor | None = None,  # (horizon, targets), root mean square change after 1, 2, … steps
        linear: LinearBase | None = None,  # not with every_step
        first: int = 0,  # first feature that the encoder reads
        covariates: int = 0,
        distribution: ForecastDistribution | None = None,  # None: one number for each value
        levels: Sequence[float] = (),  # of the quantiles
        calibrated: bool = False,  # forecasts can be adjusted after training
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.distribution = distribution or Point(nn.functional.mse_loss)
        outputs = self.distribution.size * (1 if separate else len(targets))
        self.head = nn.Linear(encoder.size, horizon * outputs)
        self.last = None if every_step else LastPooling(encoder.size)
        self.horizon, self.separate, self.first, self.levels = horizon, separate, first, tuple(levels)
        self.future = FutureHead(encoder.size, covariates, outputs) if covariates else None
        self.register_buffer("targets", torch.tensor(targets), persistent=False)
        self.register_buffer("horizon_changes", horizon_changes if linear is None else linear.unit, persistent=False)
        self.register_buffer("linear_weight", None if linear is None else linear.weight, persistent=False)
        self.register_buffer("linear_bias", None if linear is None else linear.bias, persistent=False)
        can_move = calibrated and self.distribution.can_move
        self.register_buffer("shrinkage", torch.ones(()) if can_move else None)
        self.register_buffer("interval_shifts", torch.zeros(len(levels)) if can_move else None)
        if self.horizon_changes is not None or self.distribution.size > 1:
            nn.init.zeros_(self.head.weight)
            self.head.bias.data = self.distribution.initial().repeat(self.head.out_features // self.distribution.size)

    def forward(
        self,
        inputs: Padded | ForecastInputs,  # values (B, T, features, columns); the first feature is the value
        state: Any = None,
    ) -> tuple[Tensor, Any]:  # (B, T or 1, horizon, targets), state
        """The point forecast."""
        numbers, reference, state = self.numbers(inputs, state)
        return self._moved(self.distribution.point(numbers, reference), reference), state

    def forecast(self, inputs: Padded | ForecastInputs, state: Any = None) -> tuple[ForecastOutput, Any]:
        """The point forecast and the quantiles."""
        numbers, reference, state = self.numbers(inputs, state)
        point = self.distribution.point(numbers, reference)
        quantiles = self.distribution.quantiles(numbers, self.levels, reference)
        moved = self._moved(point, reference)
        if self.interval_shifts is not None and self.levels:
            quantiles = quantiles + (moved - point).unsqueeze(-1)
            spread = quantiles[..., -1:] - quantiles[..., :1]
            quantiles = (quantiles + self.interval_shifts * spread).sort(dim=-1).values
        return ForecastOutput(moved, quantiles), state

    def calibrate(self, shrinkage: float = 1.0, interval_shifts: Sequence[float] = ()) -> None:
        """Set what is adjusted after training; without arguments, as the network was trained."""
        if self.shrinkage is not None:
            self.shrinkage.fill_(shrinkage)
        if self.interval_shifts is not None:
            self.interval_shifts.copy_(torch.tensor(interval_shifts or [0.0] * len(self.levels)))

    def numbers(
        self, inputs: Padded | ForecastInputs, state: Any = None
    ) -> tuple[Tensor, Reference, Any]:  # (B, T or 1, horizon, targets, size), …, state
        """What the network gives for each value, and what that refers to."""
        memory = self._encode(inputs, state)
        steps = self._steps(memory)
        numbers = self.head(steps).unflatten(-1, (self.horizon, -1))
        if self.future is not None and isinstance(inputs, ForecastInputs):
            future = inputs.future.repeat_interleave(len(self.targets), dim=0) if self.separate else inputs.future
            numbers = numbers + self.future(steps, future)
        after = memory.state
        if self.separate:  # (B · targets, T or 1, horizon, size)
            rows = (len(inputs.values), len(self.targets))
            numbers = numbers.unflatten(0, rows).permute(0, 2, 3, 1, 4)
            after = apply(lambda part: part.unflatten(0, rows), after)
        else:
            numbers = numbers.unflatten(-1, (len(self.targets), -1))
        return numbers, self._reference(inputs, numbers), after

    def _encode(self, inputs: Padded | ForecastInputs, state: Any) -> Memory:
        """What the encoder makes of the history; ``separate``: each target is a row of the batch."""
        known = inputs.known if isinstance(inputs, ForecastInputs) else None
        values, mask = inputs.values[:, :, self.first :], inputs.mask
        if self.separate:
            count = len(self.targets)
            values = values.index_select(-1, self.targets).permute(0, 3, 1, 2).flatten(0, 1)
            mask = mask.repeat_interleave(count, dim=0)
            known = None if known is None else known.repeat_interleave(count, dim=0)
            if state is not None:
                state = apply(lambda part: part.flatten(0, 1), state)
        else:
            values = values.flatten(2)
        memory: Memory = self.encoder(values if known is None else torch.cat([values, known], dim=-1), mask, state)
        return memory

    def _reference(self, inputs: Padded | ForecastInputs, numbers: Tensor) -> Reference:
        if self.horizon_changes is None:
            return Reference(numbers.new_zeros(()), numbers.new_ones(numbers.shape[2:4]))
        values = inputs.values[:, :, 0].index_select(-1, self.targets)  # (B, T, targets)
        if self.linear_weight is None or self.linear_bias is None:
            base = self._steps(Memory(values, inputs.mask, None)).unsqueeze(-2)
            return Reference(base.expand(numbers.shape[:-1]), self.horizon_changes)
        length = self.linear_weight.shape[1]
        # The end of each history; one that is too short starts with its first value, repeated.
        places = inputs.lengths.unsqueeze(1) - length + torch.arange(length, device=values.device)
        recent = values.gather(1, places.clamp(min=0).unsqueeze(-1).expand(-1, -1, values.shape[2]))
        base = torch.einsum("hl,bld->bhd", self.linear_weight, recent) + self.linear_bias.unsqueeze(-1)
        return Reference(base.unsqueeze(1), self.horizon_changes)

    def _moved(self, point: Tensor, reference: Reference) -> Tensor:
        """The point forecast, closer to its base where that was better on the development data."""
        return point if self.shrinkage is None else reference.base + self.shrinkage * (point - reference.base)

    def _steps(self, memory: Memory) -> Tensor:
        return memory.values if self.last is None else self.last(memory).unsqueeze(1)


class FutureHead(nn.Module):
    """What covariates of the steps to forecast change: V tanh(U h_t + C z_{t+k}) at each step k, at first nothing."""

    def __init__(self, size: int, covariates: int, outputs: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(size, size)
        self.covariates = nn.Linear(covariates, size, bias=False)
        self.outputs = nn.Linear(size, outputs, bias=False)
        nn.init.zeros_(self.outputs.weight)

    def forward(
        self,
        hidden: Tensor,  # (B, T or 1, size)
        future: Tensor,  # (B, T or 1, horizon, covariates)
    ) -> Tensor:  # (B, T or 1, horizon, outputs)
        mixed: Tensor = self.outputs(torch.tanh(self.hidden(hidden).unsqueeze(2) + self.covariates(future)))
        return mixed
