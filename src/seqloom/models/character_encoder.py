"""Word vectors from characters, by a bidirectional recurrent layer (Ling et al. 2015)."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.config.names import KnownNames
from seqloom.layers.build import cell_classes, recurrent
from seqloom.layers.embedding import Embedding

MAX_CHARACTERS = 24
"""Characters read per word; of a longer one, its start and its end. A multiple of 4, see ``distinct_words``."""

NO_CHARACTER = 0xFFFFFFFF
"""Not a code point."""


class CharacterConfig(ConfigSection):
    """Recurrent layers over the characters of each word."""

    layers: int = Field(1, ge=0, le=1000, description="Number of stacked layers (0: no character encoder).")
    cell: Annotated[str, KnownNames("cell", cell_classes)] = Field("lstm", description="Recurrent cell.")
    embedding_size: int = Field(32, ge=1, description="Size of a character embedding.")
    hidden_size: int = Field(64, ge=1, description="Hidden size of each direction; a word vector has twice this size.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on the character embeddings.")


class CharacterInput(NamedTuple):
    """Words as ids and as characters."""

    words: Tensor  # (B, T)
    characters: Tensor  # (B, T, MAX_CHARACTERS), int16; (B, T, 0) without a character encoder
    mask: Tensor  # (B, T)


class CharacterEncoder(nn.Module):
    """The last states of both directions over the characters; each distinct word is computed once."""

    def __init__(self, vocab_size: int, config: CharacterConfig) -> None:
        super().__init__()
        self.embed = Embedding(vocab_size, config.embedding_size, dropout=config.dropout)
        self.layer = recurrent(
            config.cell,
            config.embedding_size,
            config.hidden_size,
            layers=config.layers,
            bidirectional=True,
            dropout=config.dropout,
        )
        self.stacked = config.layers > 1
        self.size = 2 * config.hidden_size

    def forward(
        self,
        characters: Tensor,  # (B, T, MAX_CHARACTERS), int16, 0 after the end of a word
    ) -> Tensor:  # (B, T, size)
        words, inverse = distinct_words(characters.flatten(0, 1))
        words = words[:, : max(1, int((words != 0).sum(dim=1).max()))].long()
        _, state = self.layer(self.embed(words), words != 0)
        forward, backward = state[-1] if self.stacked else state
        # The first field of a state is its output.
        return torch.cat([forward[0], backward[0]], dim=1)[inverse].view(*characters.shape[:2], self.size)


def distinct_words(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows (U, C) of an int16 table (N, C), and the index of each row among them (N,).

    Four characters are compared at once, as one integer: torch.unique(dim=0) takes over ten times as long.
    """
    table = np.ascontiguousarray(rows.cpu().numpy()).view(np.int64)
    order = np.lexsort(table.T)
    ordered = table[order]
    new = np.ones(len(table), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    inverse = np.empty(len(table), dtype=np.int64)
    inverse[order] = np.cumsum(new) - 1
    first = torch.from_numpy(order[new]).to(rows.device)
    return rows[first], torch.from_numpy(inverse).to(rows.device)


def to_characters(words: Sequence[str], vocabulary: Sequence[str]) -> NDArray[np.int16]:  # (N, MAX_CHARACTERS)
    """The character ids of each word: indices in the vocabulary, 0 after the end, 1 for an unknown character."""
    known = np.array([ord(token) if len(token) == 1 else NO_CHARACTER for token in vocabulary], dtype=np.uint32)
    ranks = np.argsort(known, kind="stable")
    codes = np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    candidates = ranks[np.minimum(np.searchsorted(known[ranks], codes), len(known) - 1)]
    ids = np.where(known[candidates] == codes, candidates, 1)
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    rows = np.repeat(np.arange(len(words)), lengths)
    columns = np.arange(len(codes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    surplus = np.maximum(lengths - MAX_CHARACTERS, 0)[rows]
    tail = columns - surplus  # the column once the middle of a long word is removed
    first_half, second_half = columns < MAX_CHARACTERS // 2, tail >= MAX_CHARACTERS // 2
    characters = np.zeros((len(words), MAX_CHARACTERS), dtype=np.int16)
    characters[rows[first_half], columns[first_half]] = ids[first_half]
    characters[rows[second_half], tail[second_half]] = ids[second_half]
    return characters
