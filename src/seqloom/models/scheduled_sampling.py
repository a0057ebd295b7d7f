"""Scheduled sampling: in training, a decoder also reads tokens of its own (Bengio et al. 2015)."""

import math
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.models.decoder import Decoder


class ScheduledSampling(ConfigSection):
    """The probability of feeding the reference token instead of the decoder's own, after i updates."""

    schedule: Literal["none", "linear", "exponential", "inverse_sigmoid"] = Field(
        "none",
        description="Schedule of the probability: none: always 1; linear: offset - slope × i; exponential: base^i; "
        "inverse_sigmoid: width / (width + e^(i / width)).",
    )
    offset: float = Field(1.0, ge=0, le=1, description="Linear schedule: initial probability.")
    slope: float = Field(1e-4, ge=0, description="Linear schedule: decrease per update.")
    base: float = Field(0.9999, gt=0, lt=1, description="Exponential schedule: factor per update.")
    width: float = Field(1000.0, ge=1, description="Inverse sigmoid schedule: approximate updates before the decay.")
    floor: float = Field(0.0, ge=0, le=1, description="Lower bound of the probability.")
    feedback: Literal["sample", "argmax"] = Field(
        "sample",
        description="How the decoder's own token is chosen: sampled from its distribution, or the most probable.",
    )

    def probability(self, update: int) -> float:
        """The probability of feeding the reference token."""
        if self.schedule == "none":
            return 1.0
        if self.schedule == "linear":
            probability = self.offset - self.slope * update
        elif self.schedule == "exponential":
            probability = self.base**update
        else:  # in this form a large exponent does not overflow
            probability = 1 / (1 + math.exp(min(update / self.width - math.log(self.width), 700.0)))
        return min(max(probability, self.floor), 1.0)


class TokenMixer(nn.Module):
    """Mixes reference tokens and the decoder's own; it saves the count of updates, so that runs resume exactly."""

    updates: Tensor

    def __init__(self, settings: ScheduledSampling) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def after_update(self) -> None:
        """Called once after each update of the training."""
        self.updates += 1

    @torch.no_grad()
    def forward(
        self,
        decoder: Decoder,
        state: Any,  # before the first token
        tokens: Tensor,  # (B, T), reference inputs of the decoder
        *,
        suppress: tuple[int, ...] = (),  # tokens that are never drawn
    ) -> Tensor:  # (B, T)
        """The inputs with some tokens replaced by what the decoder predicts from the mixed tokens before them."""
        probability = self.settings.probability(int(self.updates))
        if probability == 1:
            return tokens
        keep = torch.rand(tokens.shape, device=tokens.device) < probability
        mixed = [tokens[:, 0]]
        for time in range(1, tokens.shape[1]):
            logits, state = decoder(mixed[-1].unsqueeze(1), state)
            scores = logits[:, 0]
            scores[:, list(suppress)] = -torch.inf
            predicted = scores.argmax(dim=-1) if self.settings.feedback == "argmax" else self._sample(scores)
            mixed.append(torch.where(keep[:, time], tokens[:, time], predicted))
        return torch.stack(mixed, dim=1)

    def _sample(self, scores: Tensor) -> Tensor:  # (B, V) → (B,)
        return torch.multinomial(scores.softmax(dim=-1), 1).squeeze(1)
