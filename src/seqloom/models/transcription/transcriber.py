"""CTC transcriber (Graves et al. 2006): from audio, frames or image columns to token logits at each frame."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.embedding import PADDING as BLANK
from seqloom.layers.layer import Layer
from seqloom.layers.time_reduction import Method, TimeReduction
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig, group_layers, is_cell_class
from seqloom.models.transcription.line_images import LineImageConfig


class TimeReductionConfig(ConfigSection):
    """Reduction of the frame rate: fewer frames take less work, but limit the length of a transcript."""

    method: Method = Field(
        default="stride",
        description='"stride": a strided convolution before the recurrence; "pyramid": adjacent outputs of a layer are '
        "concatenated for the next one.",
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


def layers_between_reductions(
    prenet: PrenetConfig, recurrence: RecurrenceConfig, reduction: TimeReductionConfig, *, input_size: int
) -> list[Layer | TimeReduction]:
    """The encoder layers, with the reductions between them."""
    recurrence.require_custom_layer()
    between = VariationalDropout(recurrence.dropout) if recurrence.variational_dropout else Dropout(recurrence.dropout)
    layers: list[Layer | TimeReduction] = []
    layers += prenet.build(input_size, causal=not recurrence.bidirectional, dropout=between)
    size = layers[-1].output_size if layers else input_size
    times = reduction.times if reduction.factor > 1 else 0
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


class Transcriber(nn.Module):
    """Values to logits, frame by frame.

    Called on chunks, with ``more`` for all but the last, it returns what it returns for the whole input, unless a part
    needs the whole sequence: bidirectional layers, normalisation by utterance, image columns.
    """

    class State(NamedTuple):
        spectrum: Any
        normalise: Any
        encoder: tuple[Any, ...]

    def __init__(
        self,
        encoder: Sequence[Layer | TimeReduction],
        *,
        size: int,  # width of the encoder's output
        vocab_size: int,  # including the blank
        spectrum: nn.Module | None = None,  # samples (B, N) → frames (B, T, D); None: the input is frames
        normalise: nn.Module | None = None,
        speed: nn.Module | None = None,  # in training: resample the values
        noise: nn.Module | None = None,  # in training: add noise to samples
        warp: nn.Module | None = None,  # in training: frequency warping factor of each row
        tempo: nn.Module | None = None,  # in training: resample the frames
        augment: nn.Module | None = None,  # in training: mask frames and features
        dropout: float = 0.0,
        variational: bool = False,
    ) -> None:
        super().__init__()
        self.speed, self.noise, self.warp = speed, noise, warp
        self.spectrum, self.normalise, self.tempo, self.augment = spectrum, normalise, tempo, augment
        self.encoder = nn.ModuleList(encoder)
        self.dropout: nn.Module = VariationalDropout(dropout) if variational else Dropout(dropout)
        self.output = nn.Linear(size, vocab_size)
        # The blank starts as probable as all other tokens together; otherwise one of them may take its role.
        nn.init.zeros_(self.output.bias)
        nn.init.constant_(self.output.bias[BLANK], math.log(vocab_size))

    def forward(
        self,
        values: Tensor,  # (B, N) samples, or (B, T, D) frames
        mask: Tensor,  # (B, N) or (B, T)
        state: Any = None,
        *,
        more: bool = False,  # another chunk follows
    ) -> tuple[Tensor, Tensor, "Transcriber.State"]:  # logits (B, T', V), their mask (B, T'), the state
        before = self.State((), (), (None,) * len(self.encoder)) if state is None else state
        if self.speed is not None and self.training:
            values, mask = self.speed(values, mask)
        if self.noise is not None and self.training:
            values, mask = self.noise(values, mask)
        spectrum_state: Any = ()
        if self.spectrum is not None:
            options = {"warps": self.warp(len(values))} if self.warp is not None and self.training else {}
            values, mask, spectrum_state = self.spectrum(values, mask, before.spectrum or None, **options)
        normalise_state: Any = ()
        if self.normalise is not None:
            values, normalise_state = self.normalise(values, mask, before.normalise or None)
        if self.tempo is not None and self.training:
            values, mask = self.tempo(values, mask)
        if self.augment is not None and self.training:
            values, mask = self.augment(values, mask)
        states = []
        for index, (part, past) in enumerate(zip(self.encoder, before.encoder, strict=True)):
            if isinstance(part, TimeReduction):
                values, mask, following = part(values, mask, past, more=more)
            else:
                values, following = part(self.dropout(values) if index else values, mask, past)
            states.append(following)
        logits: Tensor = self.output(self.dropout(values))
        return logits, mask, self.State(spectrum_state, normalise_state, tuple(states))


def build_transcriber(
    *,
    size: int,  # width of a frame
    vocab_size: int,
    image_encoder: LineImageConfig,
    prenet: PrenetConfig,
    recurrence: RecurrenceConfig,
    time_reduction: TimeReductionConfig,
    **features: Any,  # spectrum, normalise, speed, noise, warp, tempo, augment
) -> Transcriber:
    """The transcriber that a configuration describes."""
    encoder: list[Layer | TimeReduction] = []
    if image_encoder.layers:
        encoder = [image_encoder.build(size)]
        size = encoder[0].output_size
    encoder += layers_between_reductions(prenet, recurrence, time_reduction, input_size=size)
    return Transcriber(
        encoder,
        size=encoder[-1].output_size if encoder else size,
        vocab_size=vocab_size,
        dropout=recurrence.dropout,
        variational=recurrence.variational_dropout,
        **features,
    )
