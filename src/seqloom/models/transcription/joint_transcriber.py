"""Joint CTC and attention (Watanabe et al. 2017): one encoder, a CTC output, and a decoder that attends to it."""

from torch import Tensor, inf, int64, nn

from seqloom.layers.layer import Memory
from seqloom.models.decoder import Decoder
from seqloom.models.encoder_decoder import EncoderDecoder
from seqloom.models.transcription.transcriber import FrameTranscriber, ctc_output


class JointTranscriber(EncoderDecoder, FrameTranscriber):
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

    def frame_logits(self, memory: Memory) -> Tensor:  # (B, T', V)
        logits = super().frame_logits(memory)
        return logits.index_fill(-1, memory.mask.new_tensor([self.end], dtype=int64), -inf)
