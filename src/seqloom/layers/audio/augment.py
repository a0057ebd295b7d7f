"""Audio augmentation: SpecAugment (Park et al. 2019), speed perturbation (Ko et al. 2015), VTLP, filters, noise."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor, nn

from seqloom.kernels.resample import resample, resampled_length
from seqloom.layers.layer import check_input

MAX_SPEED_DENOMINATOR = 100
RIPPLES = 4  # cosines of a random frequency response
NOISE_DEVIATION = 5.0  # decibels by which the spectrum of noise varies
FILTER_TAIL = 64  # samples after the end, far longer than the impulse response of a smooth filter
MIN_WARP = 0.5  # smaller factors, or larger ones than its inverse, lose or merge mel bands


class SpecAugment(nn.Module):
    """SpecAugment: in training, random frequency bands and time spans of each row are set to zero.

    Zero is the mean of normalised frames. Time warping, which matters least according to the paper, is not included.
    """

    def __init__(
        self,
        *,
        freq_masks: int = 2,
        freq_mask_width: int = 8,  # largest width of a frequency mask, in features
        time_masks: int = 2,
        time_mask_width: int = 40,  # largest length of a time mask, in frames
        time_mask_fraction: float = 0.2,  # largest length of a time mask, as a fraction of its row
    ) -> None:
        super().__init__()
        self.freq_masks, self.freq_mask_width = freq_masks, freq_mask_width
        self.time_masks, self.time_mask_width = time_masks, time_mask_width
        self.time_mask_fraction = time_mask_fraction
        for name in ("freq_masks", "freq_mask_width", "time_masks", "time_mask_width"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        if not 0 <= time_mask_fraction <= 1:
            raise ValueError(f"time_mask_fraction must be between 0 and 1, got {time_mask_fraction}")

    def forward(
        self,
        values: Tensor,  # (B, T, D)
        mask: Tensor | None = None,  # (B, T), True where real; right-padded
    ) -> tuple[Tensor, Tensor]:  # (B, T, D), zero in the padding; (B, T)
        if values.dim() != 3:
            raise ValueError(f"values have shape {tuple(values.shape)}, expected (batch, time, size)")
        mask = _check_mask(values, mask)
        if not self.training:
            return values.masked_fill(~mask.unsqueeze(-1), 0), mask
        lengths = mask.sum(dim=1)
        sizes = torch.full_like(lengths, values.shape[2])
        longest = (lengths * self.time_mask_fraction).long().clamp(max=self.time_mask_width)
        widest = sizes.clamp(max=self.freq_mask_width)
        time_mask = _sample_spans(lengths, longest, count=self.time_masks, size=values.shape[1]).unsqueeze(2)
        freq_mask = _sample_spans(sizes, widest, count=self.freq_masks, size=values.shape[2]).unsqueeze(1)
        return values.masked_fill(time_mask | freq_mask | ~mask.unsqueeze(-1), 0), mask

    def extra_repr(self) -> str:
        frequency = f"freq_masks={self.freq_masks} × {self.freq_mask_width}"
        time = f"time_masks={self.time_masks} × {self.time_mask_width}"
        return f"{frequency}, {time}, time_mask_fraction={self.time_mask_fraction}"


class SpeedPerturbation(nn.Module):
    """In training, each row is played at one of the speeds, chosen uniformly.

    Samples are resampled, which also changes the pitch; frames are interpolated linearly, which does not.
    """

    def __init__(self, speeds: Sequence[float] = (0.9, 1.0, 1.1)) -> None:
        super().__init__()
        if not speeds or not all(0.1 <= speed <= 10 for speed in speeds):
            raise ValueError(f"speeds are {list(speeds)}, expected one or more between 0.1 and 10")
        self.speeds = tuple(speeds)
        self.ratios = [Fraction(speed).limit_denominator(MAX_SPEED_DENOMINATOR) for speed in speeds]

    def forward(
        self,
        values: Tensor,  # samples (B, N), or frames (B, T, D)
        mask: Tensor | None = None,  # (B, N) or (B, T), True where real; right-padded
    ) -> tuple[Tensor, Tensor]:  # the same, longer or shorter, zero in the padding
        mask = _check_mask(values, mask)
        values = values.masked_fill(~mask.view(*mask.shape, *[1] * (values.dim() - 2)), 0)
        if not self.training or not len(values):
            return values, mask
        choices = torch.randint(len(self.ratios), (len(values),)).tolist()
        lengths = mask.sum(dim=1).tolist()
        rows = [change_speed(values[row, :length], self.ratios[choices[row]]) for row, length in enumerate(lengths)]
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        counts = torch.tensor([len(row) for row in rows], device=values.device)
        return padded, torch.arange(padded.shape[1], device=values.device) < counts.unsqueeze(1)

    def extra_repr(self) -> str:
        return f"speeds={', '.join(map(str, self.speeds))}"


class SampleAugmentation(nn.Module, ABC):
    """A random change of samples, in training only."""

    def forward(
        self,
        samples: Tensor,  # (B, N)
        mask: Tensor | None = None,  # (B, N), True where real; right-padded
    ) -> tuple[Tensor, Tensor]:  # (B, N), zero in the padding; (B, N)
        mask = _check_mask(samples, mask)
        samples = samples.masked_fill(~mask, 0)
        if not self.training or not samples.numel():
            return samples, mask
        return self.augment(samples, mask)

    @abstractmethod
    def augment(
        self,
        samples: Tensor,  # (B, N), zero in the padding
        mask: Tensor,  # (B, N)
    ) -> tuple[Tensor, Tensor]:  # the same
        """The changed samples of a batch that is not empty."""


class RandomCrop(SampleAugmentation):
    """In training, cuts each row of samples at both ends, by random lengths up to a maximum.

    Recordings are often cut inside their first or last sound. At most a quarter of a row is cut off at each end.
    """

    def __init__(self, longest: int) -> None:
        super().__init__()
        if longest < 0:
            raise ValueError(f"crop must be at least 0 samples, got {longest}")
        self.longest = longest  # samples

    def augment(self, samples: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        lengths = mask.sum(dim=1)
        longest = (lengths // 4).clamp(max=self.longest)
        start, end = (torch.rand(2, len(samples), device=samples.device) * (longest + 1)).long()
        positions = torch.arange(samples.shape[1], device=samples.device)
        cut = samples.gather(1, (positions + start.unsqueeze(1)).clamp(max=samples.shape[1] - 1))
        kept = positions < (lengths - start - end).unsqueeze(1)
        return cut.masked_fill(~kept, 0), kept

    def extra_repr(self) -> str:
        return f"longest={self.longest} samples"


class RandomOffset(nn.Module):
    """In training, adds a random vector to all frames of a row, as another microphone or another mean would.

    Normalisation by recording subtracts the mean of the words together with the microphone: a word that is mostly
    one vowel loses much of it. With random offsets, a model learns not to rely on that mean. The offsets of bands are
    smooth, and their mean is zero: Σ c_k cos(π k (i + ½) / bands), k = 1 to 4, with normal c_k of deviation ∝ 1 / k.
    Those of other features are independent.
    """

    def __init__(
        self,
        deviation: float,  # of the offset of a feature
        *,
        size: int,  # features with an offset, the first ones; others, such as their differences, have none
        smooth: bool,
    ) -> None:
        super().__init__()
        if deviation < 0:
            raise ValueError(f"offset must be at least 0, got {deviation}")
        self.deviation, self.size, self.smooth = deviation, size, smooth

    def forward(
        self,
        frames: Tensor,  # (B, T, D)
        mask: Tensor | None = None,  # (B, T), True where real; right-padded
    ) -> tuple[Tensor, Tensor]:  # (B, T, D), zero in the padding; (B, T)
        mask = _check_mask(frames, mask)
        if not self.training:
            return frames.masked_fill(~mask.unsqueeze(-1), 0), mask
        offsets = self._sample(frames)
        offsets = nn.functional.pad(offsets, (0, frames.shape[2] - self.size))
        return (frames + offsets.unsqueeze(1)).masked_fill(~mask.unsqueeze(-1), 0), mask

    def _sample(self, frames: Tensor) -> Tensor:  # (B, size)
        if not self.smooth:
            return torch.randn_like(frames[:, 0, :1].expand(-1, self.size)) * self.deviation
        ripples = torch.arange(1, RIPPLES + 1, device=frames.device, dtype=frames.dtype)
        places = (torch.arange(self.size, device=frames.device, dtype=frames.dtype) + 0.5) * math.pi / self.size
        heights = torch.randn(len(frames), RIPPLES, device=frames.device, dtype=frames.dtype) / ripples
        scale = (0.5 * (ripples**-2).sum()).sqrt()  # deviation of the sum, over all places
        return self.deviation / scale * (heights @ torch.cos(ripples.unsqueeze(1) * places))

    def extra_repr(self) -> str:
        return f"deviation={self.deviation}, size={self.size}, smooth={self.smooth}"


class RandomFilter(SampleAugmentation):
    """In training, filters each row with a random, smooth frequency response, as another microphone would.

    In decibels, the response at the frequency f is Σ c_k cos(π k f / Nyquist), k = 1 to 4, with normal c_k of deviation
    ∝ 1 / k: a random slope, and ripples around it.
    """

    def __init__(self, deviation: float) -> None:
        super().__init__()
        if deviation < 0:
            raise ValueError(f"filter_db must be at least 0, got {deviation}")
        self.deviation = deviation  # decibels, of c_1

    def augment(self, samples: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return _filter(samples, self.deviation).masked_fill(~mask, 0), mask

    def extra_repr(self) -> str:
        return f"deviation={self.deviation} dB"


class AdditiveNoise(SampleAugmentation):
    """In training, adds noise with a random, smooth spectrum to each row, at a random signal-to-noise ratio."""

    def __init__(self, min_snr: float, max_snr: float) -> None:
        super().__init__()
        if not 0 <= min_snr <= max_snr:
            raise ValueError(f"noise_snr is {min_snr} to {max_snr}, expected 0 or more in ascending order")
        self.min_snr = min_snr  # decibels
        self.max_snr = max_snr

    def augment(self, samples: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        noise = _filter(torch.randn_like(samples), NOISE_DEVIATION).masked_fill(~mask, 0)
        snr = samples.new_empty(len(samples), 1).uniform_(self.min_snr, self.max_snr)
        signal, level = (values.square().sum(dim=1, keepdim=True) for values in (samples, noise))
        gain = (signal / level.clamp(min=torch.finfo(level.dtype).tiny) * 10 ** (-snr / 10)).sqrt()
        return samples + noise * gain, mask

    def extra_repr(self) -> str:
        return f"{self.min_snr} to {self.max_snr} dB"


class VTLP(nn.Module):
    """Vocal tract length perturbation (Jaitly and Hinton 2013): a random frequency factor for each row; 1 in eval mode.

    Its logarithm is uniform, so that the vocal tract becomes longer as often as shorter. The tempo does not change.
    """

    def __init__(self, minimum: float, maximum: float) -> None:
        super().__init__()
        if not MIN_WARP <= minimum <= maximum <= 1 / MIN_WARP:
            expected = f"expected numbers between {MIN_WARP} and {1 / MIN_WARP:g} in ascending order"
            raise ValueError(f"vtlp is {minimum} to {maximum}, {expected}")
        self.minimum = minimum
        self.maximum = maximum

    def forward(self, rows: int) -> Tensor:  # (rows,), for Spectrum
        if not self.training:
            return torch.ones(rows)
        return torch.empty(rows).uniform_(math.log(self.minimum), math.log(self.maximum)).exp()

    def extra_repr(self) -> str:
        return f"{self.minimum} to {self.maximum}"


def _filter(samples: Tensor, deviation: float) -> Tensor:  # (B, N)
    """Filter each row with a random, smooth frequency response."""
    length = samples.shape[1]
    size = 1 << (length + FILTER_TAIL - 1).bit_length()
    ripples = torch.arange(1, RIPPLES + 1, device=samples.device, dtype=samples.dtype)
    heights = torch.randn(len(samples), RIPPLES, device=samples.device, dtype=samples.dtype) * deviation / ripples
    places = torch.linspace(0, math.pi, size // 2 + 1, device=samples.device, dtype=samples.dtype)
    gain = 10 ** (heights @ torch.cos(ripples.unsqueeze(1) * places) / 20)  # (B, size / 2 + 1)
    filtered: Tensor = torch.fft.irfft(torch.fft.rfft(samples, n=size) * gain, n=size)[:, :length]
    return filtered


def change_speed(
    values: Tensor,  # samples (N,), or frames (T, D)
    speed: Fraction,
) -> Tensor:  # of length ⌈N / speed⌉
    """Resample samples, or interpolate frames, to another speed."""
    up, down = speed.denominator, speed.numerator
    if values.dim() == 1:
        return resample(values, up=up, down=down)
    count = resampled_length(len(values), up, down)
    if up == down or not count:
        return values
    positions = torch.arange(count, device=values.device, dtype=values.dtype) * (down / up)
    left = positions.floor().long().clamp(max=len(values) - 1)
    right = (left + 1).clamp(max=len(values) - 1)
    return torch.lerp(values[left], values[right], (positions - left).clamp(max=1).unsqueeze(1))


def _sample_spans(
    lengths: Tensor,  # (B,)
    widest: Tensor,  # (B,)
    *,
    count: int,
    size: int,
) -> Tensor:  # (B, size), True inside a span
    """Sample ``count`` spans per row, of uniform width up to the widest and uniform start."""
    width, start = torch.rand(2, len(lengths), count, 1, device=lengths.device)  # (B, count, 1)
    widths = (width * (widest.view(-1, 1, 1) + 1)).floor()
    starts = (start * (lengths.view(-1, 1, 1) - widths + 1)).floor()
    positions = torch.arange(size, device=lengths.device)
    masked: Tensor = ((positions >= starts) & (positions < starts + widths)).any(dim=1)
    return masked


def _check_mask(values: Tensor, mask: Tensor | None) -> Tensor:
    if values.dim() not in (2, 3):
        raise ValueError(f"values have shape {tuple(values.shape)}, expected (batch, samples) or (batch, time, size)")
    frames = values if values.dim() == 3 else values.unsqueeze(2)
    check_input(frames, mask, size=frames.shape[2], like=values)
    return values.new_ones(values.shape[:2], dtype=torch.bool) if mask is None else mask
