"""Where a beam search stands: the hypotheses that are alive, and the best of those that are complete."""

from bisect import insort_right
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqloom.decoding.tokens.constraints import Banned, refuse, wrong
from seqloom.decoding.tokens.search import Hypothesis
from seqloom.decoding.tokens.search_record import Fate, Integers, Numbers, SearchRecord


class Extensions(NamedTuple):
    """Extensions that were chosen, the same number of each sentence: (B, K) each."""

    totals: Numbers  # log-probabilities; -inf where there are not as many
    rows: Integers  # of the hypotheses that are extended
    symbols: Integers
    values: Numbers  # log-probabilities of the symbols
    nodes: Integers  # of the prefix tree
    numbers: Integers  # in the record; before, places among all candidates


class BeamState:
    """The live hypotheses: W slots for each of B sentences, one row of the batch each; empty ones are -inf."""

    def __init__(self, limits: Integers, *, width: int, numbers: Integers) -> None:
        self.sentences = np.flatnonzero(limits)  # (B,)
        self.limits = limits[self.sentences]  # (B,)
        self.totals = np.zeros((len(self.sentences), width))  # (B, W)
        rows = self.totals.size
        self.nodes = np.zeros(rows, np.int64)  # of a prefix tree
        self.numbers = numbers  # in a record
        self.length = 0
        self._symbols, self._values = np.empty((rows, 16), np.int64), np.empty((rows, 16))

    def check(self, best: Numbers) -> npt.NDArray[np.bool_] | None:  # (R,) → (R,)
        """The empty slots whose largest value is no log-probability; an error where a slot is not empty."""
        bad = wrong(best)
        if bad is None:
            return None
        if len(alive := np.flatnonzero(bad & (self.totals.reshape(-1) > -np.inf))):
            sentence = self.sentences[alive[0] // self.totals.shape[1]]
            raise refuse(float(best[alive[0]]), sentence, length=self.length)
        return bad

    def repeated(self, size: int) -> Banned | None:
        """The symbols that would make an n-gram of this size appear twice."""
        if not size or self.length < size:
            return None
        symbols = self._symbols[:, : self.length]
        match = np.ones((len(symbols), self.length - size + 1), np.bool_)
        for place in range(size - 1):  # the last symbols against all that stand together
            ahead = symbols[:, place : place + match.shape[1]]
            match &= ahead == symbols[:, self.length - size + 1 + place, None]
        rows, places = np.nonzero(match)
        return rows, symbols[rows, places + size - 1]

    def extended(self, chosen: Extensions, place: tuple[int, int], *, score: float, ended: bool) -> Hypothesis:
        """The hypothesis that an extension makes, now that it is complete."""
        row, symbol, value = (int(chosen.rows[place]), int(chosen.symbols[place]), float(chosen.values[place]))
        tokens, values = self._symbols[row, : self.length].tolist(), self._values[row, : self.length].tolist()
        tokens = tokens if ended else [*tokens, symbol]
        return Hypothesis(tokens, score, float(chosen.totals[place]), [*values, value], ended=ended)

    def advance(self, chosen: Extensions, done: npt.NDArray[np.bool_]) -> tuple[Integers, Integers]:  # (R,), (R,)
        """Go on with what was chosen, without sentences that are done: the rows that are extended, and the symbols."""
        if done.any():
            kept = ~done
            chosen = Extensions._make(part[kept] for part in chosen)
            self.sentences, self.limits = self.sentences[kept], self.limits[kept]
        rows, symbols = chosen.rows.reshape(-1), chosen.symbols.reshape(-1)
        self.totals, self.nodes, self.numbers = chosen.totals, chosen.nodes.reshape(-1), chosen.numbers.reshape(-1)
        if self.length == self._symbols.shape[1]:
            self._symbols, self._values = (
                np.concatenate([array, np.empty_like(array)], axis=1) for array in (self._symbols, self._values)
            )
        self._symbols, self._values = self._symbols.take(rows, axis=0), self._values.take(rows, axis=0)
        self._symbols[:, self.length] = symbols
        self._values[:, self.length] = chosen.values.reshape(-1)
        self.length += 1
        return rows, symbols


class FinishedHypotheses:
    """The best complete hypotheses of each sentence."""

    def __init__(self, sentences: int, best: int, *, record: SearchRecord | None) -> None:
        self.bar = np.full(sentences, -np.inf)  # what a hypothesis that ended has to exceed
        self.ended = np.zeros(sentences, np.int64)  # how many have
        self._best = best
        self.record = record
        self._found: list[list[tuple[Hypothesis, int]]] = [[] for _ in range(sentences)]

    def add(self, sentence: int, hypothesis: Hypothesis, number: int) -> None:
        """Take a hypothesis if it is among the best; of equal ones the first stays."""
        found = self._found[sentence]
        if any(hypothesis.tokens == other.tokens and hypothesis.ended == other.ended for other, _ in found):
            return self.refuse(number, Fate.DUPLICATE, hypothesis.score)
        insort_right(found, (hypothesis, number), key=lambda entry: (not entry[0].ended, -entry[0].score))
        if len(found) > self._best:
            worst, other = found.pop()
            self.refuse(other, Fate.WORSE if worst.ended else Fate.CUT, worst.score)
        if len(found) == self._best and found[-1][0].ended:
            self.bar[sentence] = found[-1][0].score
        return None

    def refuse(self, number: int, fate: Fate, score: float | None = None) -> None:
        """Note why a hypothesis is not among the best."""
        if self.record is not None:
            self.record.decide(number, fate, score)

    def all(self) -> list[list[Hypothesis]]:
        """Of each sentence, the best first."""
        if self.record is not None:
            for hypothesis, number in (entry for found in self._found for entry in found):
                self.record.decide(number, Fate.BEST, hypothesis.score)
        return [[hypothesis for hypothesis, _ in found] for found in self._found]
