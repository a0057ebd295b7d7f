"""Configuration of audio features: spectrum, normalisation, and augmentation in training."""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import islice, takewhile
from typing import Literal, Self

from pydantic import Field, field_validator

from seqloom.config import ConfigSection, Document
from seqloom.layers.audio.augment import (
    MAX_SPEED_DENOMINATOR,
    MIN_WARP,
    VTLP,
    AdditiveNoise,
    RandomCrop,
    RandomFilter,
    RandomOffset,
    SpecAugment,
    SpeedPerturbation,
)
from seqloom.layers.audio.cepstral_warp import CepstralWarp
from seqloom.layers.audio.spectrum import Normalize, Spectrum
from seqloom.layers.audio.trim import TrimSilence
from seqloom.models.signals.feature_extractor import FeatureExtractor
from seqloom.models.signals.statistics import HIGHEST_RATE, SignalStatistics

Normalization = Literal["none", "global", "utterance", "level", "streaming"]
HEAD = 10  # recordings that show the sampling rate
MAX_MASK_WIDTH = 8  # of the default frequency masks


class AudioFeatures(ConfigSection):
    """How audio becomes frames. Of files of MFCC frames, it says how they were made."""

    features: Literal["log_mel", "mfcc"] = Field(
        default="log_mel", description="Log mel energies, or mel-frequency cepstral coefficients."
    )
    sample_rate: int = Field(
        default=0,
        ge=0,
        le=HIGHEST_RATE,
        description="Sampling rate in Hz to which all audio is resampled (0: the most frequent one of the first ten).",
    )
    window: float = Field(default=0.025, gt=0, le=1, description="Window length of a frame, in seconds.")
    hop: float = Field(default=0.01, gt=0, le=1, description="Step between frames, in seconds.")
    n_mels: int = Field(default=40, ge=1, le=1024, description="Number of mel bands.")
    n_mfcc: int = Field(
        default=13, ge=1, le=1024, description="Number of MFCC coefficients; also the frame size of Sphinx .mfc files."
    )
    fmin: float = Field(default=20.0, ge=0, description="Lowest frequency of the mel bands, in Hz.")
    fmax: float = Field(
        default=0.0, ge=0, description="Highest frequency of the mel bands, in Hz (0: half the sampling rate)."
    )
    preemphasis: float = Field(
        default=0.0, ge=0, lt=1, description="Pre-emphasis coefficient (0: none); 0.97 is usual for MFCC."
    )
    deltas: int = Field(
        default=0,
        ge=0,
        le=2,
        description="Append first (1) or first and second (2) differences of each feature (0: none).",
    )
    top_db: float = Field(
        default=0.0,
        ge=0,
        description="Clip energies at this many dB below the loudest of the recording (0: no clipping; streaming "
        "needs 0).",
    )

    def with_rate(self, rates: Iterable[int]) -> tuple[Self, str]:
        """With the most frequent sampling rate of the first recordings, and a note if they have several."""
        if self.sample_rate:
            return self, ""
        counts = Counter(takewhile(bool, islice(rates, HEAD)))  # 0: no sound
        if not counts:
            return self, ""
        ((rate, _),) = counts.most_common(1)
        several = " and ".join(str(each) for each in sorted(counts))
        note = (
            f"recordings have sampling rates of {several} Hz, all are resampled to {rate} Hz (task.audio.sample_rate)"
        )
        return self.model_copy(update={"sample_rate": rate}), note if len(counts) > 1 else ""

    @property
    def blocks(self) -> int:
        """The parts of a frame: the features, and their differences of each order."""
        return 1 + self.deltas

    def spectrum(self, rate: int) -> Spectrum:
        return Spectrum(
            rate,
            kind=self.features,
            window=self.window,
            hop=self.hop,
            n_mels=self.n_mels,
            n_mfcc=self.n_mfcc,
            fmin=self.fmin,
            fmax=self.fmax or None,
            preemphasis=self.preemphasis,
            deltas=self.deltas,
            top_db=self.top_db,
        )

    def trim(self, rate: int, top_db: float) -> TrimSilence | None:
        """The removal of silence at both ends of sound, at least one frame of which is kept."""
        if not top_db or not rate:
            return None
        return TrimSilence(rate, top_db=top_db, shortest=self.spectrum(rate).window)

    def cepstral_warp(self, size: int) -> CepstralWarp:
        """VTLP of MFCC frames of this size; ValueError if they cannot be MFCCs, or it is unknown how they were made."""
        if self.features != "mfcc" or not self.sample_rate or size % self.n_mfcc or size > 3 * self.n_mfcc:
            raise ValueError(
                'task.augment.vtlp needs sound, or MFCC frames and how they were made: task.audio.features = "mfcc", '
                "sample_rate, n_mfcc, n_mels, fmin and fmax; the recordings are frames of "
                f'{size} features, with features = "{self.features}", sample_rate = {self.sample_rate} and '
                f"n_mfcc = {self.n_mfcc}"
            )
        return CepstralWarp(
            self.sample_rate, n_mels=self.n_mels, n_mfcc=self.n_mfcc, fmin=self.fmin, fmax=self.fmax or None
        )


def feature_count(document: Document) -> int:
    """The features of a frame of sound, without their differences, as a document sets them or by default."""
    name = "n_mfcc" if document.get("task.audio.features") == "mfcc" else "n_mels"
    count = document.get(f"task.audio.{name}")
    return count if isinstance(count, int) else int(AudioFeatures.model_fields[name].default)


def mask_width(features: int) -> int:
    """The default width of a frequency mask: a fifth of the features, so that two masks leave most of a frame."""
    return min(features // 5, MAX_MASK_WIDTH)


class AugmentConfig(ConfigSection):
    """Augmentation of recordings in training."""

    freq_masks: int = Field(
        default=0, ge=0, le=100, description="Number of frequency masks (SpecAugment, Park et al. 2019; 0: none)."
    )
    freq_mask_width: int = Field(default=8, ge=0, description="Maximum width of a frequency mask, in features.")
    time_masks: int = Field(default=0, ge=0, le=100, description="Number of time masks (0: none).")
    time_mask_width: int = Field(default=20, ge=0, description="Maximum width of a time mask, in frames.")
    time_mask_fraction: float = Field(
        default=0.2, ge=0, le=1, description="Maximum width of a time mask as a fraction of the recording."
    )
    speed_perturb: tuple[float, ...] = Field(
        default=(),
        description="Speed factors, one of which is chosen at random, such as [0.9, 1.0, 1.1] (empty: no change).",
    )
    tempo_perturb: tuple[float, ...] = Field(
        default=(), description="Tempo factors, applied to the frames so that pitch is kept (empty: no change)."
    )
    crop: float = Field(
        default=0.0,
        ge=0,
        description="Seconds that are cut off at each end of the sound at most, and a quarter of it (0: none).",
    )
    offset: float = Field(
        default=0.0,
        ge=0,
        le=10,
        description="Standard deviation of a random offset of the normalised features, the same in all frames of a "
        "recording, as of another microphone (0: none).",
    )
    filter_db: float = Field(
        default=0.0,
        ge=0,
        le=40,
        description="Standard deviation of the slope of a random frequency response with which the sound is filtered, "
        "as by another microphone, in dB (0: none).",
    )
    noise_snr: tuple[float, ...] = Field(
        default=(),
        description="Range of the signal-to-noise ratio of added noise, in dB, such as [10, 40] (empty: none).",
    )
    vtlp: tuple[float, ...] = Field(
        default=(),
        description="Range of the frequency warping factor of vocal tract length perturbation (Jaitly and Hinton "
        "2013), such as [0.85, 1.18] (empty: none).",
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
        if factors and (len(factors) != 2 or not MIN_WARP <= factors[0] <= factors[1] <= 1 / MIN_WARP):
            bounds = f"between {MIN_WARP} and {1 / MIN_WARP:g}"
            raise ValueError(f"expected two numbers {bounds} in ascending order or none, found {list(factors)}")
        return factors

    @property
    def fastest(self) -> tuple[Fraction, Fraction]:
        """The highest speed and the highest tempo."""
        speed, tempo = (
            Fraction(max(factors, default=1.0)).limit_denominator(MAX_SPEED_DENOMINATOR)
            for factors in (self.speed_perturb, self.tempo_perturb)
        )
        return speed, tempo

    def build_vtlp(self) -> VTLP | None:
        return VTLP(self.vtlp[0], self.vtlp[1]) if self.vtlp else None

    def build_crop(self, rate: int) -> RandomCrop | None:
        return RandomCrop(round(self.crop * rate)) if self.crop else None

    def build_offset(self, audio: AudioFeatures, size: int) -> RandomOffset | None:
        """Offsets of frames of this size; ``audio`` says what they are."""
        smooth = audio.features == "log_mel"
        return RandomOffset(self.offset, size=size // audio.blocks, smooth=smooth) if self.offset else None

    def build_filter(self) -> RandomFilter | None:
        return RandomFilter(self.filter_db) if self.filter_db else None

    def build_noise(self) -> AdditiveNoise | None:
        return AdditiveNoise(self.noise_snr[0], self.noise_snr[1]) if self.noise_snr else None

    def build_speed(self) -> SpeedPerturbation | None:
        return SpeedPerturbation(self.speed_perturb) if self.speed_perturb else None

    def build_tempo(self) -> SpeedPerturbation | None:
        return SpeedPerturbation(self.tempo_perturb) if self.tempo_perturb else None

    def build_spec_augment(self) -> SpecAugment | None:
        if not self.freq_masks and not self.time_masks:
            return None
        return SpecAugment(
            freq_masks=self.freq_masks,
            freq_mask_width=self.freq_mask_width,
            time_masks=self.time_masks,
            time_mask_width=self.time_mask_width,
            time_mask_fraction=self.time_mask_fraction,
        )


def build_feature_extractor(
    audio: AudioFeatures,
    augment: AugmentConfig,
    normalize: Normalization,
    statistics: SignalStatistics,
    *,
    trim_db: float = 0.0,  # of sound; 0: keep the silence
) -> FeatureExtractor:
    """What an encoder of frames does before its layers."""
    normalise = Normalize(
        statistics.size, kind=normalize, mean=statistics.mean or None, deviation=statistics.deviation or None
    )
    for key in ("crop", "filter_db", "noise_snr"):
        if getattr(augment, key) and not statistics.rate:
            raise ValueError(f"task.augment.{key} needs sound; the recordings are frames of features")
    return FeatureExtractor(
        trim=audio.trim(statistics.rate, trim_db),
        spectrum=audio.spectrum(statistics.rate) if statistics.rate else None,
        normalise=None if normalize == "none" else normalise,
        speed=augment.build_speed(),
        crop=augment.build_crop(statistics.rate),
        random_filter=augment.build_filter(),
        noise=augment.build_noise(),
        warp=augment.build_vtlp(),
        cepstral_warp=audio.cepstral_warp(statistics.size) if augment.vtlp and not statistics.rate else None,
        offset=augment.build_offset(audio, statistics.size),
        tempo=augment.build_tempo(),
        augment=augment.build_spec_augment(),
    )
