"""Words as vectors made of their characters, by a recurrent layer from both ends (Ling et al. 2015)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.layers.build import recurrent
from seqloom.layers.embedding import Embedding

LONGEST = 24
"""Characters of a word that are read: of a longer one its beginning and its end. A multiple of 4, see `distinct`."""

NEVER = 0xFFFFFFFF
"""No character has this number."""


class CharacterConfig(ConfigSection):
    """A recurrent layer over the characters of each word."""

    layers: int = Field(1, ge=0, description="How many on top of each other; 0: words are not spelled.")
    cell: str = Field("lstm", description="A file of cells/.")
    embedding_size: int = Field(32, ge=1, description="Size of a character's vector.")
    hidden_size: int = Field(64, ge=1, description="Width of each direction; a word's vector has twice as much.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on the vectors of the characters.")


class CharacterInput(NamedTuple):
    """Words by their numbers and by their characters."""

    words: Tensor  # (B, T)
    characters: Tensor  # (B, T, LONGEST), int16; (B, T, 0) where they are not read
    mask: Tensor  # (B, T)


class CharacterEncoder(nn.Module):
    """The last states of both directions over each word's characters; each distinct word is read once."""

    def __init__(self, symbols: int, characters: CharacterConfig) -> None:
        super().__init__()
        self.embed = Embedding(symbols, characters.embedding_size, dropout=characters.dropout)
        self.layer = recurrent(
            characters.cell,
            characters.embedding_size,
            characters.hidden_size,
            layers=characters.layers,
            bidirectional=True,
            dropout=characters.dropout,
        )
        self.stacked = characters.layers > 1
        self.size = 2 * characters.hidden_size

    def forward(
        self,
        spelled: Tensor,  # (B, T, LONGEST), int16, 0 behind the end of a word
    ) -> Tensor:  # (B, T, size)
        words, places = distinct_words(spelled.flatten(0, 1))
        words = words[:, : max(1, int((words != 0).sum(dim=1).max()))].long()
        _, state = self.layer(self.embed(words), words != 0)
        ahead, back = state[-1] if self.stacked else state
        # The first field of a state is its output.
        return torch.cat([ahead[0], back[0]], dim=1)[places].view(*spelled.shape[:2], self.size)


def distinct_words(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows (U, C) of a table (N, C) of int16, and for each row of the table its number among them (N,).

    Four characters are compared at once, as one integer: torch.unique(dim=0) takes over ten times as long.
    """
    table = np.ascontiguousarray(rows.cpu().numpy()).view(np.int64)
    order = np.lexsort(table.T)
    ordered = table[order]
    new = np.ones(len(table), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.empty(len(table), dtype=np.int64)
    numbers[order] = np.cumsum(new) - 1
    first = torch.from_numpy(order[new]).to(rows.device)
    return rows[first], torch.from_numpy(numbers).to(rows.device)


def to_characters(words: Sequence[str], symbols: Sequence[str]) -> NDArray[np.int16]:  # (N, LONGEST)
    """The numbers of each word's characters among the symbols; 0 behind its end, 1 for one that is not there."""
    known = np.array([ord(symbol) if len(symbol) == 1 else NEVER for symbol in symbols], dtype=np.uint32)
    ranks = np.argsort(known, kind="stable")
    codes = np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    found = ranks[np.minimum(np.searchsorted(known[ranks], codes), len(known) - 1)]
    numbers = np.where(known[found] == codes, found, 1)
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    rows = np.repeat(np.arange(len(words)), lengths)
    columns = np.arange(len(codes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    surplus = np.maximum(lengths - LONGEST, 0)[rows]
    tail = columns - surplus  # the column if the middle of a long word is taken out
    begins, ends = columns < LONGEST // 2, tail >= LONGEST // 2
    spelled = np.zeros((len(words), LONGEST), dtype=np.int16)
    spelled[rows[begins], columns[begins]] = numbers[begins]
    spelled[rows[ends], tail[ends]] = numbers[ends]
    return spelled
