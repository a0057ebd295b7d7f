"""What a task reads, side by side with vectors that were learnt elsewhere: in context, or of words alone."""

from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from seqloom.layers.dropout import Dropout
from seqloom.layers.embedding import UNKNOWN, Embedding
from seqloom.layers.scalar_mix import ScalarMix
from seqloom.models.character_encoder import CharacterInput
from seqloom.models.pretrained.bilm import BiLMEncoder


class ContextualInput(NamedTuple):
    """A text as a language model reads it, and where each element of the task's sequence stands in it."""

    text: CharacterInput  # the border, then the symbols: (B, S)
    places: Tensor  # (B, T), 0: the border


class CombinedInput(NamedTuple):
    """One sequence in several forms."""

    own: Any  # as the task reads it; () where it does not
    given: tuple[Any, ...]  # for each of the vectors from elsewhere: Context, or numbers (B, T)
    mask: Tensor  # (B, T)


class ContextualEmbedding(nn.Module):
    """The layers of a language model in both directions, mixed by learnt shares (Peters et al. 2018).

    Where it is not tuned, it has no gradient and no dropout.
    """

    def __init__(self, reader: BiLMEncoder, *, tune: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.reader = reader.requires_grad_(tune)
        self.tune = tune
        self.mixture = ScalarMix(reader.sizes)
        self.dropout = Dropout(dropout)
        self.size = self.mixture.size

    def forward(self, inputs: ContextualInput) -> Tensor:  # (B, T, size)
        with torch.set_grad_enabled(self.tune and torch.is_grad_enabled()):
            levels = self.reader.levels(inputs.text)
        mixed = self.mixture(levels)
        rows = torch.arange(len(mixed), device=mixed.device).unsqueeze(1) * mixed.shape[1]
        chosen = mixed.flatten(0, 1).index_select(0, (rows + inputs.places).flatten())
        vectors: Tensor = self.dropout(chosen.view(*inputs.places.shape, self.size))
        return vectors

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002  as torch has it
        super().train(mode)
        if not self.tune:
            self.reader.eval()
        return self


class PretrainedEmbedding(nn.Module):
    """A vector for each word, whatever its context; words that have none share one, which is learnt."""

    def __init__(self, words: int, size: int, *, tune: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.table = Embedding(words, size).requires_grad_(tune)
        self.unknown = nn.Parameter(torch.zeros(size))
        self.dropout = Dropout(dropout)
        self.size = size

    @torch.no_grad()
    def give(self, vectors: Tensor) -> None:  # (words, size)
        self.table.weight.copy_(vectors)
        self.unknown.copy_(vectors[UNKNOWN])

    def forward(self, words: Tensor) -> Tensor:  # (B, T) → (B, T, size)
        strange = (words == UNKNOWN).unsqueeze(2)
        vectors: Tensor = self.dropout(torch.where(strange, self.unknown, self.table(words)))
        return vectors


class CombinedEmbedding(nn.Module):
    """Vectors of the task's own and those from elsewhere as one vector for each element."""

    def __init__(
        self, own: nn.Module | None, given: list[ContextualEmbedding | PretrainedEmbedding], *, size: int
    ) -> None:
        super().__init__()
        self.own = own
        self.given = nn.ModuleList(given)
        self.size = size + sum(each.size for each in given)  # with that of the own ones

    def forward(self, inputs: CombinedInput) -> Tensor:  # (B, T, size)
        own = [] if self.own is None else [self.own(inputs.own)]
        found = (part(each) for part, each in zip(self.given, inputs.given, strict=True))
        return torch.cat([*own, *found], dim=2)
