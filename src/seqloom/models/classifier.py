"""Sequence classifiers: an encoder, a pooling of its outputs, a score for each label."""

import torch
from torch import Tensor, nn

from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import PADDING, UNKNOWN, Embedding
from seqloom.layers.layer import Memory
from seqloom.models.encoder import Encoder
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


class Classifier(nn.Module):
    """An encoder, a pooling and a linear output: inputs to logits."""

    def __init__(self, encoder: Encoder, pooling: Pooling, *, labels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(pooling.size, labels)

    def forward(
        self,
        values: Tensor,  # (B, T) or (B, T, D)
        mask: Tensor,  # (B, T)
    ) -> Tensor:  # (B, labels)
        return self.logits(self.encoder(values, mask))

    def logits(self, memory: Memory) -> Tensor:  # (B, labels)
        """The logits for an encoded sequence."""
        logits: Tensor = self.output(self.dropout(self.pooling(memory)))
        return logits


def log_odds(
    logits: Tensor,  # (..., labels)
    label: int,
) -> Tensor:  # (...)
    """The log-odds ln p / (1 - p) of a label: its logit minus the log of the sum of the others' exponentials."""
    others = torch.cat([logits[..., :label], logits[..., label + 1 :]], dim=-1)
    return logits[..., label] - others.logsumexp(dim=-1) if others.shape[-1] else logits[..., label]
