"""OpenNMT-py: its Transformer, and its recurrent model with attention (without input feeding, as for all peers)."""

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.peers.translation import BEGIN, END, PAD, UNKNOWN, Batch, Sizes

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onmt.constants import DefaultTokens
    from onmt.decoders.decoder import StdRNNDecoder
    from onmt.decoders.transformer import TransformerDecoder
    from onmt.encoders.rnn_encoder import RNNEncoder
    from onmt.encoders.transformer import TransformerEncoder
    from onmt.models import NMTModel
    from onmt.modules import Embeddings
    from onmt.translate import GNMTGlobalScorer, Translator


class OpenNMT:
    """A model as OpenNMT-py's builder assembles it, with one embedding matrix for source, target and output."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, embeddings: Any, sizes: Sizes) -> None:
        self.sizes = sizes
        self.model: Any = NMTModel(encoder, decoder)
        self.model.generator = nn.Linear(sizes.width, sizes.vocabulary)
        for parameter in self.model.parameters():  # its constructor leaves them uninitialised
            nn.init.uniform_(parameter, -0.1, 0.1)
        for module in self.model.modules():
            if isinstance(module, nn.LayerNorm):
                nn.init.ones_(module.weight)
        self.model.generator.weight = embeddings.word_lut.weight

    def loss(self, batch: Batch) -> Tensor:
        end = torch.full((len(batch.decoder_input), 1), END)  # the model drops the last token
        decoder_input = torch.cat([batch.decoder_input, end], dim=1).unsqueeze(-1)
        values, _ = self.model(batch.source.unsqueeze(-1), decoder_input, batch.lengths)
        logits = self.model.generator(values.flatten(0, 1))
        label_smoothing = self.sizes.label_smoothing
        return cross_entropy(logits, batch.target.flatten(), ignore_index=PAD, label_smoothing=label_smoothing)

    def generate(self, source: Tensor, lengths: Tensor, *, beam_size: int, length: int) -> Tensor:
        self.model.eval()
        translator = Translator(
            self.model,
            {"tgt": Vocabulary(self.sizes.vocabulary), "decoder_start_token": DefaultTokens.BOS},
            beam_size=beam_size,
            min_length=length,
            max_length=length,
            max_length_ratio=0,
            # greedy search is sampling with top-k 1; a beam of size 1 is slower
            random_sampling_topk=1 if beam_size == 1 else 0,
            global_scorer=GNMTGlobalScorer(0.0, 0.0, None, None),
            dump_beam="",
        )
        batch = {"src": source.unsqueeze(-1), "srclen": lengths, "ind_in_bucket": list(range(len(source)))}
        predictions = translator.translate_batch(batch, attn_debug=False)["predictions"]
        return torch.stack([best[:length] for best, *_ in predictions])


class Vocabulary:
    """The part of a vocabulary that OpenNMT-py's search uses."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def lookup_token(self, token: str) -> int:
        indices = {DefaultTokens.PAD: PAD, DefaultTokens.BOS: BEGIN, DefaultTokens.EOS: END}
        return indices.get(token, UNKNOWN)


class ProjectedEncoder(nn.Module):
    """A bidirectional encoder projected to the width of the decoder, since OpenNMT-py requires equal widths."""

    def __init__(self, encoder: nn.Module, width: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.memory, self.hidden = nn.Linear(2 * width, width), nn.Linear(2 * width, width)

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor]:
        memory, (hidden, _), lengths = self.encoder(source, lengths)
        hidden = torch.tanh(self.hidden(hidden.transpose(0, 1).flatten(1))).unsqueeze(0)
        return self.memory(memory), (hidden, torch.zeros_like(hidden)), lengths


def _embeddings(sizes: Sizes, *, positions: bool) -> Any:
    return Embeddings(sizes.width, sizes.vocabulary, PAD, position_encoding=positions, dropout=sizes.dropout)


def transformer(sizes: Sizes) -> OpenNMT:
    embeddings = _embeddings(sizes, positions=True)
    shape = (sizes.layers, sizes.width, sizes.heads, sizes.feed_forward)
    dropouts = (sizes.dropout, sizes.dropout)
    encoder = TransformerEncoder(*shape, *dropouts, embeddings, 0, 0)
    decoder = TransformerDecoder(
        *shape,
        copy_attn=False,
        self_attn_type="scaled-dot-flash",
        dropout=sizes.dropout,
        attention_dropout=sizes.dropout,
        embeddings=embeddings,
        max_relative_positions=0,
        relative_positions_buckets=0,
        aan_useffn=False,
        full_context_alignment=False,
        alignment_layer=-1,
        alignment_heads=0,
    )
    return OpenNMT(encoder, decoder, embeddings, sizes)


def recurrent(sizes: Sizes) -> OpenNMT:
    embeddings = _embeddings(sizes, positions=False)
    encoder = RNNEncoder("LSTM", bidirectional=True, num_layers=1, hidden_size=2 * sizes.width, embeddings=embeddings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about dropout between layers where there is only one
        decoder = StdRNNDecoder(
            "LSTM",
            bidirectional_encoder=False,
            num_layers=1,
            hidden_size=sizes.width,
            attn_type="general",
            dropout=sizes.dropout,
            embeddings=embeddings,
        )
    return OpenNMT(ProjectedEncoder(encoder, sizes.width), decoder, embeddings, sizes)
