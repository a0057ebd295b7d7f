"""Joint CTC and attention (Watanabe et al. 2017): one encoder, a CTC output, and a decoder that attends to it."""

from typing import cast

from torch import Tensor, inf, int64, nn

from seqloom.layers.layer import Memory
from seqloom.models.decoder import Decoder
from seqloom.models.encoder_decoder import EncoderDecoder
from seqloom.models.signals.frame_encoder import FrameEncoder
from seqloom.models.transcription.transcriber import ctc_output


class JointTranscriber(EncoderDecoder):
    """An encoder-decoder of recordings whose encoder also predicts the tokens frame by frame.

    Called, it is the CTC transcriber alone: values to logits, also on chunks.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: Decoder,
        *,
        end: int,  # token that ends a transcript; impossible at any frame
    ) -> None:
        super().__init__(encoder, decoder)
        self.end = end
        self.output = ctc_output(self.frame_encoder.size, decoder.embed.num_embeddings)

    @property
    def frame_encoder(self) -> FrameEncoder:
        return cast(FrameEncoder, self.encoder)

    def frame_logits(self, memory: Memory) -> Tensor:  # (B, T', V)
        """The logits of an encoded recording."""
        logits: Tensor = self.output(memory.values)
        return logits.index_fill(-1, memory.mask.new_tensor([self.end], dtype=int64), -inf)

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
        encoded, mask, state = self.frame_encoder.encode_chunk(values, mask, state, more=more)
        return self.frame_logits(Memory(encoded, mask, ())), mask, state
