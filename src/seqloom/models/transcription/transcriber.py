"""CTC transcriber (Graves et al. 2006): from audio, frames or image columns to token logits at each frame."""

import math
from abc import ABC, abstractmethod
from typing import cast

from torch import Tensor, nn

from seqloom.layers.embedding import PADDING as BLANK
from seqloom.layers.layer import Memory
from seqloom.models.signals.frame_encoder import FrameEncoder


class CTCModel(nn.Module, ABC):
    """A model that predicts tokens frame by frame, or an ensemble of such models."""

    @abstractmethod
    def member_logits(self, memory: Memory) -> list[Tensor]:  # each (B, T', V)
        """The logits of each model of an ensemble, or of the only one, of an encoded recording."""

    def require_single(self, use: str) -> "FrameTranscriber":
        """The model itself; an ensemble raises a ValueError that names the use."""
        raise ValueError(f"{use} needs one model: the CTC models of an ensemble place tokens in different frames")


class FrameTranscriber(CTCModel):
    """Values to logits, frame by frame; called on chunks, it returns what it returns for the whole input."""

    encoder: nn.Module  # a FrameEncoder
    output: nn.Linear

    def frame_logits(self, memory: Memory) -> Tensor:  # (B, T', V)
        """The logits of an encoded recording."""
        logits: Tensor = self.output(memory.values)
        return logits

    def member_logits(self, memory: Memory) -> list[Tensor]:
        return [self.frame_logits(memory)]

    def require_single(self, use: str) -> "FrameTranscriber":  # noqa: ARG002
        return self

    def forward(
        self,
        values: Tensor,  # (B, N) samples, or (B, T, D) frames
        mask: Tensor,  # (B, N) or (B, T)
        state: FrameEncoder.State | None = None,
        *,
        more: bool = False,  # another chunk follows
    ) -> tuple[Tensor, Tensor, FrameEncoder.State]:  # logits (B, T', V), their mask (B, T'), the state
        encoded, mask, state = self.frame_encoder.encode_chunk(values, mask, state, more=more)
        return self.frame_logits(Memory(encoded, mask, ())), mask, state

    @property
    def frame_encoder(self) -> FrameEncoder:
        return cast(FrameEncoder, self.encoder)


def ctc_output(size: int, vocab_size: int) -> nn.Linear:
    """The layer from vectors to logits of all tokens and the blank.

    The blank starts as probable as all other tokens together; otherwise one of them may take its role.
    """
    output = nn.Linear(size, vocab_size)
    nn.init.zeros_(output.bias)
    nn.init.constant_(output.bias[BLANK], math.log(vocab_size))
    return output


class Transcriber(FrameTranscriber):
    """A frame encoder, and the layer from its vectors to logits."""

    def __init__(
        self,
        encoder: FrameEncoder,
        *,
        vocab_size: int,  # including the blank
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = ctc_output(encoder.size, vocab_size)
