"""Sampling: the next symbol is drawn from its distribution, which can be sharpened and cut before."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from seqloom.config import Part

Step = Callable[[Tensor, Any], tuple[Tensor, Any]]
"""The last symbols (B,) and a state → log-probabilities of the next ones (B, V), and the following state."""


class Sample(Part):
    """Draws symbols one after the other."""

    temperature: float = Field(1.0, ge=0, description="Below 1 sharper, above 1 flatter; 0: always the most probable.")
    top_k: int = Field(0, ge=0, description="Only the k most probable symbols; 0: all.")
    top_p: float = Field(1.0, gt=0, le=1, description="Only the most probable symbols that together have this share.")
    min_p: float = Field(0.0, ge=0, le=1, description="Only symbols at least this share as probable as the best one.")
    seed: int = Field(1, ge=0, description="Of the random numbers.")

    def stream(
        self,
        step: Step,
        state: Any,
        start: Tensor,  # (B,), the symbol before the first one
        *,
        length: int,
        end: int | None = None,  # stop where all rows have drawn it; a row goes on with it
        never: tuple[int, ...] = (),  # symbols that are not drawn
    ) -> Iterator[Tensor]:  # (B,) each
        """One symbol for each row after the other."""
        random = torch.Generator().manual_seed(self.seed)
        tokens = start
        done = torch.zeros(len(start), dtype=torch.bool)
        for _ in range(length):
            scores, state = step(tokens, state)
            scores = scores.cpu().double()
            scores[:, list(never)] = -torch.inf
            tokens = self.draw(scores, random)
            if end is not None:
                tokens = torch.where(done, end, tokens)
                done |= tokens == end
            yield tokens
            if end is not None and bool(done.all()):
                return
            tokens = tokens.to(start.device)

    def draw(
        self,
        scores: Tensor,  # log-probabilities (B, V)
        random: torch.Generator,
    ) -> Tensor:  # (B,)
        """One symbol of each row."""
        if not torch.isfinite(scores.amax(dim=-1)).all():
            raise ValueError("the distribution to draw from is empty or not a number")
        if self.temperature == 0:
            return scores.argmax(dim=-1)
        return torch.multinomial(self.distribution(scores), 1, generator=random).squeeze(1)

    def distribution(self, scores: Tensor) -> Tensor:  # (B, V) → (B, V), rows add up to one
        """What is drawn from: temperature first, then the cuts."""
        scores = scores - scores.amax(dim=-1, keepdim=True)  # so that no temperature makes the best one infinite
        probabilities = torch.softmax(scores / self.temperature, dim=-1)
        ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
        keep = ordered >= self.min_p * ordered[:, :1]
        keep &= ordered.cumsum(dim=-1) - ordered < self.top_p  # what stands before has not reached it yet
        if self.top_k:
            keep[:, self.top_k :] = False
        keep[:, 0] = True
        kept = torch.zeros_like(probabilities).scatter(1, order, ordered * keep)
        return kept / kept.sum(dim=-1, keepdim=True)
