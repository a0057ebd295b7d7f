"""What is heard: samples to frames of log-mel energies or cepstra (MFCC), and frames brought to one scale."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.layers.layer import Layer, Memory, check_input

FLOOR = 1e-10  # energy of silence, as librosa's
BREAK, STEP = 1000.0, 200 / 3  # hertz: below the scale of Slaney is linear, with so many in a mel; above logarithmic
GROWTH = math.log(6.4) / 27  # in a mel, above
REACH = 2  # frames on each side of the one whose slope is taken
TINY = 1e-5  # deviation of a number that never changes
BEND = 0.85  # of half of the rate: the scale is stretched below, and what is above makes up for it


class Spectrum(nn.Module):
    """Frames of energies: (B, N) samples → (B, T, D).

    Frame t is of the samples from t · step on, as many as the window is long; a rest that fills no window is kept in
    the state. A Hann window, the squared magnitude of its Fourier transform, triangles on Slaney's mel scale with an
    area of one, and the natural logarithm: what librosa calculates. ``mfcc`` are the first cosines of that (orthonormal
    DCT-II). Differences look back: the slope at t is of the line through the frames t - 4 to t, that is, librosa's of
    t - 2; so pieces equal the whole.
    """

    class State(NamedTuple):
        rest: Tensor  # (B, window - 1), samples that are in frames still to come, at the end
        held: Tensor  # (B,), how many they are
        last: Tensor  # (B, 1), the sample before the next one
        past: Tensor  # (B, 4 · deltas, D without deltas), the frames before the next one
        begun: Tensor  # (B,), whether there was a frame

    filters: Tensor
    cosines: Tensor

    def __init__(
        self,
        rate: int,
        *,
        kind: Literal["log_mel", "mfcc"] = "log_mel",
        window: float = 0.025,  # seconds
        step: float = 0.010,
        mels: int = 40,
        coefficients: int = 13,  # of mfcc
        lowest: float = 0.0,  # hertz
        highest: float | None = None,  # None: half of the rate
        emphasis: float = 0.0,  # x[n] - emphasis · x[n - 1] is taken for x[n]; 0.97 is usual
        deltas: int = 0,  # 1: with the slopes, 2: with the slopes of the slopes
        decibels: float = 0.0,  # what is farther below a row's loudest band is as loud as that; 0: all; needs the whole
        centre: bool = False,  # the middle of frame t is sample t · step, as in librosa; needs the whole at once
    ) -> None:
        super().__init__()
        highest = rate / 2 if highest is None else highest
        _check_options(rate, window, step, mels=mels, lowest=lowest, highest=highest, deltas=deltas)
        if kind not in ("log_mel", "mfcc"):
            raise ValueError(f"kind is {kind!r}, expected log_mel or mfcc")
        if decibels < 0:
            raise ValueError(f"decibels is {decibels}, expected 0 or more")
        if kind == "mfcc" and not 1 <= coefficients <= mels:
            raise ValueError(f"coefficients is {coefficients}, expected 1 to {mels} (mels)")
        self.rate = rate
        self.kind = kind
        self.window = round(rate * window)
        self.step = round(rate * step)
        self.points = 1 << (self.window - 1).bit_length()  # of the Fourier transform
        self.emphasis = emphasis
        self.deltas = deltas
        self.decibels = decibels
        self.centre = centre
        self.size = mels if kind == "log_mel" else coefficients  # without deltas
        self.output_size = self.size * (1 + deltas)
        self._filters = partial(mel_filters, rate, self.points, mels=mels, lowest=lowest, highest=highest)
        kept = torch.get_default_dtype()
        self.register_buffer("filters", self._filters().to(kept), persistent=False)
        self.register_buffer("cosines", cosines(mels)[:, :coefficients].to(kept), persistent=False)

    def length(self, samples: int) -> int:
        """How many frames so many samples have."""
        samples = samples + self.window if self.centre else samples
        return (samples - self.window) // self.step + 1 if samples >= self.window else 0

    def forward(
        self,
        samples: Tensor,  # (B, N)
        mask: Tensor | None = None,  # (B, N), True where real; right-padded
        state: Any = None,  # as returned by an earlier call; None for the start
        *,
        warps: Tensor | None = None,  # (B,), each row's bands stand at so many times their frequencies; None: 1
    ) -> tuple[Tensor, Tensor, "Spectrum.State"]:  # (B, T, D), zero in the padding; (B, T); the state after each row
        if samples.dim() != 2:
            raise ValueError(f"samples have shape {tuple(samples.shape)}, expected (batch, samples)")
        check_input(samples.unsqueeze(-1), mask, size=1, like=self.filters)
        if self.centre and state is not None:
            raise ValueError("a centred spectrum needs the whole sequence at once: expected centre=False, or no state")
        if self.decibels and state is not None:
            raise ValueError("the loudest band is known of a whole sequence only: expected decibels=0, or no state")
        if warps is not None and warps.shape != samples.shape[:1]:
            raise ValueError(f"warps have shape {tuple(warps.shape)}, expected {tuple(samples.shape[:1])}")
        before = self._start(samples) if state is None else self._check(state, samples)
        counts = samples.new_full((len(samples),), samples.shape[1], dtype=torch.int64)
        if mask is not None:
            samples, counts = samples.masked_fill(~mask, 0), mask.sum(dim=1)
        heard, last = self._emphasised(samples, counts, before.last)
        if mask is not None:
            heard = heard.masked_fill(~mask, 0)
        if self.centre:
            left = self.points // 2 - (self.points - self.window) // 2  # where librosa puts the window
            heard, counts = nn.functional.pad(heard, (left, self.window - left)), counts + self.window
        heard, counts = _joined(before.rest, before.held, heard, counts)
        lengths = ((counts - self.window).div(self.step, rounding_mode="floor") + 1).clamp(min=0)
        time = int(lengths.max()) if len(lengths) else 0
        real = torch.arange(time, device=samples.device) < lengths.unsqueeze(1)
        frames, past, begun = self._differences(self._frames(heard, real, warps), lengths, before)
        rest, held = _rest(heard, counts, lengths * self.step, self.window - 1)
        return frames.masked_fill(~real.unsqueeze(-1), 0), real, self.State(rest, held, last, past, begun)

    def _frames(self, heard: Tensor, real: Tensor, warps: Tensor | None) -> Tensor:  # (B, M), (B, T) → (B, T, size)
        time = real.shape[1]
        needed = (time - 1) * self.step + self.window if time else 0
        heard = heard[:, :needed]
        if not time:
            return heard.new_zeros(len(heard), 0, self.size)
        # a loud band would drown quiet ones in the rounding errors of single precision
        exact = heard.dtype if heard.device.type == "mps" else torch.float64
        window = torch.hann_window(self.window, dtype=exact, device=heard.device)
        transformed = torch.fft.rfft(heard.to(exact).unfold(1, self.window, self.step) * window, n=self.points)
        energies = (transformed.real.square() + transformed.imag.square()).to(heard.dtype)  # (B, T, points / 2 + 1)
        filters = self.filters if warps is None else self._filters(warps).to(self.filters)
        logs: Tensor = (energies @ filters).clamp(min=FLOOR).log()  # (B, T, mels)
        if self.decibels:
            loudest = logs.masked_fill(~real.unsqueeze(-1), -math.inf).amax(dim=(1, 2), keepdim=True)
            logs = logs.maximum(loudest - self.decibels * math.log(10) / 10)
        return logs if self.kind == "log_mel" else logs @ self.cosines

    def _emphasised(self, samples: Tensor, counts: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        seen = torch.cat([last, samples], dim=1)
        heard = samples - self.emphasis * seen[:, :-1] if self.emphasis else samples
        return heard, seen.gather(1, counts.unsqueeze(1))

    def _differences(self, frames: Tensor, lengths: Tensor, before: "Spectrum.State") -> tuple[Tensor, Tensor, Tensor]:
        """The frames with their slopes; before the first frame there are copies of it."""
        begun = before.begun | (lengths > 0)
        if not self.deltas:
            return frames, before.past, begun
        wide = 2 * REACH
        first = frames[:, :1] if frames.shape[1] else frames.new_zeros(len(frames), 1, self.size)
        starts = (~before.begun & (lengths > 0)).view(-1, 1, 1)
        past = torch.where(starts, first, before.past)
        seen = torch.cat([past, frames], dim=1)  # (B, wide · deltas + T, size)
        places = lengths.unsqueeze(1) + torch.arange(past.shape[1], device=frames.device)
        kept = seen.gather(1, places.unsqueeze(-1).expand(-1, -1, self.size))
        parts, slopes = [frames], seen
        for order in range(1, self.deltas + 1):
            slopes = _slope(slopes)
            parts.append(slopes[:, wide * (self.deltas - order) :])
        return torch.cat(parts, dim=2), kept, begun

    def _start(self, samples: Tensor) -> "Spectrum.State":
        rows = len(samples)
        none = torch.zeros(rows, dtype=torch.int64, device=samples.device)
        rest, last = samples.new_zeros(rows, self.window - 1), samples.new_zeros(rows, 1)
        past = samples.new_zeros(rows, 2 * REACH * self.deltas, self.size)
        return self.State(rest, none, last, past, none.bool())

    def _check(self, state: Any, samples: Tensor) -> "Spectrum.State":
        expected = self._start(samples)
        if not isinstance(state, tuple) or len(state) != len(expected):
            raise TypeError(f"state is {type(state).__name__}, expected Spectrum.State")
        for name, found, like in zip(expected._fields, state, expected, strict=True):
            if found.shape != like.shape:
                raise ValueError(f"state.{name} has shape {tuple(found.shape)}, expected {tuple(like.shape)}")
            if found.dtype != like.dtype or found.device != like.device:
                raise TypeError(
                    f"state.{name} is {found.dtype} on {found.device}, expected {like.dtype} on {like.device}"
                )
        return self.State(*state)

    def extra_repr(self) -> str:
        return f"{self.kind}, rate={self.rate}, window={self.window}, step={self.step}, size={self.output_size}"


class Normalise(Layer):
    """Frames with a mean of zero and a deviation of one in each number.

    ``global``: by the given mean and deviation. ``utterance``: by those of the real frames of a row, which has to be
    there as a whole. ``streaming``: by those of the frames so far, with the given ones counted as ``prior`` frames.
    """

    class State(NamedTuple):
        frames: Tensor  # (B, 1), how many so far
        total: Tensor  # (B, D), of what is above the given mean
        squares: Tensor  # (B, D)

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        size: int,
        *,
        kind: Literal["none", "global", "utterance", "streaming"] = "utterance",
        mean: Sequence[float] | None = None,  # None: zeros
        deviation: Sequence[float] | None = None,  # None: ones
        prior: float = 100.0,  # frames
    ) -> None:
        super().__init__(size, size)
        if kind not in ("none", "global", "utterance", "streaming"):
            raise ValueError(f"kind is {kind!r}, expected none, global, utterance or streaming")
        if prior <= 0:
            raise ValueError(f"prior is {prior}, expected more than 0")
        for name, values in (("mean", mean), ("deviation", deviation)):
            if values is not None and len(values) != size:
                raise ValueError(f"{name} has {len(values)} numbers, expected {size}")
        self.kind = kind
        self.prior = prior
        self.register_buffer("mean", torch.tensor([0.0] * size if mean is None else list(mean)))
        self.register_buffer("deviation", torch.tensor([1.0] * size if deviation is None else list(deviation)))

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, "Normalise.State"]:
        check_input(x, mask, size=self.input_size, like=self.mean)
        real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        counted = real.unsqueeze(-1)
        before = self._start(x) if state is None else self._check(state, x)
        above = (x - self.mean).masked_fill(~counted, 0)
        if self.kind == "none":
            return x.masked_fill(~counted, 0), before
        if self.kind == "global":
            return above / self.deviation.clamp(min=TINY), before
        if self.kind == "utterance":
            count = counted.sum(dim=1, keepdim=True).clamp(min=1)
            centred = (above - above.sum(dim=1, keepdim=True) / count).masked_fill(~counted, 0)
            variance = centred.square().sum(dim=1, keepdim=True) / count
            return centred / (variance + TINY**2).sqrt(), before
        count = before.frames.unsqueeze(1) + counted.to(x.dtype).cumsum(dim=1)  # (B, T, 1)
        total = before.total.unsqueeze(1) + above.cumsum(dim=1)
        squares = before.squares.unsqueeze(1) + above.square().cumsum(dim=1)
        centre = total / (count + self.prior)
        variance = (squares + self.prior * self.deviation.square()) / (count + self.prior) - centre.square()
        y = ((above - centre) / (variance.clamp(min=0) + TINY**2).sqrt()).masked_fill(~counted, 0)
        if not x.shape[1]:
            return y, before
        return y, self.State(count[:, -1], total[:, -1], squares[:, -1])

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> "Normalise.State":  # noqa: ARG002
        return self._start(self.mean.new_zeros(batch, 0, self.input_size))

    def _start(self, x: Tensor) -> "Normalise.State":
        zeros = x.new_zeros(len(x), self.input_size)
        return self.State(x.new_zeros(len(x), 1), zeros, zeros)

    def _check(self, state: Any, x: Tensor) -> "Normalise.State":
        if not isinstance(state, tuple) or len(state) != 3:
            raise TypeError(f"state is {type(state).__name__}, expected Normalise.State")
        for name, found, like in zip(self.State._fields, state, self._start(x), strict=True):
            if found.shape != like.shape:
                raise ValueError(f"state.{name} has shape {tuple(found.shape)}, expected {tuple(like.shape)}")
        return self.State(*state)

    def extra_repr(self) -> str:
        return f"{self.input_size}, kind={self.kind}"


def mel_filters(
    rate: int,
    points: int,
    warps: Tensor | None = None,  # (B,)
    *,
    mels: int,
    lowest: float,
    highest: float,
) -> Tensor:  # (points / 2 + 1, mels), of each warp (B, points / 2 + 1, mels)
    """Triangles of the area of one, at equal distances on the scale of Slaney (1998), or on that scale warped."""
    edges = _hertz(torch.linspace(_mel(lowest), _mel(highest), mels + 2, dtype=torch.float64))
    if warps is not None:
        edges = warped(edges, warps.double().cpu().view(-1, 1, 1), half=rate / 2)  # (B, 1, mels + 2)
    bins = torch.arange(points // 2 + 1, dtype=torch.float64).unsqueeze(1) * rate / points
    left, top, right = edges[..., :-2], edges[..., 1:-1], edges[..., 2:]
    triangles = torch.minimum((bins - left) / (top - left), (right - bins) / (right - top)).clamp(min=0)
    return triangles * 2 / (right - left)


def warped(hertz: Tensor, warps: Tensor, *, half: float) -> Tensor:
    """So many times the frequencies; the highest go straight on to half of the rate (Jaitly and Hinton 2013)."""
    bend = BEND * half * warps.clamp(max=1)  # where the frequencies below arrive
    rest = (half - bend) / (half - bend / warps)
    return torch.where(hertz <= bend / warps, hertz * warps, half - rest * (half - hertz))


def _mel(hertz: float) -> float:
    return hertz / STEP if hertz < BREAK else BREAK / STEP + math.log(hertz / BREAK) / GROWTH


def _hertz(mel: Tensor) -> Tensor:
    return torch.where(mel < BREAK / STEP, mel * STEP, BREAK * ((mel - BREAK / STEP) * GROWTH).exp())


def cosines(size: int) -> Tensor:  # (size, size)
    """Each column a cosine of the orthonormal DCT-II."""
    places = torch.arange(size, dtype=torch.float64)
    table = torch.cos(math.pi / size * (places.unsqueeze(1) + 0.5) * places) * math.sqrt(2 / size)
    table[:, 0] /= math.sqrt(2)
    return table


def _slope(x: Tensor) -> Tensor:  # (B, 4 + T, D) → (B, T, D)
    """Of the line through five frames each (least squares)."""
    count = x.shape[1] - 2 * REACH
    weights = [step / (2 * sum(n * n for n in range(1, REACH + 1))) for step in range(-REACH, REACH + 1)]
    return sum((weight * x[:, place : place + count] for place, weight in enumerate(weights)), x.new_zeros(()))


def _joined(rest: Tensor, held: Tensor, x: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Each row's rest and what follows it, from the left; and how many samples that are."""
    if not bool(held.any()):
        return x, counts
    seen = torch.cat([rest, x], dim=1)
    places = (rest.shape[1] - held).unsqueeze(1) + torch.arange(seen.shape[1], device=x.device)
    return seen.gather(1, places.clamp(max=seen.shape[1] - 1)), counts + held


def _rest(x: Tensor, counts: Tensor, start: Tensor, size: int) -> tuple[Tensor, Tensor]:  # → (B, size), (B,)
    """What each row has from ``start`` to its end, at the end of a row of zeros; and how many samples that are."""
    held = counts - start
    places = counts.unsqueeze(1) - size + torch.arange(size, device=x.device)
    padded = nn.functional.pad(x, (0, 1)) if not x.shape[1] else x
    rest = padded.gather(1, places.clamp(min=0, max=padded.shape[1] - 1))
    return rest.masked_fill(places < start.unsqueeze(1), 0), held


def _check_options(
    rate: int, window: float, step: float, *, mels: int, lowest: float, highest: float, deltas: int
) -> None:
    if rate < 1:
        raise ValueError(f"rate is {rate}, expected 1 or more")
    if not 1 <= round(rate * step) <= round(rate * window):
        raise ValueError(f"step is {step} and window {window}; the window is expected to be as long, a sample or more")
    if mels < 1:
        raise ValueError(f"mels is {mels}, expected 1 or more")
    if not 0 <= lowest < highest <= rate / 2:
        raise ValueError(f"lowest is {lowest} and highest {highest}; 0 ≤ lowest < highest ≤ {rate / 2:g} is expected")
    if deltas not in (0, 1, 2):
        raise ValueError(f"deltas is {deltas}, expected 0, 1 or 2")
