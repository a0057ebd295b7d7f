"""Which words a caption will contain, from the source alone: a second loss for encoders (Fang et al. 2015)."""

import torch
from torch import Tensor, nn

from seqloom.layers.layer import Memory

RARE = -5.0  # initial log-odds that a token occurs


class WordPresence(nn.Module):
    """The log-odds that each token occurs in some caption of a source: W mean(memory) + b.

    The loss of a decoder says little about the source at first: most of a caption follows from the words before. This
    one depends on nothing else.
    """

    def __init__(self, size: int, vocabulary: int) -> None:
        super().__init__()
        self.output = nn.Linear(size, vocabulary)
        nn.init.zeros_(self.output.weight)
        nn.init.constant_(self.output.bias, RARE)

    def forward(self, memory: Memory) -> Tensor:  # (B, V)
        count = memory.mask.sum(dim=1, keepdim=True).clamp(min=1)
        mean = memory.values.masked_fill(~memory.mask.unsqueeze(-1), 0).sum(dim=1) / count
        logits: Tensor = self.output(mean)
        return logits

    def loss(
        self,
        memory: Memory,  # of B sources
        tokens: Tensor,  # (N, T), those of their captions
        *,
        mask: Tensor,  # (N, T)
        rows: Tensor,  # (N,), the source of each caption
    ) -> Tensor:  # ()
        """The binary cross-entropy, summed over all sources and tokens of the vocabulary."""
        logits = self(memory)
        present = torch.zeros_like(logits)
        present[rows.unsqueeze(1).expand_as(tokens)[mask], tokens[mask]] = 1
        return nn.functional.binary_cross_entropy_with_logits(logits, present, reduction="sum")
