"""Encoder-decoders: any encoder with any decoder, and the attention and bridge between them."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, Self, cast

from pydantic import Field, model_validator
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.layers.attention.attention import Attention, AttentionMechanism, ScoredAttention
from seqloom.layers.attention.decoder_attention import BahdanauAttention, FixedContext, LuongAttention
from seqloom.layers.attention.hard import HardAttention, estimator
from seqloom.layers.attention.local import LocalAttention
from seqloom.layers.attention.projected import ProjectedAttention
from seqloom.layers.bridge import BridgedLayer, recurrent_levels
from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Layer
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack
from seqloom.models.decoder import Decoder
from seqloom.models.encoder import TRANSFORMER, PrenetConfig, RecurrenceConfig, build_stack, group_above
from seqloom.models.scheduled_sampling import ScheduledSampling, TokenMixer

Bridge = Literal["linear", "copy", "zero"]


class AttentionConfig(ConfigSection):
    """Attention of a recurrent decoder to the source; Transformers have their own."""

    style: Literal["luong", "bahdanau", "none"] = Field(
        default="luong",
        description='"luong": after the recurrent step; "bahdanau": before it (slower); "none": no attention.',
    )
    score: Literal["dot", "scaled", "cosine", "multiplicative", "single_layer", "additive"] = Field(
        default="multiplicative", description="Score function between the decoder state and a source position."
    )
    score_size: int = Field(
        default=0, ge=0, description="Additive score: width of its hidden layer (0: the width of the query)."
    )
    heads: int = Field(
        default=1, ge=1, description="Attention heads, each with its own projections of queries, keys and values."
    )
    key_size: int = Field(
        default=0,
        ge=0,
        description="Width of the projected queries and keys of each head (0: the decoder's width / heads; no "
        "projection if heads is 1 and value_size is 0).",
    )
    value_size: int = Field(
        default=0,
        ge=0,
        description="Width of the projected values of each head (0: the source's width / heads; no projection if heads "
        "is 1 and key_size is 0).",
    )
    output_projection: bool = Field(
        default=True,
        description='Style "luong": pass on tanh(W [context; state]); false: [context; state] itself.',
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

    @model_validator(mode="after")
    def check_keys(self) -> Self:
        if self.score_size and self.score != "additive":
            raise ValueError(
                f'score_size is {self.score_size}, but score is "{self.score}": only "additive" has a hidden layer'
            )
        if self.heads > 1 and self.type == "hard":
            raise ValueError(f'heads is {self.heads}, but type is "hard", which chooses one position: set heads to 1')
        return self

    def build(self, query_size: int, memory_size: int) -> AttentionMechanism:
        """The attention of a decoder state to a source, in projections if heads or widths are set."""
        if self.heads == 1 and not self.key_size and not self.value_size:
            return self._build_head(query_size, memory_size)
        key_size = self.key_size or max(1, query_size // self.heads)
        return ProjectedAttention(
            query_size,
            memory_size,
            attention=self._build_head(key_size, key_size),
            heads=self.heads,
            value_size=self.value_size or max(1, memory_size // self.heads),
        )

    def _build_head(self, query_size: int, key_size: int) -> ScoredAttention:
        score: Any = {"score": self.score, "size": self.score_size or None}
        if self.type == "hard":
            return HardAttention(query_size, key_size, **score)
        if self.type == "local":
            return LocalAttention(query_size, key_size, window=self.window, predictive=self.predictive, **score)
        return Attention(query_size, key_size, **score)


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
        layers.append(LuongAttention(attention.build(size, memory_size), size if attention.output_projection else 0))
    whole = layers[0] if len(layers) == 1 else Stack(layers, dropout=Dropout(recurrence.dropout))
    if not recurrent_levels(whole):
        return whole
    return BridgedLayer(whole, encoder, memory_size=memory_size, kind=bridge)


def _bahdanau_layers(
    recurrence: RecurrenceConfig, attention: AttentionConfig, size: int, *, memory_size: int
) -> list[Layer]:
    """The first recurrent layer with attention before each step, and the layers above it."""
    if not recurrence.kinds:
        raise ValueError(
            'decoder.layers is 0, and attention.style is "bahdanau": there is no recurrent step to attend before'
        )
    mechanism = attention.build(recurrence.hidden_size, memory_size)
    return group_above(
        recurrence,
        size + mechanism.context_size,
        lambda lowest: BahdanauAttention(cast(Recurrent, lowest).cell, mechanism),
    )


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
    assemble: "Callable[[nn.Module, Decoder], EncoderDecoder] | None" = None,  # None: as an ``EncoderDecoder``
) -> "EncoderDecoder":
    """The encoder with the decoder that a configuration describes."""
    layer = build_decoder_layer(
        recurrence, attention, embed.embedding_dim, encoder=encoder_layer, memory_size=encoder.size, bridge=bridge
    )
    decoder = Decoder(embed, layer, tied=tied, dropout=recurrence.dropout, variational=recurrence.variational_dropout)
    model = (assemble or EncoderDecoder)(cast(nn.Module, encoder), decoder)
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

    def align(self, inputs: Any, target: Sequence[int]) -> Tensor | None:  # noqa: ARG002
        """The probability that each token of a target belongs to each source position; None: not computed."""
        return None

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
