"""OpenNMT-py: its Transformer, and its recurrent model with attention (without input feeding, as all here)."""

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from seqloom.bench.peers import BEGIN, END, PAD, UNKNOWN, Pairs, Sizes

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
    """A model as its builder puts it together, one table for both languages and the output."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, embeddings: Any, sizes: Sizes) -> None:
        self.sizes = sizes
        self.model: Any = NMTModel(encoder, decoder)
        self.model.generator = nn.Linear(sizes.width, sizes.vocabulary)
        for parameter in self.model.parameters():  # it leaves them as the memory was
            nn.init.uniform_(parameter, -0.1, 0.1)
        for module in self.model.modules():
            if isinstance(module, nn.LayerNorm):
                nn.init.ones_(module.weight)
        self.model.generator.weight = embeddings.word_lut.weight

    def loss(self, pairs: Pairs) -> Tensor:
        end = torch.full((len(pairs.before), 1), END)  # it cuts the last symbol off
        before = torch.cat([pairs.before, end], dim=1).unsqueeze(-1)
        values, _ = self.model(pairs.source.unsqueeze(-1), before, pairs.lengths)
        logits = self.model.generator(values.flatten(0, 1))
        smoothing = self.sizes.smoothing
        return cross_entropy(logits, pairs.target.flatten(), ignore_index=PAD, label_smoothing=smoothing)

    def generate(self, source: Tensor, lengths: Tensor, *, width: int, length: int) -> Tensor:
        self.model.eval()
        translator = Translator(
            self.model,
            {"tgt": Symbols(self.sizes.vocabulary), "decoder_start_token": DefaultTokens.BOS},
            beam_size=width,
            min_length=length,
            max_length=length,
            max_length_ratio=0,
            # its greedy search is a sample of the most probable symbol; its beam of one is slower
            random_sampling_topk=1 if width == 1 else 0,
            global_scorer=GNMTGlobalScorer(0.0, 0.0, None, None),
            dump_beam="",
        )
        batch = {"src": source.unsqueeze(-1), "srclen": lengths, "ind_in_bucket": list(range(len(source)))}
        found = translator.translate_batch(batch, attn_debug=False)["predictions"]
        return torch.stack([best[:length] for best, *_ in found])


class Symbols:
    """The part of a vocabulary that its search asks for."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def lookup_token(self, token: str) -> int:
        numbers = {DefaultTokens.PAD: PAD, DefaultTokens.BOS: BEGIN, DefaultTokens.EOS: END}
        return numbers.get(token, UNKNOWN)


class Narrow(nn.Module):
    """Its bidirectional encoder, made as narrow as the decoder: it wants both to have one width."""

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
        warnings.simplefilter("ignore")  # of dropout between the layers of a single one
        decoder = StdRNNDecoder(
            "LSTM",
            bidirectional_encoder=False,
            num_layers=1,
            hidden_size=sizes.width,
            attn_type="general",
            dropout=sizes.dropout,
            embeddings=embeddings,
        )
    return OpenNMT(Narrow(encoder, sizes.width), decoder, embeddings, sizes)
