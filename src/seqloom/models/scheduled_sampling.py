"""Scheduled sampling: a decoder learns to go on from what it has said itself (Bengio et al. 2015)."""

import math
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.models.decoder import Decoder


class ScheduledSampling(ConfigSection):
    """How often the decoder reads the true symbol in training, instead of one of its own, after i updates."""

    schedule: Literal["none", "linear", "exponential", "inverse_sigmoid"] = Field(
        "none",
        description="none: always the true one; linear: offset - slope × i; exponential: base^i; "
        "inverse_sigmoid: width / (width + e^(i / width)).",
    )
    offset: float = Field(1.0, ge=0, le=1, description="linear: the share at the beginning.")
    slope: float = Field(1e-4, ge=0, description="linear: how much less it is after each update.")
    base: float = Field(0.9999, gt=0, lt=1, description="exponential: the share is multiplied by it at each update.")
    width: float = Field(1000.0, ge=1, description="inverse_sigmoid: updates until it begins to fall, about.")
    floor: float = Field(0.0, ge=0, le=1, description="It never falls below this share.")
    feedback: Literal["sample", "argmax"] = Field(
        "sample",
        description="How the decoder's own token is chosen: sampled from its distribution, or the most probable.",
    )

    def share(self, update: int) -> float:
        """Of true symbols."""
        if self.schedule == "none":
            return 1.0
        if self.schedule == "linear":
            found = self.offset - self.slope * update
        elif self.schedule == "exponential":
            found = self.base**update
        else:  # the logarithm keeps a large exponent from overflowing
            found = 1 / (1 + math.exp(min(update / self.width - math.log(self.width), 700.0)))
        return min(max(found, self.floor), 1.0)


class TokenMixer(nn.Module):
    """Mixes what a decoder reads; it counts the updates, so that a run that is resumed goes on as it would have."""

    updates: Tensor

    def __init__(self, settings: ScheduledSampling) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def updated(self) -> None:
        """Called by the training after each update, once whatever the number of parts and processes."""
        self.updates += 1

    @torch.no_grad()
    def forward(
        self,
        decoder: Decoder,
        state: Any,  # before the first symbol
        tokens: Tensor,  # (B, T), the true ones, each before the one that is to be said
        *,
        suppress: tuple[int, ...] = (),  # tokens that are never drawn
    ) -> Tensor:  # (B, T)
        """The same with some symbols replaced by those that the decoder says after the mixed ones before them."""
        share = self.settings.share(int(self.updates))
        if share == 1:
            return tokens
        truth = torch.rand(tokens.shape, device=tokens.device) < share
        mixed = [tokens[:, 0]]
        for time in range(1, tokens.shape[1]):
            logits, state = decoder(mixed[-1].unsqueeze(1), state)
            scores = logits[:, 0]
            scores[:, list(suppress)] = -torch.inf
            said = scores.argmax(dim=-1) if self.settings.feedback == "argmax" else self._draw(scores)
            mixed.append(torch.where(truth[:, time], tokens[:, time], said))
        return torch.stack(mixed, dim=1)

    def _draw(self, scores: Tensor) -> Tensor:  # (B, V) → (B,)
        return torch.multinomial(scores.softmax(dim=-1), 1).squeeze(1)
