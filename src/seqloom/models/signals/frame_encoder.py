"""Encoder of frames: features, a prenet, recurrent or Transformer layers, and reductions of the frame rate."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.layers.audio.spectral_convolution import SpectralConvolution
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.layer import Layer, Memory
from seqloom.layers.time_reduction import Method, TimeReduction
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig, group_layers, is_cell_class
from seqloom.models.signals.feature_extractor import FeatureExtractor


class TimeReductionConfig(ConfigSection):
    """Reduction of the frame rate: fewer frames take less work, but limit the length of a transcript."""

    method: Method = Field(
        default="stride",
        description='"stride": a strided convolution before the recurrence; "max": the maximum of adjacent frames, '
        'before the prenet; "pyramid": adjacent outputs of a layer are concatenated for the next one.',
    )
    factor: int = Field(default=1, ge=1, le=1000, description="Frames that become one (1: no reduction).")
    times: int = Field(
        default=1,
        ge=1,
        le=20,
        description="Number of reductions; with a pyramid, one after each of the first layers.",
    )

    @property
    def total_factor(self) -> int:
        """Input frames per output frame."""
        return int(self.factor**self.times)

    def frames(self, length: int) -> int:
        """The number of output frames for a number of input frames."""
        return -(-length // self.total_factor)


class FrameEncoder(nn.Module):
    """Values of a file to a memory, one vector per frame.

    On chunks, with ``more`` for all but the last, ``encode_chunk`` returns what it returns for the whole input, unless
    a part needs the whole sequence: bidirectional layers, normalisation by utterance, image columns.
    """

    class State(NamedTuple):
        features: Any
        layers: tuple[Any, ...]

    def __init__(
        self,
        layers: Sequence[Layer | TimeReduction],
        *,
        size: int,  # width of the output
        features: FeatureExtractor | None = None,
        dropout: float = 0.0,
        variational: bool = False,
    ) -> None:
        super().__init__()
        self.features = features or FeatureExtractor()
        self.layers = nn.ModuleList(layers)
        self.size = size
        self.dropout: nn.Module = VariationalDropout(dropout) if variational else Dropout(dropout)

    @property
    def last_layer(self) -> Layer | None:
        """The layer whose last state summarises the input, if it is the output."""
        last = self.layers[-1] if len(self.layers) else None
        return last if isinstance(last, Layer) else None

    def forward(
        self,
        values: Tensor,  # (B, N) samples, or (B, T, D) frames
        mask: Tensor,  # (B, N) or (B, T)
    ) -> Memory:
        return self.encode(*self.embed_inputs(values, mask))

    def embed_inputs(self, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The frames that the layers read, and their mask."""
        frames, mask, _ = self.features(values, mask)
        return frames, mask

    def encode(self, vectors: Tensor, mask: Tensor) -> Memory:  # (B, T, D), (B, T)
        values, mask, states = self._encode_frames(vectors, mask, ())
        return Memory(values, mask, states[-1] if self.last_layer is not None else ())

    def encode_chunk(
        self,
        values: Tensor,  # (B, N) samples, or (B, T, D) frames
        mask: Tensor,  # (B, N) or (B, T)
        state: "FrameEncoder.State | None" = None,
        *,
        more: bool = False,  # another chunk follows
    ) -> tuple[Tensor, Tensor, "FrameEncoder.State"]:  # (B, T', size), its mask (B, T'), the state
        before = state or self.State(None, (None,) * len(self.layers))
        frames, mask, features = self.features(values, mask, before.features)
        values, mask, states = self._encode_frames(frames, mask, before.layers, more=more)
        return values, mask, self.State(features, states)

    def _encode_frames(
        self, frames: Tensor, mask: Tensor, states: tuple[Any, ...], *, more: bool = False
    ) -> tuple[Tensor, Tensor, tuple[Any, ...]]:
        values, following = frames, []
        for index, (part, past) in enumerate(zip(self.layers, states or (None,) * len(self.layers), strict=True)):
            if isinstance(part, TimeReduction):
                values, mask, state = part(values, mask, past, more=more)
            else:
                is_dropped = index > 0 and not isinstance(part, SpectralConvolution)  # bands and frames are correlated
                values, state = part(self.dropout(values) if is_dropped else values, mask, past)
            following.append(state)
        return self.dropout(values), mask, tuple(following)


def build_frame_encoder(
    first: Sequence[Layer],  # layers before the prenet, such as convolutions over images
    *,
    size: int,  # width of a frame
    prenet: PrenetConfig,
    recurrence: RecurrenceConfig,
    time_reduction: TimeReductionConfig,
    features: FeatureExtractor | None = None,
) -> FrameEncoder:
    """The encoder that a configuration describes."""
    size = first[-1].output_size if first else size
    layers = [*first, *layers_between_reductions(prenet, recurrence, time_reduction, input_size=size)]
    return FrameEncoder(
        layers,
        size=layers[-1].output_size if layers else size,
        features=features,
        dropout=recurrence.dropout,
        variational=recurrence.variational_dropout,
    )


def layers_between_reductions(
    prenet: PrenetConfig, recurrence: RecurrenceConfig, reduction: TimeReductionConfig, *, input_size: int
) -> list[Layer | TimeReduction]:
    """The encoder layers, with the reductions between them."""
    recurrence.require_custom_layer()
    between = VariationalDropout(recurrence.dropout) if recurrence.variational_dropout else Dropout(recurrence.dropout)
    layers: list[Layer | TimeReduction] = []
    times = reduction.times if reduction.factor > 1 else 0
    if reduction.method == "max":
        layers += [TimeReduction(input_size, reduction.factor, method="max") for _ in range(times)]
        times = 0
    layers += prenet.build(input_size, causal=not recurrence.bidirectional, dropout=between)
    size = layers[-1].output_size if layers else input_size
    if reduction.method == "pyramid" and times:
        _check_pyramid(recurrence, times)
    kinds = recurrence.kinds
    for number in range(times):
        if reduction.method == "pyramid":
            (layer,) = group_layers(_with_cells(recurrence, kinds[number : number + 1]), size)
            layers.append(layer)
            size = layer.output_size
        layers.append(TimeReduction(size, reduction.factor, method=reduction.method))
        size = layers[-1].output_size
    rest = kinds[times:] if reduction.method == "pyramid" else kinds
    return [*layers, *group_layers(_with_cells(recurrence, rest), size)]


def _with_cells(recurrence: RecurrenceConfig, kinds: tuple[str, ...]) -> RecurrenceConfig:
    return recurrence.model_copy(update={"cell": kinds, "layers": len(kinds)})


def _check_pyramid(recurrence: RecurrenceConfig, times: int) -> None:
    if recurrence.layer_factory is not None and not is_cell_class(recurrence.layer_factory):
        raise ValueError(
            'time_reduction.method is "pyramid", which reduces between layers, but a custom layer is a single layer'
        )
    if recurrence.layers <= times and len(recurrence.kinds) <= times:
        raise ValueError(
            f"time_reduction.times is {times}: a pyramid reduces between layers and needs at least {times + 1}, "
            f"found {len(recurrence.kinds)}"
        )
