"""Scores of texts by the language model and the bonuses of a search, one text at a time.

Searches read the same scores from arrays; this is for showing what they do.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch

from seqloom.decoding.frames.aligning_stream import weighted
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import LM, Doubles, NGramLM, word_bonuses

Words = tuple[int, ...]
"""Words of the lexicon, or tokens without one."""


class _Next(NamedTuple):
    """What the language model says after a text."""

    log_probs: Doubles  # (V,), of each word of its vocabulary as the next one
    state: Any


class GuideScores:
    """The scores of a guide, which remembers those of all texts that it was asked for."""

    def __init__(self, guide: Guide, *, count: int) -> None:
        self.lm, self.weight = guide.lm, guide.weight
        self.bonuses = word_bonuses(
            guide.lm, count=count, word_score=guide.word_score, unk_score=guide.unk_score
        ).tolist()
        self.ids = [0] * count
        if guide.lm is not None:
            unknown = -1 if guide.lm.unknown is None else guide.lm.unknown
            self.ids = np.where(guide.lm.vocabulary_ids < 0, unknown, guide.lm.vocabulary_ids).tolist()
        self.scores: dict[Words, float] = {(): 0.0}
        self.following: dict[Words, _Next] = {}

    def score(self, words: Words) -> float:
        """The weighted log-probability of a text, without its end, and the bonuses of its words."""
        if words not in self.scores:
            *before, last = words
            self.scores[words] = self.score(tuple(before)) + self.bonuses[last] + self._weighted(tuple(before), last)
        return self.scores[words]

    def end(self, words: Words) -> float:
        """What the end of a text adds to its score."""
        if self.lm is None:
            return 0.0
        end = self.lm.model.end if isinstance(self.lm, NGramLM) else self.lm.end
        return float(weighted(self.weight, self._next(self.lm, words).log_probs[end]))

    def lookahead(self, word: int) -> float:
        """What a word can be expected to add before its context is known: by its unigram probability."""
        if not isinstance(self.lm, NGramLM):
            return float(self.bonuses[word])
        if self.ids[word] < 0:
            return -math.inf
        unigram = self.lm.model.log_probabilities[0][self.ids[word]].astype(np.float64)
        return float(self.bonuses[word] + weighted(self.weight, unigram))

    def _weighted(self, words: Words, last: int) -> float:
        if self.lm is None:
            return 0.0
        if self.ids[last] < 0:
            return -math.inf
        return float(weighted(self.weight, self._next(self.lm, words).log_probs[self.ids[last]]))

    @torch.no_grad()
    def _next(self, lm: LM, words: Words) -> _Next:
        if words in self.following:
            return self.following[words]
        before: Any = self._next(lm, words[:-1]).state if words else None
        last = self.ids[words[-1]] if words else -1
        if isinstance(lm, NGramLM):
            state: Any = lm.model.advance(before, np.array([last])) if words else lm.model.start_state()
            log_probs = lm.model.next(state)[0]
        else:
            values, state = lm.step(torch.tensor([last if words else lm.start]), before if words else lm.state)
            log_probs = values[0].double().cpu().numpy()
        self.following[words] = _Next(log_probs, state)
        return self.following[words]
