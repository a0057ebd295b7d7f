"""Encoder-decoders: any encoder with any decoder, and the attention and bridge between them."""

from typing import Any, Literal, Protocol, cast

from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.layers.attention.attention import Attention, AttentionMechanism
from seqloom.layers.attention.decoder_attention import BahdanauAttention, FixedContext, LuongAttention
from seqloom.layers.attention.hard import HardAttention, estimator
from seqloom.layers.attention.local import LocalAttention
from seqloom.layers.bridge import BridgedLayer, recurrent_levels
from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Layer
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack
from seqloom.models.decoder import Decoder
from seqloom.models.encoder import TRANSFORMER, PrenetConfig, RecurrenceConfig, build_stack, group_layers
from seqloom.models.scheduled_sampling import ScheduledSampling, TokenMixer

Bridge = Literal["linear", "copy", "zero"]


class AttentionConfig(ConfigSection):
    """Attention of a recurrent decoder to the source; Transformers have their own."""

    style: Literal["luong", "bahdanau", "none"] = Field(
        default="luong",
        description='"luong": after the recurrent step; "bahdanau": before it (slower); "none": no attention.',
    )
    score: Literal["dot", "scaled", "multiplicative", "additive"] = Field(
        default="multiplicative", description="Score function between the decoder state and a source position."
    )
    type: Literal["soft", "hard", "local"] = Field(
        default="soft", description='"soft": over all positions; "hard": one sampled position; "local": over a window.'
    )
    window: int = Field(default=5, ge=1, description="Local attention: positions on each side of the centre.")
    predictive: bool = Field(
        default=False,
        description="Local attention: predict the centre of the window instead of using the decoding step.",
    )
    context: Literal["none", "last", "ends", "mean"] = Field(
        default="none",
        description="Source vector appended to every decoder input. last: the last encoder output; ends: the last "
        "output of the forward and the first of the backward direction; mean: the mean of all outputs.",
    )

    def build(self, query_size: int, key_size: int) -> AttentionMechanism:
        if self.type == "hard":
            return HardAttention(query_size, key_size, score=self.score)
        if self.type == "local":
            return LocalAttention(
                query_size, key_size, score=self.score, window=self.window, predictive=self.predictive
            )
        return Attention(query_size, key_size, score=self.score)


def build_decoder_layer(
    recurrence: RecurrenceConfig,
    attention: AttentionConfig,
    input_size: int,
    *,
    encoder: Layer | None,  # whose last state initialises the decoder; None: it has none
    memory_size: int,
    bridge: Bridge,
) -> Layer:
    """The layers of a decoder with a source."""
    if recurrence.bidirectional:
        raise ValueError("decoder.bidirectional is true: a decoder must not see what it predicts")
    layers: list[Layer] = []
    if attention.context != "none":
        layers.append(FixedContext(input_size, memory_size, kind=attention.context))
    size = layers[-1].output_size if layers else input_size
    recurrent = not recurrence.custom_layer and TRANSFORMER not in recurrence.kinds
    if recurrent and attention.style == "bahdanau":
        layers += _bahdanau_layers(recurrence, attention, size, memory_size=memory_size)
    else:
        layers.append(build_stack(PrenetConfig(), recurrence, size, causal=True, memory_size=memory_size))
    if attention.style == "luong" and TRANSFORMER not in recurrence.kinds:
        size = layers[-1].output_size
        layers.append(LuongAttention(attention.build(size, memory_size), size))
    whole = layers[0] if len(layers) == 1 else Stack(layers, dropout=Dropout(recurrence.dropout))
    if not recurrent_levels(whole):
        return whole
    return BridgedLayer(whole, encoder, memory_size=memory_size, kind=bridge)


def _bahdanau_layers(
    recurrence: RecurrenceConfig, attention: AttentionConfig, size: int, *, memory_size: int
) -> list[Layer]:
    """The first recurrent layer with attention before each step, and the layers above it."""
    kinds = recurrence.kinds
    if not kinds:
        raise ValueError(
            'decoder.layers is 0, and attention.style is "bahdanau": there is no recurrent step to attend before'
        )
    (lowest,) = group_layers(
        recurrence.model_copy(update={"cell": kinds[:1], "layers": 1, "connection": "plain"}), size + memory_size
    )
    cell = cast(Recurrent, lowest).cell
    first = BahdanauAttention(cell, attention.build(cell.hidden_size, memory_size))
    rest = recurrence.model_copy(update={"cell": kinds[1:], "layers": len(kinds) - 1})
    return [first, *group_layers(rest, first.output_size)]


class SourceEncoder(Protocol):
    """A module from inputs to a memory."""

    @property
    def size(self) -> int: ...  # the width of the memory's values


def build_encoder_decoder(
    encoder: SourceEncoder,
    embed: Embedding,
    recurrence: RecurrenceConfig,
    *,
    attention: AttentionConfig,
    encoder_layer: Layer | None,  # None: the encoder has no layer with a state
    bridge: Bridge,
    tied: bool,
    scheduled_sampling: ScheduledSampling,
) -> "EncoderDecoder":
    """The encoder with the decoder that a configuration describes."""
    layer = build_decoder_layer(
        recurrence, attention, embed.embedding_dim, encoder=encoder_layer, memory_size=encoder.size, bridge=bridge
    )
    decoder = Decoder(embed, layer, tied=tied, dropout=recurrence.dropout, variational=recurrence.variational_dropout)
    model = EncoderDecoder(cast(nn.Module, encoder), decoder)
    if scheduled_sampling.schedule != "none":
        model.add_module("mixer", TokenMixer(scheduled_sampling))
    return model


class EncoderDecoder(nn.Module):
    """An encoder from the source to a memory, and a decoder that starts from it."""

    def __init__(self, encoder: nn.Module, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder  # the task's inputs and their mask → Memory
        self.decoder = decoder

    @property
    def single_decoder(self) -> Decoder | None:
        """The decoder, whose attention and gates can be shown; None if there are several, as in an ensemble."""
        return self.decoder

    def start(
        self,
        inputs: Any,
        mask: Tensor,  # (B, S)
        *,
        coverage: bool = False,
    ) -> Any:
        """The state of the decoder before the first token."""
        return self.decoder.start(self.encoder(inputs, mask), len(mask), coverage=coverage)

    def features(
        self,
        inputs: Any,
        mask: Tensor,  # (B, S)
        tokens: Tensor,  # (B, T), the tokens before those to predict
        real: Tensor,  # (B, T), their mask
    ) -> Tensor:  # (N, D) of the real ones
        """Teacher forcing: the input of the softmax for all steps in one call."""
        features, _ = self.decoder.features(tokens, self.start(inputs, mask), mask=real)
        return features[real]

    def loss(
        self,
        features: Tensor,  # (N, D), as `features` gives them
        target: Tensor,  # (B, T)
        real: Tensor,  # (B, T)
        *,
        smoothing: float = 0.0,
    ) -> Tensor:  # ()
        """The sum of the targets' negative log-probabilities, and the gradient estimator of hard attention."""
        labels = target[real]
        total = self.decoder.loss(features, labels, smoothing=smoothing)
        if self.training and any(isinstance(part, HardAttention) for part in self.decoder.modules()):
            losses = features.new_zeros(real.shape)
            losses[real] = -self.decoder.log_probabilities(features.detach(), labels)
            total = total + estimator(self.decoder, losses, real)
        return total
