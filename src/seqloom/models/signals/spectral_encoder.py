"""Configuration of convolutions over the time and frequency of sound."""

from typing import Any

from pydantic import Field

from seqloom.config import ConfigSection, Document
from seqloom.layers.audio.spectral_convolution import SpectralConvolution


class SpectralEncoderConfig(ConfigSection):
    """3 × 3 convolutions over frames and mel bands; each layer halves the bands and keeps the frames."""

    layers: int = Field(default=0, ge=0, le=10, description="Number of layers (0: none).")
    channels: int = Field(default=16, ge=1, description="Channels of the first layer; each further one doubles them.")
    normalize: bool = Field(
        default=False,
        description="Normalise the outputs of each convolution over the recording (group normalisation, Wu and He "
        "2018); needs encoder.bidirectional.",
    )

    def check(self, *, bidirectional: bool) -> None:
        """ValueError if the layers need the whole recording, but the encoder reads it in one direction."""
        if self.layers and self.normalize and not bidirectional:
            needed = "spectral_encoder.normalize needs the whole recording"
            raise ValueError(f"{needed}: set it to false, or encoder.bidirectional to true")

    def build(
        self,
        size: int,  # width of a frame
        *,
        blocks: int,  # the bands, and their differences of each order
        causal: bool,
    ) -> list[SpectralConvolution]:
        """The layers; bands and differences are channels of the first one."""
        built: list[SpectralConvolution] = []
        bands, channels = size // blocks, blocks
        for level in range(self.layers):
            layer = SpectralConvolution(
                bands,
                input_channels=channels,
                channels=self.channels << level,
                causal=causal,
                normalize=self.normalize,
            )
            built.append(layer)
            bands, channels = layer.output_bands, layer.channels
        return built


def normalization_default(document: Document) -> dict[str, Any]:
    """Whether the convolutions that a document asks for are normalised: if the encoder sees the whole recording."""
    if not document.get("task.spectral_encoder.layers"):
        return {}
    return {"task.spectral_encoder.normalize": document.get("task.encoder.bidirectional") is not False}
