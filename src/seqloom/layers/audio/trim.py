"""Removal of the silence before and after speech."""

import math

import torch
from torch import Tensor, nn

from seqloom.layers.layer import check_input

BLOCK_SECONDS = 0.02  # the level is measured in blocks of this length
SILENCE = 1e-10  # energy that is added to each block, so that a recording of zeros is not trimmed


class TrimSilence(nn.Module):
    """Cuts off the silence at both ends of each row: (B, N) samples → (B, N') samples.

    A row keeps its samples from the first to the last block of 20 ms whose energy is at most ``top_db`` below that of
    its loudest block, as with ``librosa.effects.trim``, and at least ``shortest`` samples.
    """

    def __init__(self, sample_rate: int, *, top_db: float, shortest: int = 1) -> None:
        super().__init__()
        if top_db <= 0:
            raise ValueError(f"top_db must be greater than 0, got {top_db}")
        self.block = max(round(sample_rate * BLOCK_SECONDS), 1)  # samples
        self.top_db = top_db
        self.shortest = shortest  # samples

    @property
    def threshold(self) -> float:
        """The energy of a block relative to the loudest one from which on it is kept."""
        return 10 ** (-self.top_db / 10)

    def forward(
        self,
        samples: Tensor,  # (B, N)
        mask: Tensor | None = None,  # (B, N), True where real; right-padded
    ) -> tuple[Tensor, Tensor]:  # (B, N'), zero in the padding; (B, N')
        check_input(samples.unsqueeze(-1), mask, size=1, like=samples)
        mask = samples.new_ones(samples.shape, dtype=torch.bool) if mask is None else mask
        samples = samples.masked_fill(~mask, 0)
        if not samples.numel():
            return samples, mask
        start, stop = self.bounds(samples, mask.sum(dim=1))
        lengths = stop - start
        positions = torch.arange(int(lengths.max()), device=samples.device)
        real = positions < lengths.unsqueeze(1)
        taken = (positions + start.unsqueeze(1)).clamp(max=samples.shape[1] - 1)
        return samples.gather(1, taken).masked_fill(~real, 0), real

    def bounds(
        self,
        samples: Tensor,  # (B, N), zero in the padding
        lengths: Tensor,  # (B,)
    ) -> tuple[Tensor, Tensor]:  # (B,), (B,)
        """The first sample that is kept of each row, and the one after the last."""
        count = math.ceil(samples.shape[1] / self.block)
        exact = samples.dtype if samples.device.type == "mps" else torch.float64
        padded = nn.functional.pad(samples.to(exact), (0, count * self.block - samples.shape[1]))
        energies = padded.unflatten(1, (count, self.block)).square().sum(dim=2) + SILENCE
        numbers = torch.arange(count, device=samples.device)
        exists = numbers * self.block < lengths.unsqueeze(1)
        loud = (energies >= energies.amax(dim=1, keepdim=True) * self.threshold) & exists
        first = torch.where(loud, numbers, count).amin(dim=1) * self.block
        last = (torch.where(loud, numbers, -1).amax(dim=1) + 1) * self.block
        start = torch.minimum(first, (lengths - self.shortest).clamp(min=0))
        stop = torch.maximum(last, start + self.shortest)
        return start, torch.minimum(stop, lengths)

    def extra_repr(self) -> str:
        return f"top_db={self.top_db}, block={self.block} samples"
