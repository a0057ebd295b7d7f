"""Default settings for what recordings are: audio, features of audio, pen strokes, images of text lines or videos."""

from pathlib import Path
from typing import Any

from seqloom.config import Document
from seqloom.data.readers import pixels
from seqloom.data.readers.recordings import Recording
from seqloom.models.signals.audio_features import feature_count, mask_width
from seqloom.models.signals.spectral_encoder import normalization_default

NARROW = 12  # features of a frame below which none of them is masked

DEPENDS_ON_RECORDINGS = {
    "task.text.unit": "words if there are few different words, such as digits, otherwise characters",
    "task.normalize": "utterance; global for pen strokes and images, and for models that can stream",
    "task.image_encoder.layers": "2 for images of text lines",
    "task.video_encoder.channels": "16 for videos",
    "task.prenet.layers": "1 for audio and its features, otherwise 0",
    "task.prenet.window": "5 for audio and its features",
    "task.time_reduction.factor": "3 for audio and its features, otherwise 1",
    "task.spectral_encoder.normalize": "true if spectral_encoder.layers is set and the encoder is bidirectional",
    "task.augment.freq_masks": "2 for audio and its features, otherwise 0",
    "task.augment.freq_mask_width": "a fifth of the features, at most 8",
    "task.augment.time_masks": "2 for audio and its features, otherwise 0",
    "task.encoder.hidden_size": "192, for fewer than 500 recordings 128",
}
"""How the defaults of transcribe depend on the recordings, by ``section.key``."""


def recording_defaults(document: Document, first: Recording | None) -> dict[str, Any]:
    """Reduction, prenet, normalisation and augmentation for recordings like the first one; None: for audio."""
    if first is not None and Path(first.name).suffix.lower() in pixels.SUFFIXES:
        return {"task.image_encoder.layers": 2, "task.normalize": "global"}
    if first is not None and first.values.ndim == 4:  # a video
        return {"task.normalize": "global", "task.video_encoder.channels": 16}
    audio = first is None or first.rate > 0
    width = 0 if first is None or audio else first.values.shape[1]
    if not audio and width < NARROW:  # pen strokes
        return {"task.normalize": "global", "task.time_reduction.factor": 1}
    if audio:
        width = feature_count(document)
    values = {"task.prenet.layers": 1, "task.prenet.window": 5, "task.time_reduction.factor": 3}
    values |= normalization_default(document)
    if width >= NARROW:
        values |= {"task.augment.freq_masks": 2, "task.augment.freq_mask_width": mask_width(width)}
        values |= {"task.augment.time_masks": 2}
    return values
