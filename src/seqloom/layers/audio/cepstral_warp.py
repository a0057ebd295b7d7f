"""Vocal tract length perturbation of MFCC frames, whose samples are not available."""

from torch import Tensor, nn

from seqloom.layers.audio.spectrum import cosine_series, cosines, hertz_to_mel, mel_band_edges, warp_frequencies


class CepstralWarp(nn.Module):
    """Warps the frequency axis of MFCC frames by one linear map per row (Pitz & Ney 2005).

    Cepstral coefficients are the cosine series of a log mel spectrum. The series is evaluated at the warped frequency
    of each mel band, and the result is transformed back. The coefficients beyond the given ones count as zero.
    Deltas are linear in the frames, so that each block of coefficients is warped in the same way.
    """

    cosines: Tensor

    def __init__(
        self,
        sample_rate: int,
        *,
        n_mels: int,
        n_mfcc: int,
        fmin: float,
        fmax: float | None = None,  # None: half the sampling rate
    ) -> None:
        super().__init__()
        fmax = sample_rate / 2 if fmax is None else fmax
        if not 0 <= fmin < fmax <= sample_rate / 2:
            raise ValueError(f"fmin is {fmin} and fmax {fmax}: expected 0 ≤ fmin < fmax ≤ {sample_rate / 2:g}")
        if not 1 <= n_mfcc <= n_mels:
            raise ValueError(f"n_mfcc is {n_mfcc}, expected 1 to n_mels = {n_mels}")
        self.sample_rate, self.n_mels, self.n_mfcc = sample_rate, n_mels, n_mfcc
        self.edges = mel_band_edges(n_mels, fmin=fmin, fmax=fmax)
        self.register_buffer("cosines", cosines(n_mels)[:, :n_mfcc], persistent=False)

    def matrices(self, warps: Tensor) -> Tensor:  # (B,) → (B, n_mfcc, n_mfcc), float64
        """The map of each row from its frames to the warped ones: frames @ matrix."""
        centres = warp_frequencies(self.edges[1:-1], warps.double().cpu().unsqueeze(1), nyquist=self.sample_rate / 2)
        first, last = hertz_to_mel(self.edges[1]), hertz_to_mel(self.edges[-2])
        places = (hertz_to_mel(centres) - first) / (last - first) * (self.n_mels - 1)  # in bands
        places = places.clamp(0, self.n_mels - 1)  # no band has been measured beyond the first and the last
        series = cosine_series(places, self.n_mels)[..., : self.n_mfcc]  # (B, n_mels, n_mfcc)
        return series.transpose(1, 2) @ self.cosines.cpu()

    def forward(self, frames: Tensor, warps: Tensor) -> Tensor:  # (B, T, k · n_mfcc), (B,) → (B, T, k · n_mfcc)
        if frames.dim() != 3 or not frames.shape[2] or frames.shape[2] % self.n_mfcc:
            shape = f"(batch, time, a multiple of {self.n_mfcc})"
            raise ValueError(f"frames have shape {tuple(frames.shape)}, expected {shape}")
        blocks = frames.unflatten(2, (-1, self.n_mfcc))  # (B, T, k, n_mfcc)
        warped: Tensor = blocks @ self.matrices(warps).to(frames).unsqueeze(1)
        return warped.flatten(2)

    def extra_repr(self) -> str:
        return f"sample_rate={self.sample_rate}, n_mels={self.n_mels}, n_mfcc={self.n_mfcc}"
