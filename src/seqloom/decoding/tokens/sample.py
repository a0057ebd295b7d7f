"""Sampling: the next symbol is drawn from its distribution, which can be sharpened and cut before."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from seqloom import state as states
from seqloom.decoding.tokens.constraints import ConstrainedTopK, top
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.search import Coverage, Hypothesis, Search, Step, limits
from seqloom.decoding.tokens.search_record import Fate, Integers, SearchRecord
from seqloom.decoding.tokens.stepwise import decode_stepwise

NUCLEUS = 256  # the most probable symbols among which the share of top_p is looked for first
BELOW_ONE = 1 - 1e-12  # so that no rounding leads behind the last symbol


class Sample(Search):
    """Draws symbols one after the other."""

    name: Literal["sample"] = "sample"
    temperature: float = Field(1.0, ge=0, description="Below 1 sharper, above 1 flatter; 0: always the most probable.")
    top_k: int = Field(0, ge=0, description="Only the k most probable symbols; 0: all.")
    top_p: float = Field(1.0, gt=0, le=1, description="Only the most probable symbols that together have this share.")
    min_p: float = Field(0.0, ge=0, le=1, description="Only symbols at least this share as probable as the best one.")
    count: int = Field(1, ge=1, description="Sequences drawn for each row.")
    seed: int = Field(1, ge=0, description="Of the random numbers.")

    @torch.no_grad()
    def __call__(
        self,
        step: Step,
        state: Any,
        start: Tensor,  # (B,)
        end: int,
        *,
        lengths: Tensor | int,
        never: tuple[int, ...] = (),
        tree: PrefixTree | None = None,
        coverage: Coverage | None = None,  # noqa: ARG002  there is nothing to choose in the end
        record: SearchRecord | None = None,
    ) -> list[list[Hypothesis]]:
        """The sequences drawn for each row, the most probable first.

        All rows are drawn with the same random numbers, so that what a row gives does not depend on the others.
        """
        random, count = np.random.default_rng(self.seed), self.count

        def choose(values: npt.NDArray[np.floating], largest: Integers, rows: Integers) -> Integers:
            numbers = random.random(count)[rows % count]
            if self.temperature == 0:
                return largest
            values = np.where(np.isneginf(values.max(axis=1, keepdims=True)), 0.0, values)  # nothing is possible there
            return self.pick(torch.from_numpy(values), torch.from_numpy(numbers)).numpy()

        found = decode_stepwise(
            step,
            states.repeat(state, count) if count > 1 else state,
            start.repeat_interleave(count),
            allowed=ConstrainedTopK(end, never=never, tree=tree),
            choose=choose,
            limits=limits(lengths, start).repeat(count),
            record=record,
            names=np.arange(len(start)).repeat(count),
            lost=Fate.UNDRAWN,
        )
        rows = [[draw for draw in found[row : row + count] if draw] for row in range(0, len(found), count)]
        return [sorted(draws, key=lambda draw: (-draw.ended, -draw.score)) for draws in rows]

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
            scores = scores.cpu()
            if never:
                scores = scores.index_fill(1, torch.tensor(never), -torch.inf)
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
        return self.pick(scores, torch.rand(len(scores), generator=random, dtype=torch.float64))

    def pick(self, scores: Tensor, numbers: Tensor) -> Tensor:  # (B, V), (B,) → (B,)
        """The symbols that numbers from 0 to 1 stand for, if each has its share of this range."""
        weights, symbols = self._kept(scores)
        reached = weights.cumsum(dim=-1, dtype=torch.float64)
        wanted = reached[:, -1:] * (numbers.unsqueeze(1) * BELOW_ONE)
        places = torch.searchsorted(reached, wanted, right=True)
        return (places if symbols is None else symbols.gather(1, places)).squeeze(1)

    def distribution(self, scores: Tensor) -> Tensor:  # (B, V) → (B, V), rows add up to one
        """What is drawn from: temperature first, then the cuts."""
        weights, symbols = self._kept(scores)
        kept = weights if symbols is None else torch.zeros_like(scores).scatter(1, symbols, weights)
        return kept / kept.sum(dim=-1, keepdim=True)

    def _kept(self, scores: Tensor) -> tuple[Tensor, Tensor | None]:  # (B, V) → (B, W), (B, W)
        """Of what is drawn from, the weights, and the symbols where these are not the columns."""
        weights = scores - scores.amax(dim=-1, keepdim=True)  # so that no temperature makes the best one infinite
        if self.temperature != 1:
            weights.div_(self.temperature)
        weights.exp_()
        if not self.top_k and self.top_p == 1:
            return (weights.masked_fill_(weights < self.min_p, 0) if self.min_p else weights), None
        share = self.top_p * weights.sum(dim=-1, keepdim=True)
        first = self.top_k or NUCLEUS
        ordered, symbols = map(torch.from_numpy, top(weights.numpy().copy(), first))
        if not self.top_k and (ordered.sum(dim=-1, keepdim=True) < share).any():
            ordered, symbols = weights.double().sort(dim=-1, descending=True, stable=True)
        keep = ordered >= self.min_p
        keep &= ordered.cumsum(dim=-1) - ordered < share  # what stands before has not reached it yet
        keep[:, 0] = True
        return ordered * keep, symbols
