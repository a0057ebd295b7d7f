"""Several models that answer as one: their probabilities are averaged at every step."""

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
    """Encoder-decoders with the same symbols, in the place of one, to be asked and not to be trained.

    It is its own decoder; the memory holds the memories of all models, and a state their states.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        for model in models:
            if not isinstance(model, EncoderDecoder):
                raise TypeError(f"only models of an encoder and a decoder go together, found {type(model).__name__}")
        self.models = nn.ModuleList(models)
        self._decoders = [cast(EncoderDecoder, model).decoder for model in models]
        self._together = ensemble([partial(step, decoder) for decoder in self._decoders])

    @property
    def decoder(self) -> Self:
        return self

    def encoder(self, inputs: Any, mask: Tensor) -> Memory:
        memories = tuple(cast(EncoderDecoder, model).encoder(inputs, mask) for model in self.models)
        return Memory(memories[0].values, memories[0].mask, memories)

    def start(self, memory: Memory, batch: int, *, coverage: bool = False) -> tuple[Any, ...]:
        pairs = zip(self._decoders, memory.state, strict=True)
        return tuple(decoder.start(own, batch, coverage=coverage) for decoder, own in pairs)

    def forward(
        self,
        tokens: Tensor,  # (B, T)
        state: tuple[Any, ...],
        *,
        mask: Tensor | None = None,  # noqa: ARG002  what is said of padding is not read
    ) -> tuple[Tensor, tuple[Any, ...]]:  # log-probabilities (B, T, V), state
        found = []
        for symbols in tokens.unbind(1):
            scores, state = self._together(symbols, state)
            found.append(scores)
        return torch.stack(found, dim=1), state

    features = forward
    """What is judged is the distribution itself."""

    def judge(
        self,
        features: Tensor,  # (N, V)
        target: Tensor,  # (N,)
    ) -> tuple[Tensor, Tensor]:  # (N,), (N,)
        """The log-probability of each target, and whether it is the most probable one."""
        return features.gather(1, target.unsqueeze(1)).squeeze(1), features.argmax(dim=1) == target
