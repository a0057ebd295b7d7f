"""Equalisation of sound by speaker, as cepstral mean normalisation by speaker in Kaldi: it removes the microphone."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, field_validator

from seqloom.config import ConfigSection
from seqloom.data.readers.text_files import STANDARD_INPUT, DataError, Source, pluralize
from seqloom.layers.audio.spectrum import Spectrum, mel_band_edges
from seqloom.models.signals.statistics import LocatedSignal

BANDS = 24
WINDOW, HOP = 0.032, 0.016  # seconds
SPEECH_DB = 30.0  # frames whose energy is at most this far below the loudest frame of the recording count as speech
MAX_GAIN_DB = 20.0
NEPER = 10 / math.log(10)  # decibels of a natural logarithm of energy
SHOWN = 5  # speakers that a note names

Example = TypeVar("Example")
Samples = NDArray[np.float32]
Bands = NDArray[np.float64]


class EqualizerConfig(ConfigSection):
    """Equalisation of sound by speaker: the mean spectrum of each speaker becomes that of the training speakers."""

    speaker_pattern: str = Field(
        default="",
        description="Regular expression that finds the speaker in the name of a recording, as its first group: "
        r"'([^/]+)/[^/]+$' is the folder (empty: no equalisation).",
    )
    prior: float = Field(
        default=2.0,
        ge=0,
        description="Seconds of speech of a speaker with which half of the difference in dB is equalised (0: all of "
        "it, however little speech there is).",
    )
    spectrum: tuple[float, ...] = Field(
        default=(),
        description="Mean log mel energies of the training speakers, without their mean (empty: measured in the "
        "training data).",
    )

    @field_validator("speaker_pattern")
    @classmethod
    def _check_pattern(cls, pattern: str) -> str:
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise ValueError(f"expected a regular expression, found {pattern!r}: {error}") from None
        if pattern and not groups:
            raise ValueError(f"expected a group in parentheses that names the speaker, found {pattern!r}")
        return pattern

    @field_validator("spectrum")
    @classmethod
    def _check_spectrum(cls, spectrum: tuple[float, ...]) -> tuple[float, ...]:
        if len(spectrum) not in (0, BANDS):
            raise ValueError(f"expected {BANDS} numbers or none, found {len(spectrum)}")
        return spectrum

    def speaker(self, name: str) -> str:
        """The speaker that the name of a recording shows; empty: none."""
        match = re.search(self.speaker_pattern, name)
        return (match[1] or "") if match else ""

    def check_export(self) -> None:
        """ValueError if recordings are equalised, which an exported model, to which they come one by one, cannot."""
        if self.speaker_pattern:
            raise ValueError(
                "an exported model cannot equalise sound by speaker: train without task.equalizer.speaker_pattern"
            )

    def conflict(self, other: "EqualizerConfig") -> str:
        """Why models with these equalisers cannot read the same recordings; empty if they can."""
        return "" if self == other else "are equalised differently (task.equalizer)"

    def warning(self, share: float) -> str:
        """A note about a recording of which this share is equalised, if it is less than half; otherwise empty."""
        if not self.spectrum or share >= 0.5:
            return ""
        return "too little sound of the speaker to equalise it (task.equalizer): give more recordings together"


@dataclass(frozen=True)
class MeanSpectrum:
    """The mean log mel energies of speech."""

    total: Bands  # (BANDS,), sum over frames
    frames: int

    def __add__(self, other: "MeanSpectrum") -> "MeanSpectrum":
        return MeanSpectrum(self.total + other.total, self.frames + other.frames)

    @property
    def shape(self) -> Bands:
        """The mean without its mean over the bands, the loudness."""
        mean = self.total / max(self.frames, 1)
        shape: Bands = mean - mean.mean()
        return shape

    @property
    def seconds(self) -> float:
        return self.frames * HOP


SILENCE = MeanSpectrum(np.zeros(BANDS), 0)


class SpectrumMeter:
    """Measures mean spectra of sound with one sampling rate, and filters it."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.spectrum = Spectrum(rate, n_mels=BANDS, window=WINDOW, hop=HOP)
        self.centres = mel_band_edges(BANDS, fmin=0.0, fmax=rate / 2)[1:-1].numpy()  # (BANDS,), in Hz

    def measure(self, samples: Samples) -> MeanSpectrum:
        """The mean spectrum of the frames with speech."""
        with torch.no_grad():
            logs = self.spectrum(torch.from_numpy(np.ascontiguousarray(samples)).unsqueeze(0))[0][0].double().numpy()
        if not len(logs) or not samples.any():
            return SILENCE
        levels = np.logaddexp.reduce(logs, axis=1)  # (T,)
        speech = logs[levels >= levels.max() - SPEECH_DB / NEPER]
        return MeanSpectrum(speech.sum(axis=0), len(speech))

    def filter(self, samples: Samples, gains: Bands) -> Samples:
        """Samples with these gains of their bands, in natural logarithms of energy, without a change of phase."""
        limit = MAX_GAIN_DB / NEPER
        size = 1 << (len(samples) + 2 * self.spectrum.window - 1).bit_length()
        frequencies = np.arange(size // 2 + 1) * (self.rate / size)
        response = np.exp(np.interp(frequencies, self.centres, gains.clip(-limit, limit)) / 2)
        filtered = np.fft.irfft(np.fft.rfft(samples.astype(np.float64), n=size) * response, n=size)
        return filtered[: len(samples)].astype(np.float32)


@dataclass(frozen=True)
class Equalizer(Generic[Example]):
    """Equalises the examples of a source, each with the mean spectrum of all recordings of its speaker in it."""

    config: EqualizerConfig
    signal: Callable[[Example], LocatedSignal]
    with_signal: Callable[[Example, Samples, float], Example]  # with other samples, and the share that is equalised

    def fit(self, read: Callable[[Source], Iterator[Example]], source: Source) -> tuple[EqualizerConfig, str]:
        """The configuration with the mean spectrum of the training speakers, unless it has one, and a note on them."""
        if not self.config.speaker_pattern or self.config.spectrum:
            return self.config, ""
        speakers = self._measure(read(source), required=True)
        if not speakers:
            return self.config, ""
        spectrum = np.mean([each.shape for each in speakers.values()], axis=0)
        names = ", ".join(sorted(speakers)[:SHOWN]) + (", …" if len(speakers) > SHOWN else "")
        note = f"{pluralize(len(speakers), 'speaker')} by task.equalizer.speaker_pattern: {names}"
        return self.config.model_copy(update={"spectrum": tuple(map(float, spectrum))}), note

    def read(self, read: Callable[[Source], Iterator[Example]], source: Source) -> Iterator[Example]:
        """The examples of a source, equalised once the spectrum of the training speakers is known."""
        return self._equalized(read, source) if self.config.spectrum else read(source)

    def _equalized(self, read: Callable[[Source], Iterator[Example]], source: Source) -> Iterator[Example]:
        """The equalised examples of a source, which is read twice.

        Recordings that name no speaker, and those of a stream, which cannot be read twice, are equalised on their own.
        """
        is_stream = isinstance(source, Path) and source == STANDARD_INPUT
        speakers = {} if is_stream else self._measure(read(source), required=False)
        for example in read(source):
            located = self.signal(example)
            samples, meter = located.signal.values, self._meter(located)
            mean = speakers.get(self.config.speaker(located.name)) or meter.measure(samples)
            share = mean.seconds / (mean.seconds + self.config.prior) if mean.frames else 0.0
            gains = share * (np.array(self.config.spectrum) - mean.shape)
            yield self.with_signal(example, meter.filter(samples, gains), share)

    def _measure(self, examples: Iterator[Example], *, required: bool) -> dict[str, MeanSpectrum]:
        """The mean spectrum of each speaker; ``required``: an error if a recording names none."""
        speakers: dict[str, MeanSpectrum] = {}
        for example in examples:
            located = self.signal(example)
            name = self.config.speaker(located.name)
            if not name and required:
                shown = f"the name {located.name!r}" if located.name else "a recording without a name"
                raise DataError(located.location, f"task.equalizer.speaker_pattern finds no speaker in {shown}")
            if name:
                measured = self._meter(located).measure(located.signal.values)
                speakers[name] = speakers.get(name, SILENCE) + measured
        return speakers

    def _meter(self, located: LocatedSignal) -> SpectrumMeter:
        signal = located.signal
        if signal.kind != "sound":
            raise DataError(located.location, f"found {signal.kind}; task.equalizer works with sound only")
        if signal.rate not in self._meters:
            self._meters[signal.rate] = SpectrumMeter(signal.rate)
        return self._meters[signal.rate]

    @cached_property
    def _meters(self) -> dict[int, SpectrumMeter]:
        """By their sampling rate."""
        return {}
