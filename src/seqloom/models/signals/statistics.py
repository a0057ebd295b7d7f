"""What the signals of the training data have in common: their kind, size and scale."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator

from seqloom.config import ConfigSection
from seqloom.data.feature_statistics import RunningMoments, check_scales
from seqloom.data.readers import pixels
from seqloom.data.readers.channel_names import match_channels
from seqloom.data.readers.media import Kind, Signal
from seqloom.data.readers.text_files import DataError, Location
from seqloom.layers.audio.spectrum import Spectrum

HIGHEST_RATE = 1_000_000
"""Samples per second."""


class LocatedSignal(NamedTuple):
    """A signal with what an error message says about it."""

    location: Location
    signal: Signal
    name: str = ""  # file name; empty if there is none
    channel_names: Sequence[str] = ()  # of vectors; empty: unknown

    def describe(self) -> str:
        """What it is in words: an image also where the decoder has made frames of its columns."""
        if self.signal.kind == "vectors" and Path(self.name).suffix.lower() in pixels.SUFFIXES:
            return describe("image", 3)
        return describe(self.signal.kind, self.signal.values.shape[-1])


class SignalStatistics(ConfigSection):
    """Properties of the signals, learned from the training data."""

    kind: Kind
    rate: int = Field(default=0, ge=0, le=HIGHEST_RATE)  # samples per second of sound
    size: int = Field(ge=1)  # features of a frame, or colours of a pixel
    mean: tuple[float, ...] = ()  # of each feature; empty: not needed
    deviation: tuple[float, ...] = ()
    channel_names: tuple[str, ...] = ()  # of vectors; empty: unknown

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_scales(self.mean, self.deviation, self.channel_names)
        if (self.kind == "sound") is not bool(self.rate):
            raise ValueError(f"expected a sampling rate of sound only, found {self.kind} with {self.rate} Hz")
        return self

    def check(self, example: LocatedSignal, *, window: int = 1) -> None:
        """Raise if a model of these signals cannot read the example; ``window`` is in samples."""
        location, (values, rate) = example.location, example.signal
        if example.signal.kind != self.kind:
            raise self._mismatch(example)
        if rate != self.rate:
            rates = f"expected a sampling rate of {self.rate} Hz as in the other recordings, found {rate} Hz"
            raise DataError(location, f"{rates}: set task.audio.sample_rate")
        if self.kind == "vectors" and values.shape[1] != self.size:
            raise self._mismatch(example)
        if self.kind == "sound" and len(values) < window:
            name = f" {example.name}" if example.name else ""
            raise DataError(location, f"the audio{name} has {len(values)} samples, but a window needs {window}")

    def _mismatch(self, example: LocatedSignal) -> DataError:
        expected = f"expected {describe(self.kind, self.size)} as in the other examples"
        return DataError(example.location, f"{expected}, found {example.describe()}")

    def in_order(self, example: LocatedSignal) -> NDArray[Any]:
        """The values of an example, vectors with their channels in the order of the training data."""
        values = example.signal.values
        if self.kind == "vectors" and example.signal.kind == "vectors":
            return match_channels(example.location, values, example.channel_names, self.channel_names)
        return values

    def scale(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Values with mean 0 and standard deviation 1 over the training data; unchanged if the scale is not known."""
        if not self.mean:
            return values.astype(np.float32)
        scaled: NDArray[Any] = (values - np.array(self.mean)) / np.array(self.deviation)
        return scaled.astype(np.float32)


def describe(kind: Kind, size: int) -> str:
    """The kind of a signal in words."""
    frames = f"frames of {size} {'feature' if size == 1 else 'features'}"
    return {"vectors": frames, "sound": "audio", "image": "an image", "video": "a video"}[kind]


class StatisticsCollector:
    """Computes the statistics of signals, one after the other."""

    def __init__(self, spectrum: Callable[[int], Spectrum], *, needs_moments: bool) -> None:
        self.make_spectrum, self.needs_moments = spectrum, needs_moments  # the spectrum of a sampling rate
        self.moments = RunningMoments()
        self.statistics: SignalStatistics | None = None
        self.spectrum: Spectrum | None = None

    def add(self, example: LocatedSignal) -> None:
        values, rate = example.signal
        kind = example.signal.kind
        if self.statistics is None:
            self.spectrum = self.make_spectrum(rate) if kind == "sound" else None
            size = self.spectrum.output_size if self.spectrum else values.shape[-1]
            names = tuple(example.channel_names)
            self.statistics = SignalStatistics(kind=kind, rate=rate, size=size).model_copy(
                update={"channel_names": names}
            )
        values = self.statistics.in_order(example)
        ordered = example._replace(signal=Signal(values, rate))
        self.statistics.check(ordered, window=self.spectrum.window if self.spectrum else 1)
        if self.needs_moments:
            if self.spectrum is not None:
                values = self.spectrum(torch.from_numpy(values).unsqueeze(0))[0][0].numpy()
            self.moments.add(values.reshape(-1, values.shape[-1]))

    def finish(self) -> SignalStatistics:
        if self.statistics is None:
            raise ValueError("there are no signals")
        moments = self.moments
        return self.statistics.model_copy(update={"mean": moments.means(), "deviation": moments.deviations()})
