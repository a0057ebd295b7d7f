"""Encoders of signals for classifiers and decoders: sound, images and videos to a memory."""

from typing import Any

import torch
from torch import Tensor, nn

from seqloom.layers.layer import Layer, Memory
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.signals.audio_features import (
    AudioFeatures,
    AugmentConfig,
    Normalization,
    build_feature_extractor,
)
from seqloom.models.signals.frame_encoder import TimeReductionConfig, build_frame_encoder
from seqloom.models.signals.image_encoder import ImageEncoder, ImageEncoderConfig
from seqloom.models.signals.spectral_encoder import SpectralEncoderConfig
from seqloom.models.signals.statistics import SignalStatistics


class FrameImages(nn.Module):
    """Each frame of a video as a vector, by the same convolutions: (B, T, S, S, 3) → (B, T, D).

    relu(W [c_1; …; c_R] + b) of the cells c of a frame, so that the vector says where something is.
    """

    def __init__(self, images: ImageEncoder) -> None:
        super().__init__()
        self.images = images
        self.size = images.size
        self.linear = nn.Linear(images.cells * images.size, self.size)

    def forward(self, frames: Tensor) -> Tensor:
        flat = frames.flatten(0, 1)
        mask = flat.new_ones(flat.shape[:2], dtype=torch.bool)
        cells, _ = self.images.embed_inputs(flat, mask, frames=frames.shape[1])  # (B T, R, D)
        vectors: Tensor = torch.relu(self.linear(cells.flatten(1)))
        return vectors.reshape(*frames.shape[:2], self.size)


class GridEncoder(nn.Module):
    """The cells of an image, row by row, as a sequence that a layer reads."""

    def __init__(self, images: ImageEncoder, layer: Layer) -> None:
        super().__init__()
        self.images, self.layer = images, layer
        self.size = layer.output_size

    @property
    def last_layer(self) -> Layer:
        """The layer whose last state summarises the image."""
        return self.layer

    def forward(self, images: Tensor, mask: Tensor) -> Memory:  # (B, S, S, 3), (B, S)
        return self.encode(*self.embed_inputs(images, mask))

    def embed_inputs(self, images: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The cells that the layer reads, and their mask."""
        return self.images.embed_inputs(images, mask)

    def encode(self, vectors: Tensor, mask: Tensor) -> Memory:
        values, state = self.layer(vectors, mask)
        return Memory(values, mask, state)


def build_signal_encoder(
    statistics: SignalStatistics,
    *,
    audio: AudioFeatures,
    augment: AugmentConfig,
    normalize: Normalization,  # of sound
    image_encoder: ImageEncoderConfig,
    image_size: int,
    spectral_encoder: SpectralEncoderConfig,
    prenet: PrenetConfig,
    recurrence: RecurrenceConfig,
    time_reduction: TimeReductionConfig,
    trim_db: float = 0.0,  # of sound; 0: keep the silence
    mean: bool = False,  # of an image, one cell: the mean of all
) -> Any:
    """The encoder of sound, images or videos: values and their mask to a memory."""
    if statistics.kind == "sound":
        causal = not recurrence.bidirectional
        return build_frame_encoder(
            spectral_encoder.build(statistics.size, blocks=audio.blocks, causal=causal),
            size=statistics.size,
            prenet=prenet,
            recurrence=recurrence,
            time_reduction=time_reduction,
            features=build_feature_extractor(audio, augment, normalize, statistics, trim_db=trim_db),
        )
    if statistics.kind == "video":
        frames = FrameImages(ImageEncoder(image_encoder, image_size))
        return Encoder(frames, build_stack(prenet, recurrence, frames.size))
    images = ImageEncoder(image_encoder, image_size, mean=mean)
    if not recurrence.kinds and not prenet.layers:
        return images
    return GridEncoder(images, build_stack(prenet, recurrence, images.size))
