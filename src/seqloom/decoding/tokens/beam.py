"""Beam search: the best extensions of each sentence live on, step by step."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, model_validator
from torch import Tensor

from seqloom import state as states
from seqloom.decoding.tokens.beam_state import BeamState, Extensions, FinishedHypotheses
from seqloom.decoding.tokens.constraints import ConstrainedTopK, Rules, top
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.search import Coverage, Hypothesis, Search, Step, limits
from seqloom.decoding.tokens.search_record import Fate, Fates, Integers, Numbers, SearchRecord

UNSEEN = 1e-9
"""The least attention that a position counts with: the logarithm of nothing would hide all else."""


class Beam(Search):
    """Follows the best hypotheses of each sentence side by side.

    Among all extensions of a sentence's live hypotheses by one symbol, the ``size`` most probable are chosen; those
    that end are complete, the others live on. Where equal, the first hypothesis and its lowest symbol win. A sentence
    is done when none that is alive can come among the ``best`` any more.
    """

    name: Literal["beam"] = "beam"
    size: int = Field(5, ge=1, description="Hypotheses that are chosen at each step.")
    per_node: int = Field(0, ge=0, description="At most so many children of a hypothesis, the most probable; 0: all.")
    threshold: float = Field(
        0.0, ge=0, description="Drop what is this much below the best at its step (natural logarithm); 0: nothing."
    )
    length_penalty: Literal["none", "length", "gnmt"] = Field(
        "none", description="The log-probability is divided by: one, length^alpha, or ((5 + length) / 6)^alpha."
    )
    alpha: float = Field(1.0, ge=0, le=10, description="Of the penalty: the larger, the longer the answers.")
    coverage_penalty: float = Field(
        0.0, ge=0, description="Weight of the penalty for source positions that got too little attention (Wu 2016)."
    )
    min_length: int = Field(0, ge=0, description="No end before so many symbols.")
    no_repeat_ngram: int = Field(0, ge=0, description="No n-gram of this length twice; 0: any.")
    groups: int = Field(1, ge=1, description="Parts of the beam that avoid each other's symbols (Vijayakumar 2016).")
    diversity: float = Field(
        0.5, ge=0, description="With groups: what a symbol costs for each choice of it by a group before, at this step."
    )
    patience: float = Field(
        0.0, ge=0, description="Stop also when patience × size hypotheses have ended (Kasai 2022); 0: only when sure."
    )
    nbest: int = Field(1, ge=1, description="Hypotheses that are returned.")

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.size % self.groups:
            raise ValueError(f"size is {self.size} and groups {self.groups}, wanted groups of equal size")
        return self

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
        coverage: Coverage | None = None,
        record: SearchRecord | None = None,
    ) -> list[list[Hypothesis]]:
        """At most ``best`` hypotheses of each row."""
        if self.coverage_penalty and coverage is None:
            raise ValueError(
                f"coverage has the weight {self.coverage_penalty}, and this model has no attention to read it from"
            )
        allowed, most = ConstrainedTopK(end, never=never, tree=tree), limits(lengths, start)
        roots = np.zeros_like(most) if record is None else record.begin(np.arange(len(most)))
        answers = FinishedHypotheses(len(most), self.nbest, record=record)
        for row in np.flatnonzero(most == 0).tolist():
            if tree is None:
                answers.add(row, Hypothesis([], 0.0, 0.0, [], ended=False), roots[row])
            else:
                answers.refuse(roots[row], Fate.CUT)
        rows = np.flatnonzero(most).repeat(self.groups)
        front = BeamState(most, width=self.groups, numbers=roots[rows])
        last, before = start.cpu().numpy()[rows], len(start)
        while len(rows):
            if front.length == 1 and len(left := np.unique(rows)) < before:  # tables shrink with the batch only
                state, rows, before = states.select(state, _tensor(left, start)), np.searchsorted(left, rows), len(left)
            if len(rows) != before or (rows != np.arange(before)).any():
                state = states.select(state, _tensor(rows, start))
            scores, state = step(_tensor(last, start), state)
            rules = Rules(front.nodes, front.length < self.min_length, front.repeated(self.no_repeat_ngram))
            options, labels = allowed(scores, rules)
            values, places = top(options, min(self.per_node or self.size, self.size))
            if (empty := front.check(values[:, 0])) is not None:
                values[empty] = -np.inf
            symbols = places if labels is None else np.take_along_axis(labels, places, axis=1)
            totals, picks = self._choose(front.totals, values, symbols=symbols, diversity=self.diversity)
            extended = picks // values.shape[1]
            chosen = Extensions(
                totals,
                rows=extended,
                symbols=symbols.reshape(-1)[picks],
                values=values.reshape(-1)[picks],
                nodes=picks if tree is None else tree.follow(front.nodes[extended], places.reshape(-1)[picks]),
                numbers=picks,
            )
            if record is not None:
                few = 0 < self.per_node < self.size
                every, fates = allowed.fates(scores, rules, default=Fate.PER_NODE if few else Fate.BEAM)
                told = self._note(record, front, chosen, candidates=(values, symbols), every=every, fates=fates)
                chosen = chosen._replace(numbers=told)
            complete = partial(self._complete, front, answers, attention=partial(self._attention, coverage, state))
            ended = (chosen.symbols == end) & (totals > -np.inf)
            if ended.any():
                complete(chosen, ended, ended=True)
                chosen = chosen._replace(totals=np.where(ended, -np.inf, totals))
            cut = front.limits == front.length + 1
            if cut.any():
                complete(chosen, cut[:, None] & (chosen.totals > -np.inf), ended=False, wanted=tree is None)
            done = cut | self._decided(front, chosen, answers, cut=cut)
            before = len(rows)
            rows, last = front.advance(chosen, done)
        return answers.all()

    def _choose(
        self,
        totals: Numbers,  # (B, W)
        values: Numbers,  # (B × W, C), of the children of each hypothesis, in descending order
        *,
        symbols: Integers,  # (B × W, C)
        diversity: float,
    ) -> tuple[Numbers, Integers]:  # (B, K), (B, K)
        """The log-probabilities of what is chosen, and its places among the B × W × C children."""
        batch, width = len(totals), self.size // self.groups
        sums = (totals.reshape(-1, 1) + values).reshape(batch, self.groups, -1)
        flat, names, count = sums.reshape(-1), symbols.reshape(-1), sums.shape[2]
        first = np.arange(0, flat.size, self.groups * count)[:, None]
        parts: list[tuple[Numbers, Integers]] = []
        taken: list[Integers] = []  # by the groups before, -1 where a slot is empty
        for group in range(self.groups):
            ranked = sums[:, group]
            if diversity and taken:
                own = symbols.reshape(sums.shape)[:, group, :, None]
                ranked = ranked - diversity * (own == np.concatenate(taken, axis=1)[:, None]).sum(axis=2)
            picks = (-ranked).argsort(axis=1, kind="stable")[:, :width] + (first + group * count)
            found = flat[picks]
            if self.threshold:
                found[found < found.max(axis=1, keepdims=True) - self.threshold] = -np.inf
            if count < width:
                rest = ((0, 0), (0, width - count))
                found, picks = np.pad(found, rest, constant_values=-np.inf), np.pad(picks, rest, mode="edge")
            if self.groups == 1:
                return found, picks
            parts.append((found, picks))
            taken.append(np.where(found > -np.inf, names[picks], -1))
        return np.concatenate([found for found, _ in parts], axis=1), np.concatenate([p for _, p in parts], axis=1)

    def _complete(
        self,
        front: BeamState,
        answers: FinishedHypotheses,
        chosen: Extensions,
        which: npt.NDArray[np.bool_],  # (B, K)
        *,
        attention: Callable[[Integers], Numbers | float],
        ended: bool,
        wanted: bool = True,  # otherwise they are not allowed
    ) -> None:
        """Score the hypotheses that have ended, or have reached their greatest length, and keep the best."""
        sentences, slots = np.nonzero(which)
        scores = chosen.totals[which] / self._divisor(front.length + 1.0) + attention(chosen.rows[which])
        for row, slot, score in zip(sentences.tolist(), slots.tolist(), scores.tolist(), strict=True):
            sentence, number = front.sentences[row], chosen.numbers[row, slot]
            bar = answers.bar[sentence]
            answers.ended[sentence] += ended
            if not wanted or (not ended and bar > -np.inf):
                answers.refuse(number, Fate.CUT, score)
            elif score <= bar:
                answers.refuse(number, Fate.WORSE, score)
            else:
                hypothesis = front.extended(chosen, (row, slot), score=score, ended=ended)
                answers.add(sentence, hypothesis, number)

    def _decided(
        self,
        front: BeamState,
        chosen: Extensions,
        answers: FinishedHypotheses,
        *,
        cut: npt.NDArray[np.bool_],  # (B,), those that end anyway
    ) -> npt.NDArray[np.bool_]:  # (B,)
        """Sentences of which no live hypothesis can come among the best: at most, all that follows is certain."""
        bound = chosen.totals.max(axis=1) / self._divisor(front.limits.astype(np.float64))
        decided: npt.NDArray[np.bool_] = answers.bar[front.sentences] >= bound
        if self.patience:
            decided |= answers.ended[front.sentences] >= self.patience * self.size
        if answers.record is not None:
            for number in chosen.numbers[(decided & ~cut)[:, None] & (chosen.totals > -np.inf)]:
                answers.refuse(number, Fate.HOPELESS)
        return decided

    def _divisor(self, length: Numbers | float) -> Numbers | float:
        """What a log-probability is divided by."""
        if self.length_penalty == "none":
            return 1.0
        return (length if self.length_penalty == "length" else (5 + length) / 6) ** self.alpha

    def _attention(self, coverage: Coverage | None, state: Any, rows: Integers) -> Numbers | float:  # (N,) → (N,)
        """The coverage penalty of hypotheses: β Σ log min(attention received, 1)."""
        if not self.coverage_penalty or coverage is None:
            return 0.0
        seen = coverage(state)
        if seen is None:
            raise ValueError(
                f"coverage has the weight {self.coverage_penalty}, and this model has no attention to read it from"
            )
        received = seen.cpu().double().numpy()[rows]
        penalty: Numbers = self.coverage_penalty * np.log(received.clip(UNSEEN, 1.0)).sum(axis=1)
        return penalty

    def _note(
        self,
        record: SearchRecord,
        front: BeamState,
        chosen: Extensions,
        *,
        candidates: tuple[Numbers, Integers],  # log-probabilities of the best children, and their symbols
        every: Numbers,  # (R, V), log-probabilities of all
        fates: Fates,  # (R, V), what the rules have decided
    ) -> Integers:  # (B, K)
        """Tell the record of all candidates; the numbers of those that were chosen."""
        values, symbols = candidates
        sums = front.totals.reshape(-1, 1) + values

        def decide(picks: Integers, fate: Fate) -> None:
            fates[picks // values.shape[1], symbols.reshape(-1)[picks]] = fate

        decide(np.flatnonzero(values > -np.inf), Fate.BEAM)
        if self.groups > 1:
            totals, picks = self._choose(front.totals, values, symbols=symbols, diversity=0.0)
            decide(picks[totals > -np.inf], Fate.GROUP)
        reached, alive = sums.reshape(-1)[chosen.numbers] > -np.inf, chosen.totals > -np.inf
        decide(chosen.numbers[reached & ~alive], Fate.THRESHOLD)
        decide(chosen.numbers[alive], Fate.EXTENDED)
        rows = front.sentences.repeat(front.totals.shape[1])
        numbers = record.add(
            front.numbers, rows, front.length + 1, totals=front.totals.reshape(-1), values=every, fates=fates
        )
        return numbers[chosen.rows, chosen.symbols]


def _tensor(values: Integers, like: Tensor) -> Tensor:
    return torch.from_numpy(values).to(like.device)
