"""From the values of a file to the frames that layers read: spectrum, normalisation, and augmentation in training."""

from typing import Any, NamedTuple

from torch import Tensor, nn


class FeatureExtractor(nn.Module):
    """Samples (B, N), frames (B, T, D) or videos (B, T, S, S, 3) to the frames that layers read."""

    class State(NamedTuple):
        spectrum: Any = ()
        normalise: Any = ()

    def __init__(
        self,
        *,
        trim: nn.Module | None = None,  # cut off the silence before and after
        spectrum: nn.Module | None = None,  # samples (B, N) → frames (B, T, D); None: the input is frames
        normalise: nn.Module | None = None,
        images: nn.Module | None = None,  # each frame of a video → a vector
        speed: nn.Module | None = None,  # in training: resample the values
        crop: nn.Module | None = None,  # in training: cut samples at both ends
        random_filter: nn.Module | None = None,  # in training: filter samples
        noise: nn.Module | None = None,  # in training: add noise to samples
        warp: nn.Module | None = None,  # in training: frequency warping factor of each row
        cepstral_warp: nn.Module | None = None,  # applies that factor where the input is MFCC frames
        offset: nn.Module | None = None,  # in training: move all normalised frames of a row
        tempo: nn.Module | None = None,  # in training: resample the frames
        augment: nn.Module | None = None,  # in training: mask frames and features
    ) -> None:
        super().__init__()
        self.trim = trim
        self.speed, self.crop, self.random_filter, self.noise, self.offset = speed, crop, random_filter, noise, offset
        self.warp, self.cepstral_warp = warp, cepstral_warp
        self.spectrum, self.normalise, self.images = spectrum, normalise, images
        self.tempo, self.augment = tempo, augment

    def forward(
        self,
        values: Tensor,  # (B, N) samples, or (B, T, D) frames
        mask: Tensor,  # (B, N) or (B, T)
        state: "FeatureExtractor.State | None" = None,
    ) -> tuple[Tensor, Tensor, "FeatureExtractor.State"]:  # (B, T, D), (B, T)
        before = state or self.State()
        if self.trim is not None:
            values, mask = self.trim(values, mask)
        for change in (self.speed, self.crop, self.random_filter, self.noise) if self.training else ():
            if change is not None:
                values, mask = change(values, mask)
        spectrum_state: Any = ()
        options = {"warps": self.warp(len(values))} if self.warp is not None and self.training else {}
        if self.spectrum is not None:
            values, mask, spectrum_state = self.spectrum(values, mask, before.spectrum or None, **options)
        elif self.cepstral_warp is not None and options:
            values = self.cepstral_warp(values, **options)
        normalise_state: Any = ()
        if self.normalise is not None:
            values, normalise_state = self.normalise(values, mask, before.normalise or None)
        if self.images is not None:
            values = self.images(values)
        for change in (self.offset, self.tempo, self.augment) if self.training else ():
            if change is not None:
                values, mask = change(values, mask)
        return values, mask, self.State(spectrum_state, normalise_state)
