"""Sequence taggers: word or frame vectors, an encoder, and an output layer over labels."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import UNKNOWN, Embedding
from seqloom.layers.layer import Memory
from seqloom.models.character_encoder import CharacterEncoder, CharacterInput
from seqloom.models.classifier import log_odds
from seqloom.models.crf import CRF
from seqloom.models.encoder import Encoder


class WordEmbedding(nn.Module):
    """Learned vectors of words, vectors from their characters, or both concatenated.

    In training, a word with n occurrences is replaced by the unknown word with probability a / (a + n), so that the
    unknown word's embedding is learned from rare words (Kiperwasser & Goldberg 2016).
    """

    counts: Tensor

    def __init__(
        self,
        counts: Tensor,  # (V,), occurrences of each word in the training data
        size: int,  # of a word embedding; 0: characters only
        *,
        characters: CharacterEncoder | None,
        unknown: float,  # a
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = Embedding(len(counts), size) if size else None
        self.characters = characters
        self.unknown = unknown
        self.dropout = Dropout(dropout)
        self.size = size + (characters.size if characters else 0)
        self.register_buffer("counts", counts.float(), persistent=False)

    def forward(self, inputs: CharacterInput) -> Tensor:  # (B, T, size)
        words, vectors = inputs.words, []
        if self.embedding is not None:
            if self.training and self.unknown:
                rarity = self.unknown / (self.unknown + self.counts[words])
                words = words.masked_fill((torch.rand_like(rarity) < rarity) & (self.counts[words] > 0), UNKNOWN)
            vectors.append(self.embedding(words))
        if self.characters is not None:
            vectors.append(self.characters(inputs.characters))
        dropped: Tensor = self.dropout(torch.cat(vectors, dim=2) if len(vectors) > 1 else vectors[0])
        return dropped


class FrameEmbedding(nn.Module):
    """Frames as their own embedding, with dropout."""

    def __init__(self, size: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.size = size
        self.dropout = Dropout(dropout)

    def forward(self, inputs: Any) -> Tensor:  # Padded → (B, T, size)
        dropped: Tensor = self.dropout(inputs.values)
        return dropped


class VideoEmbedding(nn.Module):
    """A vector for each image of a video, with dropout."""

    def __init__(self, images: nn.Module, *, dropout: float = 0.0) -> None:  # (B, T, S, S, 3) → (B, T, size)
        super().__init__()
        self.images = images
        self.dropout = Dropout(dropout)

    def forward(self, inputs: Any) -> Tensor:  # Padded → (B, T, size)
        dropped: Tensor = self.dropout(self.images(inputs.values))
        return dropped


class SoftmaxOutput(nn.Module):
    """A softmax over labels at each position."""

    def __init__(self, *, smoothing: float = 0.0) -> None:
        super().__init__()
        self.smoothing = smoothing

    def forward(self, emissions: Tensor, mask: Tensor, labels: Tensor) -> Tensor:  # ()
        """The negative log-likelihood of all labels."""
        real = emissions[mask], labels[mask]
        return functional.cross_entropy(*real, reduction="sum", label_smoothing=self.smoothing)

    def decode(self, emissions: Tensor, mask: Tensor) -> Tensor:
        return emissions.argmax(dim=2).masked_fill(~mask, 0)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        return emissions.softmax(dim=2).masked_fill(~mask.unsqueeze(2), 0)

    def log_odds(self, emissions: Tensor, mask: Tensor, *, position: int, label: int) -> Tensor:  # noqa: ARG002  (B,)
        """The log-odds ln p / (1 - p) of a label at a position."""
        return log_odds(emissions[:, position], label)


class Tagger(nn.Module):
    """Label scores for each element, and an output layer that decodes them."""

    def __init__(self, encoder: Encoder, labels: int, output: CRF | SoftmaxOutput) -> None:
        super().__init__()
        self.encoder = encoder
        self.linear = nn.Linear(encoder.size, labels)
        self.output = output

    def forward(self, inputs: Any, state: Any = None) -> tuple[Tensor, Any]:  # (B, T, L), state
        memory = self.encoder(inputs, inputs.mask, state)
        return self.emissions(memory), memory.state

    def emissions(self, memory: Memory) -> Tensor:  # (B, T, L)
        """The label scores for an encoded sequence."""
        scores: Tensor = self.linear(memory.values)
        return scores

    def loss(self, emissions: Tensor, mask: Tensor, labels: Tensor) -> Tensor:  # ()
        """The negative log-likelihood, summed over all rows."""
        total: Tensor = self.output(emissions, mask, labels).sum()
        return total

    def decode(self, emissions: Tensor, mask: Tensor) -> Tensor:  # (B, T)
        """The best labels."""
        return self.output.decode(emissions, mask)

    def log_odds(self, emissions: Tensor, mask: Tensor, *, position: int, label: int) -> Tensor:  # (B,)
        """The log-odds ln p / (1 - p) of a label at a position, with a gradient."""
        return self.output.log_odds(emissions, mask, position=position, label=label)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:  # (B, T, L)
        """The probability of each label at each position."""
        return self.output.marginals(emissions, mask)
