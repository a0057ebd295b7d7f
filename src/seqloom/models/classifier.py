"""One answer for a whole sequence: an encoder, its memory as one vector, a score for each label."""

import torch
from torch import Tensor, nn

from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import PADDING, UNKNOWN, Embedding
from seqloom.models.encoder import Encoder
from seqloom.models.pooling import Pooling


class TokenEmbedding(nn.Module):
    """Symbols as vectors; in training a share of them is unknown, so that the model learns what to make of that."""

    def __init__(self, embedding: Embedding, *, unknown: float = 0.0) -> None:
        super().__init__()
        self.embedding = embedding
        self.unknown = unknown

    def forward(self, symbols: Tensor) -> Tensor:  # (B, T) → (B, T, D)
        if self.training and self.unknown:
            hidden = torch.rand(symbols.shape, device=symbols.device) < self.unknown
            symbols = symbols.masked_fill(hidden & (symbols != PADDING), UNKNOWN)
        vectors: Tensor = self.embedding(symbols)
        return vectors


class GaussianNoise(nn.Module):
    """Adds normal noise to vectors in training."""

    def __init__(self, deviation: float) -> None:
        super().__init__()
        self.deviation = deviation

    def forward(self, x: Tensor) -> Tensor:
        return x + self.deviation * torch.randn_like(x) if self.training and self.deviation else x


class Classifier(nn.Module):
    """Inputs to logits."""

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
        logits: Tensor = self.output(self.dropout(self.pooling(self.encoder(values, mask))))
        return logits
