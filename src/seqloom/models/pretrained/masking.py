"""Which tokens a masked language model has to predict, and what it reads in their place (Devlin et al. 2019)."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

READ_AS_MASK, READ_AS_RANDOM = 0.8, 0.1
"""Shares of the chosen tokens that are read as [MASK], and as a random token; the rest is read as it is."""


class MaskedTokens(NamedTuple):
    """A text with hidden tokens."""

    words: Tensor  # (B, T), what the model reads
    chosen: Tensor  # (B, T), True where the token is to be predicted


class Masking(NamedTuple):
    """How tokens are hidden."""

    rate: float  # share of the tokens that are chosen
    mask: int  # id of [MASK]
    first: int  # random tokens have an id from this one
    end: int  # … to below this one

    def counts(self, tokens: Tensor) -> Tensor:  # (B,) → (B,)
        """The number of tokens that are chosen of this many: the rate, rounded, but at least one."""
        return (self.rate * tokens.double()).round().long().clamp(min=1).minimum(tokens)

    def candidates(self, words: Tensor, mask: Tensor) -> Tensor:  # (B, T), (B, T) → (B, T)
        """The tokens that may be chosen: all but the boundary at the start and what the text itself hides."""
        allowed = mask & (words != self.mask)
        allowed[:, 0] = False
        return allowed

    def hide(
        self,
        words: Tensor,  # (B, T)
        mask: Tensor,  # (B, T)
        noise: Tensor,  # (3, B, T), uniform in [0, 1): which are chosen, what is read instead, which random token
    ) -> MaskedTokens:
        """Choose tokens by the noise, and hide them."""
        which, instead, other = noise.to(words.device)
        allowed = self.candidates(words, mask)
        ranks = which.masked_fill(~allowed, 2).argsort(dim=1, stable=True).argsort(dim=1, stable=True)
        chosen = ranks < self.counts(allowed.sum(dim=1)).unsqueeze(1)
        random = self.first + (other.double() * (self.end - self.first)).long()
        read = torch.where(instead < READ_AS_MASK + READ_AS_RANDOM, random, words)
        read = read.masked_fill(instead < READ_AS_MASK, self.mask)
        return MaskedTokens(torch.where(chosen, read, words), chosen)


def fixed_noise(words: Tensor, mask: Tensor) -> Tensor:  # (B, T), (B, T) → (3, B, T)
    """Noise that depends on nothing but the text of each row, so that an evaluation always hides the same tokens."""
    noise = np.zeros((3, *words.shape))
    for row, (text, length) in enumerate(zip(words.tolist(), mask.sum(dim=1).tolist(), strict=True)):
        noise[:, row, :length] = np.random.default_rng(text[:length]).random((3, length))
    return torch.from_numpy(noise)
