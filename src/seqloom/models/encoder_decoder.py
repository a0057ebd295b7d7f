"""One sequence in, another one out: any encoder with any decoder, and what carries the one to the other."""

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
    """How a recurrent decoder looks at the source; transformers do so by themselves."""

    style: Literal["luong", "bahdanau", "none"] = Field(
        default="luong",
        description="luong: after the recurrent step; bahdanau: before it (slower); none: no attention.",
    )
    score: Literal["dot", "scaled", "multiplicative", "additive"] = Field(
        default="multiplicative", description="How well a state of the decoder fits an element of the source."
    )
    type: Literal["soft", "hard", "local"] = Field(
        default="soft", description="A mean of all elements, one that is drawn, or those of a window."
    )
    window: int = Field(default=5, ge=1, description="local: elements on each side of the middle.")
    predictive: bool = Field(default=False, description="local: the middle is predicted, not the step's own number.")
    context: Literal["none", "last", "ends", "mean"] = Field(
        default="none",
        description="The source as one vector beside every input: the encoder's last word, both its ends, or its mean.",
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
    looks: AttentionConfig,
    input_size: int,
    *,
    encoder: Layer | None,  # whose last state the decoder begins with; None: it has none
    memory_size: int,
    bridge: Bridge,
) -> Layer:
    """The layers of a decoder that knows a source."""
    if recurrence.bidirectional:
        raise ValueError("decoder.bidirectional is true: a decoder must not see what it predicts")
    layers: list[Layer] = []
    if looks.context != "none":
        layers.append(FixedContext(input_size, memory_size, kind=looks.context))
    size = layers[-1].output_size if layers else input_size
    recurrent = not recurrence.custom_layer and TRANSFORMER not in recurrence.kinds
    if recurrent and looks.style == "bahdanau":
        layers += _looking_before(recurrence, looks, size, memory_size=memory_size)
    else:
        layers.append(build_stack(PrenetConfig(), recurrence, size, causal=True, memory_size=memory_size))
    if looks.style == "luong" and TRANSFORMER not in recurrence.kinds:
        size = layers[-1].output_size
        layers.append(LuongAttention(looks.build(size, memory_size), size))
    whole = layers[0] if len(layers) == 1 else Stack(layers, dropout=Dropout(recurrence.dropout))
    if not recurrent_levels(whole):
        return whole
    return BridgedLayer(whole, encoder, memory_size=memory_size, kind=bridge)


def _looking_before(
    recurrence: RecurrenceConfig, looks: AttentionConfig, size: int, *, memory_size: int
) -> list[Layer]:
    """The first recurrent layer looks before each step; others stand on it as always."""
    kinds = recurrence.kinds
    if not kinds:
        raise ValueError(
            'decoder.layers is 0, and attention.style is "bahdanau": there is no recurrent step to attend before'
        )
    (lowest,) = group_layers(
        recurrence.model_copy(update={"cell": kinds[:1], "layers": 1, "connection": "plain"}), size + memory_size
    )
    cell = cast(Recurrent, lowest).cell
    first = BahdanauAttention(cell, looks.build(cell.hidden_size, memory_size))
    rest = recurrence.model_copy(update={"cell": kinds[1:], "layers": len(kinds) - 1})
    return [first, *group_layers(rest, first.output_size)]


class InputEmbedding(Protocol):
    """A module that makes a memory of its inputs."""

    @property
    def size(self) -> int: ...  # the width of the memory's values


def build_encoder_decoder(
    encoder: InputEmbedding,
    embed: Embedding,
    recurrence: RecurrenceConfig,
    *,
    looks: AttentionConfig,
    reading: Layer | None,  # the encoder's layer; None: it has none
    bridge: Bridge,
    tied: bool,
    sampling: ScheduledSampling,
) -> "EncoderDecoder":
    """The encoder with a decoder of these settings."""
    layer = build_decoder_layer(
        recurrence, looks, embed.embedding_dim, encoder=reading, memory_size=encoder.size, bridge=bridge
    )
    decoder = Decoder(embed, layer, tied=tied, dropout=recurrence.dropout, variational=recurrence.variational_dropout)
    model = EncoderDecoder(cast(nn.Module, encoder), decoder)
    if sampling.schedule != "none":
        model.add_module("mixer", TokenMixer(sampling))
    return model


class EncoderDecoder(nn.Module):
    """An encoder makes a memory of the source; a decoder begins with it, and says the target symbol by symbol."""

    def __init__(self, encoder: nn.Module, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder  # the task's inputs and their mask → Memory
        self.decoder = decoder

    def start(
        self,
        inputs: Any,
        mask: Tensor,  # (B, S)
        *,
        coverage: bool = False,
    ) -> Any:
        """The state of the decoder before the first symbol."""
        return self.decoder.start(self.encoder(inputs, mask), len(mask), coverage=coverage)

    def features(
        self,
        inputs: Any,
        mask: Tensor,  # (B, S)
        tokens: Tensor,  # (B, T), the symbols before those that are to be said
        real: Tensor,  # (B, T), their mask
    ) -> Tensor:  # (N, D) of the real ones
        """Teacher forcing: what the softmax is computed from, of all steps in one call."""
        found, _ = self.decoder.features(tokens, self.start(inputs, mask), mask=real)
        return found[real]

    def loss(
        self,
        features: Tensor,  # (N, D), as `features` gives them
        target: Tensor,  # (B, T)
        real: Tensor,  # (B, T)
        *,
        smoothing: float = 0.0,
    ) -> (
        Tensor
    ):  # (), the sum of the targets' negative log-probabilities, and what stands for the choices of hard attention
        wanted = target[real]
        total = self.decoder.loss(features, wanted, smoothing=smoothing)
        if self.training and any(isinstance(part, HardAttention) for part in self.decoder.modules()):
            losses = features.new_zeros(real.shape)
            losses[real] = -self.decoder.log_probabilities(features.detach(), wanted)
            total = total + estimator(self.decoder, losses, real)
        return total
