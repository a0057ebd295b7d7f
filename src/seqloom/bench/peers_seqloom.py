"""Ours, in the same clothes as the peers."""

from functools import partial

import torch
from torch import Tensor

from seqloom.bench.peers import BEGIN, END, PAD, UNKNOWN, Pairs, Sizes
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.sample import Sample
from seqloom.decoding.tokens.search import Search
from seqloom.layers.embedding import Embedding
from seqloom.models.decoder import Decoder, step
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.encoder_decoder import AttentionConfig, EncoderDecoder, build_decoder_layer


class Ours:
    """An encoder and a decoder with one table of vectors."""

    def __init__(self, recurrence: RecurrenceConfig, sizes: Sizes, *, dropout: float) -> None:
        self.smoothing = sizes.smoothing
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

    def loss(self, pairs: Pairs) -> Tensor:
        real = pairs.target != PAD
        features = self.model.features(pairs.source, pairs.mask, pairs.before, real)
        return self.model.loss(features, pairs.target, real, smoothing=self.smoothing) / len(features)

    @torch.inference_mode()
    def generate(self, source: Tensor, lengths: Tensor, *, width: int, length: int) -> Tensor:  # noqa: ARG002
        self.model.eval()
        search: Search = Greedy() if width == 1 else Beam(size=width)
        start = torch.full((len(source),), BEGIN)
        state = self.model.start(source, source != PAD)
        never = (UNKNOWN, PAD, BEGIN, END)  # without an end, all are cut at the greatest length
        found = search(partial(step, self.model.decoder), state, start, END, lengths=length, never=never)
        return torch.tensor([best.tokens for best, *_ in found])


def transformer(sizes: Sizes) -> Ours:
    options = {"heads": sizes.heads, "feed_forward": sizes.feed_forward}
    blocks = RecurrenceConfig(
        cell="transformer", hidden_size=sizes.width, layers=sizes.layers, dropout=sizes.dropout, options=options
    )
    return Ours(blocks, sizes, dropout=0.0)  # its blocks have their own


def recurrent(sizes: Sizes) -> Ours:
    return Ours(
        RecurrenceConfig(cell="lstm", hidden_size=sizes.width, dropout=sizes.dropout), sizes, dropout=sizes.dropout
    )


class LanguageModel:
    """Two layers of LSTM."""

    def __init__(self, vocabulary: int, width: int) -> None:
        layer = build_stack(
            PrenetConfig(), RecurrenceConfig(cell="lstm", hidden_size=width, layers=2), width, causal=True
        )
        self.model = Decoder(Embedding(vocabulary, width), layer).eval()

    @torch.inference_mode()
    def sample(self, length: int) -> list[int]:
        """One symbol after the other, each drawn from its distribution."""
        state = self.model.start(None, 1)
        start = torch.zeros(1, dtype=torch.long)
        walk = Sample().stream(partial(step, self.model), state, start, length=length)
        return [int(token) for token in walk]
