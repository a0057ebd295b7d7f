"""Token embeddings."""

from torch import Tensor, nn

from seqloom.layers.dropout import Dropout

PADDING = 0
"""Index of padding; its vector is zero and stays zero."""

UNKNOWN = 1
"""Index of all tokens that are not in the vocabulary."""


class Embedding(nn.Embedding):
    """A vector for each token, with dropout; index 0 is padding."""

    def __init__(self, vocab_size: int, size: int, *, dropout: float = 0.0, scale: float = 0.1) -> None:
        super().__init__(vocab_size, size, padding_idx=PADDING)
        self.dropout = Dropout(dropout)
        nn.init.uniform_(self.weight, -scale, scale)
        self.weight.data[PADDING] = 0

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  (B, T) → (B, T, size); the name is torch's
        vectors: Tensor = self.dropout(super().forward(input))
        return vectors
