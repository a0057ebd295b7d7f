"""The signals of a trained model as its inputs: checked, in order, scaled."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.config import Document
from seqloom.data.readers.media import Kind, MediaDecoder, Signal
from seqloom.data.readers.pixels import Resize
from seqloom.data.readers.tagged_media import Frames
from seqloom.models.signals.audio_features import AudioFeatures, feature_count, mask_width
from seqloom.models.signals.frame_encoder import TimeReductionConfig
from seqloom.models.signals.image_encoder import ImageEncoderConfig
from seqloom.models.signals.spectral_encoder import normalization_default
from seqloom.models.signals.statistics import LocatedSignal, SignalStatistics

_ENCODER_DEFAULTS: Mapping[Kind, Mapping[str, Any]] = {
    "vectors": {},
    "sound": {
        "task.prenet.layers": 1,
        "task.prenet.size": 128,
        "task.prenet.window": 5,
        "task.time_reduction.factor": 2,
        "task.augment.freq_masks": 2,
        "task.augment.time_masks": 2,
    },
    "image": {},
    "video": {"task.image_size": 32, "task.image_encoder.channels": 16},
}
DEPENDS_ON_KIND = {
    "task.time_reduction.factor": "2 for sound",
    "task.spectral_encoder.normalize": "true if spectral_encoder.layers is set and the encoder is bidirectional",
    "task.augment.freq_masks": "2 for sound, otherwise 0",
    "task.augment.freq_mask_width": "for sound a fifth of the features, at most 8",
    "task.augment.time_masks": "2 for sound, otherwise 0",
    "task.image_size": "64, for videos 32",
    "task.image_encoder.channels": "32, for videos 16",
}


def encoder_defaults(kind: Kind, document: Document) -> dict[str, Any]:
    """Settings of the encoder of a kind of signal, the same in all tasks."""
    if kind != "sound":
        return {**_ENCODER_DEFAULTS[kind]}
    width = mask_width(feature_count(document))
    return {
        **_ENCODER_DEFAULTS[kind],
        "task.augment.freq_mask_width": width,
        **normalization_default(document),
    }


def media_decoder(
    statistics: SignalStatistics | None,  # None: before training
    *,
    audio: AudioFeatures,
    image_size: int,
    resize: Resize,
) -> MediaDecoder:
    """The decoder of files and arrays for a task."""
    return MediaDecoder(
        sample_rate=audio.sample_rate if statistics is None else statistics.rate,
        n_mfcc=audio.n_mfcc,
        image_size=image_size,
        resize=resize,
    )


def sound_frames(signal: Signal, audio: AudioFeatures) -> Frames:
    """Sound as the frames of its spectrum; other signals as they are."""
    if not signal.rate:
        return Frames(signal.values)
    spectrum = audio.spectrum(signal.rate)
    with torch.no_grad():
        values, *_ = spectrum(torch.from_numpy(np.asarray(signal.values, np.float32)).unsqueeze(0))
    return Frames(values[0].numpy(), spectrum.hop / signal.rate, spectrum.window / 2 / signal.rate)


@dataclass(frozen=True)
class SignalInputs:
    """Turns signals into what an encoder reads."""

    statistics: SignalStatistics
    audio: AudioFeatures

    def values(self, example: LocatedSignal) -> NDArray[Any]:
        """The values of a signal, vectors with their channels in the order of the training data; an error if wrong."""
        values = self.statistics.in_order(example)
        ordered = example._replace(signal=Signal(values, example.signal.rate))
        self.statistics.check(ordered, window=self._window)
        return values

    def scaled(self, example: LocatedSignal) -> NDArray[Any]:
        """The same, scaled; sound is scaled by its encoder."""
        values = self.values(example)
        return values if self.statistics.rate else self.statistics.scale(values)

    def steps(self, values: NDArray[Any], image_encoder: ImageEncoderConfig, image_size: int) -> int:
        """The number of vectors, of frames, or of the cells of an image."""
        if self.statistics.kind == "image":
            return int(image_encoder.side(image_size) ** 2)
        if self.statistics.kind == "sound":
            return self.audio.spectrum(self.statistics.rate).length(len(values))
        return len(values)

    def seconds(self, steps: int, reduction: TimeReductionConfig) -> list[float]:
        """The time at which each output frame of sound starts."""
        return [step * reduction.total_factor * self.audio.hop for step in range(steps)]

    @cached_property
    def _window(self) -> int:
        """Samples that sound has to have at least; 1 for other signals."""
        rate = self.statistics.rate
        return self.audio.spectrum(rate).window if rate else 1
