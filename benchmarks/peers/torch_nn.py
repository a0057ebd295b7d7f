"""Plain PyTorch programs: a Transformer, a recurrent model with attention, and sampling from an LSTM."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.peers.translation import BEGIN, END, PAD, Batch, Sizes


class Translator:
    """A model in plain PyTorch with a minimal beam search."""

    def __init__(self, model: Any, sizes: Sizes) -> None:
        self.model, self.sizes = model, sizes

    def loss(self, batch: Batch) -> Tensor:
        logits = self.model(batch.source, batch.lengths, batch.decoder_input)
        target = batch.target.flatten()
        return cross_entropy(logits.flatten(0, 1), target, ignore_index=PAD, label_smoothing=self.sizes.label_smoothing)

    @torch.inference_mode()
    def generate(self, source: Tensor, lengths: Tensor, *, beam_size: int, length: int) -> Tensor:
        self.model.eval()
        rows = len(source)
        state = self.model.start(source.repeat_interleave(beam_size, 0), lengths.repeat_interleave(beam_size, 0))
        scores = torch.full((rows, beam_size), -math.inf)
        scores[:, 0] = 0
        first = torch.arange(rows).unsqueeze(1) * beam_size
        tokens = torch.full((rows * beam_size, 1), BEGIN)
        for _ in range(length):
            logits, state = self.model.step(tokens, state)
            logits[:, [PAD, BEGIN, END]] = -math.inf
            if beam_size == 1:
                tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
                continue
            total = (scores.view(-1, 1) + log_softmax(logits, dim=-1)).view(rows, -1)
            scores, chosen = total.topk(beam_size)
            parents = (first + chosen // self.sizes.vocabulary).flatten()
            tokens = torch.cat([tokens[parents], (chosen % self.sizes.vocabulary).view(-1, 1)], dim=1)
            state = tuple(part[parents] for part in state)
        return tokens[::beam_size, 1:]


class Transformer(nn.Module):
    """``nn.Transformer`` with tied embeddings; it has no key-value cache."""

    positions: Tensor

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embed = nn.Embedding(sizes.vocabulary, sizes.width, padding_idx=PAD)
        nn.init.normal_(self.embed.weight, std=sizes.width**-0.5)
        self.dropout = nn.Dropout(sizes.dropout)
        shape = (sizes.width, sizes.heads, sizes.feed_forward, sizes.dropout)
        layer = nn.TransformerEncoderLayer(*shape, batch_first=True, norm_first=True)
        encoder = nn.TransformerEncoder(layer, sizes.layers, nn.LayerNorm(sizes.width), enable_nested_tensor=False)
        self.layers = nn.Transformer(
            sizes.width,
            sizes.heads,
            num_decoder_layers=sizes.layers,
            dim_feedforward=sizes.feed_forward,
            dropout=sizes.dropout,
            custom_encoder=encoder,
            batch_first=True,
            norm_first=True,
        )
        frequencies = torch.exp(torch.arange(0, sizes.width, 2) * (-math.log(10_000) / sizes.width))
        angles = torch.arange(512).unsqueeze(1) * frequencies
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], dim=1))

    def vectors(self, tokens: Tensor) -> Tensor:
        scaled = self.embed(tokens) * math.sqrt(self.embed.embedding_dim)
        vectors: Tensor = self.dropout(scaled + self.positions[: tokens.shape[1]])
        return vectors

    def decode(self, tokens: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        values: Tensor = self.layers.decoder(
            self.vectors(tokens), memory, tgt_mask=causal, memory_key_padding_mask=padding, tgt_is_causal=True
        )
        return values

    def forward(self, source: Tensor, lengths: Tensor, decoder_input: Tensor) -> Tensor:
        memory, padding = self.start(source, lengths)
        return self.decode(decoder_input, memory, padding) @ self.embed.weight.T

    def start(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002  read off the padding
        padding = source == PAD
        memory: Tensor = self.layers.encoder(self.vectors(source), src_key_padding_mask=padding)
        return memory, padding

    def step(self, tokens: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Any]:
        return self.decode(tokens, *state)[:, -1] @ self.embed.weight.T, state


class Recurrent(nn.Module):
    """A bidirectional LSTM encoder and an LSTM decoder with attention (Luong et al. 2015, without input feeding)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.embed = nn.Embedding(sizes.vocabulary, width, padding_idx=PAD)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        self.dropout = nn.Dropout(sizes.dropout)
        self.encoder = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * width, width)
        self.decoder = nn.LSTM(width, width, batch_first=True)
        self.query = nn.Linear(width, 2 * width, bias=False)
        self.combine = nn.Linear(3 * width, width, bias=False)

    def start(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        packed = pack_padded_sequence(self.dropout(self.embed(source)), lengths, batch_first=True, enforce_sorted=False)
        packed, (hidden, _) = self.encoder(packed)
        memory = pad_packed_sequence(packed, batch_first=True)[0]
        hidden = torch.tanh(self.bridge(hidden.transpose(0, 1).flatten(1)))
        return self.dropout(memory), source == PAD, hidden, torch.zeros_like(hidden)

    def decode(self, tokens: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        memory, padding, hidden, cell = state
        outputs, (hidden, cell) = self.decoder(
            self.dropout(self.embed(tokens)), (hidden.unsqueeze(0).contiguous(), cell.unsqueeze(0).contiguous())
        )
        scores = (self.query(outputs) @ memory.transpose(1, 2)).masked_fill(padding.unsqueeze(1), -math.inf)
        context = torch.softmax(scores, dim=-1) @ memory
        values = self.dropout(torch.tanh(self.combine(torch.cat([context, outputs], dim=-1))))
        return values @ self.embed.weight.T, (memory, padding, hidden[0], cell[0])

    def forward(self, source: Tensor, lengths: Tensor, decoder_input: Tensor) -> Tensor:
        return self.decode(decoder_input, self.start(source, lengths))[0]

    def step(self, tokens: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, Any]:
        logits, state = self.decode(tokens[:, -1:], state)
        return logits[:, -1], state


def transformer(sizes: Sizes) -> Translator:
    return Translator(Transformer(sizes), sizes)


def recurrent(sizes: Sizes) -> Translator:
    return Translator(Recurrent(sizes), sizes)


class LanguageModel(nn.Module):
    """A two-layer ``nn.LSTM`` language model."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.output = nn.Linear(width, vocabulary)

    @torch.inference_mode()
    def sample(self, length: int) -> list[int]:
        """Sample ``length`` tokens from the model's distribution."""
        token, state, tokens = torch.zeros(1, 1, dtype=torch.long), None, []
        for _ in range(length):
            values, state = self.lstm(self.embed(token), state)
            token = torch.multinomial(torch.softmax(self.output(values[:, -1]), dim=-1), 1)
            tokens.append(int(token))
        return tokens
