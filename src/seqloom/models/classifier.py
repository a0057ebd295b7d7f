"""Sequence classifiers: an encoder, a pooling of its outputs, a score for each label."""

import torch
from torch import Tensor, nn

from seqloom.layers.convolution import make_activation
from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import PADDING, UNKNOWN, Embedding
from seqloom.layers.layer import Memory
from seqloom.models.encoder import Encoder, HiddenLayersConfig
from seqloom.models.pooling import Pooling


class TokenEmbedding(nn.Module):
    """Token embeddings with word dropout: in training, some tokens are replaced by the unknown token."""

    def __init__(self, embedding: Embedding, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = dropout

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) → (B, T, D)
        if self.training and self.dropout:
            dropped = torch.rand(tokens.shape, device=tokens.device) < self.dropout
            tokens = tokens.masked_fill(dropped & (tokens != PADDING), UNKNOWN)
        vectors: Tensor = self.embedding(tokens)
        return vectors


class GaussianNoise(nn.Module):
    """Adds Gaussian noise in training."""

    def __init__(self, deviation: float) -> None:
        super().__init__()
        self.deviation = deviation

    def forward(self, x: Tensor) -> Tensor:
        return x + self.deviation * torch.randn_like(x) if self.training and self.deviation else x


class HeadConfig(HiddenLayersConfig):
    """Hidden layers between the pooling and the output of a classifier."""

    def build(self, input_size: int, *, dropout: float) -> tuple[nn.Sequential, int]:
        """The hidden layers, with dropout after each of them, and the width of their output."""
        modules: list[nn.Module] = []
        for _ in range(self.layers):
            activation = make_activation(self.activation, negative_slope=self.negative_slope, elu_alpha=self.elu_alpha)
            modules += [nn.Linear(input_size, self.size), activation, Dropout(dropout)]
            input_size = self.size
        return nn.Sequential(*modules), input_size


class Classifier(nn.Module):
    """An encoder, a pooling, hidden layers if there are any, and a linear output: inputs to logits."""

    def __init__(
        self,
        encoder: Encoder,
        pooling: Pooling,
        *,
        labels: int,
        head: HeadConfig | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.dropout = Dropout(dropout)
        self.hidden, size = (head or HeadConfig()).build(pooling.size, dropout=dropout)
        self.output = nn.Linear(size, labels)

    def forward(
        self,
        values: Tensor,  # (B, T) or (B, T, D)
        mask: Tensor,  # (B, T)
    ) -> Tensor:  # (B, labels)
        return self.logits(self.encoder(values, mask))

    def logits(self, memory: Memory) -> Tensor:  # (B, labels)
        """The logits for an encoded sequence."""
        logits: Tensor = self.output(self.hidden(self.dropout(self.pooling(memory))))
        return logits


def log_odds(
    logits: Tensor,  # (..., labels)
    label: int,
) -> Tensor:  # (...)
    """The log-odds ln p / (1 - p) of a label: its logit minus the log of the sum of the others' exponentials."""
    others = torch.cat([logits[..., :label], logits[..., label + 1 :]], dim=-1)
    return logits[..., label] - others.logsumexp(dim=-1) if others.shape[-1] else logits[..., label]
