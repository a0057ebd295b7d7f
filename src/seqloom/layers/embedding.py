"""Symbols as vectors."""

from torch import Tensor, nn

from seqloom.layers.dropout import Dropout

PADDING = 0
"""The index that stands for no symbol; its vector is zero and stays so."""

UNKNOWN = 1
"""The index of every symbol that is not in the vocabulary."""


class Embedding(nn.Embedding):
    """A vector for each symbol, with dropout of whole vectors' parts; index 0 is padding."""

    def __init__(self, symbols: int, size: int, *, dropout: float = 0.0, scale: float = 0.1) -> None:
        super().__init__(symbols, size, padding_idx=PADDING)
        self.dropout = Dropout(dropout)
        nn.init.uniform_(self.weight, -scale, scale)
        self.weight.data[PADDING] = 0

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  (B, T) → (B, T, size); the name is torch's
        vectors: Tensor = self.dropout(super().forward(input))
        return vectors
