"""Sound, vectors, images and videos as the inputs of a graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.export_check import padded_samples, padded_vectors
from seqloom.layers.audio.spectrum import Normalize, Spectrum
from seqloom.layers.audio.trim import TrimSilence
from seqloom.models.encoder import Encoder
from seqloom.models.signals.encoders import GridEncoder
from seqloom.models.signals.feature_extractor import FeatureExtractor
from seqloom.models.signals.frame_encoder import FrameEncoder
from seqloom.models.signals.statistics import SignalStatistics
from seqloom.onnx.audio import emit_normalize, spectrum_input
from seqloom.onnx.graph import Graph, Value
from seqloom.onnx.images import image_input, padded_frames, video_input
from seqloom.onnx.inputs import Embed, Scale, vector_input
from seqloom.onnx.modules import Rows

Feed = Callable[[Sequence[NDArray[Any]]], dict[str, NDArray[Any]]]


@dataclass(frozen=True)
class SignalInput:
    """How signals enter a graph."""

    embed: Embed
    description: dict[str, Any]  # for the runtime
    feed: Feed  # signals as they were read, unscaled → inputs of the graph


def signal_input(
    statistics: SignalStatistics,
    encoder: Any,
    *,
    image_size: int,
    resize: str = "crop",  # how an image becomes a square: "crop" or "pad"
    line_height: int = 0,  # images are read as the columns of a text line of this height; 0: as squares
) -> SignalInput:
    """The input of a model of these signals."""
    scale = (statistics.mean, statistics.deviation) if statistics.mean else None
    features = encoder.features if isinstance(encoder, FrameEncoder) else FeatureExtractor()
    square = {"kind": statistics.kind, "size": image_size, "resize": resize}
    if isinstance(features.spectrum, Spectrum):
        described = sound_description(features.spectrum)
        trim = features.trim if isinstance(features.trim, TrimSilence) else None
        embed: Embed = partial(spectrum_input, spectrum=features.spectrum, trim=trim)
        return SignalInput(_normalized(features, embed), described, padded_samples)
    if statistics.kind == "image":
        images = encoder.images if isinstance(encoder, GridEncoder) else encoder
        embed = partial(image_input, images=images, size=image_size, scale=scale)
        return SignalInput(embed, square, lambda pixels: {"pixels": np.stack(pixels)})
    if statistics.kind == "video":
        frames: Any = encoder.embed if isinstance(encoder, Encoder) else features.images
        embed = partial(video_input, images=frames, size=image_size, scale=scale)
        return SignalInput(embed, square, padded_frames)
    described = {"kind": "vectors", "size": statistics.size, "channels": statistics.channel_names}
    if line_height == statistics.size:
        described["line_height"] = line_height
    return SignalInput(_vectors(features, statistics.size, scale), described, padded_vectors)


def sound_description(spectrum: Spectrum) -> dict[str, Any]:
    """What the runtime has to know of sound."""
    return {"kind": "sound", "rate": spectrum.sample_rate, "window": spectrum.window, "hop": spectrum.hop}


def _vectors(features: FeatureExtractor, size: int, scale: Scale | None) -> Embed:
    """Vectors, scaled by what an encoder of frames does itself, or by their means and deviations."""
    own = features.normalise is not None
    return _normalized(features, partial(vector_input, size=size, scale=None if own else scale))


def _normalized(features: FeatureExtractor, embed: Embed) -> Embed:
    normalize = features.normalise
    if not isinstance(normalize, Normalize):
        return embed

    def embed_normalized(graph: Graph) -> tuple[Value, Rows]:
        frames, rows = embed(graph)
        return emit_normalize(normalize, frames, rows), rows

    return embed_normalized
