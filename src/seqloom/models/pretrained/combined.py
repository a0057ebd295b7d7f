"""A task's own embedding combined with pretrained ones: contextual vectors, or word vectors."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import UNKNOWN, Embedding
from seqloom.layers.scalar_mix import ScalarMix
from seqloom.models.character_encoder import CharacterInput
from seqloom.models.pretrained.bilm import BiLMEncoder
from seqloom.models.pretrained.masked_lm import MaskedLMEncoder


class ContextualInput(NamedTuple):
    """A text as a language model reads it, and the position of each element of the task's sequence in it."""

    text: CharacterInput  # the boundary token, then the tokens: (B, S)
    positions: Tensor  # (B, T), 0: the boundary


class CombinedInput(NamedTuple):
    """One sequence as the inputs of several embeddings."""

    own: Any  # of the task's own embedding; () without one
    pretrained: tuple[Any, ...]  # for each further embedding: ContextualInput, or ids of words or features (B, T)
    mask: Tensor  # (B, T)


class ContextualEmbedding(nn.Module):
    """The layers of a bidirectional or masked language model, mixed with learned weights (Peters et al. 2018).

    Without fine-tuning, the language model has no gradient and no dropout. With it, each of its layers learns at
    ``layer_decay`` times the rate of the layer above; the highest, of the rest of the model (Howard and Ruder 2018).
    """

    def __init__(
        self,
        encoder: BiLMEncoder | MaskedLMEncoder,
        *,
        fine_tune: bool,
        dropout: float = 0.0,
        layer_decay: float = 1.0,
    ) -> None:
        super().__init__()
        self.layer_decay = layer_decay
        self.encoder = encoder.requires_grad_(fine_tune)
        self.fine_tune = fine_tune
        self.mixture = ScalarMix(encoder.sizes)
        self.dropout = Dropout(dropout)
        self.size = self.mixture.size

    def forward(self, inputs: ContextualInput) -> Tensor:  # (B, T, size)
        with torch.set_grad_enabled(self.fine_tune and torch.is_grad_enabled()):
            levels = self.encoder.levels(inputs.text)
        mixed = self.mixture(levels)
        rows = torch.arange(len(mixed), device=mixed.device).unsqueeze(1) * mixed.shape[1]
        selected = mixed.flatten(0, 1).index_select(0, (rows + inputs.positions).flatten())
        vectors: Tensor = self.dropout(selected.view(*inputs.positions.shape, self.size))
        return vectors

    def learning_rate_factors(self) -> dict[nn.Parameter, float]:
        """What the learning rate of each parameter of the language model is multiplied with."""
        levels = self.encoder.level_parameters()
        return {
            parameter: self.layer_decay ** (len(levels) - depth)
            for depth, parameters in enumerate(levels)
            for parameter in parameters
        }

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002  torch's signature
        super().train(mode)
        if not self.fine_tune:
            self.encoder.eval()
        return self


class PretrainedEmbedding(nn.Module):
    """A vector for each word, regardless of context; words without one share a learned vector."""

    def __init__(self, words: int, size: int, *, fine_tune: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.table = Embedding(words, size).requires_grad_(fine_tune)
        self.unknown = nn.Parameter(torch.zeros(size))
        self.dropout = Dropout(dropout)
        self.size = size

    @torch.no_grad()
    def set_vectors(self, vectors: Tensor) -> None:  # (words, size)
        self.table.weight.copy_(vectors)
        self.unknown.copy_(vectors[UNKNOWN])

    def forward(self, words: Tensor) -> Tensor:  # (B, T) → (B, T, size)
        unknown = (words == UNKNOWN).unsqueeze(2)
        vectors: Tensor = self.dropout(torch.where(unknown, self.unknown, self.table(words)))
        return vectors


class FeatureEmbedding(Embedding):
    """A learned vector for each value of a feature of words, such as their part-of-speech tag."""

    def __init__(self, values: int, size: int, *, dropout: float) -> None:
        super().__init__(values, size, dropout=dropout)
        self.size = size


Part = ContextualEmbedding | PretrainedEmbedding | FeatureEmbedding


class CombinedEmbedding(nn.Module):
    """The concatenation of the task's own embedding, pretrained ones, and those of features of the words."""

    def __init__(self, own: nn.Module | None, pretrained: Sequence[Part], *, size: int) -> None:
        super().__init__()
        self.own = own
        self.pretrained = nn.ModuleList(pretrained)
        self.size = size + sum(embedding.size for embedding in pretrained)  # ``size`` is that of ``own``

    def forward(self, inputs: CombinedInput) -> Tensor:  # (B, T, size)
        own = [] if self.own is None else [self.own(inputs.own)]
        pretrained = (embedding(part) for embedding, part in zip(self.pretrained, inputs.pretrained, strict=True))
        return torch.cat([*own, *pretrained], dim=2)
