"""Sampling: each token is drawn from its distribution, after temperature, top-k, top-p and min-p."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from seqloom.decoding.tokens.constraints import top
from seqloom.decoding.tokens.search import Step
from seqloom.decoding.tokens.search_record import Integers, NodeStatus
from seqloom.decoding.tokens.stepwise import Choose, StepwiseSearch

NUCLEUS = 256  # tokens that are sorted first when looking for the nucleus of top_p
BELOW_ONE = 1 - 1e-12  # keeps rounding from selecting beyond the last token


class Sample(StepwiseSearch):
    """Draws one token after the other."""

    not_chosen: ClassVar[NodeStatus] = NodeStatus.NOT_SAMPLED

    name: Literal["sample"] = "sample"
    temperature: float = Field(
        1.0, ge=0, description="Softmax temperature: below 1 sharper, above 1 flatter (0: always the most probable)."
    )
    top_k: int = Field(0, ge=0, description="Sample from the k most probable tokens (0: all).")
    top_p: float = Field(
        1.0, gt=0, le=1, description="Sample from the most probable tokens with this total probability (1: all)."
    )
    min_p: float = Field(
        0.0, ge=0, le=1, description="Minimum probability of a token relative to the most probable one (0: no minimum)."
    )
    count: int = Field(1, ge=1, le=100_000, description="Sequences sampled for each input.")
    seed: int = Field(1, ge=0, description="Seed of the random number generator.")

    @property
    def takes_largest(self) -> bool:
        return self.temperature == 0

    def sequences_per_row(self) -> int:
        return self.count

    def chooser(self) -> Choose:
        """All rows use the same random numbers, so the result for a row does not depend on the others."""
        random, count = np.random.default_rng(self.seed), self.count

        def choose(values: npt.NDArray[np.floating], largest: Integers, rows: Integers) -> Integers:
            quantiles = random.random(count)[rows % count]
            if self.temperature == 0:
                return largest
            impossible = np.isneginf(values.max(axis=1, keepdims=True))  # rows with no possible token
            values = np.where(impossible, 0.0, values)
            return self.pick(torch.from_numpy(values), torch.from_numpy(quantiles)).numpy()

        return choose

    def stream(
        self,
        step: Step,
        state: Any,
        start: Tensor,  # (B,), the token before the first one
        *,
        length: int,
        end: int | None = None,  # stop once every row has ended; a row that has ended repeats it
        suppress: tuple[int, ...] = (),  # tokens that are never generated
    ) -> Iterator[Tensor]:  # (B,) each
        """Yield one token per row at a time."""
        random = torch.Generator().manual_seed(self.seed)
        tokens = start
        done = torch.zeros(len(start), dtype=torch.bool)
        for _ in range(length):
            scores, state = step(tokens, state)
            scores = scores.cpu()
            if suppress:
                scores = scores.index_fill(1, torch.tensor(suppress), -torch.inf)
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
        """One token for each row."""
        if not torch.isfinite(scores.amax(dim=-1)).all():
            raise ValueError("cannot sample: no token has a positive probability, or a log-probability is NaN")
        if self.temperature == 0:
            return scores.argmax(dim=-1)
        return self.pick(scores, torch.rand(len(scores), generator=random, dtype=torch.float64))

    def pick(self, scores: Tensor, quantiles: Tensor) -> Tensor:  # (B, V), (B,) → (B,)
        """The tokens at quantiles between 0 and 1 of the cumulative distribution."""
        weights, tokens = self._kept(scores)
        cumulative = weights.cumsum(dim=-1, dtype=torch.float64)
        targets = cumulative[:, -1:] * (quantiles.unsqueeze(1) * BELOW_ONE)
        columns = torch.searchsorted(cumulative, targets, right=True)
        return (columns if tokens is None else tokens.gather(1, columns)).squeeze(1)

    def distribution(self, scores: Tensor) -> Tensor:  # (B, V) → (B, V), rows add up to one
        """The distribution that tokens are sampled from: temperature first, then top-k, top-p and min-p."""
        weights, tokens = self._kept(scores)
        kept = weights if tokens is None else torch.zeros_like(scores).scatter(1, tokens, weights)
        return kept / kept.sum(dim=-1, keepdim=True)

    def _kept(self, scores: Tensor) -> tuple[Tensor, Tensor | None]:  # (B, V) → (B, W), (B, W)
        """Unnormalised probabilities, and the tokens of the columns (None: the columns are the tokens)."""
        weights = scores - scores.amax(dim=-1, keepdim=True)  # keeps a small temperature from overflowing
        if self.temperature != 1:
            weights.div_(self.temperature)
        weights.exp_()
        if not self.top_k and self.top_p == 1:
            return (weights.masked_fill_(weights < self.min_p, 0) if self.min_p else weights), None
        mass = self.top_p * weights.sum(dim=-1, keepdim=True)
        first = self.top_k or NUCLEUS
        ordered, tokens = map(torch.from_numpy, top(weights.numpy().copy(), first))
        if not self.top_k and (ordered.sum(dim=-1, keepdim=True) < mass).any():
            ordered, tokens = weights.double().sort(dim=-1, descending=True, stable=True)
        keep = ordered >= self.min_p
        keep &= ordered.cumsum(dim=-1) - ordered < mass  # the tokens before it do not reach the mass
        keep[:, 0] = True
        return ordered * keep, tokens
