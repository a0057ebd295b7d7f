"""A network that plays a piano: it reads the frames so far, and gives the distribution of the next one."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqloom.data.batch import Padded
from seqloom.data.readers.midi import KEYS
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.note_distribution import IndependentNotes, Nade

MIN_PROBABILITY = 1e-3  # lower bound of the initial probability that a key sounds


class NoteLikelihoods(NamedTuple):
    """How probable frames are."""

    log_odds: Tensor  # (B, T, K), of each key, given the frames before and the lower keys of its frame
    log_probability: Tensor  # (B, T), of the whole frame
    state: Any  # of the layers, after the last frame


class Transposition(nn.Module):
    """Moves each piece by a random number of semitones that keeps it on the keyboard. Eval mode: the identity."""

    def __init__(self, semitones: int) -> None:
        super().__init__()
        self.semitones = semitones

    def forward(
        self,
        frames: Padded,  # (B, T, K)
        following: Tensor,  # (B, T, K)
    ) -> tuple[Padded, Tensor]:
        if not self.training or not self.semitones:
            return frames, following
        keys = torch.arange(KEYS, device=following.device)
        sounding = ((frames.values > 0) | (following > 0)) & frames.mask.unsqueeze(-1)
        used = sounding.any(dim=1)  # (B, K)
        lowest = keys.where(used, KEYS).amin(dim=1)
        highest = keys.where(used, -1).amax(dim=1)
        down, up = lowest.clamp(max=self.semitones), (KEYS - 1 - highest).clamp(max=self.semitones)
        shift = (torch.rand(len(used), device=following.device) * (down + up + 1)).long() - down
        place = ((keys - shift.unsqueeze(1)) % KEYS).unsqueeze(1).expand_as(following)
        return frames._replace(values=frames.values.gather(2, place)), following.gather(2, place)

    def extra_repr(self) -> str:
        return f"semitones={self.semitones}"


class MusicModel(nn.Module):
    """Recurrent or Transformer layers over frames of keys, and the distribution of the keys of the next frame."""

    def __init__(
        self,
        prenet: PrenetConfig,
        recurrence: RecurrenceConfig,
        *,
        nade_size: int,  # hidden units of the joint distribution; 0: keys are independent
        transpose: int = 0,  # semitones by which pieces are moved at random in training
        frequencies: Tensor | None = None,  # (K,), how often each key sounds, from which training starts
    ) -> None:
        super().__init__()
        self.transposition = Transposition(transpose)
        self.layer = build_stack(prenet, recurrence, KEYS, causal=True)
        is_variational = recurrence.variational_dropout
        self.dropout = (VariationalDropout if is_variational else Dropout)(recurrence.dropout)
        size = self.layer.output_size
        self.notes: IndependentNotes | Nade = (
            Nade(size, KEYS, units=nade_size) if nade_size else IndependentNotes(size, KEYS)
        )
        if frequencies is not None:
            self.notes.bias.bias.data = frequencies.clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY).logit()

    def forward(
        self,
        frames: Padded,  # (B, T, K), each before the one that it predicts
        following: Tensor,  # (B, T, K)
        state: Any = None,
    ) -> NoteLikelihoods:
        """How probable the following frames are."""
        frames, following = self.transposition(frames, following)
        values, state = self.layer(frames.values, frames.mask, state)
        log_odds = self.notes(self.dropout(values), following)
        losses = functional.binary_cross_entropy_with_logits(log_odds, following, reduction="none")
        return NoteLikelihoods(log_odds, -losses.sum(dim=-1), state)

    @torch.no_grad()
    def sample(
        self,
        prime: Tensor,  # (B, P, K), frames to continue, which are not returned; P may be 0
        *,
        length: int,  # frames
        temperature: float,  # 1: as the model has learned; 0: only keys that are more probable than not
        generator: torch.Generator,
    ) -> Tensor:  # (B, length, K)
        """Frames that follow."""
        frame = prime.new_zeros(len(prime), 1, KEYS)
        state = None
        if prime.shape[1]:
            _, state = self.layer(torch.cat([frame, prime[:, :-1]], dim=1), None, None)
            frame = prime[:, -1:]
        played = []
        for _ in range(length):
            values, state = self.layer(frame, None, state)
            frame = self.notes.sample(values.squeeze(1), temperature=temperature, generator=generator).unsqueeze(1)
            played.append(frame)
        return torch.cat(played, dim=1) if played else prime[:, :0]
