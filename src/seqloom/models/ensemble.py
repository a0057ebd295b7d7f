"""An ensemble of encoder-decoders: their probabilities are averaged at every step."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from seqloom.decoding.tokens.ensemble import ensemble
from seqloom.layers.layer import Memory
from seqloom.models.decoder import step
from seqloom.models.encoder_decoder import EncoderDecoder


class Ensemble(nn.Module):
    """Encoder-decoders with the same vocabulary, used as one for prediction, not for training.

    It is its own decoder; its memory holds the memories of all models, and its state their states.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        for model in models:
            if not isinstance(model, EncoderDecoder):
                raise TypeError(f"an ensemble needs encoder-decoder models, found {type(model).__name__}")
        self.models = nn.ModuleList(models)
        self._decoders = [cast(EncoderDecoder, model).decoder for model in models]
        self._step = ensemble([partial(step, decoder) for decoder in self._decoders])

    @property
    def decoder(self) -> Self:
        return self

    def encoder(self, inputs: Any, mask: Tensor) -> Memory:
        memories = tuple(cast(EncoderDecoder, model).encoder(inputs, mask) for model in self.models)
        return Memory(memories[0].values, memories[0].mask, memories)

    def start(self, memory: Memory, batch: int, *, coverage: bool = False) -> tuple[Any, ...]:
        pairs = zip(self._decoders, memory.state, strict=True)
        return tuple(decoder.start(part, batch, coverage=coverage) for decoder, part in pairs)

    def forward(
        self,
        tokens: Tensor,  # (B, T)
        state: tuple[Any, ...],
        *,
        mask: Tensor | None = None,  # noqa: ARG002  a decoder's signature; outputs at padding are not used
    ) -> tuple[Tensor, tuple[Any, ...]]:  # log-probabilities (B, T, V), state
        log_probs = []
        for column in tokens.unbind(1):
            scores, state = self._step(column, state)
            log_probs.append(scores)
        return torch.stack(log_probs, dim=1), state

    features = forward
    """The log-probabilities themselves: there is no softmax after them."""

    def score_tokens(
        self,
        features: Tensor,  # (N, V)
        target: Tensor,  # (N,)
    ) -> tuple[Tensor, Tensor]:  # (N,), (N,)
        """The log-probability of each target, and whether it is the most probable token."""
        return features.gather(1, target.unsqueeze(1)).squeeze(1), features.argmax(dim=1) == target
