"""Sampling: each token is drawn from its distribution, after temperature, top-k, top-p and min-p."""

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
from seqloom.decoding.tokens.search import Coverage, Hypothesis, Search, Step, max_lengths
from seqloom.decoding.tokens.search_record import Fate, Integers, SearchRecord
from seqloom.decoding.tokens.stepwise import decode_stepwise

NUCLEUS = 256  # tokens that are sorted first when looking for the nucleus of top_p
BELOW_ONE = 1 - 1e-12  # keeps rounding from selecting beyond the last token


class Sample(Search):
    """Draws one token after the other."""

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
    count: int = Field(1, ge=1, description="Sequences sampled for each input.")
    seed: int = Field(1, ge=0, description="Seed of the random number generator.")

    @torch.no_grad()
    def __call__(
        self,
        step: Step,
        state: Any,
        start: Tensor,  # (B,)
        end: int,
        *,
        lengths: Tensor | int,
        suppress: tuple[int, ...] = (),
        tree: PrefixTree | None = None,
        coverage: Coverage | None = None,  # noqa: ARG002  there are no finished hypotheses to rank
        record: SearchRecord | None = None,
    ) -> list[list[Hypothesis]]:
        """The sequences sampled for each row, the most probable first.

        All rows use the same random numbers, so the result for a row does not depend on the others.
        """
        random, count = np.random.default_rng(self.seed), self.count

        def choose(values: npt.NDArray[np.floating], largest: Integers, rows: Integers) -> Integers:
            quantiles = random.random(count)[rows % count]
            if self.temperature == 0:
                return largest
            values = np.where(
                np.isneginf(values.max(axis=1, keepdims=True)), 0.0, values
            )  # rows with no possible token
            return self.pick(torch.from_numpy(values), torch.from_numpy(quantiles)).numpy()

        samples = decode_stepwise(
            step,
            states.repeat(state, count) if count > 1 else state,
            start.repeat_interleave(count),
            constraints=ConstrainedTopK(end, suppress=suppress, tree=tree),
            choose=choose,
            limits=max_lengths(lengths, start).repeat(count),
            record=record,
            row_ids=np.arange(len(start)).repeat(count),
            not_chosen=Fate.NOT_SAMPLED,
        )
        rows = [[sample for sample in samples[row : row + count] if sample] for row in range(0, len(samples), count)]
        return [sorted(row, key=lambda sample: (-sample.ended, -sample.score)) for row in rows]

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
