"""Audio features: log-mel energies or MFCC, and normalisation."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.layers.layer import Layer, Memory, check_input

MIN_ENERGY = 1e-10  # as in librosa
MEL_BREAK, HERTZ_PER_MEL = 1000.0, 200 / 3  # Slaney's scale: linear below the break (in hertz), logarithmic above
MEL_LOG_STEP = math.log(6.4) / 27  # per mel, above the break
DELTA_REACH = 2  # frames on each side of the one whose slope is estimated
MIN_DEVIATION = 1e-5  # lower bound, reached by constant features
VTLP_BREAK = 0.85  # fraction of the Nyquist frequency up to which frequencies are multiplied by the warp


class Spectrum(nn.Module):
    """Audio features: (B, N) samples → (B, T, D).

    Frame t covers the samples from t · hop on; samples that do not fill a window are kept in the state. As in librosa,
    log_mel is the natural logarithm of the power spectrum (Hann window) in triangular filters of area one on Slaney's
    mel scale; mfcc is its orthonormal DCT-II. Deltas look back: the slope at t is that of the line through the frames
    t - 4 to t, librosa's at t - 2, so that chunks give the same features as the whole recording.
    """

    class State(NamedTuple):
        pending: Tensor  # (B, window - 1), samples of later frames, right-aligned
        pending_length: Tensor  # (B,), number of pending samples
        last: Tensor  # (B, 1), the previous sample
        past: Tensor  # (B, 4 · deltas, D without deltas), the previous frames
        started: Tensor  # (B,), whether there was a frame

    filters: Tensor
    cosines: Tensor

    def __init__(
        self,
        sample_rate: int,
        *,
        kind: Literal["log_mel", "mfcc"] = "log_mel",
        window: float = 0.025,  # seconds
        hop: float = 0.010,  # seconds
        n_mels: int = 40,
        n_mfcc: int = 13,
        fmin: float = 0.0,  # hertz
        fmax: float | None = None,  # hertz; None: half the sample rate
        preemphasis: float = 0.0,  # x[n] - preemphasis · x[n - 1] replaces x[n]; 0.97 is usual
        deltas: int = 0,  # 1: append slopes, 2: append slopes of slopes as well
        top_db: float = 0.0,  # clip energies to this many dB below a row's maximum (0: off); needs the whole sequence
        centre: bool = False,  # frame t is centred at sample t · hop, as in librosa; needs the whole sequence
    ) -> None:
        super().__init__()
        fmax = sample_rate / 2 if fmax is None else fmax
        _check_options(sample_rate, window, hop, n_mels=n_mels, fmin=fmin, fmax=fmax, deltas=deltas)
        if kind not in ("log_mel", "mfcc"):
            raise ValueError(f"kind is {kind!r}, expected log_mel or mfcc")
        if top_db < 0:
            raise ValueError(f"top_db must be at least 0, got {top_db}")
        if kind == "mfcc" and not 1 <= n_mfcc <= n_mels:
            raise ValueError(f"n_mfcc is {n_mfcc}, expected 1 to {n_mels} (n_mels)")
        self.sample_rate = sample_rate
        self.kind = kind
        self.window = round(sample_rate * window)  # samples
        self.hop = round(sample_rate * hop)  # samples
        self.n_fft = 1 << (self.window - 1).bit_length()
        self.preemphasis = preemphasis
        self.deltas = deltas
        self.top_db = top_db
        self.centre = centre
        self.size = n_mels if kind == "log_mel" else n_mfcc  # without deltas
        self.output_size = self.size * (1 + deltas)
        self._filters = partial(mel_filters, sample_rate, self.n_fft, n_mels=n_mels, fmin=fmin, fmax=fmax)
        dtype = torch.get_default_dtype()
        self.register_buffer("filters", self._filters().to(dtype), persistent=False)
        self.register_buffer("cosines", cosines(n_mels)[:, :n_mfcc].to(dtype), persistent=False)

    def length(self, samples: int) -> int:
        """Return the number of frames for a number of samples."""
        samples = samples + self.window if self.centre else samples
        return (samples - self.window) // self.hop + 1 if samples >= self.window else 0

    def forward(
        self,
        samples: Tensor,  # (B, N)
        mask: Tensor | None = None,  # (B, N), True where real; right-padded
        state: Any = None,  # as returned by the previous call; None at the start
        *,
        warps: Tensor | None = None,  # (B,), factors of the filter frequencies (VTLP); None: 1
    ) -> tuple[Tensor, Tensor, "Spectrum.State"]:  # (B, T, D), zero in the padding; (B, T); the state after each row
        if samples.dim() != 2:
            raise ValueError(f"samples have shape {tuple(samples.shape)}, expected (batch, samples)")
        check_input(samples.unsqueeze(-1), mask, size=1, like=self.filters)
        if self.centre and state is not None:
            raise ValueError("a centred spectrum needs the whole sequence at once: use centre=False, or no state")
        if self.top_db and state is not None:
            raise ValueError("top_db needs the whole sequence at once: use top_db=0, or no state")
        if warps is not None and warps.shape != samples.shape[:1]:
            raise ValueError(f"warps have shape {tuple(warps.shape)}, expected {tuple(samples.shape[:1])}")
        state = self._start(samples) if state is None else self._check(state, samples)
        counts = samples.new_full((len(samples),), samples.shape[1], dtype=torch.int64)
        if mask is not None:
            samples, counts = samples.masked_fill(~mask, 0), mask.sum(dim=1)
        signal, last = self._preemphasise(samples, counts, state.last)
        if mask is not None:
            signal = signal.masked_fill(~mask, 0)
        if self.centre:
            left = self.n_fft // 2 - (self.n_fft - self.window) // 2  # position of librosa's window
            signal, counts = nn.functional.pad(signal, (left, self.window - left)), counts + self.window
        signal, counts = _prepend(state.pending, state.pending_length, signal, counts)
        lengths = ((counts - self.window).div(self.hop, rounding_mode="floor") + 1).clamp(min=0)
        time = int(lengths.max()) if len(lengths) else 0
        real = torch.arange(time, device=samples.device) < lengths.unsqueeze(1)
        frames, past, started = self._append_deltas(self._frames(signal, real, warps), lengths, state)
        pending, pending_length = _pending(signal, counts, lengths * self.hop, self.window - 1)
        return (
            frames.masked_fill(~real.unsqueeze(-1), 0),
            real,
            self.State(pending, pending_length, last, past, started),
        )

    def _frames(self, signal: Tensor, real: Tensor, warps: Tensor | None) -> Tensor:  # (B, M), (B, T) → (B, T, size)
        time = real.shape[1]
        needed = (time - 1) * self.hop + self.window if time else 0
        signal = signal[:, :needed]
        if not time:
            return signal.new_zeros(len(signal), 0, self.size)
        # In single precision, the rounding errors of a loud band would exceed quiet ones.
        exact = signal.dtype if signal.device.type == "mps" else torch.float64
        window = torch.hann_window(self.window, dtype=exact, device=signal.device)
        transformed = torch.fft.rfft(signal.to(exact).unfold(1, self.window, self.hop) * window, n=self.n_fft)
        energies = (transformed.real.square() + transformed.imag.square()).to(signal.dtype)  # (B, T, n_fft / 2 + 1)
        filters = self.filters if warps is None else self._filters(warps).to(self.filters)
        logs: Tensor = (energies @ filters).clamp(min=MIN_ENERGY).log()  # (B, T, n_mels)
        if self.top_db:
            loudest = logs.masked_fill(~real.unsqueeze(-1), -math.inf).amax(dim=(1, 2), keepdim=True)
            logs = logs.maximum(loudest - self.top_db * math.log(10) / 10)
        return logs if self.kind == "log_mel" else logs @ self.cosines

    def _preemphasise(self, samples: Tensor, counts: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        extended = torch.cat([last, samples], dim=1)
        signal = samples - self.preemphasis * extended[:, :-1] if self.preemphasis else samples
        return signal, extended.gather(1, counts.unsqueeze(1))

    def _append_deltas(self, frames: Tensor, lengths: Tensor, state: "Spectrum.State") -> tuple[Tensor, Tensor, Tensor]:
        """Append the slopes; the first frame is repeated before the start."""
        started = state.started | (lengths > 0)
        if not self.deltas:
            return frames, state.past, started
        width = 2 * DELTA_REACH
        first = frames[:, :1] if frames.shape[1] else frames.new_zeros(len(frames), 1, self.size)
        starting = (~state.started & (lengths > 0)).view(-1, 1, 1)
        past = torch.where(starting, first, state.past)
        extended = torch.cat([past, frames], dim=1)  # (B, width · deltas + T, size)
        positions = lengths.unsqueeze(1) + torch.arange(past.shape[1], device=frames.device)
        last = extended.gather(1, positions.unsqueeze(-1).expand(-1, -1, self.size))
        parts, slopes = [frames], extended
        for order in range(1, self.deltas + 1):
            slopes = _slope(slopes)
            parts.append(slopes[:, width * (self.deltas - order) :])
        return torch.cat(parts, dim=2), last, started

    def _start(self, samples: Tensor) -> "Spectrum.State":
        rows = len(samples)
        zeros = torch.zeros(rows, dtype=torch.int64, device=samples.device)
        pending, last = samples.new_zeros(rows, self.window - 1), samples.new_zeros(rows, 1)
        past = samples.new_zeros(rows, 2 * DELTA_REACH * self.deltas, self.size)
        return self.State(pending, zeros, last, past, zeros.bool())

    def _check(self, state: Any, samples: Tensor) -> "Spectrum.State":
        initial = self._start(samples)
        if not isinstance(state, tuple) or len(state) != len(initial):
            raise TypeError(f"state is {type(state).__name__}, expected Spectrum.State")
        for name, field, like in zip(initial._fields, state, initial, strict=True):
            if field.shape != like.shape:
                raise ValueError(f"state.{name} has shape {tuple(field.shape)}, expected {tuple(like.shape)}")
            if field.dtype != like.dtype or field.device != like.device:
                raise TypeError(
                    f"state.{name} is {field.dtype} on {field.device}, expected {like.dtype} on {like.device}"
                )
        return self.State(*state)

    def extra_repr(self) -> str:
        sizes = f"window={self.window}, hop={self.hop}, size={self.output_size}"
        return f"{self.kind}, sample_rate={self.sample_rate}, {sizes}"


class Normalize(Layer):
    """Normalises each feature to mean zero and standard deviation one.

    ``global``: with the given mean and deviation. ``utterance``: with those of the row, which must be given at once.
    ``level``: differences from the given mean with one mean and one deviation of the row for all features, so that the
    spectrum keeps its shape.
    ``streaming``: with those of the frames so far, where the given ones count as ``prior`` frames.
    """

    class State(NamedTuple):
        frames: Tensor  # (B, 1), number of frames so far
        total: Tensor  # (B, D), sum of the differences from the given mean
        squares: Tensor  # (B, D), sum of their squares

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        size: int,
        *,
        kind: Literal["none", "global", "utterance", "level", "streaming"] = "utterance",
        mean: Sequence[float] | None = None,  # None: zeros
        deviation: Sequence[float] | None = None,  # None: ones
        prior: float = 100.0,  # frames
    ) -> None:
        super().__init__(size, size)
        if kind not in ("none", "global", "utterance", "level", "streaming"):
            raise ValueError(f"kind is {kind!r}, expected none, global, utterance, level or streaming")
        if prior <= 0:
            raise ValueError(f"prior must be greater than 0, got {prior}")
        for name, values in (("mean", mean), ("deviation", deviation)):
            if values is not None and len(values) != size:
                raise ValueError(f"{name} has {len(values)} values, expected {size}")
        self.kind = kind
        self.prior = prior
        self.register_buffer("mean", torch.zeros(size) if mean is None else torch.tensor(list(mean)))
        self.register_buffer("deviation", torch.ones(size) if deviation is None else torch.tensor(list(deviation)))

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, "Normalize.State"]:
        check_input(x, mask, size=self.input_size, like=self.mean)
        real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        counted = real.unsqueeze(-1)
        previous = self._start(x) if state is None else self._check(state, x)
        difference = (x - self.mean).masked_fill(~counted, 0)
        if self.kind == "none":
            return x.masked_fill(~counted, 0), previous
        if self.kind == "global":
            return difference / self.deviation.clamp(min=MIN_DEVIATION), previous
        if self.kind in ("utterance", "level"):
            axes = (1,) if self.kind == "utterance" else (1, 2)
            count = counted.expand_as(x).sum(dim=axes, keepdim=True).clamp(min=1)
            centred = (difference - difference.sum(dim=axes, keepdim=True) / count).masked_fill(~counted, 0)
            variance = centred.square().sum(dim=axes, keepdim=True) / count
            return centred / (variance + MIN_DEVIATION**2).sqrt(), previous
        count = previous.frames.unsqueeze(1) + counted.to(x.dtype).cumsum(dim=1)  # (B, T, 1)
        total = previous.total.unsqueeze(1) + difference.cumsum(dim=1)
        squares = previous.squares.unsqueeze(1) + difference.square().cumsum(dim=1)
        centre = total / (count + self.prior)
        variance = (squares + self.prior * self.deviation.square()) / (count + self.prior) - centre.square()
        y = ((difference - centre) / (variance.clamp(min=0) + MIN_DEVIATION**2).sqrt()).masked_fill(~counted, 0)
        if not x.shape[1]:
            return y, previous
        return y, self.State(count[:, -1], total[:, -1], squares[:, -1])

    def start(self, batch: int, memory: Memory | None = None, *, coverage: bool = False) -> "Normalize.State":  # noqa: ARG002
        return self._start(self.mean.new_zeros(batch, 0, self.input_size))

    def _start(self, x: Tensor) -> "Normalize.State":
        zeros = x.new_zeros(len(x), self.input_size)
        return self.State(x.new_zeros(len(x), 1), zeros, zeros)

    def _check(self, state: Any, x: Tensor) -> "Normalize.State":
        if not isinstance(state, tuple) or len(state) != 3:
            raise TypeError(f"state is {type(state).__name__}, expected Normalize.State")
        for name, field, like in zip(self.State._fields, state, self._start(x), strict=True):
            if field.shape != like.shape:
                raise ValueError(f"state.{name} has shape {tuple(field.shape)}, expected {tuple(like.shape)}")
        return self.State(*state)

    def extra_repr(self) -> str:
        return f"{self.input_size}, kind={self.kind}"


def mel_filters(
    sample_rate: int,
    n_fft: int,
    warps: Tensor | None = None,  # (B,)
    *,
    n_mels: int,
    fmin: float,
    fmax: float,
) -> Tensor:  # (n_fft / 2 + 1, n_mels); with warps (B, n_fft / 2 + 1, n_mels)
    """Triangular filters of area one, equidistant on Slaney's mel scale (1998), optionally warped."""
    edges = mel_band_edges(n_mels, fmin=fmin, fmax=fmax)
    if warps is not None:
        factors = warps.double().cpu().view(-1, 1, 1)
        edges = warp_frequencies(edges, factors, nyquist=sample_rate / 2)  # (B, 1, n_mels + 2)
    bins = torch.arange(n_fft // 2 + 1, dtype=torch.float64).unsqueeze(1) * sample_rate / n_fft
    left, top, right = edges[..., :-2], edges[..., 1:-1], edges[..., 2:]
    triangles = torch.minimum((bins - left) / (top - left), (right - bins) / (right - top)).clamp(min=0)
    return triangles * 2 / (right - left)


def mel_band_edges(n_mels: int, *, fmin: float, fmax: float) -> Tensor:  # (n_mels + 2,), in Hz
    """The edges of mel bands; each band reaches from the one before its centre to the one after it."""
    low, high = hertz_to_mel(torch.tensor([fmin, fmax], dtype=torch.float64)).tolist()
    return _hertz(torch.linspace(low, high, n_mels + 2, dtype=torch.float64))


def warp_frequencies(hertz: Tensor, warps: Tensor, *, nyquist: float) -> Tensor:
    """Multiply frequencies by the warps; the highest are interpolated up to Nyquist (Jaitly and Hinton 2013)."""
    bend = VTLP_BREAK * nyquist * warps.clamp(max=1)  # warped frequency up to which the factor applies
    slope = (nyquist - bend) / (nyquist - bend / warps)
    return torch.where(hertz <= bend / warps, hertz * warps, nyquist - slope * (nyquist - hertz))


def hertz_to_mel(hertz: Tensor) -> Tensor:
    """Frequencies on Slaney's mel scale: linear up to 1000 Hz, then logarithmic."""
    linear = MEL_BREAK / HERTZ_PER_MEL
    return torch.where(
        hertz < MEL_BREAK, hertz / HERTZ_PER_MEL, linear + (hertz.clamp(min=MEL_BREAK) / MEL_BREAK).log() / MEL_LOG_STEP
    )


def _hertz(mel: Tensor) -> Tensor:
    linear = MEL_BREAK / HERTZ_PER_MEL
    return torch.where(mel < linear, mel * HERTZ_PER_MEL, MEL_BREAK * ((mel - linear) * MEL_LOG_STEP).exp())


def cosines(size: int) -> Tensor:  # (size, size)
    """Matrix of the orthonormal DCT-II, one cosine per column."""
    return cosine_series(torch.arange(size, dtype=torch.float64), size)


def cosine_series(places: Tensor, size: int) -> Tensor:  # (…,), in bands from 0 → (…, size)
    """The cosines of the orthonormal DCT-II of ``size`` bands, also between the bands."""
    table = torch.cos(math.pi / size * (places.unsqueeze(-1) + 0.5) * torch.arange(size, dtype=torch.float64))
    table = table * math.sqrt(2 / size)
    table[..., 0] /= math.sqrt(2)
    return table


def _slope(x: Tensor) -> Tensor:  # (B, 4 + T, D) → (B, T, D)
    """Slope of the least-squares line through five frames."""
    count = x.shape[1] - 2 * DELTA_REACH
    weights = [
        step / (2 * sum(n * n for n in range(1, DELTA_REACH + 1))) for step in range(-DELTA_REACH, DELTA_REACH + 1)
    ]
    return sum((weight * x[:, start : start + count] for start, weight in enumerate(weights)), x.new_zeros(()))


def _prepend(pending: Tensor, pending_length: Tensor, x: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Concatenate each row's pending samples and x, left-aligned; also return the new lengths."""
    if not bool(pending_length.any()):
        return x, counts
    joined = torch.cat([pending, x], dim=1)
    positions = (pending.shape[1] - pending_length).unsqueeze(1) + torch.arange(joined.shape[1], device=x.device)
    return joined.gather(1, positions.clamp(max=joined.shape[1] - 1)), counts + pending_length


def _pending(x: Tensor, counts: Tensor, start: Tensor, size: int) -> tuple[Tensor, Tensor]:  # → (B, size), (B,)
    """Return the samples of each row from ``start`` on, right-aligned after zeros, and their number."""
    positions = counts.unsqueeze(1) - size + torch.arange(size, device=x.device)
    padded = nn.functional.pad(x, (0, 1)) if not x.shape[1] else x
    pending = padded.gather(1, positions.clamp(min=0, max=padded.shape[1] - 1))
    return pending.masked_fill(positions < start.unsqueeze(1), 0), counts - start


def _check_options(
    sample_rate: int, window: float, hop: float, *, n_mels: int, fmin: float, fmax: float, deltas: int
) -> None:
    if sample_rate < 1:
        raise ValueError(f"sample_rate must be at least 1, got {sample_rate}")
    if not 1 <= round(sample_rate * hop) <= round(sample_rate * window):
        raise ValueError(f"hop is {hop} and window {window}: expected at least one sample and hop ≤ window")
    if n_mels < 1:
        raise ValueError(f"n_mels must be at least 1, got {n_mels}")
    if not 0 <= fmin < fmax <= sample_rate / 2:
        raise ValueError(f"fmin is {fmin} and fmax {fmax}: expected 0 ≤ fmin < fmax ≤ {sample_rate / 2:g}")
    if deltas not in (0, 1, 2):
        raise ValueError(f"deltas is {deltas}, expected 0, 1 or 2")
