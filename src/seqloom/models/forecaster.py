"""Forecasters: an encoder, and a linear output for the following steps."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.data.batch import Padded
from seqloom.layers.layer import Memory
from seqloom.models.encoder import Encoder
from seqloom.models.pooling import LastPooling
from seqloom.state import apply


class Forecaster(nn.Module):
    """ŷ_{t+1…t+horizon} = W h_t + b at every step t (``every_step``), or at the last one only.

    With ``horizon_changes`` c it forecasts the change from the last value: ŷ_{t+k} = x_t + c_k ∘ (W_k h_t + b_k), which
    starts as the persistence forecast. ``separate`` forecasts each target from its own history, with shared weights.
    """

    targets: Tensor
    horizon_changes: Tensor | None

    def __init__(
        self,
        encoder: Encoder,
        horizon: int,
        *,
        targets: Sequence[int],  # columns of the input that are forecast
        every_step: bool = False,
        separate: bool = False,
        horizon_changes: Tensor | None = None,  # (horizon, targets), root mean square change after 1, 2, … steps
        first: int = 0,  # first feature that the encoder reads
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.size, horizon if separate else horizon * len(targets))
        self.last = None if every_step else LastPooling(encoder.size)
        self.horizon = horizon
        self.separate = separate
        self.first = first
        self.register_buffer("targets", torch.tensor(targets), persistent=False)
        self.register_buffer("horizon_changes", horizon_changes, persistent=False)
        if horizon_changes is not None:
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)

    def forward(
        self,
        inputs: Padded,  # (B, T, features, columns); the first feature is the value
        state: Any = None,
    ) -> tuple[Tensor, Any]:  # (B, T or 1, horizon, targets), state
        if self.separate:
            forecast, state = self._separate(inputs, state)
        else:
            memory = self.encoder(inputs.values[:, :, self.first :].flatten(2), inputs.mask, state)
            forecast, state = self.head(self._steps(memory)).unflatten(-1, (self.horizon, -1)), memory.state
        if self.horizon_changes is not None:
            values = inputs.values[:, :, 0].index_select(-1, self.targets)
            forecast = self._steps(Memory(values, inputs.mask, None)).unsqueeze(-2) + self.horizon_changes * forecast
        return forecast, state

    def _separate(self, inputs: Padded, state: Any) -> tuple[Tensor, Any]:
        """Each target as a row of the batch."""
        rows = (len(inputs.values), len(self.targets))
        values = inputs.values[:, :, self.first :].index_select(-1, self.targets).permute(0, 3, 1, 2).flatten(0, 1)
        if state is not None:
            state = apply(lambda part: part.flatten(0, 1), state)
        memory = self.encoder(values, inputs.mask.repeat_interleave(rows[1], dim=0), state)
        forecast = self.head(self._steps(memory)).unflatten(0, rows)  # (B, targets, T or 1, horizon)
        return forecast.permute(0, 2, 3, 1), apply(lambda part: part.unflatten(0, rows), memory.state)

    def _steps(self, memory: Memory) -> Tensor:
        return memory.values if self.last is None else self.last(memory).unsqueeze(1)
