"""Seqloom's models with the interface of the peers."""

import torch
from torch import Tensor

from benchmarks.peers.translation import BEGIN, END, PAD, UNKNOWN, Batch, Sizes
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.sample import Sample
from seqloom.decoding.tokens.search import Search
from seqloom.layers.embedding import Embedding
from seqloom.models.decoder import Decoder, DecoderStep
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.encoder_decoder import AttentionConfig, EncoderDecoder, build_decoder_layer


class Translator:
    """An encoder-decoder with tied embeddings."""

    def __init__(self, recurrence: RecurrenceConfig, sizes: Sizes, *, dropout: float) -> None:
        self.label_smoothing = sizes.label_smoothing
        embed = Embedding(sizes.vocabulary, sizes.width, dropout=sizes.dropout)
        both = recurrence.model_copy(update={"bidirectional": True})
        encoder = Encoder(embed, build_stack(PrenetConfig(), both, sizes.width), dropout=dropout)
        layer = build_decoder_layer(
            recurrence,
            AttentionConfig(),
            sizes.width,
            encoder=encoder.layer,
            memory_size=encoder.size,
            bridge="linear",
        )
        self.model = EncoderDecoder(encoder, Decoder(embed, layer, tied=True, dropout=dropout))

    def loss(self, batch: Batch) -> Tensor:
        real = batch.target != PAD
        features = self.model.features(batch.source, batch.mask, batch.decoder_input, real)
        return self.model.loss(features, batch.target, real, smoothing=self.label_smoothing) / len(features)

    @torch.inference_mode()
    def generate(self, source: Tensor, lengths: Tensor, *, beam_size: int, length: int) -> Tensor:  # noqa: ARG002
        if self.model.training:  # to change the mode discards packed weights
            self.model.eval()
        search: Search = Greedy() if beam_size == 1 else Beam(size=beam_size)
        start = torch.full((len(source),), BEGIN)
        state = self.model.start(source, source != PAD)
        suppress = (UNKNOWN, PAD, BEGIN, END)  # without END every output has the maximum length
        hypotheses = search(DecoderStep(self.model.decoder), state, start, END, lengths=length, suppress=suppress)
        return torch.tensor([best.tokens for best, *_ in hypotheses])


def transformer(sizes: Sizes) -> Translator:
    options = {"heads": sizes.heads, "feed_forward": sizes.feed_forward}
    blocks = RecurrenceConfig(
        cell="transformer", hidden_size=sizes.width, layers=sizes.layers, dropout=sizes.dropout, options=options
    )
    return Translator(blocks, sizes, dropout=0.0)  # the blocks apply their own dropout


def recurrent(sizes: Sizes) -> Translator:
    return Translator(
        RecurrenceConfig(cell="lstm", hidden_size=sizes.width, dropout=sizes.dropout), sizes, dropout=sizes.dropout
    )


class LanguageModel:
    """A two-layer LSTM language model."""

    def __init__(self, vocabulary: int, width: int) -> None:
        layer = build_stack(
            PrenetConfig(), RecurrenceConfig(cell="lstm", hidden_size=width, layers=2), width, causal=True
        )
        self.model = Decoder(Embedding(vocabulary, width), layer).eval()

    @torch.inference_mode()
    def sample(self, length: int) -> list[int]:
        """Sample ``length`` tokens from the model's distribution."""
        state = self.model.start(None, 1)
        start = torch.zeros(1, dtype=torch.long)
        stream = Sample().stream(DecoderStep(self.model), state, start, length=length)
        return [int(token) for token in stream]
