"""More than was recorded: frames with parts left out (Park et al. 2019), other speeds (Ko et al. 2015) and voices."""

import math
from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor, nn

from seqloom.kernels.resample import resample, resampled_length
from seqloom.layers.layer import check_input

FINEST = 100  # the denominator of a speed, at most
NARROWEST = 0.5  # of a warp: farther, bands are lost or fall together


class SpecAugment(nn.Module):
    """In training, bands of numbers and stretches of frames of each row are set to zero; in eval mode nothing is.

    Zero is the mean of frames that are normalised. The frames are not warped in time: it is said to matter least.
    """

    def __init__(
        self,
        *,
        bands: int = 2,
        band: int = 8,  # numbers of a frame: each is 0 to so many wide
        stretches: int = 2,
        stretch: int = 40,  # frames: each is 0 to so many long
        share: float = 0.2,  # of a row: no stretch is longer
    ) -> None:
        super().__init__()
        for name, value in (("bands", bands), ("band", band), ("stretches", stretches), ("stretch", stretch)):
            if value < 0:
                raise ValueError(f"{name} is {value}, expected 0 or more")
        if not 0 <= share <= 1:
            raise ValueError(f"share is {share}, expected 0 to 1")
        self.bands = bands
        self.band = band
        self.stretches = stretches
        self.stretch = stretch
        self.share = share

    def forward(
        self,
        values: Tensor,  # (B, T, D)
        mask: Tensor | None = None,  # (B, T), True where real; right-padded
    ) -> tuple[Tensor, Tensor]:  # (B, T, D), zero in the padding; (B, T)
        if values.dim() != 3:
            raise ValueError(f"values have shape {tuple(values.shape)}, expected (batch, time, size)")
        mask = _checked(values, mask)
        if not self.training:
            return values.masked_fill(~mask.unsqueeze(-1), 0), mask
        lengths = mask.sum(dim=1)
        sizes = torch.full_like(lengths, values.shape[2])
        widest = (lengths * self.share).long().clamp(max=self.stretch)
        hidden = _drawn(lengths, widest, count=self.stretches, places=values.shape[1]).unsqueeze(2)
        across = _drawn(sizes, sizes.clamp(max=self.band), count=self.bands, places=values.shape[2]).unsqueeze(1)
        return values.masked_fill(hidden | across | ~mask.unsqueeze(-1), 0), mask

    def extra_repr(self) -> str:
        return f"bands={self.bands} × {self.band}, stretches={self.stretches} × {self.stretch}, share={self.share}"


class SpeedPerturbation(nn.Module):
    """In training each row is played at one of the speeds, all as probable; in eval mode as it is.

    Samples are resampled, which moves the pitch too; frames are interpolated between neighbours.
    """

    def __init__(self, speeds: Sequence[float] = (0.9, 1.0, 1.1)) -> None:
        super().__init__()
        if not speeds or not all(0.1 <= speed <= 10 for speed in speeds):
            raise ValueError(f"speeds are {list(speeds)}, expected one or more from 0.1 to 10")
        self.speeds = tuple(speeds)
        self.ratios = [Fraction(speed).limit_denominator(FINEST) for speed in speeds]

    def forward(
        self,
        values: Tensor,  # samples (B, N), or frames (B, T, D)
        mask: Tensor | None = None,  # (B, N) or (B, T), True where real; right-padded
    ) -> tuple[Tensor, Tensor]:  # the same, longer or shorter, zero in the padding
        mask = _checked(values, mask)
        values = values.masked_fill(~mask.view(*mask.shape, *[1] * (values.dim() - 2)), 0)
        if not self.training or not len(values):
            return values, mask
        drawn = torch.randint(len(self.ratios), (len(values),)).tolist()
        lengths = mask.sum(dim=1).tolist()
        rows = [length_at_speed(values[row, :length], self.ratios[drawn[row]]) for row, length in enumerate(lengths)]
        heard = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        counts = torch.tensor([len(row) for row in rows], device=values.device)
        return heard, torch.arange(heard.shape[1], device=values.device) < counts.unsqueeze(1)

    def extra_repr(self) -> str:
        return f"speeds={', '.join(map(str, self.speeds))}"


class AdditiveNoise(nn.Module):
    """In training white noise is added to each row of samples, so many decibels below its own mean energy."""

    def __init__(self, loudest: float, quietest: float) -> None:
        super().__init__()
        if not 0 <= loudest <= quietest:
            raise ValueError(
                f"noise is {loudest} to {quietest} decibels below the sound, expected the lower number first"
            )
        self.loudest = loudest
        self.quietest = quietest

    def forward(
        self,
        samples: Tensor,  # (B, N)
        mask: Tensor | None = None,  # (B, N), True where real; right-padded
    ) -> tuple[Tensor, Tensor]:  # (B, N), zero in the padding; (B, N)
        mask = _checked(samples, mask)
        samples = samples.masked_fill(~mask, 0)
        if not self.training:
            return samples, mask
        energy = samples.square().sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        below = torch.empty_like(energy).uniform_(self.loudest, self.quietest)
        loudness = (energy * 10 ** (-below / 10)).sqrt().unsqueeze(1)
        return samples + (torch.randn_like(samples) * loudness).masked_fill(~mask, 0), mask

    def extra_repr(self) -> str:
        return f"{self.loudest} to {self.quietest} decibels below"


class VTLP(nn.Module):
    """In training each row gets a factor for the frequencies of its bands (Jaitly and Hinton 2013), in eval mode 1.

    The logarithm of it is drawn evenly, so that a vocal tract becomes longer as often as shorter. The tempo stays.
    """

    def __init__(self, lowest: float, highest: float) -> None:
        super().__init__()
        if not NARROWEST <= lowest <= highest <= 1 / NARROWEST:
            expected = f"expected {NARROWEST} to {1 / NARROWEST:g}, the lower number first"
            raise ValueError(f"warp is {lowest} to {highest}, {expected}")
        self.lowest = lowest
        self.highest = highest

    def forward(self, rows: int) -> Tensor:  # (rows,), of Spectrum
        if not self.training:
            return torch.ones(rows)
        return torch.empty(rows).uniform_(math.log(self.lowest), math.log(self.highest)).exp()

    def extra_repr(self) -> str:
        return f"{self.lowest} to {self.highest}"


def length_at_speed(
    values: Tensor,  # samples (N,), or frames (T, D)
    speed: Fraction,
) -> Tensor:  # ⌈N / speed⌉ of them
    """The same at another speed."""
    up, down = speed.denominator, speed.numerator
    if values.dim() == 1:
        return resample(values, up=up, down=down)
    count = resampled_length(len(values), up, down)
    if up == down or not count:
        return values
    places = torch.arange(count, device=values.device, dtype=values.dtype) * (down / up)
    before = places.floor().long().clamp(max=len(values) - 1)
    after = (before + 1).clamp(max=len(values) - 1)
    return torch.lerp(values[before], values[after], (places - before).clamp(max=1).unsqueeze(1))


def _drawn(
    lengths: Tensor,  # (B,)
    widest: Tensor,  # (B,)
    *,
    count: int,
    places: int,
) -> Tensor:  # (B, places), True where hidden
    """As many spans of each row, of any width up to the widest, at any place where they fit."""
    width, place = torch.rand(2, len(lengths), count, 1, device=lengths.device)  # (B, count, 1)
    widths = (width * (widest.view(-1, 1, 1) + 1)).floor()
    starts = (place * (lengths.view(-1, 1, 1) - widths + 1)).floor()
    at = torch.arange(places, device=lengths.device)
    hidden: Tensor = ((at >= starts) & (at < starts + widths)).any(dim=1)
    return hidden


def _checked(values: Tensor, mask: Tensor | None) -> Tensor:
    if values.dim() not in (2, 3):
        raise ValueError(f"values have shape {tuple(values.shape)}, expected (batch, samples) or (batch, time, size)")
    frames = values if values.dim() == 3 else values.unsqueeze(2)
    check_input(frames, mask, size=frames.shape[2], like=values)
    return values.new_ones(values.shape[:2], dtype=torch.bool) if mask is None else mask
