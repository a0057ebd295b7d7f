"""The state of a beam search: the live hypotheses, and the n-best of the finished ones."""

from bisect import insort_right
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqloom.decoding.tokens.constraints import Banned, invalid_log_probability, invalid_rows
from seqloom.decoding.tokens.search import Hypothesis, MaxGain
from seqloom.decoding.tokens.search_record import Doubles, Integers, NodeStatus, SearchRecord


class Extensions(NamedTuple):
    """The selected extensions, K for each sentence: (B, K) each."""

    totals: Doubles  # log-probabilities; -inf in empty slots
    rows: Integers  # rows of the hypotheses that are extended
    tokens: Integers
    values: Doubles  # log-probabilities of the tokens
    nodes: Integers  # of the prefix tree
    ids: Integers  # in the search record; before it is filled, indices among all candidates


class BeamState:
    """The live hypotheses: W slots for each of B sentences, one row of the batch each; empty totals are -inf."""

    def __init__(self, limits: Integers, *, width: int, ids: Integers, max_gain: MaxGain) -> None:
        self.sentences = np.flatnonzero(limits)  # (B,)
        self.limits = limits[self.sentences]  # (B,), maximum lengths
        self.totals = np.zeros((len(self.sentences), width))  # (B, W)
        rows = self.totals.size
        self.nodes = np.zeros(rows, np.int64)  # of the prefix tree
        self.ids = ids  # in the search record
        self.max_gain = max_gain
        self.length = 0
        self._tokens, self._values = np.empty((rows, 16), np.int64), np.empty((rows, 16))

    def invalid_slots(self, best: Doubles) -> npt.NDArray[np.bool_] | None:  # (R,) → (R,)
        """A mask of the empty slots whose largest value is not a log-probability; raises if a slot is not empty."""
        invalid = invalid_rows(best, self.max_gain)
        if invalid is None:
            return None
        if len(live := np.flatnonzero(invalid & (self.totals.reshape(-1) > -np.inf))):
            sentence = self.sentences[live[0] // self.totals.shape[1]]
            raise invalid_log_probability(float(best[live[0]]), sentence, length=self.length)
        return invalid

    def repeated_ngrams(self, size: int) -> Banned | None:
        """The tokens that would repeat an n-gram of this size."""
        if not size or self.length < size:
            return None
        tokens = self._tokens[:, : self.length]
        match = np.ones((len(tokens), self.length - size + 1), np.bool_)
        for offset in range(size - 1):  # compare the last tokens with those at every position
            earlier = tokens[:, offset : offset + match.shape[1]]
            match &= earlier == tokens[:, self.length - size + 1 + offset, None]
        rows, positions = np.nonzero(match)
        return rows, tokens[rows, positions + size - 1]

    def finish(self, extensions: Extensions, slot: tuple[int, int], *, score: float, ended: bool) -> Hypothesis:
        """The finished hypothesis that an extension leads to."""
        row, token = int(extensions.rows[slot]), int(extensions.tokens[slot])
        tokens, values = self._tokens[row, : self.length].tolist(), self._values[row, : self.length].tolist()
        return Hypothesis(
            tokens if ended else [*tokens, token],
            score,
            float(extensions.totals[slot]),
            [*values, float(extensions.values[slot])],
            ended=ended,
        )

    def advance(self, extensions: Extensions, done: npt.NDArray[np.bool_]) -> tuple[Integers, Integers]:  # (R,), (R,)
        """Continue with the extensions of sentences that are not done; returns the extended rows and their tokens."""
        if done.any():
            kept = ~done
            extensions = Extensions._make(part[kept] for part in extensions)
            self.sentences, self.limits = self.sentences[kept], self.limits[kept]
        rows, tokens = extensions.rows.reshape(-1), extensions.tokens.reshape(-1)
        self.totals, self.nodes, self.ids = extensions.totals, extensions.nodes.reshape(-1), extensions.ids.reshape(-1)
        if self.length == self._tokens.shape[1]:
            self._tokens, self._values = (
                np.concatenate([array, np.empty_like(array)], axis=1) for array in (self._tokens, self._values)
            )
        self._tokens, self._values = self._tokens.take(rows, axis=0), self._values.take(rows, axis=0)
        self._tokens[:, self.length] = tokens
        self._values[:, self.length] = extensions.values.reshape(-1)
        self.length += 1
        return rows, tokens


class FinishedHypotheses:
    """The n-best finished hypotheses of each sentence."""

    def __init__(self, sentences: int, nbest: int, *, record: SearchRecord | None) -> None:
        self.cutoff = np.full(sentences, -np.inf)  # score that a hypothesis has to exceed to enter the n-best
        self.ended = np.zeros(sentences, np.int64)  # hypotheses that ended with the end token
        self._nbest = nbest
        self.record = record
        self._entries: list[list[tuple[Hypothesis, int]]] = [[] for _ in range(sentences)]

    def add(self, sentence: int, hypothesis: Hypothesis, record_id: int) -> None:
        """Add a hypothesis if it is among the n-best; ties go to the earlier one."""
        entries = self._entries[sentence]
        if any(hypothesis.tokens == other.tokens and hypothesis.ended == other.ended for other, _ in entries):
            return self.reject(record_id, NodeStatus.DUPLICATE, hypothesis.score)
        insort_right(entries, (hypothesis, record_id), key=lambda entry: (not entry[0].ended, -entry[0].score))
        if len(entries) > self._nbest:
            worst, worst_id = entries.pop()
            self.reject(worst_id, NodeStatus.NOT_IN_NBEST if worst.ended else NodeStatus.TRUNCATED, worst.score)
        if len(entries) == self._nbest and entries[-1][0].ended:
            self.cutoff[sentence] = entries[-1][0].score
        return None

    def reject(self, record_id: int, status: NodeStatus, score: float | None = None) -> None:
        """Record why a hypothesis is not among the n-best."""
        if self.record is not None:
            self.record.decide(record_id, status, score)

    def nbest(self) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, the best first."""
        if self.record is not None:
            for hypothesis, record_id in (entry for entries in self._entries for entry in entries):
                self.record.decide(record_id, NodeStatus.IN_NBEST, hypothesis.score)
        return [[hypothesis for hypothesis, _ in entries] for entries in self._entries]
