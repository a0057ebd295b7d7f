"""What a transcriber does to a recording before it reads it: spectrum, scale, and changes in training."""

from typing import Literal

import torch
from pydantic import Field, field_validator
from torch import nn

from seqloom.config import ConfigSection
from seqloom.data.moments import RunningMoments
from seqloom.data.readers.recordings import Recording
from seqloom.data.readers.text_files import DataError
from seqloom.layers.audio.augment import NARROWEST, VTLP, AdditiveNoise, SpecAugment, SpeedPerturbation
from seqloom.layers.audio.spectrum import Normalise, Spectrum

Scale = Literal["none", "global", "utterance", "streaming"]


class AudioFeatures(ConfigSection):
    """How sound becomes frames; of frames, strokes and images nothing of it is used but coefficients."""

    features: Literal["log_mel", "mfcc"] = Field(
        default="log_mel", description="Energies on the mel scale, or cepstra."
    )
    sample_rate: int = Field(
        default=0, ge=0, description="Samples in a second that all sound is brought to; 0: as many as the first has."
    )
    window: float = Field(default=0.025, gt=0, description="Seconds that a frame sees.")
    hop: float = Field(default=0.01, gt=0, description="Seconds from frame to frame.")
    n_mels: int = Field(default=40, ge=1, description="Bands of the mel scale.")
    n_mfcc: int = Field(default=13, ge=1, description="Of mfcc; and numbers in a frame of a Sphinx .mfc file.")
    fmin: float = Field(default=20.0, ge=0, description="Hertz where the bands begin.")
    fmax: float = Field(default=0.0, ge=0, description="Hertz where they end; 0: half of the rate.")
    preemphasis: float = Field(
        default=0.0, ge=0, lt=1, description="Of high tones, as a filter; 0.97 is usual for mfcc."
    )
    deltas: int = Field(default=0, ge=0, le=2, description="1: with the slope of each number, 2: with its slope, too.")
    top_db: float = Field(
        default=0.0,
        ge=0,
        description="What is farther below the loudest of a recording is taken as that loud, so that silence is alike "
        "everywhere; 0: as it is, as a stream needs it.",
    )

    def spectrum(self, rate: int) -> Spectrum:
        return Spectrum(
            rate,
            kind=self.features,
            window=self.window,
            step=self.hop,
            mels=self.n_mels,
            coefficients=self.n_mfcc,
            lowest=self.fmin,
            highest=self.fmax or None,
            emphasis=self.preemphasis,
            deltas=self.deltas,
            decibels=self.top_db,
        )


class AugmentConfig(ConfigSection):
    """What is done to recordings in training, so that no two epochs are alike."""

    freq_masks: int = Field(default=0, ge=0, description="So many bands are hidden (SpecAugment, Park et al. 2019) …")
    freq_mask_width: int = Field(default=8, ge=0, description="… each of up to so many numbers of a frame.")
    time_masks: int = Field(default=0, ge=0, description="So many stretches of time are hidden …")
    time_mask_width: int = Field(default=20, ge=0, description="… each of up to so many frames …")
    time_mask_fraction: float = Field(default=0.2, ge=0, le=1, description="… and of up to this share of a recording.")
    speed_perturb: tuple[float, ...] = Field(
        default=(), description="A recording is played at one of these, such as [0.9, 1.0, 1.1]; none: as it is."
    )
    tempo_perturb: tuple[float, ...] = Field(
        default=(), description="The same for its frames, so that sound keeps its pitch and its voice."
    )
    noise_snr: tuple[float, ...] = Field(
        default=(),
        description="White noise is added to sound, so many decibels below it, such as [10, 40]; none: nothing.",
    )
    vtlp: tuple[float, ...] = Field(
        default=(),
        description="The frequencies of sound are stretched by a factor between two, such as [0.85, 1.18], as if a "
        "shorter or longer vocal tract had spoken (Jaitly and Hinton 2013); none: nothing.",
    )

    @field_validator("noise_snr")
    @classmethod
    def _check_noise_snr(cls, snr: tuple[float, ...]) -> tuple[float, ...]:
        if snr and (len(snr) != 2 or not 0 <= snr[0] <= snr[1]):
            raise ValueError(f"expected two numbers of at least 0 in ascending order or none, found {list(snr)}")
        return snr

    @field_validator("vtlp")
    @classmethod
    def _check_vtlp(cls, factors: tuple[float, ...]) -> tuple[float, ...]:
        if factors and (len(factors) != 2 or not NARROWEST <= factors[0] <= factors[1] <= 1 / NARROWEST):
            bounds = f"between {NARROWEST} and {1 / NARROWEST:g}"
            raise ValueError(f"expected two numbers {bounds} in ascending order or none, found {list(factors)}")
        return factors

    def voice(self) -> VTLP | None:
        return VTLP(self.vtlp[0], self.vtlp[1]) if self.vtlp else None

    def disturb(self) -> AdditiveNoise | None:
        return AdditiveNoise(self.noise_snr[0], self.noise_snr[1]) if self.noise_snr else None

    def speed(self) -> SpeedPerturbation | None:
        return SpeedPerturbation(self.speed_perturb) if self.speed_perturb else None

    def tempo(self) -> SpeedPerturbation | None:
        return SpeedPerturbation(self.tempo_perturb) if self.tempo_perturb else None

    def hide(self) -> SpecAugment | None:
        if not self.freq_masks and not self.time_masks:
            return None
        return SpecAugment(
            bands=self.freq_masks,
            band=self.freq_mask_width,
            stretches=self.time_masks,
            stretch=self.time_mask_width,
            share=self.time_mask_fraction,
        )


class AudioStatistics(ConfigSection):
    """What recordings are like, learnt from those of the training data."""

    rate: int  # samples in a second; 0: frames
    size: int  # numbers in a frame
    mean: tuple[float, ...] = ()  # of each of them; none: not asked for
    deviation: tuple[float, ...] = ()

    def check(self, example: Recording, *, window: int) -> None:
        """Refuse what a model of such recordings cannot read; a window needs so many samples."""
        shape = example.values.shape
        if bool(example.rate) is not bool(self.rate):
            kinds = [
                f"frames of {size} numbers" if not rate else "sound"
                for rate, size in ((example.rate, shape[-1]), (self.rate, self.size))
            ]
            raise DataError(example.location, f"found {kinds[0]}; the others are {kinds[1]}")
        if example.rate != self.rate:
            found = f"found {example.rate} samples in a second; the others have {self.rate}"
            raise DataError(example.location, f"{found}: set task.audio.sample_rate")
        if not self.rate and shape[1] != self.size:
            raise DataError(example.location, f"found {shape[1]} numbers in a frame; the others have {self.size}")
        if self.rate and len(example) < window:
            raise DataError(
                example.location, f"the sound {example.name} has {shape[0]} samples; a window needs {window}"
            )


class StatisticsCollector:
    """Listens to recordings one after the other, and learns what they are like."""

    def __init__(self, hearing: AudioFeatures, scale: Scale) -> None:
        self.hearing, self.scaled = hearing, scale in ("global", "streaming")
        self.moments = RunningMoments()
        self.heard: AudioStatistics | None = None
        self.spectrum: Spectrum | None = None

    def add(self, example: Recording) -> None:
        if self.heard is None:
            self.spectrum = self.hearing.spectrum(example.rate) if example.rate else None
            size = self.spectrum.output_size if self.spectrum else example.values.shape[1]
            self.heard = AudioStatistics(rate=example.rate, size=size)
        self.heard.check(example, window=self.spectrum.window if self.spectrum else 1)
        if self.scaled:
            values = example.values
            if self.spectrum is not None:
                values = self.spectrum(torch.from_numpy(values).unsqueeze(0))[0][0].numpy()
            self.moments.add(values)

    def learned(self) -> AudioStatistics:
        if self.heard is None:
            raise ValueError("nothing was heard")
        moments = self.moments
        return self.heard.model_copy(update={"mean": moments.means(), "deviation": moments.deviations()})


def build_feature_extractor(
    hearing: AudioFeatures, change: AugmentConfig, scale: Scale, heard: AudioStatistics
) -> dict[str, nn.Module | None]:
    """The parts of a transcriber that stand before its layers."""
    normalise = Normalise(heard.size, kind=scale, mean=heard.mean or None, deviation=heard.deviation or None)
    return {
        "spectrum": hearing.spectrum(heard.rate) if heard.rate else None,
        "normalise": None if scale == "none" else normalise,
        "speed": change.speed(),
        "noise": change.disturb() if heard.rate else None,
        "warp": change.voice() if heard.rate else None,
        "tempo": change.tempo(),
        "augment": change.hide(),
    }
