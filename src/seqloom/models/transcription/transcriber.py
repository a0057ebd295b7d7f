"""From sound, frames or columns to a score for each symbol at each frame, for CTC (Graves et al. 2006)."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import Field
from torch import Tensor, nn

from seqloom.cells.cell import Cell
from seqloom.config import ConfigSection
from seqloom.layers.convolution import Convolution
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.embedding import PADDING as BLANK
from seqloom.layers.layer import Layer
from seqloom.layers.time_reduction import Method, TimeReduction
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig, group_layers
from seqloom.models.transcription.line_images import LineImageConfig, LineImageEncoder


class TimeReductionConfig(ConfigSection):
    """How many frames become one: fewer frames are less work, and a transcript may not be longer than they allow."""

    method: Method = Field(
        default="stride",
        description="stride: a convolution before the recurrence; pyramid: outputs of a layer side by side, below the "
        "next one.",
    )
    factor: int = Field(default=1, ge=1, description="So many become one; 1: all stay.")
    times: int = Field(default=1, ge=1, description="How often; pyramid: between so many layers and the next ones.")

    @property
    def whole(self) -> int:
        """Frames that become one in the end."""
        return int(self.factor**self.times)

    def frames(self, length: int) -> int:
        """How many are left of so many."""
        return -(-length // self.whole)


def layers_between_reductions(
    front: PrenetConfig, recurrence: RecurrenceConfig, reduction: TimeReductionConfig, *, input_size: int
) -> list[Layer | TimeReduction]:
    """The layers that read the frames, with the reductions between them."""
    recurrence.require_custom_layer()
    found: list[Layer | TimeReduction] = []
    size = input_size
    for _ in range(front.layers):
        options = {"window": front.window, "activation": front.activation}
        found.append(Convolution(size, front.size, causal=not recurrence.bidirectional, **options))  # type: ignore[arg-type]
        size = front.size
    times = reduction.times if reduction.factor > 1 else 0
    if reduction.method == "pyramid" and times:
        _check_pyramid(recurrence, times)
    kinds = recurrence.kinds
    for number in range(times):
        if reduction.method == "pyramid":
            (layer,) = group_layers(_some(recurrence, kinds[number : number + 1]), size)
            found.append(layer)
            size = layer.output_size
        found.append(TimeReduction(size, reduction.factor, method=reduction.method))
        size = found[-1].output_size
    rest = kinds[times:] if reduction.method == "pyramid" else kinds
    return [*found, *group_layers(_some(recurrence, rest), size)]


def _some(recurrence: RecurrenceConfig, kinds: tuple[str, ...]) -> RecurrenceConfig:
    return recurrence.model_copy(update={"cell": kinds, "layers": len(kinds)})


def _check_pyramid(recurrence: RecurrenceConfig, times: int) -> None:
    given = recurrence.given
    if given is not None and not (isinstance(given, type) and issubclass(given, Cell)):
        raise ValueError('a layer of your own is one layer, and reduction.kind is "pyramid": it stands between layers')
    if recurrence.layers <= times and len(recurrence.kinds) <= times:
        raise ValueError(
            f"reduction.times is {times}, and there are {len(recurrence.kinds)} layers: a pyramid stands between them, "
            f"so that at least {times + 1} are wanted"
        )


class Transcriber(nn.Module):
    """Values to logits, frame by frame; what it is made of is given.

    In pieces, with ``more`` for all but the last, it gives what it gives of the whole, if all of its parts do: those
    that need the whole sequence (two directions, a normalisation by utterance, columns of an image) do not.
    """

    class State(NamedTuple):
        sound: Any  # of the spectrum
        scale: Any  # of the normalisation
        parts: tuple[Any, ...]

    def __init__(
        self,
        encoder: Sequence[Layer | TimeReduction],
        *,
        size: int,  # width of what the encoder gives
        symbols: int,  # the blank included
        spectrum: nn.Module | None = None,  # samples (B, N) → frames (B, T, D); None: frames are given
        normalise: nn.Module | None = None,
        speed: nn.Module | None = None,  # of training: values played faster or slower
        noise: nn.Module | None = None,  # of training: added to samples
        warp: nn.Module | None = None,  # of training: how far each row's frequencies are stretched
        tempo: nn.Module | None = None,  # of training: frames played faster or slower
        augment: nn.Module | None = None,  # of training: some of the frames hidden
        dropout: float = 0.0,
        variational: bool = False,
    ) -> None:
        super().__init__()
        self.speed, self.noise, self.warp = speed, noise, warp
        self.spectrum, self.normalise, self.tempo, self.augment = spectrum, normalise, tempo, augment
        self.encoder = nn.ModuleList(encoder)
        self.dropout: nn.Module = VariationalDropout(dropout) if variational else Dropout(dropout)
        self.output = nn.Linear(size, symbols)
        # The blank begins as probable as all symbols together; otherwise one of them may settle in its place.
        nn.init.zeros_(self.output.bias)
        nn.init.constant_(self.output.bias[BLANK], math.log(symbols))

    def forward(
        self,
        values: Tensor,  # (B, N) samples, or (B, T, D) frames
        mask: Tensor,  # (B, N) or (B, T)
        state: Any = None,
        *,
        more: bool = False,  # another piece follows
    ) -> tuple[Tensor, Tensor, "Transcriber.State"]:  # logits (B, T', V), their mask (B, T'), the state
        before = self.State((), (), (None,) * len(self.encoder)) if state is None else state
        if self.speed is not None and self.training:
            values, mask = self.speed(values, mask)
        if self.noise is not None and self.training:
            values, mask = self.noise(values, mask)
        sound: Any = ()
        if self.spectrum is not None:
            changed = {"warps": self.warp(len(values))} if self.warp is not None and self.training else {}
            values, mask, sound = self.spectrum(values, mask, before.sound or None, **changed)
        scale: Any = ()
        if self.normalise is not None:
            values, scale = self.normalise(values, mask, before.scale or None)
        if self.tempo is not None and self.training:
            values, mask = self.tempo(values, mask)
        if self.augment is not None and self.training:
            values, mask = self.augment(values, mask)
        states = []
        for index, (part, past) in enumerate(zip(self.encoder, before.parts, strict=True)):
            if isinstance(part, TimeReduction):
                values, mask, following = part(values, mask, past, more=more)
            else:
                values, following = part(self.dropout(values) if index else values, mask, past)
            states.append(following)
        logits: Tensor = self.output(self.dropout(values))
        return logits, mask, self.State(sound, scale, tuple(states))


def build_transcriber(
    *,
    size: int,  # width of a frame
    symbols: int,
    look: LineImageConfig,
    front: PrenetConfig,
    recurrence: RecurrenceConfig,
    reduction: TimeReductionConfig,
    **listening: Any,  # spectrum, normalise, speed, noise, warp, tempo, augment
) -> Transcriber:
    """A transcriber of the parts of a configuration."""
    seen: list[Layer | TimeReduction] = []
    if look.layers:
        seen = [LineImageEncoder(look, size)]
        size = seen[0].output_size
    encoder = [*seen, *layers_between_reductions(front, recurrence, reduction, input_size=size)]
    return Transcriber(
        encoder,
        size=encoder[-1].output_size if encoder else size,
        symbols=symbols,
        dropout=recurrence.dropout,
        variational=recurrence.variational_dropout,
        **listening,
    )
