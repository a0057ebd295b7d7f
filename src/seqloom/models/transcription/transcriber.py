"""CTC transcriber (Graves et al. 2006): from audio, frames or image columns to token logits at each frame."""

import math
from collections.abc import Callable
from typing import Protocol

from torch import Tensor, nn

from seqloom.layers.embedding import PADDING as BLANK
from seqloom.layers.layer import Memory
from seqloom.models.signals.frame_encoder import FrameEncoder


class CTCModel(Protocol):
    """A model that encodes recordings, and predicts tokens frame by frame: a transcriber, a joint one, or several."""

    @property
    def encoder(self) -> Callable[..., Memory]: ...  # values and their mask → Memory

    def frame_logits(self, memory: Memory) -> Tensor:  # (B, T', V)
        """The logits of an encoded recording."""

    def member_logits(self, memory: Memory) -> list[Tensor]:  # each (B, T', V)
        """The logits of each model of an ensemble, or of the only one."""


def ctc_output(size: int, vocab_size: int) -> nn.Linear:
    """The layer from vectors to logits of all tokens and the blank.

    The blank starts as probable as all other tokens together; otherwise one of them may take its role.
    """
    output = nn.Linear(size, vocab_size)
    nn.init.zeros_(output.bias)
    nn.init.constant_(output.bias[BLANK], math.log(vocab_size))
    return output


class Transcriber(nn.Module):
    """Values to logits, frame by frame; called on chunks, it returns what it returns for the whole input."""

    def __init__(
        self,
        encoder: FrameEncoder,
        *,
        vocab_size: int,  # including the blank
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = ctc_output(encoder.size, vocab_size)

    def frame_logits(self, memory: Memory) -> Tensor:  # (B, T', V)
        """The logits of an encoded recording."""
        logits: Tensor = self.output(memory.values)
        return logits

    def member_logits(self, memory: Memory) -> list[Tensor]:
        """The logits: there is only one model."""
        return [self.frame_logits(memory)]

    def forward(
        self,
        values: Tensor,  # (B, N) samples, or (B, T, D) frames
        mask: Tensor,  # (B, N) or (B, T)
        state: FrameEncoder.State | None = None,
        *,
        more: bool = False,  # another chunk follows
    ) -> tuple[Tensor, Tensor, FrameEncoder.State]:  # logits (B, T', V), their mask (B, T'), the state
        encoded, mask, state = self.encoder.encode_chunk(values, mask, state, more=more)
        return self.frame_logits(Memory(encoded, mask, ())), mask, state
