"""Beam search: the most probable partial hypotheses of each sentence are extended in parallel."""

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
from seqloom.decoding.tokens.constraints import ConstrainedTopK, StepRules, top
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.search import (
    Coverage,
    Hypothesis,
    MaxGain,
    Search,
    Step,
    max_lengths,
    no_gain,
    unrestricted,
)
from seqloom.decoding.tokens.search_record import Doubles, Integers, NodeStatus, SearchRecord, Statuses

MIN_ATTENTION = 1e-9
"""Lower bound of the attention in the coverage penalty, whose logarithm would be -inf at an unattended position."""


class Beam(Search):
    """Extends the most probable hypotheses of each sentence in parallel.

    At each step, the ``size`` most probable extensions of a sentence's live hypotheses by one token are selected;
    those that end are finished, the others stay live. Ties go to the first hypothesis and its lowest token id. A
    sentence is done when no live hypothesis can reach the n-best any more.
    """

    name: Literal["beam"] = "beam"
    size: int = Field(5, ge=1, le=10_000, description="Hypotheses kept at each step.")
    per_node: int = Field(0, ge=0, description="Maximum extensions of one hypothesis, the most probable (0: no limit).")
    threshold: float = Field(
        0.0,
        ge=0,
        description="Prune hypotheses whose log-probability is this much below the best one's (0: no pruning).",
    )
    length_penalty: Literal["none", "length", "gnmt"] = Field(
        "length", description="Divisor of the log-probability: 1, length^alpha, or ((5 + length) / 6)^alpha."
    )
    alpha: float = Field(
        1.0, ge=0, le=10, description="Exponent of the length penalty; larger values favour longer outputs."
    )
    coverage_penalty: float = Field(
        0.0,
        ge=0,
        description="Weight of the penalty for source positions with little attention (Wu et al. 2016; 0: none).",
    )
    min_length: int = Field(0, ge=0, description="Minimum number of tokens (0: no minimum).")
    no_repeat_ngram: int = Field(0, ge=0, description="Length of n-grams that must not occur twice (0: no limit).")
    groups: int = Field(
        1, ge=1, description="Groups of a diverse beam search, each of size / groups (Vijayakumar et al. 2016)."
    )
    diversity: float = Field(
        0.5, ge=0, description="With groups: penalty per earlier group that chose the same token at the same step."
    )
    patience: float = Field(
        0.0,
        ge=0,
        description="Stop after patience × size hypotheses have ended (Kasai et al. 2022); "
        "0: stop when the n-best are final.",
    )
    nbest: int = Field(1, ge=1, le=10_000, description="Hypotheses returned for each input.")

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        if self.size % self.groups:
            raise ValueError(f"size must be a multiple of groups, found size = {self.size} and groups = {self.groups}")
        return self

    @property
    def needs_coverage(self) -> bool:
        return self.coverage_penalty > 0

    def length_divisor(self, length: int) -> float:
        return float(self._length_penalty(float(length)))

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
        coverage: Coverage | None = None,
        max_gain: MaxGain = no_gain,
        record: SearchRecord | None = None,
    ) -> list[list[Hypothesis]]:
        """At most ``nbest`` hypotheses per row."""
        if self.needs_coverage and coverage is None:
            raise self._no_attention()
        constraints, limits = ConstrainedTopK(end, suppress=suppress, tree=tree), max_lengths(lengths, start)
        roots = np.zeros_like(limits) if record is None else record.start(np.arange(len(limits)))
        finished = FinishedHypotheses(len(limits), self.nbest, record=record)
        for row in np.flatnonzero(limits == 0).tolist():
            if tree is None:
                finished.add(row, Hypothesis([], 0.0, 0.0, [], ended=False), roots[row])
            else:
                finished.reject(roots[row], NodeStatus.TRUNCATED)
        rows = np.flatnonzero(limits).repeat(self.groups)
        beam = BeamState(limits, width=self.groups, ids=roots[rows], max_gain=max_gain)
        last, state_rows = start.cpu().numpy()[rows], len(start)
        while len(rows):
            # Rows of the state follow the hypotheses; tables that rows share shrink only with the whole batch.
            if beam.length == 1 and len(remaining := np.unique(rows)) < state_rows:
                state, state_rows = states.select(state, _tensor(remaining, start)), len(remaining)
                rows = np.searchsorted(remaining, rows)
            if len(rows) != state_rows or (rows != np.arange(state_rows)).any():
                state = states.select(state, _tensor(rows, start))
            # Select among the allowed extensions of all live hypotheses.
            free = unrestricted(step, _tensor(last, start), state) if record is not None else None
            scores, state = step(_tensor(last, start), state)
            rules = StepRules(beam.nodes, beam.length < self.min_length, beam.repeated_ngrams(self.no_repeat_ngram))
            options, labels = constraints(scores, rules)
            values, columns = top(options, min(self.per_node or self.size, self.size))
            if (empty := beam.invalid_slots(values[:, 0])) is not None:
                values[empty] = -np.inf
            tokens = columns if labels is None else np.take_along_axis(labels, columns, axis=1)
            totals, picks = self._select(beam.totals, values, tokens=tokens, diversity=self.diversity)
            extended = picks // values.shape[1]
            extensions = Extensions(
                totals,
                rows=extended,
                tokens=tokens.reshape(-1)[picks],
                values=values.reshape(-1)[picks],
                nodes=picks if tree is None else tree.child(beam.nodes[extended], columns.reshape(-1)[picks]),
                ids=picks,
            )
            if record is not None:
                limited = 0 < self.per_node < self.size
                default = NodeStatus.PER_NODE if limited else NodeStatus.OUTSIDE_BEAM
                every, statuses = constraints.statuses(scores, rules, default=default, unrestricted=free)
                ids = self._record_step(
                    record, beam, extensions, candidates=(values, tokens), every=every, statuses=statuses
                )
                extensions = extensions._replace(ids=ids)
            # Finish those with the end token or of maximum length; continue with the others.
            finish = partial(self._finish, beam, finished, penalty=partial(self._coverage_penalty, coverage, state))
            ended = (extensions.tokens == end) & (totals > -np.inf)
            if ended.any():
                finish(extensions, ended, ended=True)
                extensions = extensions._replace(totals=np.where(ended, -np.inf, totals))
            truncated = beam.limits == beam.length + 1
            if truncated.any():
                live = truncated[:, None] & (extensions.totals > -np.inf)
                finish(extensions, live, ended=False, allowed=tree is None)
            done = truncated | self._final(beam, extensions, finished, truncated=truncated)
            state_rows = len(rows)
            rows, last = beam.advance(extensions, done)
        return finished.nbest()

    def _select(
        self,
        totals: Doubles,  # (B, W)
        values: Doubles,  # (B × W, C), of the children of each hypothesis, in descending order
        *,
        tokens: Integers,  # (B × W, C)
        diversity: float,
    ) -> tuple[Doubles, Integers]:  # (B, K), (B, K)
        """The log-probabilities of the selected extensions, and their indices among the B × W × C children."""
        batch, width = len(totals), self.size // self.groups
        sums = (totals.reshape(-1, 1) + values).reshape(batch, self.groups, -1)
        flat, flat_tokens, count = sums.reshape(-1), tokens.reshape(-1), sums.shape[2]
        first = np.arange(0, flat.size, self.groups * count)[:, None]
        parts: list[tuple[Doubles, Integers]] = []
        taken: list[Integers] = []  # tokens of the earlier groups, -1 for an empty slot
        for group in range(self.groups):
            scores = sums[:, group]
            if diversity and taken:
                candidates = tokens.reshape(sums.shape)[:, group, :, None]
                scores = scores - diversity * (candidates == np.concatenate(taken, axis=1)[:, None]).sum(axis=2)
            picks = (-scores).argsort(axis=1, kind="stable")[:, :width] + (first + group * count)
            selected = flat[picks]
            if self.threshold:
                selected[selected < selected.max(axis=1, keepdims=True) - self.threshold] = -np.inf
            if count < width:
                padding = ((0, 0), (0, width - count))
                selected = np.pad(selected, padding, constant_values=-np.inf)
                picks = np.pad(picks, padding, mode="edge")
            if self.groups == 1:
                return selected, picks
            parts.append((selected, picks))
            taken.append(np.where(selected > -np.inf, flat_tokens[picks], -1))
        return np.concatenate([part for part, _ in parts], axis=1), np.concatenate([p for _, p in parts], axis=1)

    def _finish(
        self,
        beam: BeamState,
        finished: FinishedHypotheses,
        extensions: Extensions,
        mask: npt.NDArray[np.bool_],  # (B, K)
        *,
        penalty: Callable[[Integers], Doubles | float],
        ended: bool,
        allowed: bool = True,  # False: the constraints forbid them
    ) -> None:
        """Score the hypotheses that have ended or reached the maximum length, and keep the n-best."""
        sentences, slots = np.nonzero(mask)
        scores = extensions.totals[mask] / self._length_penalty(beam.length + 1.0) + penalty(extensions.rows[mask])
        for row, slot, score in zip(sentences.tolist(), slots.tolist(), scores.tolist(), strict=True):
            sentence, record_id = beam.sentences[row], extensions.ids[row, slot]
            cutoff = finished.cutoff[sentence]
            finished.ended[sentence] += ended
            if not allowed or (not ended and cutoff > -np.inf):
                finished.reject(record_id, NodeStatus.TRUNCATED, score)
            elif score <= cutoff:
                finished.reject(record_id, NodeStatus.NOT_IN_NBEST, score)
            else:
                hypothesis = beam.finish(extensions, (row, slot), score=score, ended=ended)
                finished.add(sentence, hypothesis, record_id)

    def _final(
        self,
        beam: BeamState,
        extensions: Extensions,
        finished: FinishedHypotheses,
        *,
        truncated: npt.NDArray[np.bool_],  # (B,), sentences that stop in any case
    ) -> npt.NDArray[np.bool_]:  # (B,)
        """Sentences whose n-best are final: no live hypothesis reaches them even if all its next tokens are certain."""
        totals = extensions.totals.max(axis=1) + beam.max_gain(beam.limits - beam.length - 1)
        # The best case of a negative total is the penalty of the longest output, of a positive one the shortest.
        lengths = np.where(totals > 0, beam.length + 2.0, beam.limits)
        bound = totals / self._length_penalty(lengths)
        final: npt.NDArray[np.bool_] = finished.cutoff[beam.sentences] >= bound
        if self.patience:
            final |= finished.ended[beam.sentences] >= self.patience * self.size
        if finished.record is not None:
            for record_id in extensions.ids[(final & ~truncated)[:, None] & (extensions.totals > -np.inf)]:
                finished.reject(record_id, NodeStatus.CANNOT_WIN)
        return final

    def _length_penalty(self, length: Doubles | float) -> Doubles | float:
        """The divisor of a log-probability."""
        if self.length_penalty == "none":
            return 1.0
        return (length if self.length_penalty == "length" else (5 + length) / 6) ** self.alpha

    def _coverage_penalty(self, coverage: Coverage | None, state: Any, rows: Integers) -> Doubles | float:
        """β Σ log min(attention received, 1) of each hypothesis: (N,) → (N,)."""
        if not self.coverage_penalty or coverage is None:
            return 0.0
        attention = coverage(state)
        if attention is None:
            raise self._no_attention()
        received = attention.cpu().double().numpy()[rows]
        penalty: Doubles = self.coverage_penalty * np.log(received.clip(MIN_ATTENTION, 1.0)).sum(axis=1)
        return penalty

    def _no_attention(self) -> ValueError:
        return ValueError(f"coverage_penalty is {self.coverage_penalty}, but the model has no attention: set it to 0")

    def _record_step(
        self,
        record: SearchRecord,
        beam: BeamState,
        extensions: Extensions,
        *,
        candidates: tuple[Doubles, Integers],  # log-probabilities of the best children, and their tokens
        every: Doubles,  # (R, V), log-probabilities of all tokens
        statuses: Statuses,  # (R, V), as the constraints decide
    ) -> Integers:  # (B, K)
        """Record all candidates; returns the record ids of the extensions."""
        values, tokens = candidates
        sums = beam.totals.reshape(-1, 1) + values

        def decide(picks: Integers, status: NodeStatus) -> None:
            statuses[picks // values.shape[1], tokens.reshape(-1)[picks]] = status

        decide(np.flatnonzero(values > -np.inf), NodeStatus.OUTSIDE_BEAM)
        if self.groups > 1:
            totals, picks = self._select(beam.totals, values, tokens=tokens, diversity=0.0)
            decide(picks[totals > -np.inf], NodeStatus.OTHER_GROUP)
        possible, live = sums.reshape(-1)[extensions.ids] > -np.inf, extensions.totals > -np.inf
        decide(extensions.ids[possible & ~live], NodeStatus.BELOW_THRESHOLD)
        decide(extensions.ids[live], NodeStatus.EXTENDED)
        rows = beam.sentences.repeat(beam.totals.shape[1])
        ids = record.add(
            beam.ids, rows, beam.length + 1, totals=beam.totals.reshape(-1), values=every, statuses=statuses
        )
        return ids[extensions.rows, extensions.tokens]


def _tensor(values: Integers, like: Tensor) -> Tensor:
    return torch.from_numpy(values).to(like.device)
